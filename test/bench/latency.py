"""From the moment before XADD is written until the handler starts: one idle worker with one slot,
tasks 2 ms apart. The floor is a C client in a blocked XREADGROUP that does nothing else."""
import os
import tempfile

from report import median, percentile, say
from sides import GROUP, QUEUE, Held, Peer, Side, side, started
from waiting import wait_until

NAMES = ["floor", "so", "node", "pipe", "exec", "bullmq", "bee"]
GAP_MS = 2
WARM_UP = 50  # tasks before those that count: a child has to be there, code to be compiled


class Floor(Side):
    def __init__(self, o, n):
        super().__init__(o.programs, o.server, 1, 1)
        self.n = n

    def start(self, env=None):
        self.server.r.xgroup_create(QUEUE, GROUP, "0", mkstream=True)
        self.held = Held(self.programs, [
            [self.programs.tool("floor"), self.server.port, QUEUE, self.n]], env)

    def stop(self):
        self.held.stop()


def pace(o, name, n):
    if name in Peer.KEYS:
        o.programs.run(o.programs.peer(name, o.server, "pace", n, GAP_MS))
    else:
        o.programs.run([o.programs.tool("pace"), o.server.port, QUEUE, n, GAP_MS * 1000])


def run_once(o, name, n):
    """The latencies in microseconds."""
    with tempfile.TemporaryDirectory(prefix="redisq-bench") as directory:
        path = os.path.join(directory, "latency")
        one = Floor(o, WARM_UP + n) if name == "floor" else side(name, o.programs, o.server, 1, 1)

        def times():
            if not os.path.exists(path):
                return []
            with open(path) as f:
                return [int(line) / 1000 for line in f]
        with started(one, {"BENCH_LATENCY": path}):
            if isinstance(one, Peer):
                one.go()
            for total, more in ((WARM_UP, WARM_UP), (WARM_UP + n, n)):
                pace(o, name, more)
                wait_until(lambda: len(times()) >= total, 30)
            return times()[WARM_UP:]


def add_to(report, o):
    n = min(o.n or 1000, 200 if o.short else 1000)
    names = [name for name in NAMES if name == "floor" or name in o.rows]
    p50, p99 = {}, {}
    for _ in range(o.runs):
        for name in names:
            times = run_once(o, name, n)
            p50.setdefault(name, []).append(percentile(times, 50))
            p99.setdefault(name, []).append(percentile(times, 99))
    p50 = {name: median(v) for name, v in p50.items()}
    p99 = {name: median(v) for name, v in p99.items()}
    rows = [[name, p50[name], p99[name], "%.2f" % (p50[name] / p50["floor"]),
             "%.2f" % (p99[name] / p99["floor"])] for name in names]
    say("latency: " + ", ".join("%s %.0f/%.0f us" % (m, p50[m], p99[m]) for m in names))
    report.table("add to handler start in microseconds, idle, %d tasks %d ms apart" % (n, GAP_MS),
                 ["", "p50", "p99", "p50/floor", "p99/floor"], rows)
    report.ratio("so latency p50 / floor", p50.get("so"), p50["floor"], at_most=1.5)
    report.ratio("so latency p99 / floor", p99.get("so"), p99["floor"], at_most=1.5)
    report.ratio("Node pipe latency p50 / BullMQ's", p50.get("node"), p50.get("bullmq"),
                 at_most=0.5)
