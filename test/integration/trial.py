"""A fault of Redis, and what must hold while it lasts and afterwards: the frame of
test_redis_faults.py."""
import collections
import dataclasses
import os
import re
import signal
import time
import typing

import redis

import procs
from waiting import wait_until

LINES = 2.0         # log lines a second and worker
COMMANDS = 25.0     # of all workers, a second, without the greeting of a link and its scripts
CONNECTS = 15.0     # of all workers, a second
CPU = 0.15          # of a core, per worker (sanitizer build)
RECOVERY = 10.0     # seconds from a Redis that is well to a new task that is done
GREETING = (b"AUTH", b"SELECT", b"CLIENT", b"INFO", b"PING", b"SCRIPT")
TELLS_OF_A_TASK = re.compile(r"E \[-\] (\w+: )?task \d")
N_GATED = 3         # two workers of two slots: each runs one, one slot is free
TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass
class Row:
    """
    begin and end of the fault; again: called about every 50 ms while it lasts, for what heals by
    itself. seconds: how long it lasts at least. met: true once the workers have met it, besides
    `says`. some: only those with a free slot meet it.
    """
    name: str
    begin: typing.Callable
    end: typing.Callable
    met: typing.Callable = lambda t: True
    some: bool = False
    again: typing.Callable = lambda t: None
    seconds: float = 1.6
    blind: typing.Optional[bool] = None     # consuming: True = must turn false, False = must not
    erases: bool = False                    # the group or its entries: at least once, then
    within: float = RECOVERY                # seconds from its end to a new task that is done
    settles: bool = False                   # what has ended is settled while it lasts
    runs: int = 1                           # the task fails before that
    then: typing.Callable = lambda t: None  # what else must hold when the handlers have ended
    says: str = ""                          # in the log of each worker
    commands: float = COMMANDS
    connects: float = CONNECTS
    cpu: float = CPU
    redis: dict = dataclasses.field(default_factory=dict)
    user: bool = False                      # the workers log in as w


