#!/usr/bin/python3
"""No file over 600 lines, the median near 200 (columns are clang-format's business)."""
import os
import statistics
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LONGEST, MEDIAN = 600, 250
bad = 0
lengths = []
for top, dirs, names in os.walk(ROOT):
    dirs[:] = [d for d in dirs if d not in (".git", "build", "__pycache__")]
    for name in sorted(names):
        if not name.endswith((".c", ".h", ".lua", ".py", ".def")):
            continue
        path = os.path.relpath(os.path.join(top, name), ROOT)
        lines = open(os.path.join(ROOT, path), encoding="utf-8").read().split("\n")
        if name.endswith((".c", ".h")) and not path.startswith("test/"):
            lengths.append(len(lines))
        if len(lines) > LONGEST:
            print("sizes: %s: %d lines, more than %d; split it by concept"
                  % (path, len(lines), LONGEST))
            bad = 1
if lengths and statistics.median(lengths) > MEDIAN:
    print("sizes: the median file has %d lines, more than %d"
          % (statistics.median(lengths), MEDIAN))
    bad = 1
sys.exit(bad)
