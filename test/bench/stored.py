"""What is kept in Redis: a million delayed tasks, and what a million done ones leave behind."""
import os
import time

import procs
from growth import kind_of
from report import say, short
from sides import GROUP, QUEUE, side, started, wait_done
from waiting import elapse, wait_until

# Delayed tasks as the product's own scripts write them (worker/protocol.txt), many in one call.
FILL = """
local user = {'payload', string.rep('x', 100)}
for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local id = '1-' .. string.format('%.0f', i)
  redis.call('HSET', KEYS[2], id, cmsgpack.pack({user, id, '2', '1', '0', ARGV[3], '', ''}))
  redis.call('ZADD', KEYS[1], ARGV[4], id)
end
"""
FILL_STEP = 10000
REST_S = 6           # until timers of busy times have run out
ROUND = 100000       # tasks that are loaded at once for the memory row
WARM_UP = 10000


def fill_delayed(server, n, due_ms):
    keys = [server.key(QUEUE, "delayed"), server.key(QUEUE, "bodies")]
    now = int(time.time() * 1000)
    for i in range(1, n + 1, FILL_STEP):
        server.r.eval(FILL, 2, *keys, i, min(n, i + FILL_STEP - 1), now, due_ms)


def idle(pids, seconds):
    """{name: (CPU in percent, wake-ups per second)}."""
    before = {n: (procs.cpu_ticks(p), procs.wakeups(p)) for n, p in pids.items()}
    elapse(seconds)
    hertz = os.sysconf("SC_CLK_TCK")
    return {n: ((procs.cpu_ticks(p) - before[n][0]) * 100 / hertz / seconds,
                (procs.wakeups(p) - before[n][1]) / seconds) for n, p in pids.items()}


def add_idle(report, o, one, n):
    """Idle with none, then with n that are not due."""
    seconds = 5 if o.short else 10
    pids = {"worker": one.pids()[1], "redis-server": o.server.proc.pid}
    elapse(REST_S)
    none = idle(pids, seconds)
    fill_delayed(o.server, n, int(time.time() * 1000) + 10**8)
    elapse(1)
    full = idle(pids, seconds)
    report.table("idle with %s delayed tasks that are not due" % short(n),
                 ["process", "CPU %", "with none", "wake-ups/s", "with none"],
                 [[p, "%.2f" % full[p][0], "%.2f" % none[p][0], "%.2f" % full[p][1],
                   "%.2f" % none[p][1]] for p in pids])
    report.target("worker, %s delayed: idle wake-ups/s" % short(n), full["worker"][1], at_most=1)


def add_promotion(report, o, one, n):
    """All become due at once."""
    begun = time.monotonic()
    fill_delayed(o.server, n, int(time.time() * 1000))  # the same ids
    filled = time.monotonic() - begun
    delayed = o.server.key(QUEUE, "delayed")
    wait_until(lambda: o.server.r.zcard(delayed) == 0 and one.left() == 0, 600, every=0.02)
    seconds = time.monotonic() - begun
    say("delayed: %s promoted and done in %.1f s" % (short(n), seconds))
    report.table("%s delayed tasks become due, %s, 2 x 16" % (short(n), kind_of(o)),
                 ["", "s", "tasks/s"], [["written as due", "%.1f" % filled, n / filled],
                                        ["promoted and done", "%.1f" % seconds, n / seconds]])


def add_delayed(report, o):
    n = o.n or (50000 if o.short else 10**6)
    with started(side(kind_of(o), o.programs, o.server, 2, 16)) as one:
        add_idle(report, o, one, n)
        add_promotion(report, o, one, n)


# ---------------------------------------------------------------- memory

def memory(server):
    """Bytes that Redis uses, its clients' buffers aside."""
    info = server.r.info("memory")
    return info["used_memory"] - info["mem_clients_normal"]


def nodes(server):
    return server.r.xinfo_stream(QUEUE)["radix-tree-keys"]


def work_through(one, total, stuck):
    for i in range(0, total, ROUND):
        one.load(min(ROUND, total - i))
        one.go()
        wait_done(one, until=stuck)


def add_memory(report, o):
    total = o.n or (50000 if o.short else 10**6)
    with started(side(kind_of(o), o.programs, o.server, 2, 64)) as one:
        work_through(one, min(WARM_UP, total), 0)
        before, before_nodes = memory(o.server), nodes(o.server)
        work_through(one, total, 0)
        after = memory(o.server)
        one.hold()
        o.server.r.xadd(QUEUE, {"payload": "stuck"})
        o.server.r.xreadgroup(GROUP, "bystander", {QUEUE: ">"}, count=1)
        work_through(one, total, 1)
        stuck, stuck_nodes = memory(o.server), nodes(o.server)
    rows = [["before", "%.0f" % (before / 1024), "%d" % before_nodes],
            ["after %s tasks" % short(total), "%.0f" % (after / 1024), ""],
            ["after %s more, one pending all along" % short(total), "%.0f" % (stuck / 1024),
             "%d" % stuck_nodes]]
    say("memory: %d KiB, then %d, with one stuck %d" % (before / 1024, after / 1024, stuck / 1024))
    report.table("memory of Redis", ["", "KiB", "stream nodes"], rows)
    report.target("Redis memory after %s tasks: change" % short(total), abs(after / before - 1),
                  at_most=0.05)
    report.target("stream nodes more, one task pending all along", stuck_nodes - before_nodes,
                  at_most=1)