class Trial:
    def __init__(self, row, sup, server, links, journal, gate, tmp_path):
        self.row, self.server, self.links = row, server, links
        self.journal, self.gate, self.tmp = journal, gate, tmp_path
        self.secret = tmp_path / "secret"
        keys = dict({"url": links.url, "command_timeout": "1s", "connect_timeout": "2s"},
                    **row.redis)
        if row.user:
            self.secret.write_text("p\n")
            server.r.execute_command("ACL", "SETUSER", "w", "on", ">p", "~*", "+@all")
            keys.update(username="w", password_file=self.secret)
        # BLOCK is a quarter of the lease at most: a silent link is found out in 2.5 s.
        self.sup = sup(queues={"q": {"handler": journal.handler(), "concurrency": 2, "lease": "6s",
                                     "retry_delay": "100ms", "kill_grace": "300ms"}},
                       redis=keys, supervisor={"workers": 2, "log_level": "info"})
        self.pids = sorted(w["pid"] for w in self.sup.wait_ready(2))
        server.add("q", *[b"do exit=1 until=%d " % row.runs + str(gate).encode()] * N_GATED)
        journal.wait_started(N_GATED)
        self.n_added = N_GATED
        self.killed = 0

    # ---- looking
    def supervisor_lines(self):
        return self.sup.out().count("\n")

    def own_lines(self):
        """{slot: lines of the worker itself so far}."""
        return {slot: [x for x in text.splitlines() if " E [-] " in x or " [-] " in x]
                for slot, text in self.sup.log_files("q").items()}

    def said(self):
        """{slot: lines since the fault began}."""
        said = {slot: x[self.lines_before[slot]:] for slot, x in self.own_lines().items()}
        if not self.row.erases:
            return said
        # What became of each task that was lost with the group is said, too.
        return {slot: [x for x in lines if not TELLS_OF_A_TASK.search(x)]
                for slot, lines in said.items()}

    def is_met(self):
        has = [self.row.says in "\n".join(said) for said in self.said().values()]
        return (any(has) if self.row.some else all(has)) and self.row.met(self)

    def asked(self):
        return sum(n for word, n in self.links.seen.items() if word.encode() not in GREETING)

    def look(self):
        rows = self.sup.workers("q")
        if self.killed:
            return rows
        for w in rows:
            self.seen[w["slot"]].add(w["consuming"])
        assert sorted(w["pid"] for w in rows) == self.pids, "no worker exits"
        return rows

    # ---- the fault
    def strike(self):
        row = self.row
        self.seen = collections.defaultdict(set)
        self.lines_before = {slot: len(x) for slot, x in self.own_lines().items()}
        ticks = {p: procs.cpu_ticks(p) for p in self.pids}
        asked, accepted = self.asked(), self.links.accepted
        supervisor = self.supervisor_lines()
        begun = time.monotonic()
        row.begin(self)
        tick = [begun]

        def lasts():
            self.look()
            if time.monotonic() - tick[0] >= 0.05:
                row.again(self)
                tick[0] = time.monotonic()
            blind = row.blind is not True or all(False in x for x in self.seen.values())
            return time.monotonic() - begun >= row.seconds and self.is_met() and blind
        wait_until(lasts, 15, lambda: "%s is met; consuming was %r; %r" % (
            row.name, dict(self.seen), self.said()), every=0.02)
        lasted = time.monotonic() - begun
        per_second = (self.asked() - asked) / lasted
        connects = (self.links.accepted - accepted) / lasted
        cpu = max((procs.cpu_ticks(p) - n) * TICK / lasted for p, n in ticks.items())
        lines = self.said()
        most = max(len(x) / lasted for x in lines.values())
        supervisor = self.supervisor_lines() - supervisor
        print("trial: %-12s %.1f s, %.1f lines/s (supervisor: %d), %.0f commands/s, %.0f connects/s, %.1f %% CPU"
              % (row.name, lasted, most, supervisor, per_second, connects, 100 * cpu))
        for slot, said in lines.items():
            assert len(said) <= LINES * lasted, (slot, said)
        assert supervisor <= LINES * lasted
        assert per_second <= row.commands, per_second
        assert connects <= row.connects, connects
        assert cpu <= row.cpu, cpu
        if row.blind is False:
            assert not any(False in x for x in self.seen.values()), self.seen
        self.let_go()

    def let_go(self):
        """The handlers end while the fault lasts."""
        self.gate.open()
        wait_until(lambda: not self.journal.running(), 10, "the handlers have ended")
        if not self.row.erases:
            assert len(self.journal.ends()) >= N_GATED and not self.journal.events("term")
        if self.row.settles:
            wait_until(lambda: self.server.counters("q").get("done", 0) +
                       len(self.server.delayed("q")) == N_GATED, 5, "they are settled")
        self.row.then(self)

    # ---- afterwards
    def push(self, n):
        def accepted():
            try:
                return self.server.add("q", *[b"x"] * n)
            except redis.exceptions.RedisError:
                return None
        wait_until(accepted, 5, "Redis takes tasks again")
        self.n_added += n

    def recover(self):
        self.row.end(self)
        begun = time.monotonic()
        before = len(self.journal.ends())
        self.push(20)
        wait_until(lambda: len(self.journal.ends()) >= before + 20 and
                   all(w["consuming"] for w in self.look()), self.row.within,
                   lambda: "work goes on: %d of %d, %r" % (
                       len(self.journal.ends()) - before, 20,
                       [w["consuming"] for w in self.sup.workers("q")]))
        print("trial: %-12s well again after %.1f s" % (self.row.name, time.monotonic() - begun))
        self.server.wait_empty("q", RECOVERY)

    def account(self):
        assert not any(w["restarts"] for w in self.look())
        runs = self.journal.runs()
        assert len(runs) >= self.n_added
        if self.row.erases:
            return
        assert len(runs) == self.n_added
        assert sum(runs.values()) == self.n_added + N_GATED * (self.row.runs - 1)
        assert self.server.counters("q")["done"] == self.n_added
        audit = self.sup.ctl("audit", "q")
        assert audit.returncode == 0, audit.out + audit.err

    def kill_one(self):
        """One that runs tasks; they will run again."""
        victim = self.journal.starts()[0]["ppid"]
        tasks = {e["id"] for e in self.journal.starts() if e["ppid"] == victim}
        self.killed = len(tasks)
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: not [pid for pid, task in self.journal.running().items()
                                if task in tasks], 10, "its handlers are gone")
        wait_until(lambda: len([p for p in self.sup.pids("q") if p not in self.pids]) == 1, 10,
                   "there is another")

    def run_with_a_death(self):
        """A worker is killed during the fault: its successor has met no better Redis, and what it
        had is handed over when there is one."""
        self.row.begin(self)
        begun = time.monotonic()
        wait_until(lambda: time.monotonic() - begun >= 0.3, every=0.02)
        self.kill_one()
        wait_until(lambda: time.monotonic() - begun >= 1.5, every=0.02)
        self.gate.open()
        self.row.end(self)
        self.push(10)
        wait_until(lambda: len(self.sup.ready("q")) == 2 and
                   all(w["consuming"] for w in self.sup.workers("q")), RECOVERY, "both consume")
        self.server.wait_empty("q", RECOVERY)
        runs = self.journal.runs()
        assert len(runs) == self.n_added and sum(runs.values()) == self.n_added + self.killed
        assert self.server.counters("q")["done"] == self.n_added
        assert sum(w["restarts"] for w in self.sup.workers("q")) == 1
        audit = self.sup.ctl("audit", "q")
        assert audit.returncode == 0, audit.out + audit.err

    def run(self):
        self.strike()
        self.recover()
        self.account()
