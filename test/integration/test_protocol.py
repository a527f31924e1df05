"""The protocol with Redis: each script answers as its head says, and the invariants hold."""
import pytest

from protocol import (FOREIGN, LEASE, RELEASED, protocol, crash, done, hold, letter, plain, refused,
                      release, retry)
from waiting import wait_until


BACKENDS = ("stream", "list")


@pytest.fixture
def p(server):
    return protocol(server)


@pytest.fixture
def me(p):
    assert p.claim("me", "n1") == [1, 0]
    return "me"


def one(p, me, payload=b"t"):
    """A task running here: (id, token)."""
    p.add(payload)
    task, = p.read(me, 1)
    return task


# ---------------------------------------------------------------- claim

def test_claim_takes_a_free_name_and_a_replay_changes_nothing(p):
    assert [p.claim("a", "n1") for _ in range(3)] == [[1, 0]] * 3
    assert p.r.get(p.claim_key("a")) == b"n1 host boot 1"
    assert 0 < p.r.pttl(p.claim_key("a")) <= LEASE
    assert p.r.hget(p.names, "a") == b"n1 host boot 1"


@pytest.mark.parametrize("holder", ["n2 host boot 9", "dead:n1", "dead:n2", "n1x host"])
def test_claim_names_the_holder(p, holder):
    p.r.set(p.claim_key("a"), holder)
    before = p.dumps()
    assert p.claim("a", "n1") == [0, holder]
    assert p.dumps() == before


def test_claim_leaves_a_name_alone_that_has_pending_entries(p):
    one(p, "a")
    before = p.dumps()
    assert p.claim("a", "n1") == [-1, 1]
    assert p.dumps() == before
    p.r.set(p.claim_key("a"), "n1 host boot 1")
    assert p.claim("a", "n1") == [1, 0]  # its own, whatever is pending


# ---------------------------------------------------------------- renew

def test_renew_answers_for_each_entry_and_tells_the_extras(p, me):
    p.add(*[b"%d" % i for i in range(6)])
    kept, gone, others, deleted, counted, extra = p.read(me, 6)
    p.raw("XACK", p.queue, p.group, gone[0])
    p.make_idle("you", 0, others[0])
    p.make_idle(me, 5000, kept[0], extra[0])
    p.raw("XDEL", p.queue, deleted[0])
    ok, redis_ms, answers, extras = p.renew(me, "n1", kept, gone, others, deleted, (counted[0], 7))
    assert ok == 1 and answers == [1, 0, -1, 2, -1]
    assert abs(int(redis_ms) - int(p.r.time()[0]) * 1000) < 5000
    assert extras[0] == extra[0] and extras[1] >= 5000 and extras[2] == 1 and len(extras) == 3
    pending = p.pending()
    assert pending[kept[0]][1] < 5000 and pending[kept[0]][2] == 1
    assert pending[extra[0]][1] >= 5000  # not asked for: not renewed
    assert pending[others[0]][0] == "you"


def test_renew_is_fenced_by_another_nonce_and_by_a_tombstone(p, me):
    task = one(p, me)
    for holder in ("n2 host", "dead:n1"):
        p.r.set(p.claim_key(me), holder)
        before = p.dumps()
        assert p.renew(me, "n1", task) == [0]
        assert p.dumps() == before


def test_renew_prolongs_the_claim_sets_a_lost_one_and_writes_a_new_record(p, me):
    key = p.claim_key(me)
    p.r.pexpire(key, 100)
    p.renew(me, "n1")
    assert p.r.pttl(key) > 100
    p.r.delete(key, p.names)
    p.renew(me, "n1")
    assert p.r.get(key) == b"n1 host boot 1" and p.r.hget(p.names, me) == b"n1 host boot 1"
    p.renew(me, "n1", record="n1 host boot 2")
    assert p.r.get(key) == b"n1 host boot 2" and p.r.pttl(key) > 100


