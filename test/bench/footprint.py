"""Resident memory, and how often a process wakes up while there is nothing to do."""
import procs
from report import say
from sides import side, started, wait_done
from waiting import elapse

# side: (K, c, most MB of a worker, None where it is not for us to say)
SETUPS = {"exec": (4, 4, 4), "so": (4, 64, 5), "pipe": (4, 4, 4), "bullmq": (1, 4, None),
          "bee": (1, 4, None)}
SUPERVISOR_MB = 4
REST_S = 6  # until timers of busy times have run out
TASKS = 1000


def at_rest(o, one):
    """[(wake-ups per second, MB)] of the supervisor, where there is one, and of the workers, after
    some work."""
    one.load(TASKS)
    one.go()
    wait_done(one)
    elapse(REST_S)
    pids = one.pids()
    seconds = 5 if o.short else 20
    before = [procs.wakeups(pid) for pid in pids]
    elapse(seconds)
    return [((procs.wakeups(pid) - n) / seconds, procs.status_kb(pid, "VmRSS") / 1024)
            for pid, n in zip(pids, before)]


def add_process(report, rows, kind, name, seen, most_mb):
    wakeups, mb = (max(values) for values in zip(*seen))
    say("footprint: %s %s: %.1f MB, %.2f wake-ups/s" % (kind, name, mb, wakeups))
    rows.append([kind, name, "%.2f" % mb, "%.2f" % wakeups])
    if most_mb:
        report.target("%s: %s, RSS in MB" % (kind, name), mb, at_most=most_mb)
        report.target("%s: %s, idle wake-ups/s" % (kind, name), wakeups, at_most=1)


def add_to(report, o):
    rows = []
    for kind in (k for k in SETUPS if k in o.rows):
        k, c, most_mb = SETUPS[kind]
        with started(side(kind, o.programs, o.server, k, c)) as one:
            seen = at_rest(o, one)
        if most_mb:
            add_process(report, rows, kind, "supervisor, K=%d" % k, seen[:1], SUPERVISOR_MB)
            seen = seen[1:]
        add_process(report, rows, kind, "worker, c=%d" % c, seen, most_mb)
    report.table("after %d tasks, at rest; the worst of each" % TASKS,
                 ["handler", "process", "RSS MB", "wake-ups/s"], rows)
