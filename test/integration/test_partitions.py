"""A queue spread over several streams: one worker serves all of them, fairly, within its slots."""
import os
import signal

import pytest

from waiting import wait_until

FAST = {"partitions": 3, "retry_delay": "50ms", "retry_jitter": "0%"}


def push(server, stream, *payloads):
    return [stream.partition(":")[2] + ":" + i for i in server.add(stream, *payloads)]


def spread_over(s, n):
    """By a reload."""
    s.queues["q"]["partitions"] = n
    s.write_ini()
    generation = s.status()["supervisor"]["generation"]
    s.signal(signal.SIGHUP)
    s.wait_reload(generation)


def is_empty(server, *streams):
    return lambda: all(server.is_empty(s) for s in streams)


def test_a_backlog_in_one_does_not_keep_the_others_waiting(sup, server, journal):
    hot = push(server, "q:0", *[b"do sleep=20"] * 300)
    s = sup(queues={"q": dict(FAST, handler=journal.handler(), concurrency=2)}, args=["-n", 1])
    s.wait_ready(1)
    journal.wait_ended(10)
    rare = push(server, "q:1", b"do sleep=20") + push(server, "q:2", b"do sleep=20")
    wait_until(lambda: set(rare) <= {e["id"] for e in journal.ends()})
    last = max(e["t"] for e in journal.ends() if e["id"] in rare)
    before = [e for e in journal.ends() if e["id"] in hot and e["t"] < last]
    assert len(before) < 150, "they were not the last"
    wait_until(is_empty(server, "q:0", "q:1", "q:2"), 60)
    assert journal.runs() == dict.fromkeys(hot + rare, 1)
    assert journal.most_at_once() == 2


def test_two_backlogs_share_the_slots(sup, server, journal):
    for stream in ("q:0", "q:2"):
        push(server, stream, *[b"do sleep=5"] * 40)
    s = sup(queues={"q": dict(FAST, handler=journal.handler(), concurrency=8)}, args=["-n", 1])
    s.wait_ready(1)
    wait_until(is_empty(server, "q:0", "q:1", "q:2"))
    for k in range(16, 64, 16):
        some = [e["id"][0] for e in journal.starts()[k:k + 16]]
        assert 3 <= some.count("0") <= 13, some
    assert journal.most_at_once() <= 8


@pytest.mark.parametrize("slots", [1, 2])
def test_what_is_given_back_does_not_wait_for_a_backlog_elsewhere(sup, server, journal, slots):
    push(server, "q:0", *[b"do sleep=20"] * 400)
    s = sup(queues={"q": dict(FAST, handler=journal.handler(), concurrency=slots, lease="2s")},
            args=["-n", 1])
    s.wait_ready(1)
    journal.wait_ended(5)
    task = "1:" + server.give_back("q:1", b"do sleep=20")
    wait_until(lambda: task in {e["id"] for e in journal.ends()}, 60)
    assert not server.is_empty("q:0"), "it was not the last"
    wait_until(is_empty(server, "q:0", "q:1"), 60)
    assert max(journal.runs().values()) == 1


@pytest.mark.parametrize("slots", [3, 4, 8])
def test_a_backlog_in_one_gets_the_slots_of_the_empty_ones(sup, server, journal, gate, slots):
    s = sup(queues={"q": dict(FAST, handler=journal.handler(), concurrency=slots)},
            args=["-n", 1])
    s.wait_ready(1)
    wait_until(lambda: server.r.info("clients")["blocked_clients"] >= min(slots, 3))
    push(server, "q:1", *[b"do " + str(gate).encode()] * 20)
    journal.wait_started(slots)
    gate.open()
    wait_until(is_empty(server, "q:1"))
    assert journal.most_at_once() == slots


def test_one_slot_serves_six_partitions(sup, server, journal):
    s = sup(queues={"q": dict(FAST, partitions=6, handler=journal.handler(), concurrency=1)},
            args=["-n", 1])
    s.wait_ready(1)
    streams = ["q:%d" % i for i in range(6)]
    for _ in range(3):
        tasks = [push(server, stream, b"do sleep=0")[0] for stream in streams]
        wait_until(lambda: set(tasks) <= {e["id"] for e in journal.ends()})
    wait_until(is_empty(server, *streams))
    assert journal.most_at_once() == 1 and set(journal.runs().values()) == {1}
    assert s.stop() == 0


