"""Tasks that kill their worker, and handlers that fail at once: who pays, and who goes on."""
import os
import signal

import pytest

from waiting import wait_until

FAST = {"retry_delay": "50ms", "retry_jitter": "0%", "kill_grace": "300ms", "concurrency": 4}
# Back-off between a slot's deaths is not what is tested here.
SUPERVISOR = {"restart_delay": "10ms", "restart_delay_max": "10ms"}
POISON = b"do parent=9 until=99 sleep=10"


def queue(journal, *knobs, **keys):
    return {"q": dict(FAST, handler=journal.handler(*knobs), **keys)}


def letters(server, kind):
    key = "{q}:" + kind
    return [{k.decode(): v.decode() for k, v in f.items()} for _, f in server.r.xrange(key)]


@pytest.mark.parametrize("workers", [1, 4])
def test_a_poison_task_dies_and_no_good_one_with_it(sup, server, journal, workers):
    s = sup(queues=queue(journal, "sleep=5"), supervisor=dict(SUPERVISOR, workers=workers))
    good = server.add("q", *[b"x"] * 60)
    poison, = server.add("q", POISON)
    good += server.add("q", *[b"x"] * 140)
    server.wait_empty("q")
    dead, = letters(server, "dead")
    assert dead["redisq.id"] == poison and dead["redisq.reason"] == "crashes"
    assert dead["redisq.error"] == "worker signal 9 SIGKILL, crash 3"
    runs = journal.runs()
    assert set(runs) == set(good) | {poison}
    assert server.counters("q") == {"done": 200, "died": 1}
    # In company, alone, alone: a good one is hit once at most.
    assert runs[poison] == 3
    assert max(n for i, n in runs.items() if i != poison) <= 2
    assert journal.most_at_once() <= 4 * workers
    assert not server.r.exists("{q}:crash"), "nothing is left of what was charged to the good"
    assert s.out().count(" died: signal 9") == 3


@pytest.mark.parametrize("follow,place", [("dead", "dead"), ("hold", "held")])
def test_on_crash_is_applied_at_the_first_crash_alone(sup, server, journal, follow, place):
    sup(queues=queue(journal, on_crash=follow), supervisor=dict(SUPERVISOR, workers=2))
    poison, = server.add("q", POISON)
    server.wait_empty("q")
    letter, = letters(server, place)
    assert letter["redisq.id"] == poison
    assert letter["redisq.error"] == "worker signal 9 SIGKILL, crash 1"
    assert journal.runs()[poison] == 1


def test_a_crash_in_company_alone_never_leads_to_a_letter(sup, server, journal, gate):
    """max_crashes = 1: the innocent would be dead after the first crash of their worker."""
    s = sup(queues=queue(journal, str(gate), max_crashes=1),
            supervisor=dict(SUPERVISOR, workers=1))
    ids = server.add("q", *[b"x"] * 4)
    wait_until(lambda: len(journal.running()) == 4, 20, "all four run")
    os.kill(s.pids("q")[0], signal.SIGKILL)
    wait_until(lambda: len(journal.starts()) >= 5, 20, "the first suspect runs")
    gate.open()
    server.wait_empty("q")
    assert server.counters("q") == {"done": 4}
    assert journal.runs() == {i: 2 for i in ids}
    again = [e for e in journal.starts()[4:]]
    assert [e["beside"] for e in again] == [1] * 4, "one at a time"
    wait_until(lambda: "no suspect is left" in s.log("q"), 20, "the worker is free again")


def test_others_go_on_while_a_suspect_runs(sup, server, journal, gate):
    s = sup(queues=queue(journal, concurrency=2), supervisor=dict(SUPERVISOR, workers=2))
    s.wait_ready(2)
    suspects = server.add("q", *[b"do %s" % str(gate).encode()] * 2)
    wait_until(lambda: len(journal.running()) == 2, 20, "both run")
    victims = {e["env"]["REDISQ_WORKER"].rpartition("_")[2] for e in journal.starts()}
    for pid in victims:
        os.kill(int(pid), signal.SIGKILL)
    wait_until(lambda: len(journal.starts()) >= 3, 20, "a suspect runs again")
    server.add("q", *[b"x"] * 20)
    wait_until(lambda: server.counters("q").get("done") == 20, 20, "the others are done")
    gate.open()
    server.wait_empty("q")
    assert server.counters("q")["done"] == 22 and set(suspects) <= set(journal.runs())


def test_a_handler_that_fails_at_once_stops_the_fetching(sup, server, journal):
    s = sup(queues=queue(journal, "exit=1", "until=99", breaker_delay="1h", max_attempts=2),
            supervisor={"workers": 1})
    s.wait_ready(1)
    ids = server.add("q", *[b"x"] * 200)
    wait_until(lambda: s.workers("q")[0]["breaker"], 20, "the breaker is open")
    assert "10 tasks in a row failed at once, the last with: exit 1" in s.workers("q")[0]["breaker"]
    wait_until(lambda: not journal.running(), 20, "what ran has ended")
    assert len(journal.runs()) <= 20
    assert server.r.xlen("q") >= len(ids) - 20


def test_a_handler_that_works_again_closes_the_breaker(sup, server, journal):
    s = sup(queues=queue(journal, "exit=1", "until=2", breaker_failures=3, breaker_delay="200ms"),
            supervisor={"workers": 1})
    server.add("q", *[b"x"] * 40)
    server.wait_empty("q", timeout=60)
    assert server.counters("q")["done"] == 40
    assert "the handler works again" in s.log("q")
