"""One queue over all nodes of a Redis Cluster: what one of them suffers, only its partitions feel."""
import collections
import os
import signal

import pytest

import procs
from clusters import Producer
from journal import Gate
from waiting import stays, wait_until

N = 6


def start(sup, journal, cluster, workers=3, redis=(), **keys):
    s = sup(server=None, supervisor={"workers": workers, "log_level": "info"},
            redis=dict({"url": cluster.url(cluster.nodes[0])}, **dict(redis)),
            queues={"q": dict({"handler": journal.handler(), "partitions": N, "concurrency": 4,
                               "lease": "6s", "retry_delay": "100ms", "kill_grace": "300ms"},
                              **keys)})
    s.wait_ready(workers)
    return s


def streams(of=None, cluster=None):
    names = ["q:%d" % i for i in range(N)]
    return [s for s in names if of is None or cluster.owner(s) is of]


def called(stream, ids):
    """As handlers call them: tasks of two partitions may have the same entry id."""
    return ["%s:%s" % (stream.partition(":")[2], i) for i in ids]


class Load:
    """A producer for each of these partitions."""

    def __init__(self, cluster, names, **how):
        self.of = {s: Producer(cluster, s, pause=0.01, **how) for s in names}

    def end(self):
        return {i for s, p in self.of.items() for i in called(s, p.end())}

    def replicated(self):
        return {i for s, p in self.of.items() for i in called(s, p.replicated)}


def wait_all_empty(cluster):
    for s in streams():
        cluster.owner(s).wait_empty(s, 60)


def test_every_node_has_a_part_and_each_task_runs_once(cluster, sup, journal, gate):
    per_node = [streams(n, cluster) for n in cluster.nodes[:3]]
    assert all(per_node), "the names of a queue's partitions lie apart"
    tasks = [i for s in streams()
             for i in called(s, cluster.owner(s).add(s, *[b"do " + str(gate).encode()] * 50))]
    s = start(sup, journal, cluster)
    journal.wait_started(12)
    gate.open()
    wait_all_empty(cluster)
    assert journal.runs() == collections.Counter(tasks)
    assert journal.most_at_once() == 12
    assert {w["redis"].count("redis://") for w in s.workers()} == {3}
    assert s.stop() == 0


def test_a_slot_that_moves_holds_up_its_partition_only(masters, sup, journal):
    start(sup, journal, masters)
    load = Load(masters, streams())
    journal.wait_ended(60)
    source = masters.owner("q:0")
    target = next(n for n in masters.nodes if n is not source)
    slot = masters.slot("{q:0}")
    masters.begin_move(slot, source, target)
    n = len(journal.ends())
    wait_until(lambda: len([e for e in journal.ends()[n:] if e["id"][0] != "0"]) >= 60, 30)
    while masters.move_keys(slot, source, target):
        pass
    masters.end_move(slot, target)
    n = len(journal.ends())
    wait_until(lambda: any(e["id"].startswith("0:") for e in journal.ends()[n:]), 10)
    accepted = load.end()
    wait_all_empty(masters)
    assert set(journal.runs()) >= accepted
    assert max(journal.runs().values()) == 1


def test_kill_9_of_a_master_under_load(cluster, sup, journal):
    s = start(sup, journal, cluster)
    pids = sorted(s.pids())
    old = cluster.owner("q:0")
    hit = streams(old, cluster)
    others = [x for x in streams() if x not in hit]
    load = Load(cluster, streams(), wait=1)
    journal.wait_ended(60)
    old.stop()
    n = len(journal.ends())
    wait_until(lambda: len([e for e in journal.ends()[n:] if "q:" + e["id"][0] in others]) >= 30,
               10, "the others go on")
    for name in hit:
        cluster.wait_failed_over(old, name)
    n = len(journal.ends())
    wait_until(lambda: {"q:" + e["id"][0] for e in journal.ends()[n:]} >= set(hit), 10,
               "its partitions, too")
    wait_until(lambda: all(w["consuming"] for w in s.workers()), 10)
    load.end()
    wait_all_empty(cluster)
    lost = load.replicated() - {e["id"] for e in journal.ends()}
    print("cluster: %d replicated, %d lost, %d ran twice" % (
        len(load.replicated()), len(lost), len([n for n in journal.runs().values() if n > 1])))
    assert not lost
    assert max(journal.runs().values()) <= 2
    assert sorted(s.pids()) == pids, "no worker has ended"


