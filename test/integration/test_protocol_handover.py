"""The script that lets everyone have what a dead worker had pending."""
import pytest

from protocol import LEASE, RELEASED, protocol, done, release
from waiting import wait_until

CAUSE = "alone worker signal 9 SIGKILL"


BACKENDS = ("stream", "list")


@pytest.fixture
def p(server):
    return protocol(server)


@pytest.fixture
def dead(p):
    """Of its six tasks the first four were running; two are beside it, with another."""
    p.claim("w", "n1")
    p.claim("you", "n2")
    p.add(*[b"%d" % i for i in range(8)])
    tasks = p.read("w", 6)
    p.others = p.read("you", 2)
    return tasks


def crashes(p):
    return {k.decode(): v.decode() for k, v in p.r.hgetall(p.crash).items()}


def test_all_of_it_is_released_and_what_ran_is_charged(p, dead):
    before = p.pending()
    assert p.handover("w", "n1", *dead[:4]) == [6, 4, ""]
    after = p.pending()
    assert {i for i, row in after.items() if row[1] > RELEASED} == {i for i, _ in dead}
    assert {i: row[::2] for i, row in after.items()} == {i: row[::2] for i, row in before.items()}
    assert crashes(p) == {i: "1:1:" + CAUSE for i, _ in dead[:4]}
    # The name stays taken until the sweeps are done.
    assert p.r.get(p.claim_key("w")) == b"dead:n1" and 0 < p.r.pttl(p.claim_key("w")) <= LEASE
    assert p.claim("w", "n3") == [0, "dead:n1"]
    # Any worker takes it at once, and the charge stays what it was.
    got = p.take("you", "n2", *[(i, "w", t) for i, t in dead], stale=0)
    assert {i: token for i, (token, _) in got.items()} == {i: 2 for i, _ in dead}
    assert crashes(p) == {i: "1:1:" + CAUSE for i, _ in dead[:4]}
    assert p.delconsumer("w", "n1") == 1


@pytest.mark.parametrize("holder", ["n1 host boot 1", "dead:n1", None])
def test_the_claim_may_be_its_own_a_tombstone_or_gone(p, dead, holder):
    if holder:
        p.r.set(p.claim_key("w"), holder)
    else:
        p.r.delete(p.claim_key("w"))
    assert p.handover("w", "n1", *dead) == [6, 6, ""]
    assert p.r.get(p.claim_key("w")) == b"dead:n1"


@pytest.mark.parametrize("holder", ["n2 host boot 1", "n11 host", "deadn1", "N1"])
def test_the_name_lives_again_nothing_changes(p, dead, holder):
    p.r.set(p.claim_key("w"), holder)
    before = p.dumps()
    assert p.handover("w", "n1", *dead) == [-1]
    assert p.dumps() == before


def test_another_lifes_tombstone_hides_no_crash(p, dead):
    """Two lives of one name died, and the order about the first came late: the tombstone it left
    once turned the order about the second away, whose crash was then charged to nobody."""
    p.r.delete(p.claim_key("w"))  # it has run out
    assert p.handover("w", "n0") == [6, 0, ""]
    assert p.r.get(p.claim_key("w")) == b"dead:n0"
    assert p.handover("w", "n1", *dead[:4]) == [6, 4, ""]
    assert crashes(p) == {i: "1:1:" + CAUSE for i, _ in dead[:4]}
    assert p.r.get(p.claim_key("w")) == b"dead:n1"
    assert p.handover("w", "n1", *dead[:4]) == [6, 0, ""]


def test_under_another_lifes_tombstone_what_did_not_run_is_left_alone(p, dead):
    """That one's own order sees to it, and charges it."""
    p.r.set(p.claim_key("w"), "dead:n2")
    before = p.dumps()
    assert p.handover("w", "n1") == [0, 0, ""]
    assert p.handover("w", "n1", (dead[0][0], 2), ("1-1", 1)) == [0, 0, ""]
    assert p.handover("w", "n1", *dead, charge=0) == [0, 0, ""]
    assert p.handover("w", "n1", (dead[0][0], 2), to=dead[0][0]) == [0, 0, dead[0][0]]
    assert p.dumps() == before


def test_a_replay_charges_once(p, dead):
    assert p.handover("w", "n1", *dead[:4]) == [6, 4, ""]
    after = p.state()
    for _ in range(3):
        assert p.handover("w", "n1", *dead[:4]) == [6, 0, ""]
        assert p.state() == after
    assert p.handover("w", "n1", charge=0) == [6, 0, ""]  # the second look
    assert p.state() == after


def test_each_death_is_charged_once(p, dead):
    """The same task dies under one worker after the other."""
    entry = dead[0][0]
    p.handover("w", "n1", dead[0])
    p.take("you", "n2", (entry, "w", 1))
    assert p.handover("you", "n2", (entry, 2), cause="company worker exit 3") == [3, 1, ""]
    assert crashes(p) == {entry: "2:2:company worker exit 3"}
    # A copy of the first order comes late: the name is a tombstone, the entry another's.
    assert p.handover("w", "n1", dead[0]) == [5, 0, ""]
    assert crashes(p) == {entry: "2:2:company worker exit 3"}


def test_only_what_is_listed_under_its_token_is_charged(p, dead):
    stranger = p.others[0]
    ran = [(dead[0][0], 2), (dead[1][0], 0), (dead[2][0], "1x"), stranger, ("1-1", 1), dead[3]]
    assert p.handover("w", "n1", *ran) == [6, 1, ""]
    assert crashes(p) == {dead[3][0]: "1:1:" + CAUSE}


def test_own_stops_charge_nothing(p, dead):
    assert p.handover("w", "n1", *dead, charge=0) == [6, 0, ""]
    assert crashes(p) == {}


