"""The producer: adds the seed's tasks, and which of them Redis acknowledged."""
import random
import threading

import redis

from faults import QUEUE
from schedule import Task

TICK = 0.05
ENOUGH_WAITING = 300  # beyond that the machine is slow, and more would only lengthen the end


class Producer(threading.Thread):
    def __init__(self, seed, rate, server):
        super().__init__(daemon=True)
        self.seed, self.rate = seed, rate
        self.client = redis.Redis(unix_socket_path=server.socket, socket_timeout=1)
        self.server = server
        self.over = threading.Event()
        self.tasks = {}       # id that Redis acknowledged -> Task
        self.n_unanswered = 0  # it may have been accepted, or not
        self.n = 0

    def run(self):
        rnd = random.Random("load %s" % self.seed)
        while not self.over.wait(TICK):
            due = self.rate * TICK * rnd.expovariate(1)
            if self.n % 20 == 0 and self.enough():
                continue
            for _ in range(int(due + rnd.random())):
                self.add()

    def enough(self):
        try:
            return self.server.xlen(QUEUE, self.client) > ENOUGH_WAITING
        except redis.exceptions.RedisError:
            return False

    def add(self):
        task = Task(self.seed, self.n)
        self.n += 1
        try:
            acknowledged, = self.server.add(QUEUE, task.payload, client=self.client)
        except redis.exceptions.RedisError:
            self.n_unanswered += 1
            return
        self.tasks[acknowledged] = task

    def stop(self):
        self.over.set()
        self.join()
