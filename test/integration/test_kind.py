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


# ---------------------------------------------------------------- redisqctl

@pytest.fixture
def ctl(sup, server, tmp_path):
    """ctl(backend, verb...): with a file that says what q is. No supervisor runs."""
    s = sup(queues={}, start=False)

    def run(backend, *args, check=0, **how):
        ini = tmp_path / (backend + ".ini")
        ini.write_text("[redis]\nurl = %s\n[queue q]\nhandler = exec true\nbackend = %s\n" %
                       (server.url, backend))
        return s.ctl("-c", ini, *args, check=check, config=False, **how)
    run.supervisor = s
    yield run


def serve_list(server, n_dead=1):
    """What an empty list leaves behind, with dead letters."""
    server.r.set("{q}:last_id", "1700000000000-1")
    for n in range(n_dead):
        server.r.zadd("{q}:dead", {"1700000000000-%d" % n: n})
        server.r.hset("{q}:letters", "1700000000000-%d" % n, b"\x92\xa1a\xa1b")


@pytest.mark.parametrize("verb", [("audit", "q"), ("dead", "list", "q"), ("dead", "show", "q", "1-1"),
                                  ("stats", "q")])
def test_redisqctl_says_what_lies_there_and_what_to_do(ctl, server, verb):
    """It was WRONGTYPE, as Redis says it, or numbers that were not true."""
    serve_list(server)
    server.add("q", b"x")
    for backend in "stream", "list":
        err = ctl(backend, *verb, check=1).err
        assert err == ("redisqctl: q was served as a list ({q}:dead, {q}:last_id); RENAME q {q}:aside "
                       "and set backend = list; to change it, empty it first: see backend in "
                       "redisq.ini(5)\n")


def test_doctor_says_who_made_the_dead_letters_and_how_to_get_at_them(ctl, server):
    """It said to move them away."""
    serve_list(server)
    server.add("q", b"x")
    found = json.loads(ctl("stream", "doctor", "q", "--json", check=1).out)["findings"]
    row, = [f for f in found if f["check"] == "types"]
    assert row["state"] == "bad" and row["text"] == "{q}:dead is a zset, not a stream"
    assert row["do"].startswith("workers for lists made it: RENAME q {q}:aside and set backend = list")
    # As it says:
    server.r.rename("q", "{q}:aside")
    assert "1700000000000-0" in ctl("list", "dead", "list", "q").out
    ctl("list", "dead", "drop", "q", "--all")
    found = json.loads(ctl("stream", "doctor", "q", "--json", check=1).out)["findings"]
    row, = [f for f in found if f["check"] == "backend"]
    assert "as it is empty, stop its workers and DEL {q}:last_id {q}:counters" in row["do"]


def test_doctor_says_that_a_stream_was_a_list_though_all_is_of_its_type(ctl, server):
    server.add("q", b"x")
    server.r.set("{q}:last_id", "1-1")
    found = json.loads(ctl("stream", "doctor", "q", "--json", check=1).out)["findings"]
    row, = [f for f in found if f["check"] == "backend"]
    assert (row["state"], row["do"]) == ("bad", "stop its workers and DEL {q}:last_id {q}:counters")


@pytest.mark.parametrize("lines", [False, True])
def test_push_adds_only_to_what_the_queue_is_to_be(ctl, server, lines):
    """It added entries to the stream that somebody had made of a list, which no worker reads."""
    how = ("--lines",) if lines else ("y",)
    server.add("q", b"x")
    before = server.r.dump("q")
    err = ctl("list", "push", "q", *how, input=b"y\nz\n", check=1).err
    assert "q is a stream, not a list; set backend = stream" in err
    server.r.set("{q}:last_id", "1-1")
    err = ctl("list", "push", "q", *how, input=b"y\nz\n", check=1).err
    assert "producers must LPUSH, not XADD" in err
    err = ctl("stream", "push", "q", *how, input=b"y\nz\n", check=1).err
    assert "q was served as a list ({q}:last_id); stop its workers and DEL {q}:last_id" in err
    assert server.r.dump("q") == before
    server.r.delete("q")
    err = ctl("stream", "push", "q", *how, input=b"y\nz\n", check=1).err
    assert "q was served as a list ({q}:last_id); set backend = list" in err
    assert not server.r.exists("q")


@pytest.mark.parametrize("lines", [False, True])
def test_push_to_a_list_of_somebody_s_says_what_it_is(ctl, server, lines):
    server.r.lpush("q", "x")
    how = ("--lines",) if lines else ("y",)
    err = ctl("stream", "push", "q", *how, input=b"y\nz\n", check=1).err
    assert "q is a list, not a stream; set backend = list" in err and "WRONGTYPE" not in err
    assert server.r.lrange("q", 0, -1) == [b"x"]


def test_push_makes_a_list_of_a_queue_that_is_to_be_one(ctl, server):
    ctl("list", "push", "q", "y")
    assert server.r.type("q") == b"list" and server.r.llen("q") == 1
    server.r.delete("q")
    ctl("list", "push", "q", "y")
    assert server.r.type("q") == b"list"


def test_stats_and_audit_say_the_same_of_what_a_list_has_accepted(ctl, server):
    """stats had a number, and audit said that there is none."""
    ctl("list", "push", "q", "--lines", input=b"y\nz\n")
    head, row = ctl("list", "stats", "q").out.splitlines()
    assert dict(zip(head.split(), row.split()))["accepted"] == "-"
    assert "how many were accepted cannot be told" in ctl("list", "audit", "q").out
    assert json.loads(ctl("list", "stats", "q", "--json").out)["accepted"] == 2


def test_no_number_is_less_than_nothing_when_the_stream_is_younger_than_the_counters(ctl, server):
    """accepted was -9."""
    server.r.hset("{q}:counters", mapping={"done": 10, "readded": 10})
    server.add("q", b"x")
    said = json.loads(ctl("stream", "stats", "q", "--json").out)
    assert said["accepted"] == 11 and said["trimmed"] == 0
