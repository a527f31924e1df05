"""Queues that are lists: what is not the same as with a stream."""
import collections
import os
import json
import re
import signal

import pytest
import redis

from alone import Alone
from links import Links
from protocol import done, letter, protocol, retry
from redisserver import MOVE, ROOT, documented, optional
from waiting import stays, wait_until

pytestmark = pytest.mark.backends("list")
REF = b"\0redisq\0"
PAYLOADS = [b"", b"\0", REF, REF + b"1-1", REF + b"no id", b"a\0b\xff\r\n", b"x" * 70, b"*2\r\n"]


@pytest.fixture
def p(server):
    made = protocol(server)
    made.claim("me", "n1")
    return made


def queue(journal, *knobs, **keys):
    return {"q": dict({"handler": journal.handler(*knobs), "retry_delay": "50ms",
                       "retry_jitter": "0%", "lease": "2s"}, **keys)}


def dead(p, name, nonce):
    """As a worker that is gone for good: its claim has ended."""
    p.r.delete(p.claim_key(name))


# ---------------------------------------------------------------- producers

def test_what_any_producer_pushes_is_run_as_it_is_the_first_time_and_after_a_retry(
        sup, server, journal, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    s = sup(queues=queue(journal, "save=%s" % kept, "exit=1", "until=2"))
    server.lpush("q", *PAYLOADS)
    server.wait_empty("q")
    runs = journal.runs()
    assert len(runs) == len(PAYLOADS) and set(runs.values()) == {2}
    for attempt in (1, 2):
        got = [(kept / ("%s.%d" % (i, attempt))).read_bytes() for i in runs]
        assert sorted(got) == sorted(PAYLOADS)
    assert s.status()["queues"][0]["backend"] == "list"
    env = journal.starts()[0]["env"]
    assert env["REDISQ_ID"] in runs and env["REDISQ_ATTEMPT"] == "1"
    wait_until(lambda: not server.r.exists("q", server.key("q", "tasks"), server.key("q", "owners"),
                                           server.key("q", "pending")))


def test_the_oldest_is_taken_first(sup, server, journal):
    s = sup(queues=queue(journal, concurrency=1), supervisor={"workers": 1})
    s.wait_ready(1)
    server.lpush("q", *[b"do echo=%d" % i for i in range(20)])
    server.wait_empty("q")
    starts = [e["id"] for e in journal.starts()]
    assert starts == sorted(starts, key=lambda i: int(i.split("-")[1])) and len(starts) == 20


def test_a_thousand_plain_items_run_exactly_once(sup, server, journal):
    s = sup(queues=queue(journal, concurrency=8), supervisor={"workers": 3})
    s.wait_ready(3)
    server.lpush("q", *[b"do sleep=1"] * 1000)
    server.wait_empty("q", 60)
    runs = journal.runs()
    assert len(runs) == 1000 and set(runs.values()) == {1}
    assert journal.most_at_once() <= 24
    assert server.counters("q")["done"] == 1000


# ---------------------------------------------------------------- the move and the fetch

def test_what_was_moved_is_nobody_s_until_it_is_fetched_and_then_comes_first(p):
    p.server.lpush("q", b"a", b"b", b"c")
    p.r.brpoplpush("q", p.arrived, 1)
    assert p.pending() == {} and p.server.xlen("q") == 3
    got = p.fetch("me", "n1", 2)
    assert [f[1] for f in got.values()] == [b"a", b"b"]
    assert set(p.pending()) == set(got) and p.server.xlen("q") == 3
    assert p.places() == {"a": ["running"], "b": ["running"], "c": ["waiting"]}
    assert not p.r.exists(p.arrived)


def test_no_slot_for_what_was_moved_gives_it_back_in_order(p):
    p.server.lpush("q", b"a", b"b", b"c")
    for _ in range(2):
        p.r.brpoplpush("q", p.arrived, 1)
    assert p.fetch("me", "n1", 0) == {}
    assert p.r.lrange("q", 0, -1) == [b"c", b"b", b"a"]
    assert p.pending() == {} and not p.r.exists(p.arrived)


def test_a_fetch_under_a_wrong_nonce_changes_no_key(p):
    p.server.lpush("q", b"a", b"b")
    p.r.brpoplpush("q", p.arrived, 1)
    before = p.dumps()
    assert p.fetch("me", "n2", 5) is None and p.fetch("you", "n1", 5) is None
    dead(p, "me", "n1")
    assert p.fetch("me", "n1", 5) is None
    p.r.set(p.claim_key("me"), "n1 host boot 1")
    assert set(p.dumps()) == set(before)


def test_what_was_moved_to_the_dead_comes_back_at_the_handover_uncharged(p):
    p.server.lpush("q", b"ran", b"moved", b"waits")
    (ran, fields), = p.fetch("me", "n1", 1).items()
    p.r.brpoplpush("q", p.arrived, 1)
    assert p.handover("me", "n1", (ran, 1)) == [1, 1, ""]
    assert p.r.lrange("q", 0, -1) == [b"waits", b"moved"]
    assert p.r.hgetall(p.crash) == {ran.encode(): b"1:1:alone worker signal 9 SIGKILL"}
    # A move that was under way when it died: the second look.
    p.r.brpoplpush("q", p.arrived, 1)
    assert p.handover("me", "n1", charge=0) == [1, 0, ""]
    assert p.r.lrange("q", 0, -1) == [b"waits", b"moved"]


def test_what_was_moved_for_a_name_that_nobody_claims_comes_back_with_the_name_s_end(p):
    p.claim("old", "n0")
    p.server.lpush("q", b"a", b"b")
    p.r.brpoplpush("q", p.arrived, 1)
    dead(p, "old", "n0")
    assert p.delconsumer("old") == 1
    assert p.r.lrange("q", 0, -1) == [b"b", b"a"]


def test_a_move_that_comes_late_for_a_name_that_is_gone_is_not_lost(p):
    """The network still had it when its worker, the claim and the name were long gone: it lay in a
    list that nobody would ever look at, and was not counted either."""
    p.claim("old", "n0")
    dead(p, "old", "n0")
    assert p.delconsumer("old") == 1
    p.server.lpush("q", b"a", b"b")
    p.r.brpoplpush("q", p.arrived, 1)
    assert p.server.xlen("q") == 2
    assert [f[1] for f in p.fetch("me", "n1", 5).values()] == [b"a", b"b"]


def test_of_what_was_moved_for_others_a_fetch_takes_no_more_than_it_is_told(p):
    p.server.lpush("q", b"a", b"b", b"c", b"d")
    for _ in range(3):
        p.r.brpoplpush("q", p.arrived, 1)
    assert [f[1] for f in p.fetch("me", "n1", 1, moved=1).values()] == [b"a"]
    assert [f[1] for f in p.fetch("me", "n1", 5, moved=0).values()] == [b"d"]
    assert p.fetch("me", "n1", 5, moved=0) == {}
    assert [f[1] for f in p.fetch("me", "n1", 5).values()] == [b"b", b"c"]


def test_what_a_killed_worker_had_moved_aside_is_fetched_though_nobody_tells_of_its_death(
        alone_behind, server, journal):
    w, links = alone_behind
    w.wait_ready()
    wait_until(lambda: server.r.info("clients")["blocked_clients"] == 1)
    server.r.lpush("{q}:arrived", b"x")     # as a move does that comes after all
    journal.wait_started(1, 10)
    assert not server.r.exists("{q}:arrived")


def test_a_thousand_at_most_in_one_fetch_and_none_is_left_behind(p):
    p.server.lpush("q", *[b"%d" % i for i in range(1300)])
    assert len(p.fetch("me", "n1", 5000)) == 1000
    assert len(p.fetch("me", "n1", 5000)) == 300
    assert len(p.pending()) == 1300 and p.server.xlen("q") == 1300


def test_a_reference_counts_once(p):
    """A copy of one, as somebody makes who copies the list, is a payload: nothing runs twice."""
    entry, = p.add(b"t")
    item, = p.r.lrange("q", 0, -1)
    assert item == REF + entry.encode()
    p.r.lpush("q", item)
    got = p.fetch("me", "n1", 2)
    assert got[entry] == [b"payload", b"t"] and len(got) == 2
    assert [f for i, f in got.items() if i != entry] == [[b"payload", item]]
    p.r.lpush("q", item)
    other, = p.fetch("me", "n1", 1).values()
    assert other == [b"payload", item], "and so while it runs"


def test_a_payload_that_looks_like_a_reference_stays_a_payload_through_a_retry(p):
    p.server.lpush("q", REF + b"5-5")
    (entry, fields), = p.fetch("me", "n1", 1).items()
    assert fields == [b"payload", REF + b"5-5"]
    assert p.settle("me", retry((entry, 1))) == [1] and p.promote()[0] == 1
    (entry, fields), = p.fetch("me", "n1", 1).items()
    assert fields[:2] == [b"payload", REF + b"5-5"]
    assert fields[fields.index(b"redisq.attempt") + 1] == b"2"


def test_no_id_is_given_out_twice_when_somebody_has_deleted_the_last_one(p):
    p.add(b"a", b"b", b"c")
    a, b, c = p.read("me", 3)
    p.settle("me", retry(a, 10 ** 6), letter(b))
    had = {a[0], b[0], c[0]} | {i for i, _ in p.entries(p.dead)}
    p.r.delete(p.last_id)
    new = set(p.add(*[b"%d" % i for i in range(9)]))
    assert not had & new and len(new) == 9
    highest = max(int(i.split("-")[1]) for i in had)
    assert min(int(i.split("-")[1]) for i in new) > highest


@pytest.mark.parametrize("command", ["lrange", "lpush", "ltrim", "zadd", "hmset", "hdel", "set"])
def test_a_fetch_without_a_permission_loses_nothing_and_makes_no_copies(p, command):
    p.server.lpush("q", b"a", b"b")
    p.r.brpoplpush("q", p.arrived, 1)
    p.r.execute_command("ACL", "SETUSER", "poor", "reset", "on", ">x", "~*", "+@all",
                        "-" + command)
    rich, p.r = p.r, p.server.client(username="poor", password="x")
    for _ in range(3):
        with pytest.raises(redis.exceptions.RedisError):
            p.fetch("me", "n1", 2)
    p.r.close()
    p.r = rich
    assert p.pending() == {} and p.server.xlen("q") == 2
    assert [f[1] for f in p.fetch("me", "n1", 2).values()] == [b"a", b"b"]


def test_a_full_redis_is_drained(sup, server, journal):
    server.lpush("q", *[b"x"] * 50)
    s = sup(queues=queue(journal), supervisor={"workers": 2}, start=False)
    server.r.config_set("maxmemory-policy", "noeviction")
    server.r.config_set("maxmemory", 1)
    s.start()
    wait_until(lambda: server.r.llen("q") == 0 and server.n_pending("q") == 0, 40)
    assert sum(journal.runs().values()) == 50
    server.r.config_set("maxmemory", 0)


@pytest.mark.parametrize("suffix,kind", [("tasks", "list"), ("owners", "string"),
                                         ("pending", "hash"), ("letters", "string"),
                                         ("last_id", "hash"), ("dead", "list")])
def test_a_key_of_a_wrong_type_beside_the_list_changes_nothing(p, suffix, kind):
    p.server.lpush("q", b"a", b"b")
    task = (list(p.fetch("me", "n1", 1))[0], 1)
    key = p.server.key("q", suffix)
    aside = p.r.exists(key) and p.r.rename(key, "{q}aside")
    {"list": lambda: p.r.rpush(key, "x"), "string": lambda: p.r.set(key, "x"),
     "hash": lambda: p.r.hset(key, "x", "y")}[kind]()
    before = {k: v for k, v in p.dumps().items()}
    with pytest.raises(redis.exceptions.RedisError):
        p.settle("me", letter(task))
    if suffix not in ("dead", "letters"):
        with pytest.raises(redis.exceptions.RedisError):
            p.fetch("me", "n1", 1)
    assert p.dumps() == before
    p.r.delete(key)
    if aside:
        p.r.rename("{q}aside", key)
    assert p.settle("me", done(task)) == [1] and len(p.fetch("me", "n1", 1)) == 1


# ---------------------------------------------------------------- a worker

def test_without_blmove_and_client_unblock_it_waits_by_brpoplpush(sup, tmp_path, journal):
    """As before 5.0 and 6.2. A stop is prompt all the same: no wait is longer than a second."""
    from listserver import ListServer
    newer = ("BLMOVE", "LMOVE", "CLIENT", "HELLO", "ACL", "LPOS", "GETDEL", "GETEX", "COPY", "ZPOPMIN",
             "ZPOPMAX", "ZMSCORE", "HRANDFIELD", "SMISMEMBER", "FUNCTION", "FCALL", "EVAL_RO")
    old = ListServer(tmp_path, *[w for c in newer for w in ("--rename-command", c, "")])
    try:
        s = sup(server=old, queues=queue(journal), supervisor={"workers": 2})
        s.wait_ready(2)
        wait_until(lambda: old.r.info("clients")["blocked_clients"] == 2)
        # Since 7.2 a wait is counted when it has ended.
        wait_until(lambda: old.r.info("commandstats").get("cmdstat_brpoplpush", {"calls": 0})
                   ["calls"] >= 2)
        old.lpush("q", *[b"x"] * 10)
        old.wait_empty("q")
        assert sum(journal.runs().values()) == 10
        assert s.stop() == 0
    finally:
        old.close()


def test_what_a_wait_brings_is_run_and_not_given_back(sup, server, journal):
    """With fewer slots than partitions: another was due for a look, so the item went back, though
    the slot that its wait had kept was free."""
    s = sup(queues=queue(journal, partitions=3, concurrency=1), supervisor={"workers": 1})
    s.wait_ready(1)
    for k in range(30):
        wait_until(lambda: server.r.info("clients")["blocked_clients"])
        server.lpush("q:%d" % (k % 3), b"do")
        journal.wait_ended(k + 1)
    assert "cmdstat_rpush" not in server.r.info("commandstats")
    assert set(journal.runs().values()) == {1}


def test_the_name_of_something_else_is_refused(sup, server, journal):
    server.r.hset("q", "a", "b")
    s = sup(queues=queue(journal), supervisor={"workers": 1})
    assert s.wait_exit() == 78
    assert "is a hash, not a list; choose another queue name" in s.out()


@pytest.mark.backends("stream")
def test_a_stream_is_refused_by_a_list_queue_with_what_to_do(sup, server, journal):
    server.permit("+blmove", "+brpoplpush")
    server.add("q", b"x")
    s = sup(queues=queue(journal, backend="list"), supervisor={"workers": 1})
    assert s.wait_exit() == 78
    assert "is a stream, not a list; set backend = stream" in s.out()


@pytest.mark.parametrize("key,value", [("on_done", "ack"), ("start", "$")])
def test_keys_that_are_for_streams_are_refused(sup, journal, key, value):
    s = sup(queues=queue(journal, **{key: value}))
    assert s.wait_exit() == 78
    assert "%s = %s is for streams" % (key, value) in s.out()


# ---------------------------------------------------------------- redisqctl

def test_redisqctl_shows_and_moves_what_a_list_queue_has(sup, server, journal, gate):
    s = sup(queues=queue(journal, max_attempts=1, concurrency=1), supervisor={"workers": 1})
    s.wait_ready(1)
    pushed = s.ctl("push", "q", "do exit=1", check=0).out.strip()
    wait_until(lambda: server.dead("q"))
    letter, = json.loads(s.ctl("dead", "list", "q", "--json", check=0).out)
    assert letter["fields"]["redisq.id"] == pushed
    assert "exit 1" in s.ctl("dead", "show", "q", pushed, check=0).out
    assert "dead" in s.ctl("show", "q", pushed, check=0).out
    running = s.ctl("push", "q", "do " + str(gate), check=0).out.strip()
    wait_until(lambda: server.n_pending("q") == 1)
    row, = json.loads(s.ctl("pending", "q", "--json", check=0).out)
    assert row["id"] == running and row["deliveries"] == 1
    assert "running" in s.ctl("show", "q", running, check=0).out
    server.lpush("q", b"do exit=65", b"x")
    stats = json.loads(s.ctl("stats", "q", "--json", check=0).out)
    assert (stats["waiting"], stats["running"], stats["dead"], stats["accepted"]) == (2, 1, 1, 4)
    s.ctl("audit", "q", check=0)
    gate.open()
    wait_until(lambda: len(server.dead("q")) == 2)
    assert "2 dead tasks put back" in s.ctl("dead", "retry", "q", "--all", check=0).out
    wait_until(lambda: len(server.dead("q")) == 2)
    assert "dropped 2" in s.ctl("dead", "drop", "q", "--all", check=0).out
    stats = json.loads(s.ctl("stats", "q", "--json", check=0).out)
    assert stats["done"] == 2 and stats["dropped"] == 2 and stats["dead"] == 0
    assert stats["accepted"] == 4
    s.ctl("audit", "q", check=0)


def test_audit_finds_what_no_fetch_will_bring(sup, server, journal):
    s = sup(queues=queue(journal), start=False)
    server.add("q", b"a", b"b")
    server.lpush("q", b"plain", REF + b"1-1")
    assert s.ctl("-c", s.ini, "audit", "q").returncode == 0
    server.r.rpop("q")  # somebody takes a reference away
    done = s.ctl("-c", s.ini, "audit", "q")
    assert done.returncode == 1 and "1 entries are in nobody's hands" in done.out, done.out


def test_push_waits_for_the_result_and_pushes_lines(sup, server, journal):
    s = sup(queues=queue(journal), supervisor={"workers": 1})
    s.wait_ready(1)
    s.ctl("push", "q", "--wait", "x", check=0)
    out = s.ctl("push", "q", "--lines", input=b"a\nb\nc\n", check=0).out
    assert "pushed 3 tasks" in out
    server.wait_empty("q")
    assert collections.Counter(journal.runs().values()) == {1: 4}


def test_redisqctl_sees_what_a_queue_is_that_it_has_no_configuration_of(sup, server, journal):
    s = sup(queues=queue(journal), supervisor={"workers": 1})
    s.wait_ready(1)
    wait_until(lambda: server.r.exists(server.key("q", "last_id")))
    s.ctl("-s", "redis.url=" + server.url, "push", "q", "--wait", "x", check=0, config=False)
    assert sum(journal.runs().values()) == 1


def test_somebody_elses_list_is_not_written_to(sup, server, journal):
    s = sup(queues=queue(journal), supervisor={"workers": 1})
    s.wait_ready(1)
    server.permit("~celery", "~{celery}:*")
    server.r.lpush("celery", b"x")
    assert s.ctl("-s", "queue.backend=stream", "push", "celery", "y").returncode != 0
    assert server.r.lrange("celery", 0, -1) == [b"x"]


def test_quiet_leaves_the_list_alone(sup, server, journal):
    s = sup(queues=queue(journal), supervisor={"workers": 1})
    s.wait_ready(1)
    s.signal(signal.SIGTSTP)
    server.wait_unread()
    server.lpush("q", b"x")
    stays(lambda: server.r.llen("q") == 1 and not server.n_pending("q"), 0.5, "it is quiet")
    s.signal(signal.SIGCONT)
    server.wait_empty("q")




def documented_of_lists():
    """The permissions that protocol.txt gives a worker for lists."""
    with open(os.path.join(ROOT, "worker", "protocol.txt"), encoding="utf-8") as f:
        text = f.read()
    part = text[text.index("Permissions (section 12)"):]
    mine = re.search(r"(?m)^      (\+[a-z +]+)$", part).group(1).split()
    return [p for p in documented("worker") if not p.startswith("+x")] + mine


def test_a_worker_of_a_list_lives_on_the_documented_permissions(sup, server, journal):
    server.r.execute_command("ACL", "SETUSER", "w", "reset", "on", ">p", "~q", "~{q}:*", "-@all",
                             *documented_of_lists())
    s = sup(queues=queue(journal, max_attempts=2, max_crashes=2, concurrency=2, lease="2s"),
            redis={"username": "w", "password": "p"}, supervisor={"workers": 2})
    s.wait_ready(2)
    server.lpush("q", *[b"x"] * 20)
    server.add("q", b"do exit=1", b"do exit=1 until=2", b"do exit=65", b"do signal=11",
               b"do ckpt=1 exit=1 until=2", b"do parent=9 until=2")
    server.wait_empty("q", 60)
    assert len(server.dead("q")) == 4
    assert s.stop() == 0
    refused = {i["object"] for i in server.r.acl_log(1000) if i["username"] == "w"}
    may = {"blmove"} | {p[1:] for p in optional()}
    assert {o.split("|")[0] for o in refused} <= {o.split("|")[0] for o in may}, refused


def test_doctor_finds_nothing_wrong_with_a_list(sup, server, journal):
    s = sup(queues=queue(journal), supervisor={"workers": 1})
    s.wait_ready(1)
    server.lpush("q", b"x", b"do exit=65")
    wait_until(lambda: server.dead("q"))
    findings = json.loads(s.ctl("doctor", "q", "--json").out)["findings"]
    by_check = {f["check"]: f for f in findings if f.get("about", f.get("queue")) == "q"}
    assert {"types", "group", "workers", "pending", "permissions", "redisqctl"} <= set(by_check)
    assert all(f["state"] in ("fine", "note", "ok") for f in by_check.values()), by_check
    server.permit("~laravel_q")
    server.r.lpush("laravel_q", b"x")
    assert "laravel_q" in s.ctl("doctor", "q").out


# ---------------------------------------------------------------- a move under way at a stop

@pytest.fixture
def alone_behind(build, tmp_path, server, journal):
    """A worker, and the links it has."""
    links = Links(server.port)
    w = Alone(build, tmp_path, server=server, redis={"url": links.url},
              keys={"handler": journal.handler("sleep=60000"), "concurrency": 2})
    yield w, links
    w.show()
    w.close()
    links.close()


@pytest.mark.parametrize("signo,says", [(signal.SIGQUIT, "stopping (SIGQUIT)"),
                                        (signal.SIGTERM, "draining")])
def test_what_is_moved_during_a_stop_goes_back_and_is_next(alone_behind, server, journal, signo, says):
    w, links = alone_behind
    w.wait_ready()
    wait_until(lambda: server.r.info("clients")["blocked_clients"] == 1)
    links.hold(lambda words: words[0] == MOVE.encode())
    server.lpush("q", b"first", b"second")
    wait_until(lambda: links.held() and server.r.llen("q") == 1)
    w.signal(signo)
    w.wait_said(says)
    links.free()
    assert w.wait_exit(10) == 0
    assert server.r.lrange("q", 0, -1) == [b"second", b"first"] and not server.n_pending("q")
    assert journal.starts() == [] and not server.r.exists("{q}:crash")
