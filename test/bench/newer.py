"""What newer commands of Redis could spare the scripts: XACKDEL (8.2), XREADGROUP CLAIM (8.4) and
XNACK (8.8). The first two are measured on a server that has them, such as

    sh test/matrix/fetch build/redis-8.6 sid+experimental redis-tools
    REDISQ_REDIS_SERVER=build/redis-8.6/redis-server make bench ROWS=newer

The times are those Redis itself counts (INFO commandstats), both ways by turns in one run. What came
of it is in worker/protocol.txt, section 7.
"""
import os

import redis

from report import median, say

STREAM, GROUP, ME, STATS = "{n}", "g", "me", "{n}:stats"
SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common", "scripts")
BATCH = 64
SETTLED = ("local n = redis.call('XACK', KEYS[1], ARGV[1], unpack(ARGV, 3))",
           "if ARGV[2] == '0' then redis.call('XDEL', KEYS[1], unpack(ARGV, 3)) end\nreturn n")
BY_XACKDEL = ("local n = 0\nfor _, is in ipairs(redis.call('XACKDEL', KEYS[1], ARGV[1], 'KEEPREF', "
              "'IDS', #ARGV - 2, unpack(ARGV, 3))) do if is == 1 then n = n + 1 end end",
              "return n")
LEASE_MS, SCAN_EVERY_MS, PAGE = 30000, 5000, 100  # as the worker has them by default


class Bench:
    def __init__(self, server, rounds):
        self.r, self.rounds = server.r, rounds

    def has(self, *command):
        """Does this server know the command, and its words?"""
        try:
            self.r.execute_command(*command)
        except redis.ResponseError as e:
            return "NOGROUP" in str(e) or "no longer exists" in str(e)
        return True

    def usec(self, command):
        """Of all its calls since they were counted anew."""
        return self.r.info("commandstats").get("cmdstat_" + command, {}).get("usec", 0)

    def fresh(self, pending=0, fields=100):
        """A stream and its group, with so many entries pending for another; none is idle for long."""
        self.r.flushall()
        self.r.xgroup_create(STREAM, GROUP, 0, mkstream=True)
        self.load(pending, fields)
        if pending:
            self.r.xreadgroup(GROUP, "other", {STREAM: ">"}, count=pending)

    def load(self, n, size=100):
        with self.r.pipeline(transaction=False) as pipe:
            for _ in range(n):
                pipe.xadd(STREAM, {"payload": "x" * size})
            pipe.execute()

    def timed(self, name, act, times):
        """Microseconds that Redis spent in command `name` per act()."""
        self.r.config_resetstat()
        for _ in range(times):
            act()
        return self.usec(name) / times

    def read(self, *words):
        return self.r.execute_command("XREADGROUP", "GROUP", GROUP, ME, "COUNT", BATCH, *words,
                                      "STREAMS", STREAM, ">")

    def by_turns(self, *ways):
        """The median of each; a way is a function that makes ready and measures one round."""
        seen = [[] for _ in ways]
        for _ in range(self.rounds):
            for way, values in zip(ways, seen):
                values.append(way())
        return [median(values) for values in seen]


def script(name):
    with open(os.path.join(SCRIPTS, name), encoding="utf-8") as f:
        return f.read()


def settling(bench, text, times=200):
    """done.lua in a batch, read again and again."""
    bench.fresh()
    bench.load(BATCH * times)
    sha = bench.r.script_load(text)
    bench.r.config_resetstat()
    for _ in range(times):
        ids = [e[0] for e in bench.read()[0][1]]
        assert bench.r.evalsha(sha, 2, STREAM, STATS, GROUP, 0, *ids) == BATCH
    return bench.usec("evalsha") / times


def reading(bench, pending, *words, times=200):
    """A read that finds a batch, beside so many entries of others."""
    bench.fresh(pending)
    bench.load(BATCH * times)
    return bench.timed("xreadgroup", lambda: bench.read(*words), times)


def looking(bench, pending, times=50):
    """scan.lua over all that is pending, page by page: what a worker does every SCAN_EVERY_MS."""
    bench.fresh(pending)
    sha = bench.r.script_load(script("_stream.lua") + script("_prelude.lua") + script("scan.lua"))

    def scan():
        last = b"-"
        while last:
            last = bench.r.evalsha(sha, 3, STREAM, "{n}:names", "{n}:crash", GROUP, ME, last, PAGE,
                                   LEASE_MS, 4 * LEASE_MS)[1]
    return bench.timed("evalsha", scan, times)


def releasing(bench, times=200):
    """(settle.lua giving back a batch, the XCLAIM in it that XNACK would take the place of)."""
    bench.fresh()
    bench.load(BATCH)
    ids = [e[0] for e in bench.read()[0][1]]
    sha = bench.r.script_load(script("_stream.lua") + script("_prelude.lua") + script("settle.lua"))
    keys = [STREAM] + ["{n}:" + k for k in ("delayed", "bodies", "dead", "held", "stats", "ckpt",
                                            "crash", "progress")]
    args = [GROUP, ME, 0, 1000, BATCH]
    for i in ids:
        args += ["L", i, 1, 0]
    bench.r.config_resetstat()
    for _ in range(times):
        assert bench.r.evalsha(sha, len(keys), *keys, *args) == [1] * BATCH
    return bench.usec("evalsha") / times, bench.usec("xclaim") / times


def add_to(report, o):
    bench = Bench(o.server, 3 if o.short else 9)
    rows = []

    def row(what, now, then):
        say("newer: %s: %.1f us, %.1f us" % (what, now, then))
        rows.append([what, "%.1f" % now, "%.1f" % then, "%+.0f %%" % (100 * (then / now - 1))])

    def has(what, *command):
        there = bench.has(*command)
        if not there:
            say("newer: this server has no %s" % what)
        return there

    if has("XACKDEL", "XACKDEL", "{none}", GROUP, "IDS", 1, "1-1"):
        text = done = script("done.lua")
        for old, new in zip(SETTLED, BY_XACKDEL):
            assert old in text
            text = text.replace(old, new)
        row("%d done, by XACKDEL" % BATCH,
            *bench.by_turns(lambda: settling(bench, done), lambda: settling(bench, text)))
    if has("XREADGROUP CLAIM",
           "XREADGROUP", "GROUP", GROUP, ME, "CLAIM", 1, "STREAMS", "{none}", ">"):
        for pending in (0, BATCH, 10000):
            row("read of %d, %d pending, with CLAIM" % (BATCH, pending),
                *bench.by_turns(lambda: reading(bench, pending),
                                lambda: reading(bench, pending, "CLAIM", LEASE_MS)))
    for pending in (BATCH, 10000):
        cost, = bench.by_turns(lambda: looking(bench, pending))
        say("newer: scan of %d pending: %.1f us" % (pending, cost))
        rows.append(["scan of %d pending, as share of a core" % pending, "%.1f" % cost, "",
                     "%.4f %%" % (100 * cost / 1000 / SCAN_EVERY_MS)])
    whole, claim = zip(*[releasing(bench) for _ in range(bench.rounds)])
    row("%d given back, if XCLAIM were free" % BATCH, median(whole), median(whole) - median(claim))
    report.table("newer commands, µs in Redis", ["", "as it is", "by it", "difference"], rows)
