"""redisqctl doctor on queues that are lists, or should be: each fault has its line, and what to do."""
import json

import pytest
import redis

from listserver import ListServer
from redisserver import RedisServer
from test_doctor import Doctor, states

LIST = ("-s", "queue.backend=list")
NOBODY = "n h b 1 0 0 - -"


@pytest.fixture
def safe(tmp_path):
    s = ListServer(tmp_path, "--appendonly", "yes")
    yield s
    s.close()


@pytest.fixture
def doctor(sup, safe):
    return Doctor(sup, safe)


def dead_worker(s, seen_ms):
    """It is known, and its claim has ended; it has one task, last seen then."""
    entry = s.deliver("q", b"x", "worker_7")
    s.r.hset("{q}:names", "worker_7", NOBODY)
    s.ask("q", "XCLAIM", "q", "redisq", "worker_7", 0, entry, "TIME", seen_ms,
          "JUSTID")


def put(suffix, how):
    return lambda s: how(s.r, s.key("q", suffix))


FINDINGS = [
    (lambda s: s.lpush("q", b"x"), "workers", "1 task, and no worker is alive", "start"),
    (lambda s: s.r.lpush("{q}:arrived", b"x"), "workers", "1 task, and no worker", "start"),
    (lambda s: dead_worker(s, s.r.time()[0] * 1000 - 10 ** 8), "pending",
     "worker_7 has had no sign of life for 1d", "start workers"),
    (lambda s: dead_worker(s, 1), "pending", "1 task was given back", "start workers"),
    (lambda s: s.deliver("q", b"x", "cron-job"), "strangers", "cron-job has 1", "foreign_idle"),
    (lambda s: s.r.lpush("{q}:processing:gone", "1-1", "1-2"), "leftovers",
     "{q}:processing:gone (2 ids)", "DEL"),
    (put("owners", lambda r, k: r.set(k, "x")), "types", "{q}:owners is a string, not a hash",
     "RENAME"),
    (put("arrived", lambda r, k: r.set(k, "x")), "types", "{q}:arrived is a string, not a list",
     "RENAME"),
    (lambda s: s.r.set("q", "x"), "types", "q is a string, not a list", "RENAME"),
    (lambda s: s.add("q", b"a") and s.r.delete("q"), "account", "1 entries are in nobody's hands",
     "audit"),
    (lambda s: s.r.lpush("laravel_database_q", b"x"), "prefixes", "laravel_database_q (1",
     "Laravel"),
]


@pytest.mark.parametrize("n", range(len(FINDINGS)))
def test_a_fault_of_a_list_is_found(doctor, safe, n):
    tamper, check, says, do = FINDINGS[n]
    assert "bad" not in states(doctor.findings(*LIST))
    tamper(safe)
    rows = [row for row in doctor.findings(*LIST)[check] if row[0] == "bad"]
    assert any(says in text and do in what for _, text, what in rows), rows


def test_a_dead_worker_s_list_is_not_left_over_while_it_has_something(doctor, safe):
    dead_worker(safe, 1)
    assert doctor.findings(*LIST)["leftovers"][0][0] == "fine"


def test_another_list_of_the_name_is_no_fault_where_all_that_was_here_is_done(sup, safe, journal):
    """An idle list is none, and its workers have left the key that tells what it is."""
    s = sup(queues={"q": {"handler": journal.handler()}}, server=safe)
    s.wait_ready(2)
    safe.r.lpush("bulk_q", b"x")
    assert prefixes(s)["state"] == "bad", "nothing was ever here"
    safe.lpush("q", *[b"do"] * 3)
    journal.wait_ended(3)
    safe.wait_empty("q")
    assert prefixes(s)["state"] == "note"
    assert prefixes(s)["text"].startswith("other streams end in this name: bulk_q (")
    safe.r.delete("{q}:counters")
    assert prefixes(s)["state"] == "note", "ids were given out"


def prefixes(s):
    found = json.loads(s.ctl("doctor", "q", "--json").out)["findings"]
    return next(f for f in found if f["check"] == "prefixes")


@pytest.mark.parametrize("command", ["lpush", "rpush", "brpoplpush", "ltrim", "lrem", "lrange",
                                     "hmset", "hmget", "zrange"])
def test_a_missing_permission_for_lists_is_named_and_nothing_is_pushed(doctor, safe, command):
    safe.lpush("q", b"x")
    safe.r.execute_command("ACL", "SETUSER", "w", "on", ">p", "~*", "+@all", "-" + command)
    before = safe.r.dump("q")
    found = doctor.findings(*LIST, url=safe.url.replace("//", "//w:p@"))["permissions"][0]
    assert found[0] == "bad" and "may not use %s on" % command in found[1], found
    assert "+" + command in found[2]
    assert safe.r.dump("q") == before


def test_without_multi_nothing_is_pushed_either(doctor, safe):
    safe.lpush("q", b"x")
    safe.r.execute_command("ACL", "SETUSER", "w", "on", ">p", "~*", "+@all", "-multi")
    before = safe.r.dump("q")
    found = doctor.findings(*LIST, url=safe.url.replace("//", "//w:p@"))
    assert found["permissions"][0][0] == "fine" and "multi" in found["redisqctl"][0][1]
    assert safe.r.dump("q") == before


# ---------------------------------------------------------------- another kind than is configured

@pytest.fixture
def both(tmp_path, sup):
    s = RedisServer(tmp_path, "--appendonly", "yes")
    yield s, Doctor(sup, s)
    s.close()


def test_a_stream_of_a_queue_that_is_to_be_a_list_is_found(both):
    server, doctor = both
    server.add("q", b"x")
    state, text, do = doctor.findings(*LIST)["backend"][0]
    assert state == "bad" and "q is a stream, not a list, and backend = list: workers refuse" in text
    assert "set backend = stream" in do


def test_a_list_of_a_queue_that_is_to_be_a_stream_is_found(both, tmp_path):
    server, doctor = both
    server.r.set("{q}:last_id", "1-1")
    ini = tmp_path / "other.ini"
    ini.write_text("[redis]\nurl = %s\n[queue q]\nhandler = exec true\n" % server.url)
    said = doctor.s.ctl("-c", ini, "doctor", "q", "--json", config=False, check=1)
    row, = [f for f in json.loads(said.out)["findings"] if f["check"] == "backend"]
    assert row["state"] == "bad" and "served as a list ({q}:last_id), and backend = stream: " in row["text"]
    assert "DEL {q}:last_id" in row["do"]
    server.r.lpush("q", b"x")
    said = doctor.s.ctl("-c", ini, "doctor", "q", "--json", config=False, check=1)
    assert "backend" in {f["check"] for f in json.loads(said.out)["findings"]
                         if f["state"] == "bad"}


def test_a_list_that_producers_have_made_of_a_stream_s_queue_is_found(both):
    server, doctor = both
    server.r.lpush("q", b"x")
    state, text, do = doctor.findings()["types"][0]
    assert (state, text) == ("bad", "q is a list, not a stream") and "backend = list" in do
    with pytest.raises(redis.exceptions.ResponseError):
        server.add("q", b"y")
