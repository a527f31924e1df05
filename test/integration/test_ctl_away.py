"""redisqctl and a queue of partitions on the nodes of a cluster, while one of these nodes is away."""
import binascii
import json
import re
import time

import pytest

from test_ctl_partitions import told
from waiting import PATIENCE

N = 6


def unspread(cluster, n):
    """The name of a queue of n partitions of which a node has some and others have some; that node,
    and the partitions that it has."""
    for name in ("q%d" % k for k in range(1000)):
        nodes = [cluster.owner("%s:%d" % (name, i)) for i in range(n)]
        theirs = [i for i in range(n) if nodes[i] is nodes[1]]
        if len(theirs) == 3:
            return name, nodes[1], theirs
    raise AssertionError("no such name")


@pytest.fixture
def away(masters, sup):
    """(redisqctl, its queue, lost): of six partitions with three tasks each, one waiting, one running,
    one dead, which no worker serves; the node of three of them is away."""
    q, node, lost = unspread(masters, N)
    alive = next(m for m in masters.nodes if m is not node)
    s = sup(start=False, server=None, redis={"url": masters.url(alive)},
            queues={q: {"handler": "exec true", "partitions": N}})
    for i in range(N):
        stream = "%s:%d" % (q, i)
        at = masters.owner(stream).r
        at.xgroup_create(stream, "redisq", mkstream=True)
        at.xadd(stream, {"payload": "x"})
        at.xadd(stream, {"payload": "x"})
        at.xreadgroup("redisq", "somebody", {stream: ">"}, count=1)
        at.xdel(stream, at.xadd(stream, {"payload": "x"}))
        at.xadd("{%s}:dead" % stream, {"payload": "x", "redisq.id": "t%d" % i}, id="10-%d" % i)
    masters.take_away(node)
    return (lambda *args, **how: s.ctl("-c", s.ini, *args, config=False, **how)), q, lost


def without(q, lost):
    return "%s: without partitions %s, which cannot be reached" % (q, ", ".join(map(str, lost)))


def said_once(err, q, lost):
    """One line, with the reason."""
    assert err.count("\n") == 1 and "partitions %s cannot be reached: " % ", ".join(
        "%s:%d" % (q, i) for i in lost) in err and "Connection refused" in err, err
    return True


def test_stats_tell_of_the_partitions_that_can_be_reached(away):
    ctl, q, lost = away
    begun = time.monotonic()
    done = ctl("stats", q, "--partitions", check=69)
    took = time.monotonic() - begun
    assert said_once(done.err, q, lost)
    rows = {r[0]: r[1:] for r in told(done.out) if len(r) == 9}
    assert rows[q][:6] == ["3", "3", "0", "0", "3", "0"] and without(q, lost) in done.out
    for i in range(N):
        assert rows["%s:%d" % (q, i)][:2] == (["?", "?"] if i in lost else ["1", "1"])
    assert took < 10 * PATIENCE, "three nodes that are away are waited for once, not 5 s for each"
    answer = json.loads(ctl("stats", q, "--json", check=69).out)
    assert answer["unreachable"] == lost and answer["waiting"] == 3
    assert [p["partition"] for p in answer["partitions"]] == [i for i in range(N) if i not in lost]
    # By itself one is as any queue.
    for i in lost[0], min(set(range(N)) - set(lost)):
        done = ctl("stats", "%s:%d" % (q, i), "--json", check=69 if i in lost else 0)
        assert "unreachable" not in done.out and (done.out == "") == (i in lost)


def test_stats_of_all_queues_tell_of_those_that_can_be_reached(masters, sup):
    """Also where a queue has no partitions: the node that is away is that of other queues."""
    names = ["a%d" % k for k in range(8)]
    node = masters.owner(names[0])
    lost = [name for name in names if masters.owner(name) is node]
    there = [name for name in names if name not in lost]
    assert there
    s = sup(start=False, server=None, redis={"url": masters.url(masters.owner(there[0]))},
            queues={name: {"handler": "exec true"} for name in names})
    for name in there:
        masters.owner(name).r.xadd(name, {"payload": "x"})
    masters.take_away(node)
    done = s.ctl("-c", s.ini, "stats", config=False, check=69)
    rows = {r[0]: r[1] for r in told(done.out) if len(r) == 9}
    assert rows == dict({name: "?" for name in lost}, **{name: "1" for name in there})
    assert "queue%s %s cannot be reached: " % ("s" * (len(lost) > 1), ", ".join(lost)) in done.err
    assert done.err.count("\n") == 1 and "without" not in done.out
    answer = json.loads(s.ctl("-c", s.ini, "stats", "--json", config=False, check=69).out)
    assert {q["queue"] for q in answer if q["waiting"] is None} == set(lost)
    # One that is named is all that was asked for.
    assert s.ctl("-c", s.ini, "stats", lost[0], config=False, check=69).out == ""


