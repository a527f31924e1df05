"""What becomes of tasks per second when something grows: the backlog, the payload, the workers."""
import time

from report import median, say, short
from sides import QUEUE, drain, side, started
from waiting import wait_until

BACKLOGS = [10**4, 10**5, 10**6, 5 * 10**6]
SHORT_BACKLOGS = [10**4, 10**5]
TAKEN = 8000       # of the backlog, in one round
ROUNDS = 9
PAYLOADS = {100: 20000, 10**4: 5000, 10**6: 300}  # bytes: tasks
WORKERS = [1, 2, 4, 8, 16, 32, 64]
SHORT_WORKERS = [1, 4, 64]


def kind_of(o):
    """The handler that costs least, of those asked for: what is measured is ours, not the
    handler's."""
    return next(k for k in ("so", "pipe", "exec") if k in o.rows)


# ---------------------------------------------------------------- backlog

def take(one, size):
    """Tasks per second of the first TAKEN of a backlog of `size`, which is filled up before."""
    one.load(max(0, size - one.left()))
    begun = time.monotonic()
    one.go()
    left = wait_until(lambda: one.left() <= size - TAKEN and [one.left()], 60, every=0.001)[0]
    rate = (size - left) / (time.monotonic() - begun)
    one.hold()
    return rate


def add_backlog(report, o):
    """10 k is measured before and after the large ones, so that the machine's mood counts less."""
    sizes = SHORT_BACKLOGS if o.short else BACKLOGS
    one = side(kind_of(o), o.programs, o.server, 2, 16)
    rates = {}
    with started(one):
        for size in sizes + sizes[:1]:
            if one.left() > size:
                o.server.r.xtrim(QUEUE, maxlen=size, approximate=False)
            rates.setdefault(size, []).extend(take(one, size) for _ in range(ROUNDS))
            say("backlog %s: %s tasks/s" % (short(size), short(median(rates[size]))))
    base = median(rates[sizes[0]])
    report.table("tasks per second of the first %d of a backlog, %s, 2 x 16" % (TAKEN, kind_of(o)),
                 ["backlog", "tasks/s", "/ 10 k"],
                 [[short(s), median(rates[s]), "%.2f" % (median(rates[s]) / base)]
                  for s in sizes])
    report.ratio("tasks/s at %s backlog / at 10 k" % short(sizes[-1]), median(rates[sizes[-1]]),
                 base, 0.9)


# ---------------------------------------------------------------- payload, workers

def add_payload(report, o):
    names = ["ceiling", kind_of(o)]
    rows = []
    for size, n in PAYLOADS.items():
        rates = {name: [] for name in names}
        for _ in range(o.runs):
            for name in names:
                rates[name].append(drain(side(name, o.programs, o.server, 2, 4),
                                         min(n, o.n or n), size))
        a, b = (median(rates[name]) for name in names)
        rows.append([short(size), a, b, "%.2f" % (b / a), "%.0f" % (b * size / 1e6)])
        say("payload %s: %s tasks/s" % (short(size), short(b)))
    report.table("tasks per second by payload, 2 x 4", ["bytes"] + names + ["ratio", "MB/s"], rows)


def add_workers(report, o):
    name = kind_of(o)
    counts = SHORT_WORKERS if o.short else WORKERS
    rates = {k: [] for k in counts}
    n = min(o.n or 40000, 2000 if name == "exec" else 40000)
    for _ in range(o.runs):
        for k in counts:
            rates[k].append(drain(side(name, o.programs, o.server, k, 4), n))
    best = max(median(r) for r in rates.values())
    say("workers: " + ", ".join("%d %s" % (k, short(median(r))) for k, r in rates.items()))
    report.table("tasks per second by workers, %s, c = 4" % name, ["K", "tasks/s", "/ best"],
                 [[str(k), median(r), "%.2f" % (median(r) / best)] for k, r in rates.items()])
    report.ratio("tasks/s of K=64 / of the best K", median(rates[64]), best, 0.6)