def test_nobody_elses_entry_is_touched(p, dead):
    p.make_idle("you", 5000, p.others[0][0])
    p.handover("w", "n1", *dead, *p.others)
    for entry, _ in p.others:
        owner, idle, count = p.pending()[entry]
        assert owner == "you" and idle < RELEASED and count == 1
    assert p.settle("you", done(p.others[0])) == [1]
    assert p.r.get(p.claim_key("you")) == b"n2 host boot 1"


def test_what_was_released_settled_or_taken_before_stays_so(p, dead):
    p.settle("w", release(dead[0]), done(dead[1]))
    p.make_idle("w", LEASE, dead[2][0])
    p.r.delete(p.claim_key("w"))
    p.take("you", "n2", (dead[2][0], "w", 1))
    assert p.handover("w", "n1", *dead) == [4, 4, ""]
    pending = p.pending()
    assert pending[dead[2][0]][0] == "you" and dead[1][0] not in pending
    assert crashes(p)[dead[2][0]] == "1:1:stale"


def test_a_late_settlement_of_the_dead_counts_until_somebody_has_taken_it(p, dead):
    """It was on its way when its sender died: the task is done, and runs no second time."""
    p.handover("w", "n1", *dead)
    assert p.settle("w", done(dead[0])) == [1]
    p.take("you", "n2", (dead[1][0], "w", 1))
    before = p.dumps()
    assert p.settle("w", done(dead[1])) == [-1]
    assert p.renew("w", "n1", dead[2]) == [0]
    assert p.dumps() == before


def test_more_than_a_thousand_in_pages(p, server):
    p.claim("w", "n1")
    p.claim("you", "n2")
    p.add(*[b"x"] * 2400)
    mine = []
    for _ in range(800):  # of every three one is another's
        mine += p.read("w", 2)
        p.read("you", 1)
    started = p.counts()
    pages, moved, charged, start = [], 0, 0, "-"
    while start:
        n, m, last = p.handover("w", "n1", mine[0], mine[999], mine[1000], mine[-1], start=start)
        assert last == "" or last > start
        pages.append(n)
        moved, charged, start = moved + n, charged + m, last
    assert pages == [1000, 600] and charged == 4
    assert {i for i, row in p.pending().items() if row[1] > RELEASED} == {i for i, _ in mine}
    assert p.counts() == started
    assert set(crashes(p)) == {mine[k][0] for k in (0, 999, 1000, -1)}


def test_a_list_that_is_cut_ends_its_page(p, dead):
    """Each page has what belongs to it, and nothing is released before its charge is decided."""
    assert p.handover("w", "n1", *dead[:2], to=dead[1][0]) == [2, 2, dead[1][0]]
    assert {i for i, row in p.pending().items() if row[1] > RELEASED} == {i for i, _ in dead[:2]}
    assert p.handover("w", "n1", *dead[2:4], start=dead[1][0]) == [4, 2, ""]
    assert crashes(p) == {i: "1:1:" + CAUSE for i, _ in dead[:4]}


def test_a_list_that_reaches_to_an_entry_that_has_gone(p, dead):
    p.settle("w", done(dead[1]))
    assert p.handover("w", "n1", *dead[:2], to=dead[1][0]) == [1, 1, dead[1][0]]
    assert p.handover("w", "n1", *dead[2:4], start=dead[1][0]) == [4, 2, ""]


def test_exactly_one_page(p):
    p.claim("w", "n1")
    p.add(*[b"x"] * 1000)
    mine = p.read("w", 1000)
    n, _, last = p.handover("w", "n1")
    assert n == 1000 and last == mine[-1][0]
    assert p.handover("w", "n1", start=last) == [0, 0, ""]


def test_a_page_goes_on_after_an_entry_that_has_gone(p):
    p.claim("w", "n1")
    p.add(*[b"x"] * 1500)
    mine = p.read("w", 1500)
    last = p.handover("w", "n1")[2]
    p.settle("w", done(mine[999]))
    assert p.handover("w", "n1", start=last) == [500, 0, ""]


def test_entries_that_were_deleted_disturb_nothing(p, dead):
    p.raw("XDEL", p.queue, dead[0][0], dead[5][0])
    assert p.handover("w", "n1", *dead)[0] == 6
    p.take("you", "n2", *[(i, "w", t) for i, t in dead])
    assert {i for i, row in p.pending().items() if row[0] == "you"} == \
        {i for i, _ in dead[1:5] + p.others}
    wait_until(lambda: p.delconsumer("w", "n1") == 1)


def test_a_name_without_entries(p):
    p.claim("w", "n1")
    assert p.handover("w", "n1") == [0, 0, ""]
    assert p.handover("never", "n9") == [0, 0, ""]
    assert p.delconsumer("w", "n1") == 1 and p.delconsumer("never", "n9") == 1
    assert p.server.consumers(p.queue) == {}
    assert not p.r.exists(p.names, p.claim_key("w"), p.claim_key("never"))


def test_delconsumer_leaves_a_tombstone_with_entries(p, dead):
    p.handover("w", "n1", *dead)
    before = p.dumps()
    assert p.delconsumer("w", "n1") == 0 and p.delconsumer("w", "n2") == -1
    assert p.delconsumer("w", "") == -1, "others wait until the sweeps are done"
    assert p.dumps() == before


def test_the_tombstone_ends_by_itself(p, dead):
    p.handover("w", "n1", ttl=1)
    wait_until(lambda: not p.r.exists(p.claim_key("w")))
    p.settle("w", *[done(t) for t in dead])
    assert p.delconsumer("w", "") == 1, "any worker's pass removes the name then"