def test_renew_reaches_beyond_its_window_and_a_thousand_entries(p, me):
    p.add(*[b"x"] * 2500)
    tasks = p.read(me, 2500)
    p.make_idle(me, 7000, *[i for i, _ in tasks])
    _, _, answers, extras = p.renew(me, "n1", *tasks, window=10)
    assert answers == [1] * 2500 and extras == []
    assert max(idle for _, idle, _ in p.pending().values()) < 7000
    assert set(p.counts().values()) == {1}


def test_a_survivor_takes_the_suspicion_of_a_crash_back_once(p, me):
    task = one(p, me)
    p.claim("you", "n2")
    p.make_idle(me, 3 * LEASE, task[0])
    assert p.take("you", "n2", (task[0], me, 1))[task[0]][0] == 2
    assert p.r.hget(p.crash, task[0]) == b"1:1:stale"
    for _ in range(3):
        assert p.renew(me, "n1", task)[2] == [-1]
        assert p.r.hget(p.crash, task[0]) == b"0:1:repaid"
    p.r.hset(p.crash, task[0], "2:1:worker signal 9")
    p.renew(me, "n1", task)
    assert p.r.hget(p.crash, task[0]) == b"2:1:worker signal 9"  # a crash that was seen


# ---------------------------------------------------------------- scan

def test_scan_finds_what_was_let_go_of_and_writes_nothing(p, me):
    p.claim("old", "n0")
    p.add(*[b"%d" % i for i in range(7)])
    (mine, _), = p.read(me, 1)
    young, stale, let_go = [i for i, _ in p.read("old", 3)]
    f_young, f_stale, f_let_go = [i for i, _ in p.read("stranger", 3)]
    p.make_idle(me, 9 * FOREIGN, mine)
    p.make_idle("old", LEASE - 5000, young)
    p.make_idle("old", LEASE, stale)
    p.make_idle("stranger", LEASE, f_young)
    p.make_idle("stranger", FOREIGN, f_stale)
    p.settle("old", release((let_go, 1)))
    p.settle("stranger", release((f_let_go, 1)))
    before = p.dumps()
    last, rows = p.scan(me)
    assert p.dumps() == before
    assert last == ""
    assert {(i, owner, count) for i, owner, _, count in rows} == {
        (stale, "old", 1), (let_go, "old", 1), (f_stale, "stranger", 1),
        (f_let_go, "stranger", 1)}
    assert {i for i, _, idle, _ in rows if idle > RELEASED} == {let_go, f_let_go}


def test_scan_finds_again_what_we_released_ourselves(p, me):
    task, other = one(p, me), one(p, me)
    p.make_idle(me, 9 * LEASE, other[0])
    p.settle(me, release(task))
    assert [row[:2] + row[3:] for row in p.scan(me)[1]] == [(task[0], me, 1)]
    assert p.take(me, "n1", (task[0], me, 1), stale=0)[task[0]][0] == 2
    assert p.scan(me)[1] == [] and not p.r.exists(p.crash)


def test_scan_pages_through_everything_once(p, me):
    p.claim("old", "n0")
    p.add(*[b"x"] * 1203)
    ids = [i for i, _ in p.read("old", 1203)]
    p.make_idle("old", LEASE, *ids)
    seen, start = [], "-"
    while start:
        start, rows = p.scan(me, start)
        seen += [r[0] for r in rows]
    assert seen == ids


# ---------------------------------------------------------------- take

@pytest.mark.parametrize("idle,claimed,allowed,taken", [
    (LEASE - 5000, False, 1, False), (LEASE, False, 1, True), (LEASE, False, 0, False),
    (LEASE, True, 1, False), (2 * LEASE, True, 1, False), (3 * LEASE, True, 1, True),
    (3 * LEASE, True, 0, False)])
def test_take_of_a_stale_entry_follows_the_rules(p, me, idle, claimed, allowed, taken):
    p.claim("old", "n0")
    task = one(p, "old", b"x")
    if not claimed:
        p.r.delete(p.claim_key("old"))
    p.make_idle("old", idle, task[0])
    before = p.dumps()
    got = p.take(me, "n1", (task[0], "old", 1), stale=allowed)
    if not taken:
        assert got == {} and p.dumps() == before
        return
    assert got == {task[0]: (2, [b"payload", b"x"])}
    assert p.pending()[task[0]][0::2] == (me, 2)
    assert p.r.hget(p.crash, task[0]) == b"1:1:stale"


