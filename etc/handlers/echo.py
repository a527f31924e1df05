#!/usr/bin/python3
"""A handler in Python: shows every kind of answer.

    redisq-supervisor -e -q demo -- etc/handlers/echo.py
    redisqctl push demo '{"say": "hello"}'      done
    redisqctl push demo '{"fail": true}'        a failed attempt, tried again after the back-off
    redisqctl push demo '{"later_ms": 5000}'    not now: tried again in five seconds
    redisqctl push demo 'no json'               can never work: dead at once
"""
import json
import os
import sys

EX_DATAERR = 65  # dead at once


def answer(**line):
    """One line on fd 3 tells more than an exit status can."""
    with os.fdopen(int(os.environ["REDISQ_ANSWER_FD"]), "w") as f:
        f.write(json.dumps(line) + "\n")


try:
    task = json.loads(sys.stdin.buffer.read())
except ValueError as e:
    print("not JSON: %s" % e, file=sys.stderr)
    sys.exit(EX_DATAERR)

# REDISQ_ID stays the same over all attempts: hand it to whoever must not do the thing twice.
print("task %s, attempt %s" % (os.environ["REDISQ_ID"], os.environ["REDISQ_ATTEMPT"]))
if task.get("fail"):
    sys.exit(1)
if "later_ms" in task:
    answer(type="retry", error="asked for later", delay_ms=task["later_ms"])
else:
    print(task.get("say", task))
