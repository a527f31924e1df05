#!/usr/bin/python3
"""
Load on real programs while workers, handlers, supervisor, Redis and the way to it are killed,
stopped and cut, and the operator gives orders. Afterwards nothing may be lost, every repetition
must have its cause, and no limit may have been exceeded.

    chaos.py [--seconds 120] [--seed N] [--rate TASKS/s] [--every S] [--backend stream|list|partitions]
    or make chaos SECONDS= SEED= [ARGS=...]

The same seed makes the same schedule and the same tasks. REDISQ_BUILD names the programs (default
build/asan). Ends with "N passed, N failed"; what a failed run wrote is kept, its place is said.
"""
import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "test", "integration")]

import schedule                                  # noqa: E402
from faults import QUEUE, Faults                 # noqa: E402
from listserver import ListServer                # noqa: E402
from partserver import PartServer                # noqa: E402
from load import Producer                        # noqa: E402
from proxy import Proxy                          # noqa: E402
from redisserver import RedisServer              # noqa: E402
from runs import Journal, State, Watch          # noqa: E402
from supervised import Supervisor                # noqa: E402
from verify import Verdict                       # noqa: E402
from waiting import wait_until                   # noqa: E402

PROGRESS = 10      # seconds
EMPTY_WITHIN = 150  # after the last fault, seconds
SWEPT_WITHIN = 45   # the names of the dead are looked at every 15 s


