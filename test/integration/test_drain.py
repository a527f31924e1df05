"""A stop lets running tasks finish, loses none, repeats none, and leaves no consumer."""
import collections
import signal
import time

import pytest

import procs
from links import Links
from waiting import stays, wait_until

BACKENDS = ("stream", "list")


@pytest.fixture
def links(server):
    x = Links(server.port)
    yield x
    x.close()


@pytest.mark.timeout(200)
@pytest.mark.parametrize("part", range(5))
def test_term_under_load_fifty_times(sup, server, journal, part):
    """Ten stops each, at varying task counts; what one leaves the next one runs."""
    s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 3}}, start=False)
    ids = []
    for n in range(10):
        k = part * 10 + n
        ids += server.add("q", *[b"do sleep=%d" % (10 + 13 * k % 120)] * (1 + 7 * k % 40))
        before = len(journal.starts())
        s.start()
        journal.wait_started(min(len(ids), before + 1 + k % 9))
        assert s.stop() == 0
        assert not s.marked()
        assert len(journal.starts()) == len(journal.ends()), "running tasks finished"
        assert server.n_pending("q") == 0
        assert not server.consumers("q"), "no consumer is left"
        assert server.xlen("q") == len(ids) - len(journal.ends()), "done ones left the stream"
    s.start()
    server.wait_empty("q")
    assert journal.runs() == collections.Counter(ids)
    assert journal.most_at_once() <= 6
    assert s.stop() == 0


def test_nothing_new_is_fetched_during_a_drain(sup, server, journal, gate):
    s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 2}},
            supervisor={"workers": 1})
    s.wait_ready(1)
    server.add("q", *[b"do " + str(gate).encode()] * 5)
    journal.wait_started(2)
    s.signal(signal.SIGTERM)
    wait_until(lambda: s.status()["supervisor"]["state"] == "draining")
    stays(lambda: len(journal.starts()) == 2, 0.5)
    gate.open()
    assert s.wait_exit() == 0
    assert len(journal.ends()) == 2 and server.xlen("q") == 3


def test_leases_are_renewed_while_draining(sup, server, journal, gate):
    s = sup(queues={"q": {"handler": journal.handler(), "lease": "2s", "concurrency": 1}},
            supervisor={"workers": 1, "drain_timeout": "30s"})
    other = sup(queues=s.queues, supervisor={"workers": 1})
    s.wait_ready(1)
    other.wait_ready(1)
    ids = server.add("q", *[b"do " + str(gate).encode()] * 2)
    journal.wait_started(2)
    s.signal(signal.SIGTERM)
    stays(lambda: len(journal.starts()) == 2, 5, "no one takes over within 2.5 leases")
    gate.open()
    assert s.wait_exit() == 0
    server.wait_empty("q")
    assert journal.runs() == collections.Counter(ids)


@pytest.mark.backends("stream", "list", "partitions")
def test_at_the_limit_tasks_are_given_back_uncharged(sup, server, journal, gate):
    s = sup(queues={"q": {"handler": journal.handler(), "kill_grace": "300ms"}},
            supervisor={"workers": 1, "drain_timeout": "500ms"})
    s.wait_ready(1)
    ids = server.add("q", *[b"do " + str(gate).encode()] * 2 + [
        b"do ignore_term=1 " + str(gate).encode()])
    journal.wait_started(3)
    assert s.stop(15) == 1, "a handler was signalled at the limit"
    assert not journal.running()
    assert server.xlen("q") == 3 and not server.dead("q") and not server.delayed("q")
    gate.open()
    s.start()
    server.wait_empty("q", 15)
    again = journal.starts()[3:]
    assert sorted(e["id"] for e in again) == sorted(ids)
    assert {e["attempt"] for e in again} == {1}, "no attempt was charged"
    assert s.stop() == 0


def test_a_second_term_stops_fast(sup, server, journal, gate):
    s = sup(queues={"q": {"handler": journal.handler(), "kill_grace": "5s"}},
            supervisor={"workers": 1, "drain_timeout": "1h"})
    s.wait_ready(1)
    server.add("q", *[b"do " + str(gate).encode()] * 2)
    journal.wait_started(2)
    s.signal(signal.SIGTERM)
    wait_until(lambda: s.status()["supervisor"]["state"] == "draining")
    s.signal(signal.SIGTERM)
    assert s.wait_exit(10) in (0, 1)
    assert not s.marked() and server.xlen("q") == 2
    gate.open()
    s.start()
    server.wait_empty("q", 15)
    assert {e["attempt"] for e in journal.starts()} == {1}


def test_repeated_terms_reach_the_task_never(sup, server, journal, gate):
    s = sup(queues={"q": {"handler": journal.handler("ignore_term=1")}},
            supervisor={"workers": 1})
    s.wait_ready(1)
    server.add("q", b"do " + str(gate).encode())
    journal.wait_started(1)
    s.signal(signal.SIGTERM)
    wait_until(lambda: s.status()["supervisor"]["state"] == "draining")
    gate.open()
    assert s.wait_exit() == 0
    assert not journal.events("term")


@pytest.mark.backends("stream", "list", "partitions")
def test_stop_while_redis_is_away_ends_and_loses_nothing(sup, server, proxy, journal, gate):
    s = sup(queues={"q": {"handler": journal.handler(), "kill_grace": "300ms", "lease": "2s"}},
            redis={"url": proxy.url}, supervisor={"workers": 1, "drain_timeout": "2s",
                                                  "kill_timeout": "1s"})
    s.wait_ready(1)
    server.add("q", *[b"do " + str(gate).encode()] * 2)
    journal.wait_started(2)
    proxy.cut()
    gate.open()
    s.signal(signal.SIGTERM)
    s.wait_exit(15)
    assert not s.marked() and server.xlen("q") == 2
    proxy.heal()
    s.start()
    server.wait_empty("q", 30)
    assert set(journal.runs().values()) <= {1, 2}


def test_a_blocked_read_is_ended_at_once(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}})
    rows = s.wait_ready(2)
    wait_until(lambda: server.r.info("clients")["blocked_clients"] == 2)
    begun = time.monotonic()
    assert s.stop() == 0
    assert time.monotonic() - begun < 4, "it would have blocked for up to five seconds"
    assert not server.consumers("q") and not [w for w in rows if procs.alive(w["pid"])]


def wait_of(words):
    """ms that this read blocks, or None."""
    if words[0] in (b"BLMOVE", b"BRPOPLPUSH"):
        return int(1000 * float(words[-1]))
    return int(words[words.index(b"BLOCK") + 1]) if b"BLOCK" in words else None


@pytest.mark.parametrize("taken", ["unblock", "client"])
def test_idle_stop_without_the_right_to_unblock(sup, server, links, journal, taken):
    """It waits until the read has ended, so no read is long."""
    server.r.execute_command("ACL", "SETUSER", "w", "on", ">pw", "~*", "+@all", "-client")
    if taken == "unblock":
        server.r.execute_command("ACL", "SETUSER", "w", "+client|id", "+client|setname")
    waits = []
    links.refuse = lambda words: waits.append(wait_of(words))  # refuses none
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1},
            redis={"url": links.url, "username": "w", "password": "pw"})
    s.wait_ready(1)
    server.add("q", b"x")
    server.wait_empty("q")
    del waits[:]
    wait_until(lambda: any(waits), 20, "a read that blocks")
    assert max(w for w in waits if w) == 1000
    assert s.stop(15) == 0
    assert not server.consumers("q")
