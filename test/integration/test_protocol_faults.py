"""Whatever fails under a script, every accepted entry stays in exactly one place.

Each call below is one that a worker or redisqctl makes. It is made with the wrong credentials,
again and again, on keys of a wrong type, without one of its permissions, and with Redis full.
"""
import pytest
import redis

from protocol import (LEASE, Protocol, crash, done, hold, letter, protocol, refused, release, retry, said,
                      wanted)


BACKENDS = ("stream", "list")


class Scene(Protocol):
    """t0-t5 run under `me`, t6 is delayed and due, t7 dead, t8 held, t9 waits, t10 was released
    and t11 went stale under `old`, whose claim is gone."""

    def __init__(self, server):
        super().__init__(server)
        self.claim("me", "n1")
        self.claim("old", "n0")
        self.claim("empty", "n3")
        self.add(*[b"t%d" % i for i in range(12)])
        self.t = self.read("me", 9)
        for entry, _ in self.t:
            self.r.hset(self.ckpt, entry, "half")
            self.r.hset(self.crash, entry, "1:0:signal 9")
        self.settle("me", retry(self.t[6]), letter(self.t[7]), hold(self.t[8]))
        self.t += self.read("old", 3)
        # t9 was delivered and comes back as an entry that nobody has read.
        self.raw("XACK", self.queue, self.group, self.t[9][0])
        self.raw("XDEL", self.queue, self.t[9][0])
        self.add(b"t9")
        self.settle("old", release(self.t[10]))
        self.make_idle("old", LEASE, self.t[11][0])
        self.r.delete(self.claim_key("old"))
        self.letters = [i for i, _ in self.entries(self.dead)]
        self.kept = [i for i, _ in self.entries(self.held)]
        self.all = {"t%d" % i for i in range(12)}
        self.started = self.counts()

    def seen(self, k):
        return self.t[k][0], "old", 1

    def sum_of_counters(self):
        """done, retried, died: each task that was settled was counted once."""
        return sum(self.counter(name) for name in ("done", "retried", "died"))

    def settled(self, places):
        """As many as are neither where they began nor held."""
        return (len(self.all) - len(places) +
                sum(1 for v in places.values() if v in (["delayed"], ["dead"])))

    def check(self, dropped=(), duplicates=False):
        places = self.places()
        assert set(places) == self.all - set(dropped), places
        if not duplicates:
            assert {k: v for k, v in places.items() if len(v) != 1} == {}
        for entry, count in self.counts().items():
            assert count >= self.started.get(entry, 1), "a delivery count fell"


# name -> (call, payloads it drops for good). The scene's client may be another user.
CALLS = {
    "claim": (lambda p: p.claim("new", "n9"), ()),
    "renew": (lambda p: p.renew("me", "n1", *p.t[:6], record="n1 another record"), ()),
    "scan": (lambda p: p.scan("me"), ()),
    "take": (lambda p: p.take("me", "n1", p.seen(10), p.seen(11)), ()),
    "done": (lambda p: p.settle("me", done(p.t[0])), ("t0",)),
    "retry": (lambda p: p.settle("me", retry(p.t[1])), ()),
    "crash": (lambda p: p.settle("me", crash(p.t[1])), ()),
    "crash to the end": (lambda p: p.settle("me", crash(p.t[1], most=1)), ()),
    "dead": (lambda p: p.settle("me", letter(p.t[2])), ()),
    "hold": (lambda p: p.settle("me", hold(p.t[3])), ()),
    "release": (lambda p: p.settle("me", release(p.t[4])), ()),
    "done and wanted": (lambda p: p.settle("me", wanted(p.t[0], result="9"), done(p.t[0])), ("t0",)),
    "retry with a checkpoint": (lambda p: p.settle("me", said(p.t[1], "new"), retry(p.t[1])), ()),
    "dead, wanted, with a checkpoint": (lambda p: p.settle(
        "me", wanted(p.t[2]), said(p.t[2], "new"), letter(p.t[2])), ()),
    "hold and wanted": (lambda p: p.settle("me", wanted(p.t[3]), hold(p.t[3])), ()),
    "release with a checkpoint": (lambda p: p.settle("me", said(p.t[4], "new"), release(p.t[4])), ()),
    "batch": (lambda p: p.settle("me", done(p.t[0]), retry(p.t[1], 10 ** 6), letter(p.t[2]),
                                 hold(p.t[3]), release(p.t[4]), crash(p.t[5], 10 ** 6)), ("t0",)),
    "batch of all kinds": (lambda p: p.settle(
        "me", wanted(p.t[0], result="9"), done(p.t[0]), said(p.t[1], "a"), retry(p.t[1], 10 ** 6),
        wanted(p.t[2]), letter(p.t[2]), wanted(p.t[3]), said(p.t[3], "b"), hold(p.t[3]),
        said(p.t[4], "c"), release(p.t[4]), said(p.t[5], "d"), crash(p.t[5], 10 ** 6)), ("t0",)),
    "checkpoint": (lambda p: p.note("me", ("C",) + p.t[0] + ("job 7",), ("P",) + p.t[0] + ("9 %",),
                                    ("C",) + p.t[1] + ("new",)), ()),
    "promote": (lambda p: p.promote(), ()),
    "handover": (lambda p: p.handover("me", "n1", *p.t[:6]), ()),
    "handover of a claim that ran out": (lambda p: p.handover("old", "n0", p.t[11]), ()),
    "delconsumer": (lambda p: p.delconsumer("empty", "n3"), ()),
    "delconsumer in use": (lambda p: p.delconsumer("me", "n1"), ()),
    "dead retry": (lambda p: p.readd(p.letters), ()),
    "held release": (lambda p: p.readd(p.kept, p.held), ()),
    "dead drop": (lambda p: p.drop(p.letters), ("t7",)),
}
SETTLES = ["done", "retry", "crash", "crash to the end", "dead", "hold", "release", "batch",
           "done and wanted", "retry with a checkpoint", "dead, wanted, with a checkpoint",
           "hold and wanted", "release with a checkpoint", "batch of all kinds"]
