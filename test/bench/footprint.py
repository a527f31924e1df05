"""Resident memory, and how often a process wakes up while there is nothing to do."""
import procs
from report import say
from sides import QUEUE, Redisq, started
from waiting import elapse

# kind: (K, c, most MB of a worker)
SETUPS = {"exec": (4, 4, 4), "so": (4, 64, 5), "pipe": (4, 4, 4)}
SUPERVISOR_MB = 4
REST_S = 6  # until timers of busy times have run out
TASKS = 1000


def at_rest(o, one):
    """{pid: wake-ups per second} of the supervisor and its workers, after some work."""
    one.load(TASKS)
    one.go()
    o.server.wait_empty(QUEUE, 60)
    elapse(REST_S)
    pids = [one.sup.pid] + one.worker_pids()
    seconds = 5 if o.short else 20
    before = {pid: procs.wakeups(pid) for pid in pids}
    elapse(seconds)
    return {pid: (procs.wakeups(pid) - before[pid]) / seconds for pid in pids}


def measure(report, o, kind, rows):
    k, c, worker_mb = SETUPS[kind]
    with started(Redisq(o.programs, o.server, k, c, kind)) as one:
        woke = at_rest(o, one)
        rss = {pid: procs.status_kb(pid, "VmRSS") / 1024 for pid in woke}
        supervisor = one.sup.pid
    workers = [pid for pid in woke if pid != supervisor]
    for name, pids, most in (("supervisor, K=%d" % k, [supervisor], SUPERVISOR_MB),
                             ("worker, c=%d" % c, workers, worker_mb)):
        mb, wakeups = max(rss[p] for p in pids), max(woke[p] for p in pids)
        say("footprint: %s %s: %.1f MB, %.2f wake-ups/s" % (kind, name, mb, wakeups))
        rows.append([kind, name, "%.2f" % mb, "%.2f" % wakeups])
        report.target("%s: %s, RSS in MB" % (kind, name), mb, at_most=most)
        report.target("%s: %s, idle wake-ups/s" % (kind, name), wakeups, at_most=1)


def add_to(report, o):
    rows = []
    for kind in SETUPS:
        if kind in o.rows:
            measure(report, o, kind, rows)
    report.table("after %d tasks, at rest; the worst of each" % TASKS,
                 ["handler", "process", "RSS MB", "wake-ups/s"], rows)
