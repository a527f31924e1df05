"""A consumer name and the lives it had: who may have it, and what the one before left under it."""
import collections
import os
import signal
import subprocess

import pytest

import procs
from alone import Alone
from conftest import on_both
from protocol import FOREIGN, RELEASED, protocol, done
from supervised import close_all
from waiting import wait_until


@pytest.fixture
def p(server):
    return protocol(server)


def record(nonce, boot="boot", pid=7, ns="pid:[4026531836]", host="host", links="5 6 run"):
    return " ".join(map(str, (nonce, host, boot, pid, links, ns)))


def crashes(p):
    return {k.decode(): v.decode() for k, v in p.r.hgetall(p.crash).items()}


# ------------------------------------------------------------------ the script

@pytest.fixture
def left(p):
    """Three entries of a life that has ended."""
    p.claim("w", "n1", record=record("n1"))
    p.add(b"a", b"b", b"c")
    return p.read("w", 3)


@on_both
@pytest.mark.parametrize("claimed", [True, False], ids=["claimed", "run out"])
def test_a_former_life_of_our_own_process_is_over_for_sure(p, left, claimed):
    """Its claim may even stand: what it left may be taken at once, by us, and is ours alone."""
    if not claimed:
        p.r.delete(p.claim_key("w"))
    counts = p.counts()
    mine = record("n2", host="renamed", links="8 9 run2")
    assert p.claim("w", "n2", record=mine) == [1, 3]
    assert p.r.get(p.claim_key("w")) == mine.encode() == p.r.hget(p.names, "w")
    assert all(row[1] >= RELEASED for row in p.pending().values())
    assert p.counts() == counts, "a token is never lowered, nor raised by letting go"
    assert crashes(p) == {i: "1:1:stale" for i, _ in left}, "as if it had fallen silent"
    after = p.state()
    assert p.claim("w", "n2", record=mine) == [1, 0], "a replay"
    assert p.state() == after
    got = p.take("w", "n2", *[(i, "w", t) for i, t in left], stale=0)
    assert {i: token for i, (token, _) in got.items()} == {i: 2 for i, _ in left}
    # What that life had sent comes late: the token has moved on.
    assert p.settle("w", *[done(t) for t in left]) == [-1] * 3


@on_both
def test_a_late_order_about_the_former_life_changes_nothing(p, left):
    """The supervisor knew of the death, too. Its crash has been charged, and the name lives."""
    p.claim("w", "n2", record=record("n2"))
    before = p.dumps()
    assert p.handover("w", "n1", *left) == [-1]
    assert p.delconsumer("w", "n1") == -1
    assert p.renew("w", "n1", *left) == [0]
    assert p.dumps() == before


@on_both
@pytest.mark.parametrize("claimed", [True, False], ids=["claimed", "run out"])
def test_where_something_was_let_go_of_already_its_order_is_waited_for(p, left, claimed):
    """By an order about an earlier life of the name, maybe: the one about the last life must find
    what it is to charge, and would be turned away by a claim."""
    p.r.delete(p.claim_key("w"))
    p.handover("w", "n0", ttl=1)
    wait_until(lambda: not p.r.exists(p.claim_key("w")))
    if claimed:
        p.renew("w", "n1", record=record("n1"))  # one that comes late
    before = p.dumps()
    assert p.claim("w", "n2", record=record("n2")) == ([0, record("n1")] if claimed else [-1, 3])
    assert p.dumps() == before
    assert p.handover("w", "n1", *left[:2], cause="alone worker exit 3") == [3, 2, ""]


def test_a_suspect_that_was_left_is_charged_as_one_that_ran_alone(p, left):
    p.r.hset(p.crash, left[0][0], "1:0:company worker signal 9 SIGKILL")
    p.claim("w", "n2", record=record("n2"))
    assert crashes(p)[left[0][0]] == "2:1:alone host fell silent"


@pytest.mark.parametrize("other", [
    {"pid": 8}, {"boot": "later"}, {"ns": "pid:[4026532178]"}, {"ns": "-"}, {"boot": "-"},
], ids=lambda o: "other " + " ".join(o))
@pytest.mark.parametrize("claimed", [True, False], ids=["claimed", "run out"])
def test_of_another_process_nothing_is_known(p, left, other, claimed):
    """Two containers of one machine have one boot id, and often one host name and the same pids."""
    p.claim("w", "n1", record=record("n1", **other))
    if not claimed:
        p.r.delete(p.claim_key("w"))
    before = p.dumps()
    mine = {k: v for k, v in other.items() if v == "-"}  # unknown is not the same as unknown
    expected = [0, record("n1", **other)] if claimed else [-1, 1]
    assert p.claim("w", "n2", record=record("n2", **mine)) == expected
    assert p.dumps() == before


@pytest.mark.parametrize("holder", ["dead:n1", "n1 host boot 7", "n1"])
def test_a_tombstone_and_a_record_that_says_too_little(p, left, holder):
    p.r.set(p.claim_key("w"), holder)
    before = p.dumps()
    assert p.claim("w", "n2", record=record("n2")) == [0, holder]
    assert p.dumps() == before