@pytest.mark.parametrize("idle,taken", [(3 * LEASE, False), (FOREIGN, True)])
def test_take_from_a_consumer_that_was_never_ours_waits_for_foreign_idle(p, me, idle, taken):
    task = one(p, "stranger")
    p.make_idle("stranger", idle, task[0])
    assert bool(p.take(me, "n1", (task[0], "stranger", 1))) == taken


def test_take_of_a_released_entry_is_free_and_at_once(p, me):
    p.claim("old", "n0")
    task = one(p, "old")
    p.settle("old", release(task))
    assert p.take(me, "n1", (task[0], "old", 1), stale=0)[task[0]][0] == 2
    assert not p.r.exists(p.crash)
    before = p.dumps()
    assert p.take(me, "n1", (task[0], "old", 1)) == {}  # a late copy
    assert p.dumps() == before


def test_take_of_an_own_entry_charges_nothing(p, me):
    task = one(p, me)
    assert p.take(me, "n1", (task[0], me, 1), stale=0)[task[0]][0] == 2
    assert not p.r.exists(p.crash)


def test_take_charges_once_per_token(p, me):
    p.claim("old", "n0")
    task = one(p, "old")
    p.r.delete(p.claim_key("old"))
    p.make_idle("old", LEASE, task[0])
    p.r.hset(p.crash, task[0], "1:1:worker signal 9")  # charged by the supervisor
    p.take(me, "n1", (task[0], "old", 1))
    assert p.r.hget(p.crash, task[0]) == b"1:1:worker signal 9"
    p.make_idle(me, LEASE, task[0])
    p.r.delete(p.claim_key(me))
    p.claim("you", "n2")
    p.take("you", "n2", (task[0], me, 2))
    assert p.r.hget(p.crash, task[0]) == b"2:2:stale"


def test_take_acknowledges_a_ghost(p, me):
    task = one(p, "old")
    p.r.hset(p.crash, task[0], "1:0:stale")
    p.settle("old", release(task))
    p.raw("XDEL", p.queue, task[0])
    assert p.take(me, "n1", (task[0], "old", 1)) == {}
    assert p.pending() == {} and not p.r.exists(p.crash)


def test_take_of_many_at_once(p, me):
    p.claim("old", "n0")
    p.add(*[b"x"] * 1100)
    tasks = p.read("old", 1100)
    p.settle("old", *[release(t) for t in tasks])
    got = p.take(me, "n1", *[(i, "old", 1) for i, _ in tasks])
    assert len(got) == 1100 and set(p.counts().values()) == {2}


# ---------------------------------------------------------------- settle

def test_settle_done_leaves_nothing_but_a_count(p, me):
    task = one(p, me)
    p.r.hset(p.ckpt, task[0], "7")
    p.r.hset(p.crash, task[0], "1:0:x")
    assert p.settle(me, done(task)) == [1]
    for _ in range(3):
        assert p.settle(me, done(task)) == [0]
    assert p.places() == {} and p.pending() == {}
    assert p.r.hgetall(p.counters) == {b"done": b"1"}
    assert not p.r.exists(p.ckpt, p.crash)


@pytest.mark.parametrize("verdict", [retry, crash, letter, hold])
def test_settle_says_when_the_entry_was_deleted(p, me, verdict):
    task = one(p, me)
    p.raw("XDEL", p.queue, task[0])
    assert p.settle(me, verdict(task)) == [2]
    assert p.settle(me, verdict(task)) == [0]
    assert p.pending() == {} and p.places() == {}
    assert not p.r.exists(p.delayed, p.bodies, p.dead, p.held)