def test_pending_and_audit_tell_of_the_partitions_that_can_be_reached(away):
    ctl, q, lost = away
    there = [i for i in range(N) if i not in lost]
    done = ctl("pending", q, check=69)
    assert said_once(done.err, q, lost) and without(q, lost) in done.out
    assert sorted(int(r[0].split(":")[0]) for r in told(done.out) if len(r) >= 4 and ":" in r[0]
                  and r[0][0].isdigit()) == there
    rows = json.loads(ctl("pending", q, "--json", check=69).out)
    assert sorted(r["partition"] for r in rows) == there
    done = ctl("audit", q, check=69)
    assert said_once(done.err, q, lost) and without(q, lost) in done.out
    assert "waiting 3 + running 3" in done.out or "tasks in all places" in done.out


def waiting(masters, q, lost):
    """{partition: tasks that nobody has}, of the others than the lost ones."""
    streams = {i: "%s:%d" % (q, i) for i in range(N) if i not in lost}
    return {i: masters.owner(name).r.xlen(name) - 1 for i, name in streams.items()}


def test_letters_of_the_partitions_that_can_be_reached(away, masters):
    ctl, q, lost = away
    a, b, c = there = [i for i in range(N) if i not in lost]
    done = ctl("dead", "list", q, check=69)
    assert said_once(done.err, q, lost) and without(q, lost) in done.out
    assert [r[0] for r in told(done.out)[:-1]] == ["%d:10-%d" % (i, i) for i in there]
    assert json.loads(ctl("show", q, "t%d" % a, "--json", check=69).out)["partition"] == a
    assert "no dead task t%d in the others; partitions " % lost[0] in \
        ctl("dead", "show", q, "t%d" % lost[0], check=69).err
    # Where the same may be in two places, none of them is guessed; the one that is named, is done.
    assert "may be in one that cannot be reached; say which: %d:10-%d" % (a, a) in \
        ctl("dead", "retry", q, "10-%d" % a, check=69).err
    assert waiting(masters, q, lost)[a] == 1
    ctl("dead", "retry", q, "%d:10-%d" % (a, a), check=0)
    assert waiting(masters, q, lost)[a] == 2
    done = ctl("dead", "retry", q, "--all", check=69)
    assert said_once(done.err, q, lost) and without(q, lost) in done.out
    assert "2 dead tasks put back" in done.out and waiting(masters, q, lost) == {a: 2, b: 2, c: 2}


def test_letters_that_cannot_go_back_hide_no_partition_that_is_away(away, masters):
    """The exit status was 1, and nothing said that some had not been looked at."""
    ctl, q, lost = away
    bad = min(set(range(N)) - set(lost))
    masters.owner("%s:%d" % (q, bad)).r.xadd("{%s:%d}:dead" % (q, bad), {
        "redisq.id": "gone", "redisq.reason": "body_missing", "redisq.died_at": 1}, id="11-0")
    done = ctl("dead", "retry", q, "--all", check=69)
    assert "3 dead tasks put back" in done.out and without(q, lost) in done.out
    assert "1 could not be put back: " in done.err and "cannot be reached: " in done.err
    assert done.err.count("\n") == 1


def test_a_task_goes_to_the_next_partition_that_can_be_reached(away, masters):
    """A third of them was refused before."""
    ctl, q, lost = away
    said = []
    while not said:     # it begins with any
        done = ctl("push", q, "x", check=0)
        said = [line for line in done.err.splitlines() if "the next one is taken" in line]
        assert int(done.out.split(":")[0]) not in lost
    names = re.findall(r"partition %s:(\d) cannot be reached: .*Connection refused" % q, done.err)
    assert len(names) == len(said) and set(map(int, names)) <= set(lost)
    before = waiting(masters, q, lost)
    done = ctl("push", q, "--lines", input=b"x\n" * 30, check=0)
    assert done.out == "pushed 30 tasks to %s\n" % q and done.err.count("the next one is taken") == 3
    after = waiting(masters, q, lost)
    assert sum(after.values()) - sum(before.values()) == 30
    assert all(after[i] > before[i] for i in after)


def test_a_task_goes_to_no_other_partition_than_the_one_of_its_key(away, masters):
    ctl, q, lost = away
    before = waiting(masters, q, lost)
    key = next(k for k in map(str, range(100)) if binascii.crc_hqx(k.encode(), 0) % N == lost[0])
    for how in ("--key", key), ("--partition", lost[0], "--lines"):
        done = ctl("push", q, *how, input=b"x\n", check=69)
        assert "partition %s:%d cannot be reached: slot " % (q, lost[0]) in done.err
        assert done.err.count("\n") == 1 and done.out == ""
    assert waiting(masters, q, lost) == before