COMMANDS = ["type", "time", "get", "set", "pexpire", "del", "exists", "hexists", "hget", "hset",
            "hdel", "hincrby", "zadd", "zrem", "zrange", "zrangebyscore", "xadd", "xdel", "xtrim",
            "xack", "xclaim", "xpending", "xrange", "xgroup"]
LIST_COMMANDS = [c for c in COMMANDS if c[0] != "x"] + [
    "zscore", "zcard", "llen", "lrange", "lpush", "lrem"]


@pytest.fixture
def p(server):
    return protocol(server, base=Scene)


@pytest.mark.parametrize("name", CALLS)
def test_a_replay_leaves_the_state_of_one_run(p, name):
    call, dropped = CALLS[name]
    call(p)
    after = p.state()
    for _ in range(4):
        call(p)
        assert p.state() == after
    p.check(dropped)


WRONG = [(lambda p, c: p.settle("me", c((p.t[0][0], 2))), -1),
         (lambda p, c: p.settle("me", c((p.t[0][0], 0))), -1),
         (lambda p, c: p.settle("you", c(p.t[0])), -1),
         (lambda p, c: p.settle("old", c(p.t[0])), -1),
         (lambda p, c: p.settle("me", c(p.t[11])), -1),
         (lambda p, c: p.settle("me", c(p.t[6])), 0),
         (lambda p, c: p.settle("me", c(("1-1", 1))), 0)]


@pytest.mark.parametrize("verdict", [done, retry, crash, letter, hold, release])
@pytest.mark.parametrize("k", range(len(WRONG)))
def test_a_settlement_under_a_wrong_name_or_token_changes_no_key(p, verdict, k):
    before = p.dumps()
    call, answer = WRONG[k]
    assert call(p, verdict) == [answer]
    assert p.dumps() == before


@pytest.mark.parametrize("verdict", [done, retry, crash, letter, hold, release])
@pytest.mark.parametrize("k", range(len(WRONG)))
def test_nobody_leaves_a_checkpoint_or_a_result_under_a_wrong_name_or_token(p, verdict, k):
    before = p.dumps()
    call, answer = WRONG[k]
    task = []
    assert call(p, lambda t: task.append(t) or verdict(t)) == [answer]
    me = "you" if k == 2 else "old" if k == 3 else "me"
    assert p.settle(me, wanted(task[0], "x", "9"), said(task[0], "y"), verdict(task[0])) == [answer]
    assert p.dumps() == before


