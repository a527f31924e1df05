"""Redis comes and goes while there is much to do, and what becomes due together."""
import collections
import json
import time

import pytest

from redisserver import RedisServer
from waiting import wait_until


@pytest.fixture
def durable(tmp_path):
    """A Redis that forgets nothing when it is killed."""
    s = RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always")
    yield s
    s.close()


@pytest.mark.parametrize("part", [1, 2])    # of twenty: they run side by side
def test_twenty_restarts_of_redis_under_load(sup, durable, journal, part):
    s = sup(server=durable, supervisor={"log_level": "info"},
            queues={"q": {"handler": journal.handler("sleep=20"), "concurrency": 2}})
    pids = sorted(w["pid"] for w in s.wait_ready(2))
    ids = []
    for n in range(10):
        ids += durable.add("q", *[b"x"] * 12)
        journal.wait_ended(12 * n + 4)
        durable.stop()
        wait_until(lambda: not any(w["consuming"] for w in s.workers()), 10, "nobody consumes")
        durable.start()
        wait_until(lambda: all(w["consuming"] for w in s.workers()), 10, "all consume again")
    durable.wait_empty("q")
    assert journal.runs() == collections.Counter(ids) and journal.most_at_once() <= 4
    assert durable.counters("q")["done"] == len(ids)
    assert sorted(s.pids()) == pids and not any(w["restarts"] for w in s.workers())
    s.ctl("audit", "q", check=0)


def test_retries_of_what_failed_together_spread_over_the_jitter(sup, server, journal):
    delay, percent, n = 20000, 50, 120
    s = sup(queues={"q": {"handler": journal.handler("exit=1"), "concurrency": 8,
                          "retry_delay": "%dms" % delay, "retry_jitter": "%d%%" % percent,
                          "breaker_failures": 0}})
    s.wait_ready(2)
    server.add("q", *[b"x"] * n)
    wait_until(lambda: len(server.delayed("q")) == n, 40)
    # The same moment by both clocks; the settlement comes a little after the end.
    sec, micro = server.r.time()
    offset = sec * 1000 + micro / 1000 - journal_now()
    ended = {e["id"]: e["t"] / 1e6 + offset for e in journal.ends()}
    waits = [due - ended[task] for task, due in server.delayed("q").items()]
    window = delay * percent / 100
    assert min(waits) >= delay - 5, "never earlier than asked for"
    assert max(waits) - min(waits) >= window / 2
    quarters = collections.Counter(int((w - delay) / (window / 4)) for w in waits)
    assert all(quarters[q] >= n / 16 for q in range(4)), quarters


def journal_now():
    """ms, by the clock of the journal."""
    return time.monotonic() * 1000


def test_the_numbers_of_status_and_stats_are_those_of_redis(sup, server, journal, gate):
    s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 2, "max_attempts": 2,
                          "retry_delay": "60s"}})
    s.wait_ready(2)
    server.add("q", *[b"x"] * 9 + [b"do exit=65"] * 3 + [b"do exit=1"] * 2)
    wait_until(lambda: server.counters("q").get("done") == 9 and len(server.dead("q")) == 3 and
               len(server.delayed("q")) == 2)
    server.add("q", *[b"do " + str(gate).encode()] * 7)
    wait_until(lambda: len(journal.running()) == 4)
    for fault in (server.r.script_flush, lambda: server.r.client_kill_filter(_type="normal")):
        fault()
        stats = json.loads(s.ctl("stats", "q", "--json", check=0).out)
        want = {"accepted": 21, "done": 9, "dead": 3, "delayed": 2, "running": 4, "waiting": 3,
                "held": 0, "dropped": 0, "trimmed": 0}
        assert {k: stats[k] for k in want} == want
        s.ctl("audit", "q", check=0)
    rows = s.workers("q")
    assert sum(w["running"] for w in rows) == server.n_pending("q") == 4
    wait_until(lambda: sum(w["done"] for w in s.workers("q")) == 9)
    gate.open()
    wait_until(lambda: server.counters("q")["done"] == 16)
    wait_until(lambda: sum(w["done"] for w in s.workers("q")) == 16)