@on_both
def test_a_foreign_consumers_entries_are_left_for_foreign_idle(p):
    p.add(b"a")
    task, = p.read("w", 1)
    before = p.dumps()
    assert p.claim("w", "n2", record=record("n2")) == [-1, 1]
    assert p.dumps() == before
    p.claim("me", "n3")
    p.make_idle("w", FOREIGN - 5000, task[0])
    assert p.take("me", "n3", (task[0], "w", 1)) == {}
    p.make_idle("w", FOREIGN, task[0])
    assert set(p.take("me", "n3", (task[0], "w", 1))) == {task[0]}


def test_where_no_crash_can_be_charged_nothing_is_let_go_of(p, left):
    p.r.rpush(p.crash, "in the way")
    assert p.claim("w", "n2", record=record("n2")) == [0, record("n1")]
    assert p.claim("v", "n2", record=record("n2")) == [1, 0], "and the worker can start"


@on_both
def test_thousands_that_a_former_life_left(p):
    p.claim("w", "n1", record=record("n1"))
    p.claim("you", "n9")
    p.add(*[b"x"] * 2600)
    mine = p.read("w", 1300)
    p.read("you", 100)
    mine += p.read("w", 1200)
    assert p.claim("w", "n2", record=record("n2")) == [1, 2500]
    assert {i for i, row in p.pending().items() if row[1] >= RELEASED} == {i for i, _ in mine}
    assert set(crashes(p)) == {i for i, _ in mine}


# ------------------------------------------------------------------ workers in containers

@pytest.fixture
def contained(build, tmp_path, server, journal):
    """Makes workers in a pid namespace of their own: contained(command that begins with unshare)."""
    if subprocess.run(["unshare", "-pf", "--mount-proc", "true"], capture_output=True).returncode:
        pytest.skip("a pid namespace needs root")
    made = []

    def make(*wrap):
        where = tmp_path / ("contained%d" % len(made))
        where.mkdir()
        made.append(Alone(build, where, server=server, wrap=wrap,
                          keys={"handler": journal.handler(), "concurrency": 2, "lease": "60s"}))
        return made[-1]

    yield make
    for w in made:
        w.show()
    close_all(made)


def worker_in(s):
    """The pid, as we see it, of the worker below it."""
    found = [p for p in procs.marked(s.mark.encode()) if procs.name(p).startswith("redisq-w")]
    return found[0] if len(found) == 1 else None


def pending_of(server):
    return {r["message_id"].decode(): r["consumer"].decode() for r in server.pending("q", 100)}


@on_both
def test_two_containers_with_the_same_pids_and_host_name(contained, server, journal, gate):
    """Both are process 1 of their namespace: the names differ, and nobody gets another's tasks."""
    ids = server.add("q", *[b"do setsid=60000 " + str(gate).encode()] * 4)
    first = contained("unshare", "-pf", "--kill-child").wait_ready()
    journal.wait_started(2)
    second = contained("unshare", "-pf", "--kill-child").wait_ready()
    journal.wait_started(4)
    assert first.name() == "worker_1"
    assert second.name() == "worker_1@" + os.uname().nodename
    assert collections.Counter(pending_of(server).values()) == {first.name(): 2, second.name(): 2}
    # The first one ends and comes again: as another, the dead one's claim stands.
    before = pending_of(server)
    with open("/proc/%d/ns/pid" % worker_in(first)):  # its number is not given out again
        os.kill(worker_in(first), signal.SIGKILL)
        wait_until(lambda: not procs.marked(first.mark.encode()))
        third = contained("unshare", "-pf", "--kill-child").wait_ready()
    assert third.name() not in (first.name(), second.name())
    assert third.name().startswith(second.name() + "-")
    gate.open()
    wait_until(lambda: len(pending_of(server)) == 2)
    assert set(pending_of(server).items()) <= set(before.items())
    assert set(pending_of(server).values()) == {first.name()}, "they wait for the lease"
    assert sum(journal.runs().values()) == 4 and set(ids) == set(journal.runs())


# Process 1 starts the worker again whenever it ends, each time as process 100.
AGAIN = 2 * 'echo 99 > /proc/sys/kernel/ns_last_pid; "$@" & wait\n'


@on_both
def test_a_worker_with_the_pid_of_a_killed_one_runs_its_tasks_at_once(contained, server, journal,
                                                                      gate):
    """Its claim stands for a minute, and it is dead for sure: two have not one pid."""
    ids = server.add("q", *[b"do setsid=60000 " + str(gate).encode()] * 3)
    s = contained("unshare", "-pf", "--mount-proc", "--kill-child", "sh", "-c", AGAIN, "sh")
    s.wait_ready()
    journal.wait_started(2)
    name, first = s.name(), worker_in(s)
    assert name == "worker_100"
    claim = server.r.get(server.key("q", "consumer:" + name))
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: s.out().count("is ready: queue q") == 2)
    assert s.name() == name
    journal.wait_started(4)
    assert collections.Counter(journal.runs()) == {ids[0]: 2, ids[1]: 2}, "before what is new"
    assert server.r.get(server.key("q", "consumer:" + name)) != claim
    assert s.out().count("2 tasks that it left may run again") == 1
    crashed = server.r.hgetall(server.key("q", "crash"))
    assert crashed == {i.encode(): b"1:1:stale" for i in ids[:2]}
    gate.open()
    server.wait_empty("q")
    assert journal.runs() == {ids[0]: 2, ids[1]: 2, ids[2]: 1}
    assert server.counters("q")["done"] == 3