def test_tasks_of_the_same_entry_id_are_two(sup, server, journal, gate):
    """And a worker that dies with both is charged, and followed, for each."""
    for stream in ("q:0", "q:1"):
        server.r.xadd(stream, {"payload": b"do " + str(gate).encode()}, id="7-7")
    s = sup(queues={"q": dict(FAST, handler=journal.handler(), concurrency=2)}, args=["-n", 1])
    worker, = s.wait_ready(1)
    journal.wait_started(2)
    assert journal.runs() == {"0:7-7": 1, "1:7-7": 1}
    os.kill(worker["pid"], signal.SIGKILL)
    wait_until(lambda: s.out().count("handed over 1 task of") == 2)
    gate.open()
    wait_until(is_empty(server, "q:0", "q:1"))
    assert journal.runs() == {"0:7-7": 2, "1:7-7": 2}
    for task in journal.runs():
        wait_until(lambda: "task %s of %s runs again" % (task, worker["consumer"]) in s.out())


def test_partitions_added_at_a_reload_are_served(sup, server, journal):
    s = sup(queues={"q": dict(FAST, partitions=1, handler=journal.handler())}, args=["-n", 2])
    s.wait_ready(2)
    push(server, "q:3", b"do sleep=0")
    spread_over(s, 4)
    wait_until(is_empty(server, "q:3"))
    assert list(journal.runs().values()) == [1]


def test_a_death_after_partitions_were_taken_away_holds_up_no_other(sup, server, journal, gate):
    """Nobody serves what the dead one had in the third; that keeps no later order waiting."""
    s = sup(queues={"q": dict(FAST, handler=journal.handler(), concurrency=2)}, args=["-n", 1])
    old, = s.wait_ready(1)
    stays, = push(server, "q:2", b"do " + str(gate).encode())
    journal.wait_started(1)
    spread_over(s, 2)
    os.kill(old["pid"], signal.SIGKILL)
    task, = push(server, "q:1", b"do " + str(gate).encode())
    wait_until(lambda: journal.runs()[task] == 1, 20, "the credit of the dead one is there")
    os.kill(s.wait_ready(1)[0]["pid"], signal.SIGKILL)
    wait_until(lambda: journal.runs()[task] == 2, 20, "handed over")
    gate.open()
    wait_until(is_empty(server, "q:1"))
    assert journal.runs() == {stays: 1, task: 2}
    assert server.n_pending("q:2") == 1 and '"q:2" is not served any more' in s.log("q")


def test_a_death_after_a_queue_was_spread_touches_no_partition(sup, server, journal, gate):
    """The old worker had the stream q; partition 0 of the new ones is q:0."""
    task, = server.add("q", b"do " + str(gate).encode())
    s = sup(queues={"q": dict(FAST, partitions=1, handler=journal.handler())}, args=["-n", 1])
    old, = s.wait_ready(1)
    journal.wait_started(1)
    spread_over(s, 3)
    os.kill(old["pid"], signal.SIGKILL)
    wait_until(lambda: '"q" is not served any more: what dead %s had' % old["consumer"]
               in s.log("q"))
    pushed = push(server, "q:0", b"do sleep=0")
    wait_until(is_empty(server, "q:0"))
    assert journal.runs() == {task: 1, pushed[0]: 1}
    assert server.n_pending("q") == 1, "for whoever serves it again"


def test_a_partition_that_is_no_stream_is_named(sup, server, journal):
    server.r.set("q:2", "text")
    s = sup(queues={"q": dict(FAST, handler=journal.handler())}, args=["-n", 1])
    assert s.wait_exit() == 78
    assert "q:2 is a string, not a stream" in s.out()


def test_checkpoints_that_cannot_be_read_keep_no_slots(sup, server, journal):
    """The hash is none: renewals went well, and the tasks were held for ever, not started."""
    server.r.set("{q:1}:ckpt", "text")
    s = sup(queues={"q": dict(FAST, handler=journal.handler(), concurrency=1)}, args=["-n", 1])
    s.wait_ready(1)
    again = ["1:" + i for i in server.add("q:1", *[b"do"] * 4, **{"redisq.attempt": 2})]
    wait_until(lambda: "reading a checkpoint: WRONGTYPE" in s.log("q"))
    wait_until(lambda: server.n_pending("q:1") >= 1, what="the slot is taken")
    others = push(server, "q:0", *[b"do"] * 5) + push(server, "q:2", *[b"do"] * 5)
    wait_until(lambda: set(others) <= {e["id"] for e in journal.ends()}, 20, "the others go on")
    assert not set(again) & set(journal.runs())
    server.r.delete("{q:1}:ckpt")
    wait_until(is_empty(server, "q:0", "q:1", "q:2"), 30)
    assert journal.runs() == dict.fromkeys(others + again, 1)
    assert server.counters("q:1") == {"done": 4}, "they were not charged"
