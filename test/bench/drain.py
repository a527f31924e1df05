"""Tasks per second of handlers that do nothing: from "go", when all workers are connected and held
back, until the last task is done. The sides of a cell take turns, so that whatever else the machine
does meets all of them."""
from report import median, say, short
from sides import drain, side

CELLS = [(k, c) for k in (1, 2, 4) for c in (1, 4, 16, 64)]
SHORT_CELLS = [(1, 4), (1, 64), (4, 4)]

# name: the side that it is measured against
AGAINST = {"ceiling": None, "so": "ceiling", "pipe": "ceiling", "node": "ceiling",
           "python": "ceiling", "spawnloop": None, "exec": "spawnloop", "bullmq": None,
           "bee": None}
# Tasks of one run by concurrency: about a second of the fast sides.
FAST = {1: 15000, 4: 60000, 16: 120000, 64: 200000}
TASKS = {"ceiling": FAST, "so": FAST, "pipe": FAST,
         "node": {1: 10000, 4: 30000, 16: 60000, 64: 60000},
         "python": {1: 10000, 4: 30000, 16: 60000, 64: 60000},
         "spawnloop": dict.fromkeys(FAST, 2400), "exec": dict.fromkeys(FAST, 2400),
         "bullmq": {1: 8000, 4: 20000, 16: 20000, 64: 20000},
         "bee": {1: 8000, 4: 20000, 16: 20000, 64: 20000}}


def measure(o):
    """o: the options. {(side, K, c): [tasks/s of each run]}."""
    names = [n for n in AGAINST if n in o.rows]
    rates = {}
    for cell in SHORT_CELLS if o.short else CELLS:
        for _ in range(o.runs):
            for name in names:
                n = TASKS[name][cell[1]] // (4 if o.short else 1)
                n = min(o.n or n, n)
                rates.setdefault((name,) + cell, []).append(
                    drain(side(name, o.programs, o.server, *cell), n))
        say("drain %d x %d: %s" % (*cell, ", ".join(
            "%s %s" % (name, short(median(rates[(name,) + cell]))) for name in names)))
    return rates


def best(rates, name):
    return max((median(v) for k, v in rates.items() if k[0] == name), default=None)


def add_table(report, rates, names):
    head = ["K x c"]
    for name in names:
        head += [name] + (["/ " + AGAINST[name]] if AGAINST[name] in names else [])
    rows = []
    for cell in sorted({k[1:] for k in rates}):
        row = ["%d x %d" % cell]
        for name in names:
            rate = median(rates[(name,) + cell])
            row.append(rate)
            if AGAINST[name] in names:
                row.append("%.2f" % (rate / median(rates[(AGAINST[name],) + cell])))
        rows.append(row)
    report.table("tasks that do nothing per second, \"go\" to last end, K processes x c at once",
                 head, rows)


def of(rates, name, k, c):
    return median(rates.get((name, k, c), []))


def add_to(report, o):
    rates = measure(o)
    names = [n for n in AGAINST if n in o.rows]
    if not names:
        return
    add_table(report, rates, names)
    for k, c, least in ((1, 64, 0.80), (4, 4, 0.70)):
        report.ratio("so / ceiling, K=%d c=%d" % (k, c), of(rates, "so", k, c),
                     of(rates, "ceiling", k, c), least)
    report.ratio("so best / BullMQ best", best(rates, "so"), best(rates, "bullmq"), 10)
    report.ratio("so best / Bee-Queue best", best(rates, "so"), best(rates, "bee"), 7)
    report.ratio("Node pipe best / BullMQ best", best(rates, "node"), best(rates, "bullmq"), 4)
    for k, c in sorted({key[1:] for key in rates}):
        if c >= 4:
            report.ratio("exec / spawn loop, K=%d c=%d" % (k, c), of(rates, "exec", k, c),
                         of(rates, "spawnloop", k, c), 0.80)