def test_settle_of_a_batch_answers_for_each(p, me):
    p.add(*[b"%d" % i for i in range(7)])
    t = p.read(me, 7)
    p.make_idle("you", 0, t[1][0])
    assert p.settle(me, done(t[0]), done(t[1]), retry(t[2]), letter(t[3]), hold(t[4]),
                    release(t[5]), done((t[6][0], 2)), done(("9-9", 1))) == [
                        1, -1, 1, 1, 1, 1, -1, 0]
    assert p.places() == {"1": ["running"], "2": ["delayed"], "3": ["dead"], "4": ["held"],
                          "5": ["running"], "6": ["running"]}
    assert p.pending()[t[5][0]][1] > RELEASED


def test_a_task_named_twice_in_one_batch_is_settled_once(p, me):
    task = one(p, me)
    assert p.settle(me, retry(task), letter(task), done(task)) == [1, 0, 0]
    assert p.places() == {"t": ["delayed"]}
    assert p.counter("done") == 0 and p.counter("retried") == 1


def test_settle_of_thousands_is_paged(p, me):
    p.add(*[b"x"] * 2300)
    tasks = p.read(me, 2300)
    assert p.settle(me, *[done(t) for t in tasks]) == [1] * 2300
    assert p.places() == {} and p.pending() == {} and p.counter("done") == 2300


@pytest.mark.backends("stream")
def test_with_on_done_ack_the_stream_is_never_shortened(p, me):
    p.keep = 1
    p.add(*[b"%d" % i for i in range(4)])
    a, b, c, d = p.read(me, 4)
    assert p.settle(me, done(a), retry(b), letter(c), hold(d)) == [1] * 4
    assert p.raw("XLEN", p.queue) == 4
    assert p.pending() == {}
    assert p.promote()[0] == 1 and p.raw("XLEN", p.queue) == 5
    assert len(p.entries(p.dead)) == len(p.entries(p.held)) == 1


def test_dead_letters_beyond_dead_max_are_dropped_oldest_first_and_counted(p, me):
    p.dead_max = 3
    p.add(*[b"%d" % i for i in range(8)])
    tasks = p.read(me, 8)
    assert p.settle(me, *[letter(t) for t in tasks]) == [1] * 8
    assert sorted(p.places()) == ["5", "6", "7"]
    assert p.counter("dropped") == 5 and p.counter("died") == 8
    p.r.zadd(p.delayed, {"1-1": 0})
    p.promote()
    assert p.counter("dropped") == 6 and p.raw("XLEN", p.dead) == 3


# ---------------------------------------------------------------- crashes

def test_crashes_are_counted_until_max_crashes(p, me):
    p.add(b"x")
    due = []
    for n in (1, 2):
        task, = p.read(me, 1)
        assert p.settle(me, crash(task, delay=100, cap=150)) == [1]
        body = p.body(task[0])
        assert body["crash"] == "%d:0:signal 9" % n  # the token belonged to the entry left behind
        assert body["attempt"] == "1"  # a crash is no attempt
        due.append(int(body["due"]))
        p.r.zadd(p.delayed, {task[0]: 0})
        assert p.promote()[0] == 1
        new, = [i for i, _ in p.entries(p.queue)]
        assert p.r.hget(p.crash, new) == b"%d:0:signal 9" % n
    task, = p.read(me, 1)
    assert p.settle(me, crash(task, most=3, more=("redisq.reason", "crashes"))) == [1]
    (_, fields), = p.entries(p.dead)
    assert b"redisq.reason" in fields and not p.r.exists(p.crash)
    assert p.counter("died") == 1 and p.counter("retried") == 2


def test_a_crash_is_charged_once_per_token(p, me):
    for charged, token, then in (("2:1:stale", 1, "2:0:"), ("2:0:x", 1, "3:0:")):
        task = one(p, me)
        p.r.hset(p.crash, task[0], charged)
        p.settle(me, crash((task[0], token), most=9))
        assert p.body(task[0])["crash"].startswith(then)


