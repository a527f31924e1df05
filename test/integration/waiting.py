"""Waiting for facts. The only place in the tests that sleeps (test/lint/sleeps.py)."""
import os
import time

# A loaded machine makes things late, not wrong: REDISQ_PATIENCE=3 triples every limit.
PATIENCE = float(os.environ.get("REDISQ_PATIENCE", "1"))


def wait_until(fact, timeout=15.0, what=None, every=0.01):
    """Calls fact() until it is true and returns its value; fails after `timeout` seconds.
    what: text for the failure, or a function that makes it then."""
    end = time.monotonic() + timeout * PATIENCE
    while True:
        value = fact()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(
                "after %.1f s still not true: %s (last value %r)"
                % (timeout * PATIENCE, what() if callable(what) else
                   what or getattr(fact, "__name__", "fact"), value))
        time.sleep(every)


def stays(fact, seconds, what=None, every=0.02):
    """For "it never happens": fact() must hold the whole time, which is part of the claim."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert fact(), "did not hold: %s" % (what or getattr(fact, "__name__", "fact"))
        time.sleep(every)


def elapse(seconds):
    """Lets a measured interval pass (CPU time, wake-ups); never a guess about something's end."""
    time.sleep(seconds)