@pytest.mark.parametrize("verdict,left", [
    (done, ["9", None]), (retry, [None, None]), (crash, [None, None]), (release, [None, None]),
    (letter, [None, "dead attempts exit 1"]), (hold, [None, "held crashes signal 9"])])
def test_what_is_left_for_who_waits(p, verdict, left):
    p.settle("me", wanted(p.t[0], "order-7", "9"), verdict(p.t[0]))
    got = [v and v.decode() for v in p.r.mget(p.result_key("order-7"), p.failed_key("order-7"))]
    if got[1]:
        place, entry, why = got[1].split(" ", 2)
        assert entry in [i for i, _ in p.entries(p.dead if place == "dead" else p.held)]
        got[1] = place + " " + why
    assert got == left


@pytest.mark.parametrize("verdict", [retry, crash, letter, hold, release])
def test_the_checkpoint_that_a_settlement_carries_is_the_one_that_stays(p, verdict):
    entry = p.t[0][0]
    p.settle("me", said(p.t[0], "newest"), said(p.t[1], "other"), verdict(p.t[0]), done(p.t[1]))
    for key in (p.dead, p.held):
        ours = [i for i, f in p.entries(key) if b"t0" in f]
        if ours:
            p.readd(ours, key)
    if verdict in (retry, crash):
        assert p.body(entry)["ckpt"] == "newest"
        p.r.zadd(p.delayed, {entry: 0})
        p.promote()
    found = [p.r.hget(p.ckpt, i) for i, f in p.entries(p.queue) if b"t0" in f]
    assert found == [b"newest"]
    assert not p.r.hexists(p.ckpt, p.t[1][0]), "done: its checkpoint is of no use any more"


@pytest.mark.parametrize("me,k,token,answer", [
    ("me", 0, 2, -1), ("me", 0, 0, -1), ("you", 0, 1, -1), ("old", 0, 1, -1), ("me", 11, 1, -1),
    ("me", 6, 1, 0), ("me", 7, 1, 0)])
@pytest.mark.parametrize("kind", "CP")
def test_a_note_under_a_wrong_name_or_token_changes_no_key(p, kind, me, k, token, answer):
    before = p.dumps()
    assert p.note(me, (kind, p.t[k][0], token, "late")) == [answer]
    assert p.dumps() == before


@pytest.mark.parametrize("kind,most", [("C", 65536), ("P", 4096)])
def test_a_note_that_is_too_long_changes_no_key(p, kind, most):
    before = p.dumps()
    assert p.note("me", (kind,) + p.t[0] + ("x" * (most + 1),)) == [-2]
    assert p.dumps() == before
    assert p.note("me", (kind,) + p.t[0] + ("x" * most,)) == [1]


def test_a_note_that_comes_after_the_release_is_refused(p):
    """It left on a link that was lost; what the settlement carried is newer."""
    p.settle("me", release(p.t[4]))
    before = p.dumps()
    assert p.note("me", ("C",) + p.t[4] + ("late",), ("P",) + p.t[4] + ("late",)) == [-1, -1]
    assert p.dumps() == before


ALIVE = " host boot 1 0 0 run pid:[1]"
DROPS = {
    "renew": lambda p, t: p.renew("me", "n1", t),
    "renew, gone": lambda p, t: (p.raw("XACK", p.queue, p.group, t[0]), p.renew("me", "n1", t)),
    "release": lambda p, t: p.settle("me", said(t, "new"), release(t)),
    "beside": lambda p, t: p.settle("me", ("S",) + t + ("beside signal 9",)),
    "handover": lambda p, t: p.handover("me", "n1", t),
    "a former life": lambda p, t: (p.renew("me", "n1", record="n1" + ALIVE),
                                   p.claim("me", "n9", record="n9" + ALIVE)),
}


@pytest.mark.parametrize("name", DROPS)
def test_what_a_deleted_entry_has_left_goes_with_it(p, name):
    """Since 7.0 XCLAIM drops it from the pending list: nobody would ever look for it again."""
    p.note("me", ("C",) + p.t[0] + ("job 7",), ("P",) + p.t[0] + ("9 %",))
    p.note("me", ("C",) + p.t[1] + ("job 8",), ("P",) + p.t[1] + ("8 %",))
    p.raw("XDEL", p.queue, p.t[0][0])
    DROPS[name](p, p.t[0])
    left = [key for key in (p.ckpt, p.progress, p.crash) if p.r.hexists(key, p.t[0][0])]
    assert not left or p.t[0][0] in p.pending(), left
    assert [p.r.hget(key, p.t[1][0]) for key in (p.ckpt, p.progress)] == [b"job 8", b"8 %"]
    assert p.r.hexists(p.crash, p.t[1][0])