def test_a_node_that_stays_away_keeps_nothing_else(masters, sup, journal):
    """Not the other partitions, not a reload, not a stop."""
    s = start(sup, journal, masters)
    gone = masters.owner("q:0")
    rest = [x for x in streams() if x not in streams(gone, masters)]
    masters.take_away(gone)
    wait_until(lambda: not any(w["consuming"] for w in s.workers()), 20)
    for stream in rest:
        masters.owner(stream).add(stream, *[b"do"] * 20)
    journal.wait_ended(20 * len(rest))
    old, generation = set(s.pids()), s.status()["supervisor"]["generation"]
    s.ctl("reload", check=0)
    s.wait_reload(generation)
    wait_until(lambda: len(s.ready()) == 3 and not old & set(s.pids()), 20,
               "new ones serve what they can reach")
    for stream in rest:
        masters.owner(stream).add(stream, *[b"do"] * 20)
    journal.wait_ended(40 * len(rest))
    assert max(journal.runs().values()) == 1
    assert s.stop(20) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_a_node_that_stays_away_keeps_no_order_of_the_others(masters, sup, journal, gate, workers):
    """What a dead worker had in partitions that can be reached starts again at once: also where it
    was the only one, and the next cannot become ready."""
    s = start(sup, journal, masters, workers, lease="60s")
    gone = masters.owner("q:0")
    stream = [x for x in streams() if x not in streams(gone, masters)][-1]
    masters.take_away(gone)
    wait_until(lambda: not any(w["consuming"] for w in s.workers()), 20)
    task, = called(stream, masters.owner(stream).add(stream, b"do " + str(gate).encode()))
    journal.wait_started(1)
    worker = wait_until(lambda: [w for w in s.workers() if w["running"]])[0]
    os.kill(worker["pid"], signal.SIGKILL)
    wait_until(lambda: journal.runs()[task] == 2, 20, "it runs again")
    gate.open()
    masters.owner(stream).wait_empty(stream, 30)
    assert "task %s of %s runs again" % (task, worker["consumer"]) in s.out()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_slot_that_moves_keeps_no_worker_set_aside(masters, sup, journal, gate, workers):
    """The suspects of a crash have run: what may lie in a partition that waits is no reason."""
    s = start(sup, journal, masters, 1)
    source = masters.owner("q:0")
    target = next(n for n in masters.nodes if n is not source)
    masters.owner("q:5").add("q:5", *[b"do " + str(gate).encode()] * 2)
    journal.wait_started(2)
    s.ctl("scale", "q", str(workers), check=0)
    first = s.wait_ready(workers)[0]
    masters.begin_move(masters.slot("q:0"), source, target)
    masters.move_keys(masters.slot("q:0"), source, target, only=lambda key: key == "q:0")
    wait_until(lambda: not any(w["consuming"] for w in s.workers()), 20, "status says so")
    os.kill(first["pid"], signal.SIGKILL)
    wait_until(lambda: "set aside" in s.log("q"), 20)   # the other one, or the one in its place
    gate.open()
    wait_until(lambda: "taking any task again" in s.log("q"), 20)
    masters.owner("q:5").wait_empty("q:5", 30)
    masters.move(masters.slot("q:0"), source, target)
    wait_until(lambda: all(w["consuming"] for w in s.workers()), 20)


def test_a_node_that_stays_away_keeps_no_broken_handler_from_being_tried(masters, sup, journal):
    """There might be something better there to try it with than what it broke on: not while that
    cannot be read."""
    s = start(sup, journal, masters, 1, breaker_delay="300ms")
    gone, _, rest = away(masters)
    masters.take_away(gone)
    wait_until(lambda: not any(w["consuming"] for w in s.workers()), 20)
    x, node = next(iter(rest.items()))
    task, = called(x, node.add(x, b"do exit=78 until_run=2"))
    wait_until(lambda: journal.runs()[task] == 2, 20, "it is tried with what it broke on")
    node.wait_empty(x)
    assert "the handler works again" in s.log("q")


