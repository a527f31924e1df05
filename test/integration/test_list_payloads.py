"""Items of a list are bytes of strangers: each runs once, as it is, whatever it looks like; and what
somebody writes into the keys beside it harms no other task."""
import json
import random

import pytest

from protocol import done, hold, letter, protocol, release, retry
from waiting import wait_until

pytestmark = pytest.mark.backends("list")
REF = b"\0redisq\0"
JSON = '{"user": 7, "text": "\\u00e4 \\n", "nested": [{"a": null}]}'.encode()
LARGE = (bytes(range(256)) * 4096)[:-7]  # 1 MiB together with "payload", the default payload_max
# MessagePack of what stands in :tasks and :bodies; an id of the list's own; two items in one.
ENVELOPES = [b"\x92\xa7payload\xa1x", b"\x98\x92\xa7payload\xa1x\xa31-1\x01\x01\x00\x00\xa0\xa0",
             REF, REF + b"0-0", REF + b"0-1", REF + b"18446744073709551615-18446744073709551615",
             REF * 2 + b"1-1", REF + b"1-1\0", REF + b"-", b"1 0 worker_1", b"dead:nonce"]


@pytest.fixture
def p(server):
    made = protocol(server)
    made.claim("me", "n1")
    return made


def saved(where, attempt):
    return sorted(f.read_bytes() for f in where.glob("*.%d" % attempt))


@pytest.fixture
def where(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    return kept


@pytest.mark.parametrize("push", ["lpush", "rpush"])
def test_any_bytes_are_the_same_in_the_next_attempt(sup, server, journal, where, push):
    items = [b"", JSON, LARGE, b"\0" * 100, b"\r\n*1\r\n$4\r\nPING\r\n"] + ENVELOPES
    sup(queues={"q": {"handler": journal.handler("save=%s" % where, "exit=1", "until=2"),
                      "retry_delay": "20ms", "retry_jitter": "0%", "breaker_failures": 0}})
    getattr(server.r, push)("q", *items)
    server.wait_empty("q")
    assert saved(where, 1) == saved(where, 2) == sorted(items)
    assert sum(journal.runs().values()) == 2 * len(items)
    assert server.counters("q")["done"] == len(items)


@pytest.mark.parametrize("end", ["exit=1", "signal=11"])
def test_any_bytes_are_the_same_as_a_letter_and_after_it(sup, server, journal, where, end):
    items = [b"", JSON, LARGE] + ENVELOPES
    s = sup(queues={"q": {"handler": journal.handler("save=%s" % where, end), "max_attempts": 1,
                          "retry_delay": "20ms", "max_crashes": 2, "breaker_failures": 0}})
    server.lpush("q", *items)
    wait_until(lambda: len(server.dead("q")) == len(items), 30)
    assert sorted(f[b"payload"] for _, f in server.dead("q")) == sorted(items)
    for path in where.iterdir():
        path.unlink()
    s.ctl("dead", "retry", "q", "--all", check=0)
    wait_until(lambda: len(list(where.iterdir())) == len(items) == len(server.dead("q")), 5,
               lambda: "%d files, %d letters" % (len(list(where.iterdir())), len(server.dead("q"))))
    assert saved(where, 1) == sorted(items)
    s.ctl("audit", "q", check=0)


def test_one_that_is_too_large_becomes_a_letter_and_holds_up_nobody(sup, server, journal):
    sup(queues={"q": {"handler": journal.handler(), "payload_max": "64K"}})
    name = len("payload")
    server.lpush("q", b"x" * 65537, b"y" * (65536 - name), b"z")
    server.wait_empty("q")
    (_, fields), = server.dead("q")
    assert fields[b"redisq.reason"] == b"payload" and fields[b"payload"] == b"x" * 65537
    assert server.counters("q")["done"] == 2


def test_what_is_pushed_on_the_right_is_next(sup, server, journal):
    server.lpush("q", b"1", b"2", b"3")
    server.r.rpush("q", b"last", b"first")
    s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 1}},
            supervisor={"workers": 1})
    server.wait_empty("q")
    assert s.proc.poll() is None
    order = [int(e["id"].split("-")[1]) for e in journal.starts()]
    assert order == sorted(order) and len(order) == 5


# ---------------------------------------------------------------- forged references

@pytest.mark.parametrize("what", ["running", "delayed", "dead", "done", "held", "released"])
def test_a_forged_reference_brings_nobody_s_task_twice(p, what):
    p.add(b"t")
    task, = p.read("me", 1)
    p.settle("me", *{"running": [], "delayed": [retry(task, 10 ** 6)], "dead": [letter(task)],
                     "done": [done(task)], "held": [hold(task)], "released": [release(task)]}[what])
    forged = REF + task[0].encode()
    p.r.lpush("q", forged, forged)
    before = p.pending().get(task[0]), p.places().get("t")
    got = p.fetch("me", "n1", 5)
    assert list(got.values()) == [[b"payload", forged]] * 2, "what it is: two payloads"
    assert (p.pending().get(task[0]), p.places().get("t"))[1] == before[1]
    assert (p.pending().get(task[0]) or (0, 0, 0))[2] == (before[0] or (0, 0, 0))[2]
    assert p.settle("me", *[done((i, 1)) for i in got]) == [1, 1]


