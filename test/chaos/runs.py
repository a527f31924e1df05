"""The handlers' journal, read while it grows: who ran what, from when to when, beside how many."""
import json
import mmap
import os
import struct
import threading
import time

import procs
import redis

from faults import QUEUE


class Run:
    """One start of a handler."""
    __slots__ = ("id", "pid", "worker", "attempt", "deliveries", "checkpoint", "beside", "t", "end",
                 "seen")

    def __init__(self, e):
        self.id, self.pid, self.worker = e["id"], e["pid"], e["ppid"]
        self.attempt, self.beside, self.t = e["attempt"], e["beside"], e["t"]
        self.deliveries = int(e["env"].get("REDISQ_DELIVERIES", 0))
        self.checkpoint = int(e["env"].get("REDISQ_CHECKPOINT", 0))
        self.end = None       # when it said that it is at its end
        self.seen = self.t    # when it was last seen alive

    def __repr__(self):
        return "%s in %d by worker %d, delivery %d, %.3f to %s" % (
            self.id, self.pid, self.worker, self.deliveries, self.t / 1e9,
            "%.3f" % (self.end / 1e9) if self.end else "its death after %.3f" % (self.seen / 1e9))


class Journal:
    """Path and register of fake_handler.c."""

    def __init__(self, path, program):
        self.path, self.program = str(path), program
        self.at = 0
        self.runs = {}      # task id -> [Run], in order of their starts
        self.by_pid = {}    # pid -> its latest Run
        self.n_starts = 0
        self.most = 0       # the largest "beside"
        self.lock = threading.Lock()
        open(self.path, "a").close()

    def handler(self):
        return "exec %s %s ckpt=1" % (self.program, self.path)

    def read(self):
        """Takes in what was written since."""
        grown = []
        with self.lock, open(self.path, "rb") as f:
            f.seek(self.at)
            text = f.read()
            text = text[:text.rfind(b"\n") + 1]
            self.at += len(text)
            for line in text.splitlines():
                e = json.loads(line)
                if e["ev"] == "start":
                    run = Run(e)
                    self.runs.setdefault(run.id, []).append(run)
                    grown.append(run.id)
                    self.by_pid[run.pid] = run
                    self.n_starts += 1
                    self.most = max(self.most, run.beside)
                elif e["ev"] == "end":
                    self.by_pid[e["pid"]].end = e["t"]
            for task_id in grown:
                self.runs[task_id].sort(key=lambda r: r.t)

    def alive(self):
        """Pids of the register that live."""
        try:
            with open(self.path + ".alive", "rb") as f, \
                    mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
                pids = struct.unpack("%di" % (len(m) // 4), m[:len(m) // 4 * 4])
        except (FileNotFoundError, ValueError):
            return []
        return [p for p in pids if p and procs.alive(p)]


class Looker(threading.Thread):
    """Calls look() again and again. It must not be held up by what it looks at."""

    def __init__(self, every):
        super().__init__(daemon=True)
        self.every = every
        self.over = threading.Event()
        self.failure = None

    def run(self):
        try:
            while not self.over.wait(self.every):
                self.look()
        except Exception as e:  # the verdict must know that nobody looked
            self.failure = repr(e)
            raise

    def stop(self):
        self.over.set()
        self.join()


class Watch(Looker):
    """Looks at the living handlers, and whether the machine stood still."""
    EVERY = 0.05
    LATE = 0.5          # then the machine stood still
    ORPHAN_MAX = 2.0    # a handler outlives its worker by that much at most

    def __init__(self, journal):
        super().__init__(self.EVERY)
        self.journal = journal
        self.orphans = {}           # pid -> since when
        self.long_orphans = set()
        self.stalls = []            # (from, to) in which this thread did not run
        self.last = None

    def look(self):
        t = time.monotonic_ns()
        if self.last and t - self.last > (self.EVERY + self.LATE) * 1e9:
            self.stalls.append((self.last, t))
        self.last = t
        self.journal.read()
        orphans = {}
        for pid in self.journal.alive():
            run = self.journal.by_pid.get(pid)
            if run:
                run.seen = max(run.seen, t)
                if procs.ppid(pid) not in (None, run.worker):
                    orphans[pid] = self.orphans.get(pid, t)
                    if t - orphans[pid] > self.ORPHAN_MAX * 1e9:
                        self.long_orphans.add("%d of worker %d" % (pid, run.worker))
        self.orphans = orphans


class State(Looker):
    """Asks Redis and the supervisor how many there are."""

    def __init__(self, sup, faults, server, client):
        super().__init__(0.25)
        self.sup, self.faults, self.server, self.client = sup, faults, server, client
        self.most_consumers = 0

    def look(self):
        try:
            n = len(self.server.consumers(QUEUE, client=self.client))
            self.most_consumers = max(self.most_consumers, n)
        except redis.exceptions.RedisError:
            pass
        t = time.monotonic_ns()
        try:
            queue = self.sup.request("status", timeout=1)["result"]["queues"][0]
            self.faults.seen(t, queue["workers_wanted"], queue["concurrency"])
        except (OSError, ValueError, KeyError, IndexError, TypeError):
            pass
