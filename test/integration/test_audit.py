"""The account of a queue: redisqctl audit finds what does not add up, and only that."""
import pytest

from conftest import on_both
from redisserver import version
from waiting import wait_until


def audit(s, want, queue="q"):
    p = s.ctl("audit", queue, check=want)
    return (p.stdout + p.stderr).decode()


def accepted(server, n, places):
    """What the audit of a queue without a fault says."""
    if version() < (7,) or server.backend == "list":  # Redis does not count what was added
        return "%d tasks in all places; how many were accepted cannot be told" % n
    return "accepted %d%s" % (n, places)


def a_busy_life(sup, server, journal, **keys):
    s = sup(queues={"q": dict({"handler": journal.handler(), "max_attempts": 2, "concurrency": 4,
                               "retry_delay": "50ms", "retry_jitter": "0%",
                               "breaker_failures": 0, "dead_max": 5, "max_snoozes": 2}, **keys)},
            supervisor={"workers": 2})
    s.wait_ready(2)
    server.add("q", *[b"x"] * 50)
    server.add("q", *[b"do exit=1"] * 8)
    server.add("q", *[b"do exit=1 until=2"] * 10)
    server.add("q", *[b"do exit=75 until=2"] * 5)  # two snoozes, then a failed attempt
    return s


@on_both
def test_the_account_of_a_busy_queue_adds_up(sup, server, journal):
    s = a_busy_life(sup, server, journal)
    while not server.is_empty("q"):
        audit(s, 0)  # at any moment
    said = audit(s, 0)
    # 8 died, the newest 5 were kept; each retry was added again and does not count as accepted.
    assert accepted(server, 73, " = done 65 + dead 5 + dropped 3 + waiting 0 + running 0") in said


@on_both
def test_tasks_in_every_place_are_found(sup, server, journal, gate):
    s = sup(queues={"q": {"handler": journal.handler(), "retry_delay": "1h", "retry_delay_max": "2h",
                          "concurrency": 1}}, supervisor={"workers": 1})
    server.add("q", b"do exit=1", b"do %s" % str(gate).encode(), b"x", b"x")
    wait_until(lambda: journal.running(), 20, "the second runs")
    assert accepted(server, 4, " = done 0 + dead 0 + dropped 0 + waiting 2 + running 1 + delayed 1") in \
        audit(s, 0)
    gate.open()
    wait_until(lambda: server.counters("q").get("done") == 3, 20, "all but the delayed are done")
    assert accepted(server, 4, " = done 3 + dead 0 + dropped 0 + waiting 0 + running 0 + delayed 1") in \
        audit(s, 0)


@on_both
def test_a_letter_that_is_retried_or_dropped_stays_accounted_for(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1})
    server.add("q", *[b"do exit=65"] * 3)
    wait_until(lambda: len(server.dead("q")) == 3, 20, "three letters")
    ids = [i for i, _ in server.dead("q")]
    s.ctl("dead", "drop", "q", ids[0], check=0)
    s.ctl("dead", "retry", "q", ids[1], check=0)
    wait_until(lambda: len(server.dead("q")) == 2 and server.is_empty("q"), 20, "it died again")
    assert accepted(server, 3, " = done 0 + dead 2 + dropped 1") in audit(s, 0)


def quiet_with_four(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1})
    s.wait_ready(1)
    s.ctl("quiet", check=0)
    server.wait_unread()
    server.add("q", *[b"x"] * 4)
    assert accepted(server, 4, "") in audit(s, 0)
    return s


TAMPERED = [
    (lambda r: r.xtrim("q", 1, approximate=False), "removed from the stream before they ran"),
    (lambda r: r.hset("{q}:bodies", "1-1", "x"), "bodies of delayed tasks belong to no task"),
    (lambda r: r.zadd("{q}:delayed", {"1-1": 9e12}), "delayed tasks have lost their body"),
    (lambda r: r.hset("{q}:crash", "1-1", "1:1:x"), "crash records belong to no task"),
    (lambda r: r.hset("{q}:ckpt", "1-1", "x"), "checkpoints belong to no task"),
    (lambda r: r.hset("{q}:progress", "1-1", "x"), "notes of progress belong to no task"),
    (lambda r: r.hincrby("{q}:counters", "done", 5), "too many"),
    (lambda r: (r.xreadgroup("redisq", "somebody", {"q": ">"}, count=1),
                r.xgroup_delconsumer("q", "redisq", "somebody")), "pending for nobody"),
    (lambda r: (r.xreadgroup("redisq", "somebody", {"q": ">"}, count=1),
                r.xdel("q", r.xpending_range("q", "redisq", "-", "+", 1)[0]["message_id"])),
     "running tasks have lost their entry"),
]


@pytest.mark.parametrize("n", range(len(TAMPERED)))
def test_what_somebody_did_by_hand_is_found(sup, server, journal, n):
    tamper, says = TAMPERED[n]
    s = quiet_with_four(sup, server, journal)
    tamper(server.r)
    if version() < (7,) and ("removed" in says or "too many" in says):
        assert "how many were accepted cannot be told" in audit(s, 0)
        return
    said = audit(s, 1)
    assert says in said, said


TAMPERED_LISTS = [
    (lambda s: s.r.rpop("q"), "1 entries are in nobody's hands"),
    (lambda s: s.r.ltrim("q", 1, 0), "4 entries are in nobody's hands"),
    (lambda s: s.r.hdel("{q}:tasks", s.deliver("q", b"x", "somebody")),
     "1 running tasks have lost their entry"),
    (lambda s: s.r.hdel("{q}:owners", s.deliver("q", b"x", "somebody")), "in nobody's hands"),
]


@pytest.mark.backends("list")
@pytest.mark.parametrize("n", range(len(TAMPERED_LISTS)))
def test_what_somebody_did_to_a_list_by_hand_is_found(sup, server, journal, n):
    tamper, says = TAMPERED_LISTS[n]
    s = quiet_with_four(sup, server, journal)
    if "nobody's hands" not in says or "entries" not in says:
        server.r.delete("q", "{q}:tasks")  # nothing is to wait before it
    tamper(server)
    said = audit(s, 1)
    assert says in said, said