def test_a_child_knows_its_worker_though_the_first_partition_is_away(masters, sup, pipes):
    gone, _, rest = away(masters)
    seed = next(iter(rest.values()))
    masters.take_away(gone)
    s = sup(server=None, supervisor={"workers": 1}, redis={"url": masters.url(seed)},
            queues={"q": {"handler": pipes.handler(), "partitions": N}})
    worker, = s.wait_ready(1)
    stream, node = next(iter(rest.items()))
    node.add(stream, b"do")
    pid = wait_until(pipes.starts)[0]["pid"]
    assert worker["consumer"] == "worker_%d" % worker["pid"]
    assert procs.environ(pid)[b"REDISQ_WORKER"].decode() == worker["consumer"]


# ---- tasks that have ended, and cannot be settled

def away(cluster):
    """The node of q:0, its partitions, and the nodes of the others."""
    gone = cluster.owner("q:0")
    hit = streams(gone, cluster)
    return gone, hit, {x: cluster.owner(x) for x in streams() if x not in hit}


def fill(sup, journal, gate, node, stream):
    """A queue all of whose slots are taken by tasks of one partition."""
    s = start(sup, journal, node, 2, concurrency=2, lease="4s")
    gone, hit, rest = away(node)
    ids = called(stream, gone.add(stream, *[b"do " + str(gate).encode()] * 8))
    journal.wait_started(4)
    return s, gone, rest, ids


def wait_others_run(journal, rest):
    ids = {i for x, node in rest.items() for i in called(x, node.add(x, *[b"do"] * 5))}
    wait_until(lambda: ids <= {e["id"] for e in journal.ends()}, 20, "the others go on")
    return ids


def test_a_node_that_goes_takes_no_slots_along(masters, sup, journal, gate):
    s, gone, rest, _ = fill(sup, journal, gate, masters, "q:0")
    masters.take_away(gone)
    gate.open()
    journal.wait_ended(4)
    wait_others_run(journal, rest)
    assert max(journal.runs().values()) == 1 and journal.most_at_once() <= 4
    assert s.stop(40) in (0, 1)


def test_a_node_that_goes_keeps_no_slots_for_what_was_not_started(masters, sup, journal, gate):
    """More at once than are started in one turn: no node is there any more to prove them by."""
    s = start(sup, journal, masters, 1, concurrency=64)
    gone, _, rest = away(masters)
    gone.add("q:0", *[b"do " + str(gate).encode()] * 64)
    wait_until(journal.starts, every=0.001)
    masters.take_away(gone)
    gate.open()
    wait_until(lambda: not any(w["consuming"] for w in s.workers()), 20)
    wait_until(lambda: s.workers()[0]["running"] == 0, 20, "all slots are free")
    wait_others_run(journal, rest)
    assert max(journal.runs().values()) == 1


def test_a_node_that_hangs_makes_no_other_partition_deaf(masters, sup, journal, gate):
    """Its links stand for as long as command_timeout, and what it was asked stays unanswered."""
    s = start(sup, journal, masters, 1, concurrency=8, lease="60s", redis={"command_timeout": "40s"})
    hung, _, rest = away(masters)
    x, node = next(iter(rest.items()))
    node.add(x, *[b"do " + str(gate).encode()] * 16)
    journal.wait_started(8)

    def nobody_waits():
        return hung.r.info("clients")["blocked_clients"] == 0
    wait_until(nobody_waits, what="all slots are taken")
    stays(nobody_waits, 0.3, "its partitions are due for a look, when there is a slot")
    hung.pause()
    try:
        gate.open()
        journal.wait_ended(16)
        for x, node in 3 * list(rest.items()):
            task, = called(x, node.add(x, b"do"))
            wait_until(lambda: journal.runs()[task], 3, "it starts at once")
    finally:
        hung.go_on()
    assert s.stop(40) == 0


