"""redisqctl doctor: every fault has its line, which says what to do; a sound Redis has none."""
import json
import os

import pytest

from proxy import Proxy
from redisserver import RedisServer
from waiting import wait_until
from wallclock import WallClock

HERE = os.path.dirname(os.path.abspath(__file__))


class Doctor:
    def __init__(self, sup, server):
        self.s = sup(start=False, queues={"q": {"handler": "exec true"}})
        self.url = server.url

    def run(self, *args, url=None, check=None):
        return self.s.ctl("-s", "redis.url=" + (url or self.url), "doctor", *args, check=check,
                          config=False)

    def findings(self, *args, queue="q", url=None):
        """{check: [(state, text, what to do)]}, and the exit status fits."""
        done = self.run(queue, "--json", *args, url=url)
        answer = json.loads(done.out)
        found = {}
        for f in answer["findings"]:
            assert f["queue"] in (None, queue)
            assert (f["do"] is not None) == (f["state"] == "bad"), f
            found.setdefault(f["check"], []).append((f["state"], f["text"], f["do"]))
        bad = [f for f in answer["findings"] if f["state"] == "bad"]
        assert answer["ok"] == (not bad) and done.returncode == (1 if bad else 0), done.err
        return found


@pytest.fixture
def safe(tmp_path):
    """A Redis as it should be."""
    s = RedisServer(tmp_path, "--appendonly", "yes")
    yield s
    s.close()


@pytest.fixture
def doctor(sup, safe):
    return Doctor(sup, safe)


def counts_what_was_added(server):
    """From 7.0 on."""
    return server.r.xadd("somewhere", {"a": "b"}) and \
        "entries-added" in server.r.xinfo_stream("somewhere")


def states(found):
    return {state for rows in found.values() for state, _, _ in rows}


def test_nothing_is_wrong_with_a_redis_nobody_has_used(doctor):
    assert states(doctor.findings()) <= {"fine", "note"}
    done = doctor.run("q", check=0)
    lines = done.out.splitlines()
    assert lines[0].split() == ["of", "check", "finding"] and done.err == ""
    column = lines[0].index("finding")
    assert all(line[column:column + 2] in ("ok", "--") for line in lines[1:])


def test_nothing_is_wrong_with_a_queue_at_work(sup, safe, journal, gate):
    s = sup(queues={"q": {"handler": journal.handler(), "retry_delay": "1h",
                          "retry_delay_max": "1h"}}, server=safe)
    safe.add("q", b"do exit=1", b"x", b"do exit=65", *[b"do gate=%s" % gate.path.encode()] * 10)
    wait_until(lambda: len(journal.running()) == 8 and safe.dead("q") and safe.delayed("q"))
    done = s.ctl("doctor", check=0)
    for says in ("q      workers       ok 2 alive", "pending       ok 8 tasks",
                 "delayed       ok the first one is due in", "dead letters  -- 1: redisqctl dead list q\n",
                 "account       ok accepted 13 = done 1 + dead 1" if counts_what_was_added(safe)
                 else "account       ok 13 tasks in all places"):
        assert says in done.out, done.out
    gate.open()


# What somebody did to Redis, the finding, and words of it and of what to do.
def sent(*words):
    return lambda r: r.execute_command(*words)


