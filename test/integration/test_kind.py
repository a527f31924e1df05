"""A queue that is a stream and is to be a list, or the other way round: nothing is stuck or lost."""
import json
import signal

import pytest

from redisserver import MOVE, RedisServer, documented
from waiting import wait_until


@pytest.fixture
def server(tmp_path):
    """One on which workers may serve queues of both kinds."""
    s = RedisServer(tmp_path)
    s.permit("+" + MOVE.lower(), "+lindex", "+zrevrangebyscore", *documented("list"))
    yield s
    s.close()


def queue(journal, *knobs, **keys):
    return {"q": dict({"handler": journal.handler(*knobs), "retry_delay": "1h",
                       "retry_delay_max": "1h", "lease": "2s"}, **keys)}


def add(server, backend, *payloads):
    """As producers do it."""
    if backend == "list":
        server.r.lpush("q", *payloads)
    else:
        server.add("q", *payloads)


def n_dead(server, backend):
    return server.r.zcard("{q}:dead") if backend == "list" else server.r.xlen("{q}:dead")


def other(backend):
    return "list" if backend == "stream" else "stream"


def all_keys(server):
    return {k: server.r.dump(k) for k in server.r.keys("*") if b"consumer:" not in k}


def served(sup, server, journal, backend, *payloads):
    """A supervisor whose queue has run these, and keeps what they leave."""
    s = sup(queues=queue(journal, backend=backend), supervisor={"workers": 2})
    s.wait_ready(2)
    add(server, backend, *payloads)
    journal.wait_started(len(payloads))
    wait_until(lambda: server.counters("q").get("done", 0) + server.counters("q").get("died", 0) +
               server.counters("q").get("retried", 0) == len(payloads))
    return s


# ---------------------------------------------------------------- workers refuse

@pytest.mark.parametrize("backend", ["list", "stream"])
def test_a_reload_to_the_other_kind_keeps_the_old_workers_and_loses_nothing(sup, server, journal,
                                                                           backend):
    """It was accepted: the next task ran and could not be settled, so it stayed running, and there
    was no way back."""
    s = served(sup, server, journal, backend, b"x", b"do exit=65", b"do exit=1")
    old = {w["pid"] for w in s.workers()}
    s.queues["q"]["backend"] = other(backend)
    s.write_ini()
    said = s.ctl("reload", check=1)
    want = 'q was served as a list ({q}:dead, {q}:last_id); set backend = list' \
        if backend == "list" else 'q is a stream, not a list; set backend = stream'
    assert want in said.err and "redisq.ini(5)" in said.err
    assert {w["pid"] for w in s.ready()} == old
    add(server, backend, b"x")
    journal.wait_started(4)
    wait_until(lambda: server.counters("q")["done"] == 2)
    assert n_dead(server, backend) == 1 and server.r.zcard("{q}:delayed") == 1
    s.queues["q"]["backend"] = backend
    s.write_ini()
    s.reload()
    assert s.last_reload()["ok"] and s.stop() == 0


LEFT = [
    ("stream", "{q}:dead", lambda r, k: r.zadd(k, {"1-1": 1}), "set backend = list"),
    ("stream", "{q}:held", lambda r, k: r.zadd(k, {"1-1": 1}), "set backend = list"),
    ("stream", "{q}:owners", lambda r, k: r.hset(k, "1-1", "1 1 w"), "set backend = list"),
    ("stream", "{q}:tasks", lambda r, k: r.hset(k, "1-1", b"\x90"), "set backend = list"),
    ("stream", "{q}:arrived", lambda r, k: r.lpush(k, "x"), "set backend = list"),
    ("stream", "{q}:last_id", lambda r, k: r.set(k, "1-1"),
     "set backend = list; or, as it is empty, stop its workers and DEL {q}:last_id {q}:counters"),
    ("stream", "q", lambda r, k: r.lpush(k, "x"), "set backend = list"),
    ("list", "{q}:dead", lambda r, k: r.xadd(k, {"a": "b"}), "set backend = stream"),
    ("list", "{q}:held", lambda r, k: r.xadd(k, {"a": "b"}), "set backend = stream"),
    ("list", "q", lambda r, k: r.xadd(k, {"a": "b"}), "set backend = stream"),
]


