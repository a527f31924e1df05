#!/usr/bin/python3
"""Tests wait for facts: no sleep outside test/integration/waiting.py (and the fake programs)."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON = re.compile(r"\btime\.sleep\s*\(|\bfrom time import\b.*\bsleep\b")
C = re.compile(r"\b(sleep|usleep|nanosleep|clock_nanosleep)\s*\(")
ALLOWED = {"test/integration/waiting.py", "test/integration/fake_handler.c",
           "test/integration/fake_worker.c", "test/integration/fake_pipe.c",
           "test/bench/pace.c", "test/lint/sleeps.py"}
bad = 0
for top, dirs, names in os.walk(os.path.join(ROOT, "test")):
    dirs[:] = [d for d in dirs if d != "__pycache__"]
    for name in sorted(names):
        path = os.path.relpath(os.path.join(top, name), ROOT)
        pattern = PYTHON if name.endswith(".py") else C if name.endswith(".c") else None
        if pattern is None or path in ALLOWED:
            continue
        for n, line in enumerate(open(os.path.join(ROOT, path), encoding="utf-8"), 1):
            if pattern.search(line.split("#")[0] if name.endswith(".py") else line):
                print("sleeps: %s:%d: waits for time; wait for a fact (wait_until)" % (path, n))
                bad = 1
sys.exit(bad)