def full(r):
    r.config_set("maxmemory", r.info("memory")["used_memory"] * 110 // 100)


def stray_consumer(r):
    r.xadd("q", {"payload": "x"})
    r.xgroup_create("q", "redisq", "0")
    r.xreadgroup("redisq", "cron-job", {"q": ">"})


def silent_worker(r):
    stray_consumer(r)
    r.hset("{q}:names", "cron-job", "n h b 1 0 0 - -")
    r.execute_command("XCLAIM", "q", "redisq", "cron-job", 0,
                      r.xpending_range("q", "redisq", "-", "+", 1)[0]["message_id"], "IDLE", 10**8)


def given_back(r):
    stray_consumer(r)
    r.hset("{q}:names", "cron-job", "n h b 1 0 0 - -")
    r.execute_command("XCLAIM", "q", "redisq", "cron-job", 0,
                      r.xpending_range("q", "redisq", "-", "+", 1)[0]["message_id"], "TIME", 1)


def second_group(r):
    r.xgroup_create("q", "redisq", "0", mkstream=True)
    r.xgroup_create("q", "analytics", "0")


def trimmed(r):
    for _ in range(9):
        r.xadd("q", {"payload": "x"}, maxlen=3, approximate=False)


BAD = [
    (sent("CONFIG", "SET", "appendonly", "no"), "persistence", "no AOF", "appendonly yes"),
    (lambda r: r.config_set("maxmemory-policy", "allkeys-lru") and r.config_set("maxmemory", 1 << 30),
     "eviction", "allkeys-lru", "noeviction"),
    (full, "memory", "nothing new is accepted", "raise maxmemory"),
    (sent("REPLICAOF", "127.0.0.1", "1"), "replicas", "a replica of 127.0.0.1:1, which it cannot",
     "its primary"),
    (sent("CONFIG", "SET", "maxclients", "2"), "clients", "of at most 2", "maxclients"),
    (sent("RPUSH", "q", "x"), "types", "q is a list, not a stream", "XADD, not LPUSH"),
    (sent("SET", "{q}:bodies", "x"), "types", "{q}:bodies is a string, not a hash", "RENAME"),
    (sent("XADD", "q", "*", "a", "b"), "group", '1 entry, and no group "redisq"', "workers"),
    (sent("XADD", "q", "*", "a", "b"), "workers", "1 task, and no worker is alive", "start"),
    (second_group, "other groups", '"analytics" reads', "on_done = ack"),
    (stray_consumer, "strangers", "cron-job has 1", "foreign_idle"),
    (silent_worker, "pending", "cron-job has had no sign of life for 1d", "start workers"),
    (given_back, "pending", "1 task was given back and waits", "start workers"),
    (sent("ZADD", "{q}:delayed", 1000, "1-1"), "delayed", "was due", "are they alive"),
    (sent("XADD", "laravel_database_q", "*", "a", "b"), "prefixes", "laravel_database_q (1", "Laravel"),
    (trimmed, "account", "6 were removed from the stream before they ran", "audit"),
    (sent("HSET", "{q}:bodies", "1-1", "x"), "account", "bodies of delayed tasks belong to", "audit"),
    (sent("HSET", "{q}:crash", "1-1", "x"), "account", "crash records belong to no task", "audit"),
    (sent("HSET", "{q}:ckpt", "1-1", "x"), "account", "checkpoints belong to no task", "audit"),
    (sent("HSET", "{q}:progress", "1-1", "x"), "account", "notes of progress belong to", "audit"),
]


@pytest.mark.parametrize("n", range(len(BAD)))
def test_a_fault_is_found(doctor, safe, n):
    tamper, check, says, do = BAD[n]
    assert "bad" not in states(doctor.findings())
    tamper(safe.r)
    rows = [row for row in doctor.findings()[check] if row[0] == "bad"]
    if "removed" in says and not counts_what_was_added(safe):
        assert not rows
        return
    assert any(says in text and do in what for _, text, what in rows), rows


def test_a_failed_save_is_found(doctor, safe):
    os.mkdir(os.path.join(safe.dir, "dump.rdb"))  # in the way of the file
    safe.r.bgsave()
    wait_until(lambda: safe.r.info("persistence")["rdb_last_bgsave_status"] == "err")
    state, text, do = doctor.findings()["persistence"][0]
    assert (state, text) == ("bad", "the last save failed") and "log" in do


def test_many_dead_letters_are_found(doctor, safe):
    for _ in range(9):
        safe.r.xadd("{q}:dead", {"a": "b"})
    assert doctor.findings("-s", "queue.dead_max=100")["dead letters"][0][0] == "note"
    assert doctor.findings("-s", "queue.dead_max=10")["dead letters"][0][0] == "bad"


def test_another_stream_of_the_name_is_no_fault_where_this_one_is_in_use(doctor, safe):
    safe.add("q", b"x")
    safe.add("my_q", b"x")
    assert doctor.findings()["prefixes"] == [("note", "other streams end in this name: my_q "
                                              "(1 entry)", None)]


def test_a_stream_with_a_prefix_is_found_where_nothing_else_may_be_done_with_it(doctor, safe):
    safe.add("laravel_database_q", b"x")
    safe.r.execute_command("ACL", "SETUSER", "w", "on", ">p", "~q", "~{q}:*", "+@all")
    found = doctor.findings(url=safe.url.replace("//", "//w:p@"))["prefixes"]
    assert found[0][:2] == ("bad", "nothing was ever here, but in laravel_database_q (no access)")


def test_another_stream_of_the_name_is_no_fault_where_all_that_was_here_is_done(sup, safe, journal):
    """What is done is deleted: an idle queue's stream is as empty as one that was never used."""
    s = sup(queues={"q": {"handler": journal.handler()}}, server=safe)
    safe.add("bulk_q", b"x")
    s.wait_ready(2)
    assert findings_of(s)["prefixes"]["state"] == "bad", "nothing was ever here"
    safe.add("q", *[b"do"] * 3)
    journal.wait_ended(3)
    safe.wait_empty("q")
    found = findings_of(s)["prefixes"]
    assert found["state"] == "note"
    assert found["text"].startswith("other streams end in this name: bulk_q (")


def findings_of(s, *args):
    found = json.loads(s.ctl("doctor", *args, "--json").out)["findings"]
    return {f["check"]: f for f in found}


@pytest.mark.parametrize("trace", ["stream", "counters", "delayed", "dead", "held"])
def test_whatever_a_task_leaves_behind_tells_that_the_queue_was_used(doctor, safe, trace):
    safe.add("bulk_q", b"x")
    assert doctor.findings()["prefixes"][0][0] == "bad"
    if trace == "stream":
        safe.r.xdel("q", safe.r.xadd("q", {"payload": "x"}))
    elif trace == "counters":
        safe.r.hset("{q}:counters", "done", 1)
    elif trace == "delayed":
        safe.r.zadd("{q}:delayed", {"1-1": 10**14})
    else:
        safe.r.xadd("{q}:" + trace, {"payload": "x"})
    assert doctor.findings()["prefixes"][0][0] == "note"


def test_another_stream_of_the_name_that_is_empty_is_fine(doctor, safe):
    """It may be a queue of another supervisor, idle as this one is."""
    safe.r.xgroup_create("bulk_q", "redisq", "0", mkstream=True)
    state, text, _ = doctor.findings()["prefixes"][0]
    assert state == "fine" and text.startswith("other streams whose name ends in this one are empty")
    safe.add("bulk_q", b"x")
    assert doctor.findings()["prefixes"][0][0] == "bad"


def test_of_partitions_one_that_was_used_tells_of_all(doctor, safe):
    args = ("-s", "queue.partitions=3")
    safe.add("bulk_q:0", b"x")
    assert doctor.findings(*args)["prefixes"][0][0] == "bad"
    safe.r.xdel("q:2", safe.r.xadd("q:2", {"payload": "x"}))
    assert doctor.findings(*args)["prefixes"][0][0] == "note"


def test_names_of_any_bytes_are_looked_for_as_they_are(doctor, safe):
    safe.add("x*[q]?\\", b"x")
    safe.add("xyz[q]?\\", b"x")
    found = doctor.findings(queue="*[q]?\\")["prefixes"]
    assert found[0][0] == "bad" and "x*[q]?\\" in found[0][1] and "xyz" not in found[0][1]


@pytest.mark.parametrize("ahead,state,says", [(0, "fine", "within"), (3600, "bad", "behind"),
                                              (-3600, "bad", "ahead of")])
def test_a_clock_that_is_wrong_is_found(doctor, build, tmp_path, ahead, state, says):
    clock = WallClock(build, tmp_path / "clock")
    clock.set(ahead)
    doctor.s.env.update(clock.env(doctor.s.env["ASAN_OPTIONS"]))
    clock = doctor.findings()["clock"][0]
    assert clock[0] == state and says in clock[1]


def test_what_cannot_be_asked_is_not_known(doctor, safe):
    safe.r.execute_command("ACL", "SETUSER", "w", "on", ">p", "~q", "~{q}:*", "-@all", "+ping")
    url = safe.url.replace("//", "//w:p@")
    found = doctor.findings(url=url)
    for check in ("INFO", "clock", "group", "workers", "delayed", "dead letters", "account", "prefixes"):
        assert found[check][0][0] == "unknown" and "no permissions" in found[check][0][1], check
    assert found["permissions"][0][0] == "bad"
    assert "may not use evalsha, eval, time, type on q, xlen on q" in found["permissions"][0][1]
    assert found["permissions"][0][2].startswith("grant it: ACL SETUSER ... +evalsha +eval")
    assert "p@" not in json.dumps(found), "no secrets"


@pytest.mark.parametrize("words,says,do", [
    (("+@all", "-xack"), "may not use xack on q", "+xack"),
    (("+@all", "resetkeys", "~q"), "no access to {q}:delayed, {q}:bodies", "~{q}:*"),
])
def test_a_missing_permission_is_named(doctor, safe, words, says, do):
    safe.r.execute_command("ACL", "SETUSER", "w", "on", ">p", "~*", *words)
    state, text, what = doctor.findings(url=safe.url.replace("//", "//w:p@"))["permissions"][0]
    assert state == "bad" and says in text and do in what


def test_nobody_is_disconnected_by_it(doctor, safe):
    """CLIENT KILL ID 0 means all of them before Redis 7.0."""
    me = safe.r.client()
    mine = me.client_id()
    doctor.run("q")
    assert me.client_id() == mine
    me.close()


def test_nothing_is_changed_by_it(doctor, safe):
    given_back(safe.r)
    safe.r.zadd("{q}:delayed", {"1-1": 1})
    def dumps():
        return {k: safe.r.dump(k) for k in safe.r.keys()}
    before = dumps()
    doctor.run("q", check=1)
    assert dumps() == before


def test_a_managed_service_that_refuses_all_but_its_data_is_examined(sup, tmp_path):
    refused = [w for name in ("CLIENT", "CONFIG", "COMMAND", "INFO", "ACL", "SCRIPT")
               for w in ("--rename-command", name, "")]
    server = RedisServer(tmp_path, *refused)
    try:
        found = Doctor(sup, server).findings()
        assert states(found) <= {"fine", "note", "unknown"}
        assert found["INFO"][0][0] == "unknown"
        assert "client|unblock (" in found["commands"][0][1]
        assert found["permissions"][0][0] == "fine"
    finally:
        server.close()


def test_a_redis_that_is_far_away_is_found(doctor, safe):
    p = Proxy(safe.port)
    try:
        p.delay = 0.015
        url = "redis://127.0.0.1:%d/0" % p.port
        assert doctor.findings(url=url)["distance"][0][0] == "bad"
    finally:
        p.close()


def test_a_redis_that_does_not_answer_is_said_in_one_line(doctor):
    done = doctor.run("q", url="redis://127.0.0.1:1", check=69)
    assert done.out == "" and done.err.count("\n") == 1