def test_a_note_that_was_said_over_a_link_lost_since_is_refused(p):
    """Not even a late renewal, in front of it on that link, makes it count."""
    def renew(lost):
        assert p.renew("me", "n1", p.t[0], record="n1 host boot 1 2 3 run pid:[1] %d" % lost)[0] == 1
    renew(9)
    renew(10)
    assert p.note("me", ("C",) + p.t[0] + ("newer",), ("P",) + p.t[0] + ("newer",), lost=10) == [1, 1]
    before = p.state()
    renew(9)
    assert p.note("me", ("C",) + p.t[0] + ("late",), ("P",) + p.t[0] + ("late",), lost=9) == [-1, -1]
    assert p.state() == before


@pytest.mark.parametrize("name,answer", [
    (lambda p: p.claim("me", "n2"), [0, "n1 host boot 1"]),
    (lambda p: p.claim("old", "n0"), [-1, 1]),
    (lambda p: p.renew("me", "n2", *p.t[:3]), [0]),
    (lambda p: p.take("me", "n2", p.seen(10), p.seen(11)), None),
    (lambda p: p.take("nobody", "n1", p.seen(10), p.seen(11)), None),
    (lambda p: p.take("me", "n1", (p.t[10][0], "old", 2), (p.t[11][0], "old", 9)), {}),
    (lambda p: p.take("me", "n1", (p.t[10][0], "me", 1), (p.t[11][0], "you", 1)), {}),
    (lambda p: p.take("empty", "n3", (p.t[0][0], "me", 1)), {}),
    (lambda p: p.handover("me", "n2", *p.t[:6]), [-1]),
    (lambda p: p.handover("me", "", *p.t[:6]), [-1]),
    (lambda p: p.handover("me", "dead:n1", *p.t[:6]), [-1]),
    (lambda p: p.delconsumer("empty", "n4"), -1),
    (lambda p: p.delconsumer("empty", ""), -1),
    (lambda p: p.delconsumer("old", "n0"), 0),
    (lambda p: p.readd(["1-1"]), [""]),
    (lambda p: p.drop(["1-1"]), 0)])
def test_the_wrong_name_token_or_nonce_changes_no_key(p, name, answer):
    before = p.dumps()
    assert name(p) == answer
    assert p.dumps() == before


def test_renewing_under_a_wrong_token_renews_nothing(p):
    before = p.dumps()
    assert p.renew("me", "n1", (p.t[0][0], 2), (p.t[11][0], 1), (p.t[6][0], 1))[2] == [-1, -1, 0]
    assert p.dumps() == before


def keys_of(p):
    return [p.queue, p.delayed, p.bodies, p.dead, p.held, p.counters, p.ckpt, p.progress,
            p.crash, p.names, p.claim_key("me"), p.claim_key("new"), p.claim_key("empty")]


@pytest.mark.parametrize("name", CALLS)
def test_a_key_of_a_wrong_type_costs_no_entry(p, name):
    call, dropped = CALLS[name]
    n_refused = 0
    for key in keys_of(p):
        had = p.r.exists(key)
        if had:
            p.r.rename(key, "{q}aside")
        p.r.rpush(key, "in the way")
        before = p.dumps()
        why = refused(lambda: call(p))
        if why:
            n_refused += 1
            # The pending list is the one thing a renewal has touched by then.
            assert "WRONGTYPE" in why or "wrong kind of value" in why, why
            assert p.dumps() == before, "%s refused for %s, but changed something" % (name, key)
        p.r.delete(key)
        if had:
            p.r.rename("{q}aside", key)
        p.check(dropped if not why else ())
        if not why:
            p.r.flushall()
            p = protocol(p.server, base=Scene)
    assert n_refused > 0
    assert refused(lambda: call(p)) is None
    p.check(dropped)


def as_user(p, command):
    p.r.execute_command("ACL", "SETUSER", "poor", "reset", "on", ">x", "~*", "+@all",
                        "-" + command)
    poor = p.server.client(username="poor", password="x")
    return poor


