"""What happens when, and what each task does: all of it from the seed, nothing from the clock."""
import hashlib
import json
import random

K, CONCURRENCY = 3, 4          # as started; scale and HUP change them
TIMEOUT, KILL_GRACE = 3.0, 0.3  # of the handlers
LEASE, RETRY_DELAY = 3.0, 0.1
CALM_BEFORE, CALM_AFTER = 2.0, 1.0

# kind: (how often, {parameter: (from, to)}). `pick` chooses the victim; `lasts` is undone after it.
KINDS = {
    "kill worker": (12, {"pick": (0, 1)}),
    "kill two workers": (2, {"pick": (0, 1)}),
    "kill handler": (8, {"pick": (0, 1)}),
    "kill supervisor": (3, {}),
    "kill supervisor and a worker": (1, {"pick": (0, 1)}),
    "kill redis": (3, {}),
    "stop worker": (5, {"pick": (0, 1), "lasts": (0.2, 6)}),
    "stop redis": (3, {"lasts": (0.1, 4)}),
    "cut links": (4, {"lasts": (0, 4)}),
    "slow links": (3, {"lasts": (1, 5), "delay": (0.01, 0.15)}),
    "client kill": (4, {"pick": (0, 1)}),
    "script flush": (2, {}),
    "hup": (4, {"concurrency": (2, 6)}),
    "scale": (3, {"workers": (1, 5)}),
    "restart": (3, {"pick": (0, 1)}),
    "stop and start": (1, {"lasts": (0.2, 3)}),
    "quiet and resume": (1, {"lasts": (0.2, 3)}),
    "term, new supervisor": (2, {}),
}
WHOLE = {"concurrency", "workers"}


def events(seed, seconds, every):
    """[(when, kind, {parameter: value})], in order; a fault `every` seconds, on average."""
    rnd = random.Random("events %s" % seed)
    kinds = list(KINDS)
    weights = [KINDS[k][0] for k in kinds]
    out, t = [], CALM_BEFORE
    while True:
        t += rnd.expovariate(1 / every)
        if t > seconds - CALM_AFTER:
            return out
        kind = rnd.choices(kinds, weights)[0]
        values = {}
        for name, (low, high) in KINDS[kind][1].items():
            values[name] = rnd.randint(low, high) if name in WHOLE else \
                round(rnd.uniform(low, high), 3)
        out.append((round(t, 3), kind, values))


def digest(plan):
    """A short name of a schedule, to see that two runs had the same."""
    return hashlib.sha256(json.dumps(plan).encode()).hexdigest()[:12]


def heartbeat(seed):
    """Some seeds let a stalled worker live: then its lease is what protects its tasks."""
    return random.Random("heartbeat %s" % seed).choice(["auto", "0"])


# kind: (how often, words of the payload, how its first deliveries end)
TASKS = [
    (70, "sleep={short}", None),
    (8, "sleep={long}", None),
    (3, "sleep={short} setsid=2000", None),
    (2, "sleep={short} group=3000", None),
    (1, "sleep={long} ignore_term=1", None),
    (6, "sleep={short} exit=1 until_run={runs}", "failed"),
    (3, "sleep={short} exit=75 until_run={runs}", "put off"),
    (3, "sleep={short} signal=11 until_run={runs}", "crashed"),
    (2, "hang=60000 exit=1 until_run=2 sleep={short}", "timed out"),
    (1, "sleep={short} exit=65", "rejected"),
]


class Task:
    """The n-th task: its payload, and how a run of it is meant to end."""

    def __init__(self, seed, n):
        rnd = random.Random("task %s %d" % (seed, n))
        _, words, self.fate = rnd.choices(TASKS, [t[0] for t in TASKS])[0]
        self.until_run = rnd.randint(2, 4) if "{runs}" in words else 2
        self.payload = "do n=%d %s" % (n, words.format(
            short=int(rnd.expovariate(1 / 40)) + 1, long=rnd.randint(300, 1500),
            runs=self.until_run))

    def planned(self, deliveries):
        """How its run ends when nothing disturbs it: "done", or a fate."""
        if self.fate == "rejected":
            return self.fate
        return self.fate if self.fate and deliveries < self.until_run else "done"