@pytest.mark.parametrize("follow,most,place", [
    ("retry", 1, "dead"), ("retry", 2, "delayed"), ("dead", 9, "dead"), ("hold", 9, "held")])
def test_where_a_crash_leads(p, me, follow, most, place):
    task = one(p, me)
    p.settle(me, crash(task, follow=follow, most=most, more=("redisq.reason", "crashes")))
    assert p.places() == {"t": [place]}


@pytest.mark.parametrize("crashes,jitter,delay", [(0, 0, 100), (1, 0, 200), (2, 0, 400),
                                                  (5, 0, 500), (1, 50, 300), (1, -50, 100)])
def test_crashes_back_off(p, me, crashes, jitter, delay):
    task = one(p, me)
    p.r.hset(p.crash, task[0], "%d:0:x" % crashes)
    s, us = p.r.time()
    p.settle(me, crash(task, delay=100, cap=500, jitter=jitter, most=99))
    later = p.r.time()
    due = int(p.body(task[0])["due"])
    assert s * 1000 + us // 1000 + delay <= due <= later[0] * 1000 + later[1] // 1000 + delay


# ---------------------------------------------------------------- retry and promote

def test_a_task_keeps_its_history_through_retries(p, me):
    first, = p.add(b"x")
    task, = p.read(me, 1)
    p.make_idle(me, LEASE, task[0])
    p.take(me, "n1", (task[0], me, 1))  # deliveries of this entry: 2
    p.r.hset(p.ckpt, task[0], "half")
    p.settle(me, retry((task[0], 2), 0, 2, 0))
    assert p.promote()[0] == 1
    (second, fields), = p.entries(p.queue)
    assert p.r.hget(p.ckpt, second) == b"half"
    assert plain(fields) == ["payload", "x", "redisq.id", first, "redisq.attempt", "2",
                             "redisq.deliveries", "2", "redisq.snoozes", "0",
                             "redisq.enqueued_at", first.split("-")[0]]
    task, = p.read(me, 1)
    p.settle(me, retry(task, 0, 2, 1))  # a snooze
    body = p.body(second)
    assert (body["task"], body["attempt"], body["deliveries"], body["snoozes"], body["ckpt"]) == (
        first, "2", "3", "1", "half")
    assert body["enqueued_at"] == first.split("-")[0]
    p.promote()
    task, = p.read(me, 1)
    p.settle(me, letter(task))
    (_, fields), = p.entries(p.dead)
    at = dict(zip(plain(fields)[::2], plain(fields)[1::2]))
    assert at["redisq.id"] == first and at["redisq.deliveries"] == "4"
    assert at["redisq.attempt"] == "2" and int(at["redisq.died_at"]) > 0
    assert not p.r.exists(p.ckpt, p.bodies, p.delayed)
    assert p.counter("retried") == 2 and p.counter("readded") == 2


@pytest.mark.parametrize("text,then", [("7", "8"), ("", "1"), ("abc", "1"), ("-4", "1"),
                                       ("1e999", "1"), ("nan", "1"), ("9" * 400, "1"),
                                       ("0x10", "1")])
def test_any_text_in_deliveries_can_be_settled(p, me, text, then):
    p.server.add_fields(p.queue, ("payload", "x"), ("redisq.deliveries", text))
    task, = p.read(me, 1)
    assert p.settle(me, retry(task)) == [1]
    assert p.body(task[0])["deliveries"] == then


def test_due_is_by_the_clock_of_redis_and_the_next_due_time_is_told(p, me):
    a, b = one(p, me, b"a"), one(p, me, b"b")
    p.settle(me, retry(a, 150), retry(b, 60000))
    moved, redis_ms, due = p.promote()
    assert moved == 0 and int(redis_ms) < int(due) == p.r.zscore(p.delayed, a[0])
    got = wait_until(lambda: (lambda x: x if x[0] else None)(p.promote()), what="a is due")
    assert got[0] == 1 and int(got[1]) >= int(due)
    assert int(got[2]) == p.r.zscore(p.delayed, b[0])
    p.r.delete(p.delayed)
    assert p.promote()[2] == ""