class Chaos:
    def __init__(self, args, directory):
        self.seed, self.seconds = args.seed, args.seconds
        build = os.path.abspath(os.environ.get("REDISQ_BUILD",
                                               os.path.join(ROOT, "build", "asan")))
        server = {"list": ListServer, "partitions": PartServer}.get(args.backend, RedisServer)
        self.server = server(directory, "--appendonly", "yes", "--appendfsync", "always",
                             "--auto-aof-rewrite-percentage", "0")
        self.proxy = Proxy(self.server.port)
        self.journal = Journal(os.path.join(directory, "journal"),
                               os.path.join(build, "fake-handler"))
        self.sup = Supervisor(
            build, directory, server=self.server, redis={"url": self.proxy.url, "command_timeout": "2s"},
            queues={QUEUE: {
                "handler": self.journal.handler(), "concurrency": schedule.CONCURRENCY,
                "lease": "%gs" % schedule.LEASE, "timeout": "%gs" % schedule.TIMEOUT,
                "kill_grace": "%dms" % (schedule.KILL_GRACE * 1000),
                "retry_delay": "%dms" % (schedule.RETRY_DELAY * 1000),
                "retry_delay_max": "1s", "max_attempts": 1000, "max_crashes": 1000,
                "max_snoozes": 1000, "breaker_failures": 0}},
            supervisor={"workers": schedule.K, "log_level": args.log_level, "log_keep": 20,
                        "heartbeat_timeout": schedule.heartbeat(self.seed),
                        "drain_timeout": "10s", "kill_timeout": "2s", "restart_delay": "50ms",
                        "restart_delay_max": "1s", "stable_after": "2s", "crash_limit": 10000})
        self.plan = schedule.events(self.seed, self.seconds, args.every)
        self.faults = Faults(self.sup, self.server, self.proxy, self.journal)
        self.producer = Producer(self.seed, args.rate, self.server)
        self.watch = Watch(self.journal)
        self.state = State(self.sup, self.faults, self.server, self.faults.client)
        self.begun = time.monotonic()
        self.idle = threading.Event()

    def progress(self, what):
        r = self.faults.client
        try:
            state = "%d waiting, %d delayed" % (self.server.xlen(QUEUE, r),
                                                len(self.server.delayed(QUEUE)))
        except Exception as e:  # Redis is one of the victims
            state = "redis: %s" % type(e).__name__
        print("%5.0f s  %d tasks accepted, %d runs, %s; %d faults, %d handlers alive; %s" % (
            time.monotonic() - self.begun, len(self.producer.tasks), self.journal.n_starts, state,
            sum(self.faults.counts.values()), len(self.journal.alive()), what), flush=True)

    def rage(self):
        """The schedule, on time."""
        self.sup.wait_ready(schedule.K)
        self.producer.start()
        self.watch.start()
        self.state.start()
        self.begun = begun = time.monotonic()
        said = 0
        for when, kind, values in self.plan + [(self.seconds, None, None)]:
            while time.monotonic() - begun < when:
                self.idle.wait(min(0.02, max(0.001, when - (time.monotonic() - begun))))
                self.faults.turn()
                if time.monotonic() - begun >= said + PROGRESS:
                    said += PROGRESS
                    self.progress("next: %s" % kind)
            if kind:
                self.faults.act(kind, values)

    def heal(self):
        """Everything as it was at first, and until no task is left."""
        self.producer.stop()
        self.faults.heal()
        self.faults.turn()
        self.proxy.heal()
        wait_until(lambda: self.faults.turn() or self.sup.status(), 30, "the supervisor answers")
        for words in (("resume",), ("start",), ("scale", str(schedule.K))):
            self.faults.ctl(*words)
        said = [time.monotonic()]

        def empty():
            self.faults.turn()
            if time.monotonic() - said[0] > PROGRESS:
                said[0] += PROGRESS
                self.progress("healed, until all is done")
            return self.server.is_empty(QUEUE)
        begun = time.monotonic()
        wait_until(empty, EMPTY_WITHIN, lambda: "queue is empty: %s" % self.where(), every=0.1)
        wait_until(lambda: not self.journal.alive(), 20, "the last handlers have ended")
        return time.monotonic() - begun

    def where(self):
        r = self.server.r
        return "xlen %d, pending %s, delayed %d" % (
            self.server.xlen(QUEUE), self.server.pending(QUEUE, 20),
            len(self.server.delayed(QUEUE)))

    def judge(self):
        v = Verdict(self)
        emptied = None
        try:
            emptied = self.heal()
        except AssertionError as e:
            v.check("healed, all comes to its end", [e])
        else:
            v.check("healed, all comes to its end", [], "%.1f s after the last fault" % emptied)
        self.progress("judging")
        hanging = [t for t in self.faults.ctl_threads if t.join(60) or t.is_alive()]
        v.check("no order hangs", ["%d of redisqctl do" % len(hanging)] if hanging else [])
        k = schedule.K

        def swept():
            names = self.server.consumers(QUEUE)
            return len(names) <= k + 2 and names
        try:
            wait_until(swept, SWEPT_WITHIN)
        except AssertionError:
            pass
        v.consumers(self.server.consumers(QUEUE), k)
        self.journal.read()
        v.places()
        self.watch.stop()
        self.state.stop()
        self.faults.ending = self.sup.proc
        rc = self.sup.stop() if self.sup.proc.poll() is None else None
        v.check("the supervisor ends well at TERM", [] if rc == 0 else ["exit %s" % rc])
        try:
            wait_until(lambda: not self.sup.marked(), 15)
        except AssertionError:
            pass
        v.check("no process is left", ["%d %s" % p for p in self.sup.marked().items()])
        v.past()
        for kind in schedule.KINDS:
            n, idle = self.faults.counts[kind], self.faults.idle[kind]
            v.row("fault: " + kind, "%5d%s" % (n, " (%d hit nobody)" % idle if idle else ""))
        v.row("redisqctl: verb, exit status", ", ".join(
            "%s: %d" % x for x in sorted(self.faults.ctl_exits.items())))
        v.row("most handlers at once", "%5d", self.journal.most)
        v.row("the machine stood still", "%5d times for 0.5 s or more", len(self.watch.stalls))
        v.table()
        return v

    def close(self):
        """Nothing of ours stays, whatever happened."""
        for thread in (self.producer, self.watch, self.state):
            thread.over.set()
        if self.sup.proc.poll() is None:
            self.sup.proc.kill()
            self.sup.proc.wait()
        for pid in self.sup.marked():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.proxy.close()
        self.server.close()
        shutil.rmtree(self.sup.run_dir, ignore_errors=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--seconds", type=float, default=120)
    p.add_argument("--seed", default=None)
    p.add_argument("--rate", type=float, default=25)
    p.add_argument("--every", type=float, default=0.8, help="seconds between faults, on average")
    p.add_argument("--backend", choices=["stream", "list", "partitions"], default="stream")
    p.add_argument("--log-level", default="info")
    p.add_argument("--keep", action="store_true", help="keep what the run wrote")
    args = p.parse_args()
    args.seed = args.seed or str(random.SystemRandom().randrange(1000000))
    directory = tempfile.mkdtemp(prefix="chaos-%s-" % args.seed, dir="/tmp")
    plan = schedule.events(args.seed, args.seconds, args.every)
    print("seed %s: %g s, %d faults (schedule %s), heartbeat_timeout = %s" % (
        args.seed, args.seconds, len(plan), schedule.digest(plan), schedule.heartbeat(args.seed)),
        flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # cleans up, too
    chaos = Chaos(args, directory)
    try:
        chaos.rage()
        verdict = chaos.judge()
    finally:
        chaos.close()
    if args.keep or verdict.n_failed:
        print("\nkept: %s" % directory)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    more = ["--%s %s" % (k, getattr(args, k)) for k in ("every", "backend")
            if getattr(args, k) != p.get_default(k)]
    other = ' ARGS="%s"' % " ".join(more) if more else ""
    print("seed %s: make chaos SECONDS=%g SEED=%s%s" % (args.seed, args.seconds, args.seed, other))
    print("%d passed, %d failed" % (verdict.n_passed, verdict.n_failed))
    return 1 if verdict.n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
