#!/usr/bin/python3
"""
The figures, on this machine, against the peers and against what Redis itself can serve.

    bench.py BUILD [ROWS]          or  make bench [ROWS=so,ceiling] [N=...] [RUNS=3] [SHORT=1]

ROWS: sides (ceiling so pipe node python spawnloop exec bullmq bee) and families (drain latency
footprint backlog payload workers delayed memory newer); a family that is not named is left out, none
named means all, and likewise for sides. N: most tasks of one run. Progress on stderr; the table on
stdout and in BUILD/bench/results.txt and .json. Exit status 0 whether targets are met or not.
"""
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "test", "integration")]

import drain                             # noqa: E402
import footprint                         # noqa: E402
import growth                            # noqa: E402
import latency                           # noqa: E402
import machine                           # noqa: E402
import newer                             # noqa: E402
import stored                            # noqa: E402
from redisserver import RedisServer      # noqa: E402
from report import Report                # noqa: E402
from sides import Programs               # noqa: E402

FAMILIES = {"drain": drain.add_to, "latency": latency.add_to, "footprint": footprint.add_to,
            "backlog": growth.add_backlog, "payload": growth.add_payload,
            "workers": growth.add_workers, "delayed": stored.add_delayed,
            "memory": stored.add_memory, "newer": newer.add_to}
SIDES = list(drain.AGAINST)


class Options:
    def __init__(self, build, rows):
        unknown = [r for r in rows if r not in FAMILIES and r not in SIDES]
        if unknown:
            sys.exit("bench: no row %s; there are %s" % (
                ", ".join(unknown), " ".join(SIDES + list(FAMILIES))))
        self.programs = Programs(os.path.abspath(build))
        sides = [r for r in rows if r in SIDES] or SIDES
        self.families = [r for r in rows if r in FAMILIES] or \
            (list(FAMILIES) if len(sides) == len(SIDES) else ["drain"])
        self.rows = sides
        self.short = bool(os.environ.get("SHORT"))
        self.runs = int(os.environ.get("RUNS") or (1 if self.short else 3))
        self.n = int(os.environ.get("N") or 0)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.strip())
    o = Options(sys.argv[1], [r for r in "".join(sys.argv[2:]).split(",") if r])
    report = Report(machine.facts(ROOT, o.programs.out))
    directory = tempfile.mkdtemp(prefix="redisq-bench")
    o.server = RedisServer(directory)
    try:
        for family in o.families:
            FAMILIES[family](report, o)
    finally:
        o.server.close()
        shutil.rmtree(directory)
    report.write(os.path.join(o.programs.out, "results"))
    print(report.text(), end="")


main()