def test_tasks_that_end_while_their_slot_moves_keep_no_slots(masters, sup, journal, gate):
    """The stream is still where it was, and could be read: all it brings could not be settled."""
    s, gone, rest, ids = fill(sup, journal, gate, masters, "q:0")
    target, slot = next(iter(rest.values())), masters.slot("{q:0}")
    masters.begin_move(slot, gone, target)
    masters.move_keys(slot, gone, target, only=lambda key: key != "q:0")
    gate.open()
    journal.wait_ended(4)
    others = wait_others_run(journal, rest)
    assert len(set(journal.runs()) & set(ids)) <= 8
    while masters.move_keys(slot, gone, target):
        pass
    masters.end_move(slot, target)
    wait_all_empty(masters)
    assert journal.runs() == dict.fromkeys(others | set(ids), 1)
    assert journal.most_at_once() <= 4
    assert s.stop() == 0


def test_checkpoints_that_cannot_be_read_while_a_slot_moves_keep_no_slots(masters, sup, journal):
    """There are none, and a key that is missing may be at the other node: ASK."""
    s = start(sup, journal, masters, 1, concurrency=1, lease="60s")
    source, _, rest = away(masters)
    target, slot = next(iter(rest.values())), masters.slot("{q:0}")
    masters.begin_move(slot, source, target)
    again = called("q:0", source.add("q:0", *[b"do"] * 4, **{"redisq.attempt": 2}))
    wait_until(lambda: "reading a checkpoint: ASK" in s.log("q"))
    wait_until(lambda: source.n_pending("q:0") >= 1, what="the slot is taken")
    others = wait_others_run(journal, rest)
    assert not set(again) & set(journal.runs())
    while masters.move_keys(slot, source, target):
        pass
    masters.end_move(slot, target)
    wait_all_empty(masters)
    assert journal.runs() == dict.fromkeys([*others, *again], 1)
    assert s.stop() == 0


def test_two_slots_that_move_keep_no_slots(masters, sup, journal, tmp_path):
    """What a read had brought beside what could not be settled was put off, too: there was no room in
    the worker's table for any other partition."""
    s = start(sup, journal, masters, 1, concurrency=2, lease="4s")
    moved = []
    for stream in "q:0", "q:1":
        gate = Gate(tmp_path / stream)
        source = masters.owner(stream)
        target = next(n for n in masters.nodes if n is not source)
        slot = masters.slot("{%s}" % stream)
        ids = called(stream, source.add(stream, *[b"do " + str(gate).encode()] * 8))
        wait_until(lambda: len(journal.running()) == 2)
        masters.begin_move(slot, source, target)
        masters.move_keys(slot, source, target, only=lambda key: key != stream)
        gate.open()
        wait_until(lambda: len(set(journal.runs()) & set(ids)) >= 2 and not journal.running())
        moved.append((slot, source, target, ids))
    rest = {x: masters.owner(x) for x in streams() if x not in ("q:0", "q:1")}
    others = wait_others_run(journal, rest)
    for slot, source, target, _ in moved:
        while masters.move_keys(slot, source, target):
            pass
        masters.end_move(slot, target)
    wait_all_empty(masters)
    assert journal.runs() == dict.fromkeys([*others, *moved[0][3], *moved[1][3]], 1)
    assert journal.most_at_once() <= 2
    assert s.stop() == 0


def test_a_partition_that_is_refused_keeps_no_worker_set_aside(masters, sup, journal, gate):
    """Nobody can tell whether a suspect is left there, and none could be run."""
    s = start(sup, journal, masters, 2, concurrency=2, lease="4s")
    gone, hit, rest = away(masters)
    x, node = next(iter(rest.items()))
    suspects = called(x, node.add(x, *[b"do " + str(gate).encode()] * 4))
    journal.wait_started(4)
    gone.r.delete(hit[0])
    gone.r.set(hit[0], "text")
    wait_until(lambda: s.log("q").count("WRONGTYPE") >= 2, 20)
    os.kill(s.pids()[0], signal.SIGKILL)
    wait_until(lambda: "is set aside for suspects" in s.out())
    gate.open()
    wait_until(lambda: set(suspects) <= {e["id"] for e in journal.ends()})
    wait_others_run(journal, rest)