def test_promote_keeps_to_its_limit_and_the_order_of_due_times(p, me):
    p.add(*[b"%02d" % i for i in range(30)])
    tasks = p.read(me, 30)
    p.settle(me, *[retry(t) for t in tasks])
    for k, (entry, _) in enumerate(tasks):
        p.r.zadd(p.delayed, {entry: 30 - k})
    assert [p.promote(10)[0] for _ in range(4)] == [10, 10, 10, 0]
    assert [f[1] for _, f in p.entries(p.queue)] == [b"%02d" % i for i in reversed(range(30))]


@pytest.mark.parametrize("body", [None, b"", b"\xc1", b"rubbish", b"\x91\x01", b"\xdd\xff\xff"])
def test_a_missing_or_unreadable_body_is_a_dead_letter_and_the_rest_goes_on(p, me, body):
    bad, good = one(p, me, b"bad"), one(p, me, b"good")
    p.settle(me, retry(bad), retry(good))
    p.r.zadd(p.delayed, {bad[0]: 1})
    p.r.hdel(p.bodies, bad[0])
    if body is not None:
        p.r.hset(p.bodies, bad[0], body)
    assert p.promote()[0] == 1
    (entry, fields), = p.entries(p.dead)
    at = dict(zip(plain(fields)[::2], plain(fields)[1::2]))
    assert at["redisq.id"] == bad[0] and at["redisq.reason"] == "body_missing"
    assert not p.r.exists(p.delayed, p.bodies)
    assert p.counter("died") == 1 and p.counter("readded") == 1
    assert "nothing to run" in str(p.readd([entry])[0])
    assert p.raw("XLEN", p.dead) == 1


# ---------------------------------------------------------------- bytes

ODD = [(b"b", b"1"), (b"payload", b"\x00\xff\xfe\r\n*3\r\n"), (b"a", b""), (b"b", b"2"),
       (b"", b"empty name"), (b"\xc3\x28\x00", b"\x00"), (b"b", b"1"), (b"a" * 300, b"z" * 70000)]
ODD_FLAT = [x for pair in ODD for x in pair]


def test_every_byte_survives_retry_promote_dead_and_held(p, me):
    p.server.add_fields(p.queue, *ODD)
    task, = p.read(me, 1)
    p.settle(me, retry(task))
    assert p.body(task[0])["fields"] == ODD_FLAT
    p.promote()
    for key, verdict in ((p.dead, letter), (p.held, hold)):
        assert p.entries(p.queue)[0][1][:len(ODD_FLAT)] == ODD_FLAT
        task, = p.read(me, 1)
        p.settle(me, verdict(task))
        (entry, fields), = p.entries(key)
        assert fields[:len(ODD_FLAT)] == ODD_FLAT
        again, = p.readd([entry], key)
        assert p.entries(p.queue)[0][0] == again
    fields = p.entries(p.queue)[0][1]
    assert fields[:len(ODD_FLAT)] == ODD_FLAT
    at = dict(zip(fields[len(ODD_FLAT)::2], fields[len(ODD_FLAT) + 1::2]))
    assert set(at) == {b"redisq.id", b"redisq.attempt", b"redisq.deliveries", b"redisq.enqueued_at"}
    assert at[b"redisq.attempt"] == b"1" and at[b"redisq.deliveries"] == b"3"


@pytest.mark.parametrize("n", [1000, 2900, 3400])
def test_thousands_of_fields_survive_retry_and_dead(p, me, n):
    pairs = [(b"payload", b"t")] + [(b"f%d" % (i % 700), b"%d" % i) for i in range(n)]
    flat = [x for pair in pairs for x in pair]
    p.server.add_fields(p.queue, *pairs)
    task, = p.read(me, 1)
    assert p.settle(me, retry(task)) == [1]
    assert p.promote()[0] == 1
    assert p.entries(p.queue)[0][1][:len(flat)] == flat
    task, = p.read(me, 1)
    assert p.settle(me, letter(task)) == [1]
    entry, = p.readd([p.entries(p.dead)[0][0]])
    assert p.entries(p.queue)[0][0] == entry
    assert p.entries(p.queue)[0][1][:len(flat)] == flat