@pytest.mark.parametrize("name", CALLS)
def test_a_missing_permission_costs_no_entry_and_makes_no_copies(p, name):
    call, dropped = CALLS[name]
    rich, n_refused = p.r, 0
    for command in LIST_COMMANDS if p.server.backend == "list" else COMMANDS:
        poor = as_user(p, command)
        p.r = poor
        whys = [refused(lambda: call(p)) for _ in range(3)]
        p.r = rich
        poor.close()
        where = "%s without %s" % (name, command)
        if whys[0] is None:
            p.check(dropped)
        else:
            n_refused += 1
            assert "can't run this command" in whys[0] or "no permissions" in whys[0], whys[0]
            assert whys[2], where
            # What stood before the refused task in a batch may have come to its end.
            ended = {"t0"} if name.startswith("batch") and p.counter("done") else set()
            places = p.places()
            assert set(places) == p.all - ended, where
            assert all(len(v) == 1 for v in places.values()), (where, places)
            assert p.sum_of_counters() == p.settled(places), where
        assert refused(lambda: call(p)) is None
        p.check(dropped)
        p.r.flushall()
        p = protocol(p.server, base=Scene)
        rich = p.r
    assert n_refused > 0


OOM_REFUSED = {"promote", "dead retry", "held release"}


@pytest.mark.parametrize("name", CALLS)
def test_a_full_redis_costs_no_entry(p, name):
    call, dropped = CALLS[name]
    p.r.config_set("maxmemory-policy", "noeviction")
    p.r.config_set("maxmemory", 1)
    before = p.dumps()
    why = refused(lambda: call(p))
    if name in OOM_REFUSED:
        assert "OOM" in why or "used memory" in why, why
        assert p.dumps() == before
    else:
        assert why is None, why
    p.check(dropped if not why else ())
    p.r.config_set("maxmemory", 0)
    assert refused(lambda: call(p)) is None
    p.check(dropped)


@pytest.mark.backends("stream")
def test_a_group_that_is_gone_changes_nothing(p):
    bodies = p.r.hgetall(p.bodies)
    p.r.xgroup_destroy(p.queue, p.group)
    before = p.dumps()
    for name in SETTLES + ["renew", "take", "scan", "claim", "handover"]:
        assert "NOGROUP" in refused(lambda: CALLS[name][0](p)), name
    assert p.dumps() == before and p.r.hgetall(p.bodies) == bodies


def test_a_zombie_can_neither_renew_nor_settle_what_was_taken_from_it(p):
    task = p.t[11]
    p.take("me", "n1", p.seen(11))
    p.claim("old2", "n0")
    before = p.dumps()
    for verdict in (done, retry, crash, letter, hold, release):
        assert p.settle("old", verdict(task)) == [-1]
    assert p.dumps() == before
    assert p.settle("me", done((task[0], 2))) == [1]


def test_an_entry_that_came_back_to_its_owner_does_not_fit_the_first_token(p):
    """me -> empty -> me: the same name, another delivery."""
    entry = p.t[0][0]
    p.make_idle("me", 3 * LEASE, entry)
    assert entry in p.take("empty", "n3", (entry, "me", 1))
    p.settle("empty", release((entry, 2)))
    assert p.take("me", "n1", (entry, "empty", 2))[entry][0] == 3
    before = p.dumps()
    assert p.settle("me", done((entry, 1)), retry((entry, 2))) == [-1, -1]
    assert p.dumps() == before
    assert p.settle("me", done((entry, 3))) == [1]


def test_figures_of_a_settlement(p, capsys):
    """Prints what one settlement of 64 costs the server; asserts only that it is no scandal."""
    def measure(make):
        best = float("inf")
        for _ in range(20):
            p.add(*[b"x" * 64] * 64)
            tasks = p.read("me", 64)
            p.r.config_resetstat()
            assert p.settle("me", *[make(t) for t in tasks]) == [1] * 64
            stats = p.r.info("commandstats")
            best = min(best, stats["cmdstat_evalsha"]["usec"])
        return best

    p.settle("me", done(("1-1", 1)))
    figures = [(make.__name__, measure(make)) for make in (done, retry, letter, release)]
    with capsys.disabled():
        print("\nus per settlement of 64: " +
              ", ".join("%s %d (%.1f each)" % (n, us, us / 64) for n, us in figures))
    assert figures[0][1] < 20000
