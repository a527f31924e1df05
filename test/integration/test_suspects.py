"""Tasks that kill their worker, and handlers that fail at once: who pays, and who goes on."""
import os
import signal

import pytest

from journal import Gate
from waiting import stays, wait_until

BACKENDS = ("stream", "list")

FAST = {"retry_delay": "50ms", "retry_jitter": "0%", "kill_grace": "300ms", "concurrency": 4}
# Back-off between a slot's deaths is not what is tested here.
SUPERVISOR = {"restart_delay": "10ms", "restart_delay_max": "10ms"}
POISON = b"do parent=9 until=99 sleep=10"


def queue(journal, *knobs, **keys):
    return {"q": dict(FAST, handler=journal.handler(*knobs), **keys)}


def letters(server, kind):
    return [{k.decode(): v.decode() for k, v in f.items()} for _, f in server.letters("q", kind)]


@pytest.mark.backends("stream", "list", "partitions")
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


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("on_loop", ["park", "exit"])
def test_a_poison_task_is_no_crash_loop_of_its_slots(sup, server, journal, workers, on_loop):
    s = sup(queues=queue(journal, "sleep=5", max_crashes=5),
            supervisor=dict(SUPERVISOR, workers=workers, crash_limit=2, on_crash_loop=on_loop))
    server.add("q", *[b"x"] * 40)
    poison, = server.add("q", POISON)
    server.add("q", *[b"x"] * 60)
    server.wait_empty("q", 60)
    assert server.counters("q") == {"done": 100, "died": 1}
    assert letters(server, "dead")[0]["redisq.error"] == "worker signal 9 SIGKILL, crash 5"
    assert journal.runs()[poison] == 5 and s.out().count(" died: signal 9") == 5
    s.wait_ready(workers)
    assert "crash loop" not in s.out() and all(w["state"] == "ready" for w in s.workers())


@pytest.mark.parametrize("follow,place", [("dead", "dead"), ("hold", "held")])
def test_on_crash_is_applied_at_the_first_crash_alone(sup, server, journal, follow, place):
    sup(queues=queue(journal, on_crash=follow), supervisor=dict(SUPERVISOR, workers=2))
    poison, = server.add("q", POISON)
    server.wait_empty("q")
    letter, = letters(server, place)
    assert letter["redisq.id"] == poison
    assert letter["redisq.error"] == "worker signal 9 SIGKILL, crash 1"
    assert journal.runs()[poison] == 1


@pytest.mark.backends("stream", "list", "partitions")
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


def test_the_youngest_suspect_runs_first(sup, server, journal, gate):
    """Most often it is the one to blame: found out, it holds up none of the others."""
    s = sup(queues=queue(journal, concurrency=8), supervisor=dict(SUPERVISOR, workers=1))
    ids = server.add("q", *[b"do " + str(gate).encode()] * 8)
    wait_until(lambda: len(journal.running()) == 8, 20, "all run")
    os.kill(s.pids("q")[0], signal.SIGKILL)
    wait_until(lambda: len(journal.starts()) >= 9, 20, "the first suspect runs")
    gate.open()
    server.wait_empty("q")
    assert [e["id"] for e in journal.starts()[8:]] == ids[::-1]


@pytest.mark.backends("stream", "list", "partitions")
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
    assert server.xlen("q") >= len(ids) - 20


def test_a_handler_that_works_again_closes_the_breaker(sup, server, journal):
    s = sup(queues=queue(journal, "exit=1", "until=2", breaker_failures=3, breaker_delay="200ms"),
            supervisor={"workers": 1})
    server.add("q", *[b"x"] * 40)
    server.wait_empty("q", timeout=60)
    assert server.counters("q")["done"] == 40
    assert "the handler works again" in s.log("q")


# ---- where the suspects run, when the worker set aside is not the right one any more

# No crash loop, and stale entries come back soon enough to be seen.
PATIENT = dict(SUPERVISOR, crash_limit=1000)


def row(s, pid):
    return [w for w in s.workers("q") if w["pid"] == pid][0]


def full(s, slots):
    """The pid of the worker in one of these slots that runs as many tasks as it may."""
    return wait_until(lambda: [w["pid"] for w in s.workers("q") if w["slot"] in slots and
                               w["state"] == "ready" and w["running"] == w["credit"] > 0],
                      20, "one is full")[0]


def aside(s):
    return [w["pid"] for w in s.workers("q") if w.get("quarantine")]


def fill(s, server, journal, n, knob, *slots):
    """n tasks that run in the only worker of these slots that has credit; its pid."""
    before = len(journal.running())
    server.add("q", *[b"do " + str(knob).encode()] * n)
    wait_until(lambda: len(journal.running()) == before + n, 20, "they run")
    return full(s, slots)


def new_starts(journal, n):
    return wait_until(lambda: len(journal.starts()) >= n and journal.starts(), 20,
                      "%d starts" % n)


def test_a_reload_while_a_suspect_runs_sets_the_new_worker_aside(sup, server, journal, gate):
    s = sup(queues=queue(journal, concurrency=2), supervisor=dict(PATIENT, workers=1))
    s.wait_ready(1)
    pid = fill(s, server, journal, 2, gate, 0)
    os.kill(pid, signal.SIGKILL)
    new_starts(journal, 3)
    old, = aside(s)
    s.ctl("reload", check=0)
    second = new_starts(journal, 4)[3]
    assert second["ppid"] != old and row(s, old)["state"] == "draining"
    assert aside(s) == [second["ppid"]]
    gate.open()
    server.wait_empty("q")
    assert server.counters("q") == {"done": 2} and journal.most_at_once() <= 2
    wait_until(lambda: not aside(s), 20, "nobody is set aside any more")