def test_what_no_script_can_add_is_buried_and_holds_up_nobody(p, me):
    """One entry of 5000 fields made every later promotion fail."""
    pairs = [(b"f%d" % i, b"%d" % i) for i in range(5000)]
    label = p.server.add_fields(p.queue, *pairs)
    big, = p.read(me, 1)
    small = one(p, me, b"small")
    assert p.settle(me, retry(big), retry(small)) == [1, 1]
    p.r.zadd(p.delayed, {big[0]: 1})
    assert p.promote()[0] == 1
    (entry, fields), = p.entries(p.dead)
    at = dict(zip(fields[::2], fields[1::2]))
    assert at[b"redisq.reason"] == b"payload" and at[b"redisq.id"].decode() == label
    assert b"f4999" in at[b"redisq.fields_msgpack"]
    assert "more fields" in str(p.readd([entry])[0]) and p.raw("XLEN", p.dead) == 1
    assert not p.r.exists(p.delayed, p.bodies)


# ---------------------------------------------------------------- names

def test_delconsumer_answers(p, me):
    task = one(p, me)
    before = p.dumps()
    assert p.delconsumer(me, "n2") == -1 and p.delconsumer(me, "") == -1
    assert p.delconsumer(me, "n1") == 0
    assert p.dumps() == before
    p.settle(me, done(task))
    assert [p.delconsumer(me, "n1") for _ in range(3)] == [1, 1, 1]
    assert p.server.consumers(p.queue) == {} and not p.r.exists(p.names, p.claim_key(me))


def test_delconsumer_buries_a_tombstone_and_a_name_without_claim(p, me):
    p.r.set(p.claim_key(me), "dead:n1")
    assert p.delconsumer(me, "") == -1
    assert p.delconsumer(me, "n1") == 1
    p.claim("b", "n2")
    p.r.delete(p.claim_key("b"))
    assert p.delconsumer("b", "") == 1
    assert not p.r.exists(p.names)


def test_delconsumer_where_the_stream_is_gone(p, me):
    p.r.delete(p.queue)
    assert p.delconsumer(me, "n1") == 1
    assert not p.r.exists(p.names, p.claim_key(me))


# ---------------------------------------------------------------- dead letters

def test_dead_retry_and_drop_answer_for_ids_that_are_not_there(p, me):
    task = one(p, me)
    p.settle(me, letter(task))
    entry = p.entries(p.dead)[0][0]
    before = p.dumps()
    assert p.readd(["1-1"]) == [""] and p.drop(["1-1"]) == 0
    assert "stream ID" in str(p.readd(["rubbish"])[0])
    assert p.dumps() == before
    answers = p.readd(["1-1", "rubbish", entry, entry])
    assert answers[0] == answers[3] == "" and answers[2] == p.entries(p.queue)[0][0]
    assert p.places() == {"t": ["waiting"]} and p.counter("readded") == 1


def test_drop_of_thousands(p, me):
    ids = [p.raw("XADD", p.dead, "*", "payload", "x").decode() for _ in range(2100)]
    assert refused(lambda: p.drop(ids[:1500] + ["rubbish"])) and p.raw("XLEN", p.dead) == 2100
    assert p.drop(ids + ids[:5]) == 2100
    assert p.drop(ids) == 0
    assert p.counter("dropped") == 2100


def test_a_users_field_that_looks_packed_stops_only_itself(p, me):
    for value in (b"\xc1", b"\x01", b"hello"):
        p.raw("XADD", p.dead, "*", "payload", "t", "redisq.fields_msgpack", value)
    p.settle(me, letter(one(p, me, b"good")))
    answers = p.readd([i for i, _ in p.entries(p.dead)])
    assert all("unreadable" in str(a) for a in answers[:3]) and "-" in answers[3]
    assert p.raw("XLEN", p.dead) == 3
