#!/usr/bin/python3
"""A handler in Python: shows every kind of answer.

    redisq-supervisor -e -q demo -- etc/handlers/echo.py
    redisqctl push demo '{"say": "hello"}'      done
    redisqctl push demo '{"fail": true}'        a failed attempt, tried again after the back-off
    redisqctl push demo '{"busy_ms": 5000}'     a failed attempt that says when to try again
    redisqctl push demo '{"later_ms": 5000}'    not now: again in five seconds, no attempt charged
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

# REDISQ_QUEUE and REDISQ_ID stay the same over all attempts: together they are the idempotency key
# for whoever must not do the thing twice.
print("task %s, attempt %s" % (os.environ["REDISQ_ID"], os.environ["REDISQ_ATTEMPT"]))
if task.get("fail"):
    sys.exit(1)
if "busy_ms" in task:
    answer(type="retry", error="the provider is busy", delay_ms=task["busy_ms"])
elif "later_ms" in task:
    answer(type="snooze", delay_ms=task["later_ms"])
else:
    print(task.get("say", task))