def test_a_forged_reference_in_front_of_the_true_one_takes_its_place_and_no_more(p):
    entry, = p.add(b"t")
    p.r.rpush("q", REF + entry.encode())
    got = p.fetch("me", "n1", 9)
    assert list(got)[0] == entry and got.pop(entry) == [b"payload", b"t"]
    assert list(got.values()) == [[b"payload", REF + entry.encode()]]


@pytest.mark.parametrize("seed", range(4))
def test_each_item_is_one_run_whatever_is_forged(p, seed):
    """A producer that writes references to all that it has ever seen; the count adds up."""
    rnd = random.Random(seed)
    pushed, ids, held = 0, ["1-1"], []
    for _ in range(400):
        what = rnd.randrange(8)
        if what < 2:
            ids += p.add(b"%d" % rnd.randrange(9))
            pushed += 1
        elif what < 4:
            push = rnd.choice([p.r.lpush, p.r.rpush])
            push("q", rnd.choice([REF + rnd.choice(ids).encode(), rnd.choice(ENVELOPES), b""]))
            pushed += 1
        elif what == 4:
            p.r.brpoplpush("q", p.arrived, 1) if p.r.llen("q") else None
        elif what < 7:
            for i in p.fetch("me", "n1", rnd.randrange(4)):
                ids.append(i)
                held.append((i, 1))
        elif held:
            task = held.pop(rnd.randrange(len(held)))
            verdict = rnd.choice([done, lambda t: retry(t, 0), lambda t: retry(t, 10 ** 6), letter])
            assert p.settle("me", verdict(task)) == [1]
            p.promote()
    for i in [i for i, _ in p.entries(p.dead)]:
        p.readd([i])
    p.r.zadd(p.delayed, {i: 1 for i in p.r.zrange(p.delayed, 0, -1)})
    while p.promote()[0]:
        pass
    while True:
        if held:
            assert set(p.settle("me", *[done(t) for t in held])) == {1}
        held = [(i, 1) for i in p.fetch("me", "n1", 1000)]
        if not held:
            break
    assert p.counter("done") == pushed
    assert p.run("audit", [p.queue, p.delayed, p.bodies, p.dead, p.held, p.counters, p.ckpt, p.crash,
                           p.progress], p.group, 10000, 1)[1] == 0
    left = {k.decode().rpartition(":")[2] for k in p.r.keys("*")}
    assert left <= {"me", "last_id", "counters", "names"}, left


# ---------------------------------------------------------------- keys beside the list

# Of :tasks: no MessagePack; half of it; a number; a map; values that are no text; nested; odd.
BODIES = [b"", b"\xc1", b"\x92\xa7payload", b"\x07", b"\x81\xa1a\xa1b", b"\x92\x01\x02",
          b"\x92\xa7payload\x92\xa1x\xa1y", b"\x92\xa7payload\xc0", b"\x92\xc3\xc2",
          b"\x91\xa7payload", b"\x91" * 100 + b"\x90", b"\xdd\xff\xff\xff\xff",
          b"\x94\xaeredisq.attempt\x91\x01\xa7payload\xa1x"]


@pytest.mark.parametrize("end", [done, retry, letter, hold, release])
def test_a_task_that_somebody_has_overwritten_comes_to_its_end(p, end):
    for body in BODIES:
        entry, = p.add(b"t")
        p.r.hset(p.tasks, entry, body)
        got = p.fetch("me", "n1", 1)
        assert list(got) == [entry]
        assert all(isinstance(f, bytes) for f in got[entry]) and len(got[entry]) % 2 == 0
        assert p.settle("me", end((entry, 1))) == [1], body
        p.promote()
        for again in p.fetch("me", "n1", 5):
            assert p.settle("me", done((again, 1))) == [1]
    assert not p.r.llen("q") and not p.r.exists(p.delayed)


def test_letters_that_somebody_has_overwritten_are_shown_and_dropped(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1})
    server.lpush("q", *[b"do exit=65"] * len(BODIES))
    wait_until(lambda: server.r.zcard("{q}:dead") == len(BODIES))
    entries = server.r.hkeys("{q}:letters")
    for entry, body in zip(entries, BODIES):
        server.r.hset("{q}:letters", entry, body)
    assert len(json.loads(s.ctl("dead", "list", "q", "--json", check=0).out)) == len(BODIES)
    for entry in entries[::4]:
        s.ctl("dead", "show", "q", entry.decode(), check=0)
    said = s.ctl("dead", "drop", "q", *[e.decode() for e in entries], check=0).out
    assert "dropped %d" % len(BODIES) in said


@pytest.mark.parametrize("value", ["", "x", "1", "1-", "-1", "1-x", "1-1-1", "9" * 40 + "-" + "9" * 40])
def test_a_last_id_that_somebody_has_overwritten_stops_nobody(p, value):
    before = p.add(b"a", b"b")
    p.r.set(p.last_id, value)
    new = p.add(b"c", b"d") + list(p.fetch("me", "n1", 4))
    assert len(set(new) - set(before)) == 2 and len(p.pending()) == 4
    assert p.places() == {c: ["running"] for c in "abcd"}


@pytest.mark.parametrize("value", ["", "x", "1 1", "x 1 me", "1 x me", "-1 1 me", "1 1 "])
def test_an_owner_that_somebody_has_overwritten_harms_no_other_task(p, value):
    p.add(b"a", b"b")
    a, b = p.read("me", 2)
    p.r.hset(p.owners, a[0], value)
    p.renew("me", "n1", a, b)
    p.scan("me")
    assert p.settle("me", done(a), done(b))[1] == 1
    assert p.counter("done") in (1, 2)
