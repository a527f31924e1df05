"""The sides of every comparison, with one set of words: start (connected, but held back), load,
go, left (tasks that are not done), stop."""
import contextlib
import os
import shutil
import subprocess
import tempfile
import time

from supervised import Supervisor
from waiting import wait_until

QUEUE = "q"
GROUP = "redisq"
HERE = os.path.dirname(os.path.abspath(__file__))


class Programs:
    """Where everything is: the product's programs, the benchmark's own, Node's modules."""

    def __init__(self, build):
        self.build = build
        self.out = os.path.join(build, "bench")
        self.env = dict(os.environ, NODE_PATH=os.path.join(self.out, "node_modules"))

    def tool(self, name):
        return os.path.join(self.out, name)

    def peer(self, which, server, *words):
        return ["node", os.path.join(HERE, "peer.js"), which, str(server.port), *map(str, words)]

    def run(self, command):
        subprocess.run([str(w) for w in command], env=self.env, check=True)


class Held:
    """Programs that say "ready" and wait for a line."""

    def __init__(self, programs, commands, env=None):
        self.procs = [subprocess.Popen([str(w) for w in c], env=dict(programs.env, **(env or {})),
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                      for c in commands]
        for p in self.procs:
            assert p.stdout.readline() == b"ready\n", p.args

    def go(self):
        for p in self.procs:
            p.stdin.write(b"go\n")
            p.stdin.flush()

    def n_running(self):
        return sum(p.poll() is None for p in self.procs)

    def stop(self):
        """The end of their stdin ends them, if they have not ended before."""
        for p in self.procs:
            p.stdin.close()
        for p in self.procs:
            assert p.wait(60) == 0, p.args
            p.stdout.close()


class Side:
    """programs, server: borrowed. processes x concurrency: how many run at once."""

    def __init__(self, programs, server, processes, concurrency):
        self.programs, self.server = programs, server
        self.processes, self.concurrency = processes, concurrency

    def load(self, n, size=100):
        self.programs.run([self.programs.tool("load"), self.server.port, QUEUE, n, size])

    def left(self):
        return self.server.r.xlen(QUEUE)


class Ceiling(Side):
    def start(self, env=None):
        self.server.r.xgroup_create(QUEUE, GROUP, "0", mkstream=True)
        self.held = Held(self.programs, [
            [self.programs.tool("ceiling"), self.server.port, QUEUE, "c%d" % i, self.concurrency]
            for i in range(self.processes)])

    def go(self):
        self.held.go()

    def stop(self):
        self.held.stop()


class Redisq(Side):
    """kind: exec, so, pipe (a child in C), node or python (pipe children)."""

    def __init__(self, programs, server, processes, concurrency, kind, options=None):
        super().__init__(programs, server, processes, concurrency)
        self.kind, self.options = kind, options or {}

    def handler(self, env):
        slots = self.concurrency
        return {"exec": "exec " + (self.programs.tool("noop_exec") if env else "/bin/true"),
                "so": "so " + self.programs.tool("noop_so.so"),
                "pipe": "pipe %s %d" % (self.programs.tool("noop_pipe"), slots),
                "node": "pipe node %s/noop_pipe.js %d" % (HERE, slots),
                "python": "pipe /usr/bin/python3 %s/noop_pipe.py %d" % (HERE, slots)}[self.kind]

    def start(self, env=None):
        self.dir = tempfile.mkdtemp(prefix="redisq-bench")
        self.sup = Supervisor(
            self.programs.build, self.dir, server=self.server, env=env,
            queues={QUEUE: {"handler": self.handler(env), "concurrency": self.concurrency,
                            **self.options}},
            supervisor={"workers": self.processes, "log_level": "warning"})
        try:
            self.sup.wait_ready(timeout=60)
        except AssertionError:
            self.stop()
            raise

    def hold(self):
        """Nothing more is fetched; reads that wait already are ended."""
        assert self.sup.request("quiet")["ok"]
        for client in self.server.r.client_list():
            if "b" in client["flags"]:
                self.server.r.client_unblock(client["id"])
        self.server.wait_unread()

    def load(self, n, size=100):
        self.hold()
        super().load(n, size)

    def go(self):
        assert self.sup.request("resume")["ok"]

    def pids(self):
        """The supervisor's, then the workers'."""
        return [self.sup.pid] + self.sup.pids(QUEUE)

    def stop(self):
        self.sup.stop()
        self.sup.close()
        shutil.rmtree(self.dir)


class Peer(Side):
    """which: bullmq or bee."""

    KEYS = {"bullmq": ("bull:q:wait", "bull:q:active"), "bee": ("bq:q:waiting", "bq:q:active")}

    def __init__(self, programs, server, processes, concurrency, which):
        super().__init__(programs, server, processes, concurrency)
        self.which = which

    def start(self, env=None):
        self.held = Held(self.programs, [
            self.programs.peer(self.which, self.server, "work", self.concurrency)
            for _ in range(self.processes)], env)

    def load(self, n, size=100):
        self.programs.run(self.programs.peer(self.which, self.server, "add", n, size))

    def go(self):
        self.held.go()

    def left(self):
        with self.server.r.pipeline(transaction=True) as p:
            for key in self.KEYS[self.which]:
                p.llen(key)
            return sum(p.execute())

    def pids(self):
        return [p.pid for p in self.held.procs]

    def stop(self):
        self.held.stop()


class SpawnLoop(Side):
    """The ceiling of exec: so many processes, each with so many children at once."""

    def start(self, env=None):
        pass

    def load(self, n, size=100):
        self.held = Held(self.programs, [
            [self.programs.tool("spawnloop"), n // self.processes, self.concurrency, "/bin/true"]
            for _ in range(self.processes)])

    def go(self):
        self.held.go()

    def left(self):
        return self.held.n_running()

    def stop(self):
        self.held.stop()


def side(name, programs, server, processes, concurrency):
    """The side of that name, as in the ROWS of the benchmark."""
    args = (programs, server, processes, concurrency)
    if name == "ceiling":
        return Ceiling(*args)
    if name == "spawnloop":
        return SpawnLoop(*args)
    if name in Peer.KEYS:
        return Peer(*args, name)
    return Redisq(*args, name)


@contextlib.contextmanager
def started(one_side, env=None):
    one_side.server.r.flushall()
    one_side.start(env)
    try:
        yield one_side
    finally:
        one_side.stop()


def drain(one_side, n, size=100):
    """Tasks per second from "go" to the last one's end."""
    with started(one_side):
        one_side.load(n, size)
        begun = time.monotonic()
        one_side.go()
        wait_done(one_side)
        return n / (time.monotonic() - begun)


def wait_done(one_side, until=0, timeout=300):
    """Until no more than `until` tasks are left. Looks often enough for a run of a second."""
    wait_until(lambda: one_side.left() <= until, timeout, every=0.003)