@pytest.mark.parametrize("backend,key,put,do", LEFT, ids=["%s %s" % row[:2] for row in LEFT])
def test_a_worker_refuses_what_the_other_kind_has_left(sup, server, journal, backend, key, put, do):
    put(server.r, key)
    before = all_keys(server)
    s = sup(queues=queue(journal, backend=backend), supervisor={"workers": 1})
    assert s.wait_exit() == 78
    assert any(key in line and do in line for line in s.out().splitlines()), s.out()
    assert all_keys(server) == before


def test_a_string_in_place_of_the_letters_is_no_other_kind(sup, server, journal):
    server.r.set("{q}:dead", "x")
    s = sup(queues=queue(journal), supervisor={"workers": 1})
    s.wait_ready(1)
    add(server, "stream", b"do exit=65")
    wait_until(lambda: "settling: WRONGTYPE" in s.log("q"))
    server.r.delete("{q}:dead")
    wait_until(lambda: n_dead(server, "stream") == 1)


# ---------------------------------------------------------------- the way that README names

@pytest.mark.parametrize("backend", ["list", "stream"])
def test_an_empty_queue_becomes_one_of_the_other_kind_as_the_readme_says(sup, server, journal,
                                                                        backend):
    s = served(sup, server, journal, backend, b"x", b"x", b"do exit=65")
    s.ctl("dead", "drop", "q", "--all", check=0)
    wait_until(lambda: json.loads(s.ctl("stats", "q", "--json", check=0).out)["dead"] == 0)
    s.ctl("stop", "q", check=0)
    server.r.delete(*{"list": ("{q}:last_id", "{q}:counters"),
                      "stream": ("q", "{q}:dead", "{q}:held", "{q}:counters")}[backend])
    s.queues["q"]["backend"] = other(backend)
    s.write_ini()
    s.ctl("reload", check=0)
    s.ctl("start", "q", check=0)
    s.wait_ready(2)
    add(server, other(backend), b"x", b"do exit=65")
    wait_until(lambda: n_dead(server, other(backend)) == 1 and server.counters("q").get("done") == 1)
    stats = json.loads(s.ctl("stats", "q", "--json", check=0).out)
    assert (stats["accepted"], stats["done"], stats["dead"], stats["trimmed"]) == (2, 1, 1, 0)
    s.ctl("audit", "q", check=0)
    findings = json.loads(s.ctl("doctor", "q", "--json", check=None).out)["findings"]
    assert {f["state"] for f in findings if f["queue"] == "q"} <= {"fine", "note"}
    s.signal(signal.SIGTERM)
    assert s.wait_exit() == 0


# ---------------------------------------------------------------- changed while workers serve it

@pytest.mark.parametrize("backend", ["list", "stream"])
def test_a_worker_that_cannot_read_the_queue_any_more_says_so(sup, server, journal, backend):
    """It was ready and reading, by the status, and only its own log had it otherwise."""
    s = sup(queues=queue(journal, backend=backend), supervisor={"workers": 1})
    w, = s.wait_ready(1)
    assert w["consuming"] and w["note"] is None
    with server.r.pipeline(transaction=True) as p:
        p.delete("q")
        p.xadd("q", {"payload": "x"}) if backend == "list" else p.lpush("q", "x")
        p.execute()
    wait_until(lambda: not s.workers()[0]["consuming"])
    w, = s.workers()
    assert w["state"] == "ready" and '"q" cannot be read: ' in w["note"] and "WRONGTYPE" in w["note"]
    assert "fetches nothing" in s.out() and "redisqctl doctor q" in s.ctl("status", check=0).out
    server.r.delete("q")
    add(server, backend, b"x")
    journal.wait_started(1)
    wait_until(lambda: s.workers()[0]["consuming"] and s.workers()[0]["note"] is None)