@pytest.mark.parametrize("how", [("stop", "q/1"), ("scale", "q", "1")])
def test_a_worker_told_to_leave_is_not_set_aside_any_more(sup, server, journal, gate, how):
    s = sup(queues=queue(journal, concurrency=2), supervisor=dict(PATIENT, workers=2))
    s.wait_ready(2)
    s.ctl("stop", "q/0", check=0)
    pid = fill(s, server, journal, 2, gate, 1)
    os.kill(pid, signal.SIGKILL)
    new_starts(journal, 3)
    old, = aside(s)
    s.ctl("start", "q/0", check=0)
    s.ctl(*how, "--no-wait", check=0)
    second = new_starts(journal, 4)[3]
    assert second["ppid"] != old and aside(s) == [second["ppid"]]
    gate.open()
    server.wait_empty("q")
    assert server.counters("q") == {"done": 2}


def test_a_worker_without_credit_is_passed_over(sup, server, journal, tmp_path):
    """Both old workers are full when they are replaced: only the successor of the one that dies
    gets credit."""
    gate = Gate(tmp_path / "g")
    s = sup(queues=queue(journal, concurrency=2), supervisor=dict(PATIENT, workers=2))
    s.wait_ready(2)
    server.add("q", *[b"do " + str(gate).encode()] * 4)
    wait_until(lambda: len(journal.running()) == 4, 20, "all are full")
    s.ctl("reload", check=0)
    old = {w["slot"]: w["pid"] for w in s.workers("q") if w["state"] == "draining"}
    assert sorted(old) == [0, 1]
    os.kill(old[1], signal.SIGKILL)
    new_starts(journal, 5)
    chosen, = aside(s)
    wait_until(lambda: row(s, chosen)["credit"] == 1, 20, "the rest is given back")
    # It needs one of the two that came free: the other one serves the rest.
    server.add("q", *[b"x"] * 4)
    wait_until(lambda: server.counters("q").get("done") == 4, 20, "others go on")
    gate.open()
    server.wait_empty("q")
    assert server.counters("q") == {"done": 8} and journal.most_at_once() <= 4


def test_a_worker_set_aside_hoards_no_credit(sup, server, journal, tmp_path):
    g1, g2 = Gate(tmp_path / "g1"), Gate(tmp_path / "g2")
    s = sup(queues=queue(journal, concurrency=4), supervisor=dict(PATIENT, workers=2))
    s.wait_ready(2)
    s.ctl("stop", "q/1", check=0)
    fill(s, server, journal, 4, g1, 0)
    s.ctl("start", "q/1", check=0)
    s.ctl("reload", check=0)
    s.wait_ready(2)
    victim = fill(s, server, journal, 4, g2, 0, 1)
    os.kill(victim, signal.SIGKILL)
    new_starts(journal, 9)
    server.add("q", *[b"x"] * 8)
    wait_until(lambda: server.counters("q").get("done") == 8, 20, "others are served")
    chosen, = aside(s)
    wait_until(lambda: row(s, chosen)["credit"] == 1, 20, "the rest is given back")
    assert sum(w["credit"] for w in s.workers("q")) <= 8
    g1.open()
    g2.open()
    server.wait_empty("q")
    wait_until(lambda: [w["credit"] for w in s.workers("q")] == [4, 4], 20,
               "the full credit again when no suspect is left")
    assert journal.most_at_once() <= 8


def test_a_busy_worker_gives_way_to_an_idle_one(sup, server, journal, tmp_path):
    """The successor comes so late that the busy one is set aside for want of a better."""
    long, gate = Gate(tmp_path / "long"), Gate(tmp_path / "gate")
    s = sup(queues=queue(journal, concurrency=2),
            supervisor={"workers": 2, "restart_delay": "15s", "restart_delay_max": "15s",
                        "crash_limit": 1000})
    s.wait_ready(2)
    s.ctl("stop", "q/1", check=0)
    first = fill(s, server, journal, 2, long, 0)
    s.ctl("start", "q/1", check=0)
    os.kill(fill(s, server, journal, 2, gate, 1), signal.SIGKILL)
    second = new_starts(journal, 5)[4]["ppid"]
    os.kill(second, signal.SIGKILL)          # once more, so that it backs off
    wait_until(lambda: aside(s) == [first], 30, "the busy one is taken")
    new_starts(journal, 6)
    assert first not in aside(s)
    stays(lambda: len(journal.running()) == 3, 1, "one suspect, beside the long ones")
    long.open()
    gate.open()
    server.wait_empty("q")
    assert server.counters("q") == {"done": 4} and journal.most_at_once() <= 4


def test_status_shows_who_is_set_aside(sup, server, journal, gate):
    s = sup(queues=queue(journal, concurrency=2), supervisor=dict(PATIENT, workers=1))
    s.wait_ready(1)
    assert aside(s) == [] and "set aside" not in s.ctl("status", check=0).out
    os.kill(fill(s, server, journal, 2, gate, 0), signal.SIGKILL)
    new_starts(journal, 3)
    assert aside(s) == s.pids("q")
    assert "set aside for suspects of a crash" in s.ctl("status", check=0).out
    gate.open()
    server.wait_empty("q")
    wait_until(lambda: not aside(s), 20, "nobody any more")
