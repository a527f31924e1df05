"""Long-lived handlers that speak JSON lines (handler = pipe ...)."""
import collections
import json
import os
import signal

import pytest

import procs
from conftest import on_both
from waiting import stays, wait_until

FAST = {"retry_delay": "50ms", "retry_jitter": "0%", "kill_grace": "300ms"}


def queue(pipes, *knobs, **keys):
    return {"q": dict(FAST, handler=pipes.handler(*knobs), **keys)}


def letters(server, n=1):
    wait_until(lambda: len(server.dead("q")) >= n, 30, "%d dead letters" % n)
    return [{k.decode(): v.decode(errors="replace") for k, v in f.items()}
            for _, f in server.dead("q")]


def children(pipes):
    """Pids of the children that were started, in order."""
    return [e["pid"] for e in pipes.events("child")]


def living(pipes):
    return [pid for pid in children(pipes) if procs.alive(pid)]


@pytest.mark.parametrize("slots", [1, 3, 64])
def test_tasks_are_done(sup, server, pipes, slots):
    s = sup(queues=queue(pipes, "slots=%d" % slots, concurrency=4), supervisor={"workers": 1})
    s.wait_ready(1)
    ids = server.add("q", *[b"x"] * 40)
    server.wait_empty("q")
    assert pipes.runs() == collections.Counter(ids)
    assert server.counters("q")["done"] == 40
    assert len(children(pipes)) == (4 + slots - 1) // slots


@on_both
def test_main_job_with_a_pipe_handler(sup, server, pipes, gate):
    """400 tasks on 4 x 4: each once, never more than 16 at once, all 16 in use."""
    s = sup(queues=queue(pipes, "slots=2", "sleep=15", concurrency=4), supervisor={"workers": 4})
    s.wait_ready(4)
    ids = server.add("q", *[b"do " + str(gate).encode()] * 200)
    pipes.wait_started(16)
    gate.open()
    ids += server.add("q", *[b"%d" % i for i in range(200)])
    server.wait_empty("q")
    assert pipes.runs() == collections.Counter(ids)
    assert pipes.most_at_once() == 16
    assert len(children(pipes)) == 8 and len({e["ppid"] for e in pipes.events("child")}) == 4
    assert s.stop() == 0
    assert not living(pipes), "children leave with their worker"
    assert len(pipes.events("drain")) == 8, "each was told to"


def test_what_a_task_looks_like(sup, server, pipes, tmp_path):
    sup(queues=queue(pipes, "save=%s" % tmp_path, timeout="1m", max_attempts=7))
    text = "caf\u00e9 \\ \" \n \x01 \u2028 \U0001f600"
    task = server.add_fields("q", ("payload", text), ("colour", "red"), ("colour", "blue"),
                             ("photo", b"\xff\xd8\x00"), ("h\u00f6he", "1"), (b"\xff", "odd name"))
    server.wait_empty("q")
    raw = (tmp_path / (task + ".1")).read_bytes()
    assert b"\n" not in raw
    line = json.loads(raw)
    deadline = line.pop("deadline_ms") - line["enqueued_at_ms"]
    assert 55000 < deadline < 75000
    assert line == {"v": 1, "type": "task", "id": task, "queue": "q", "attempt": 1,
                    "max_attempts": 7, "deliveries": 1,
                    "enqueued_at_ms": int(task.split("-")[0]), "payload": text,
                    "fields": {"colour": "blue", "h\u00f6he": "1", "%FF": "odd name"},
                    "fields_b64": {"photo": "/9gA"}}


def test_binary_payload_and_no_deadline(sup, server, pipes, tmp_path):
    import base64
    sup(queues=queue(pipes, "save=%s" % tmp_path, timeout="0"))
    payload = bytes(range(256)) * 4000  # 1 MB, of which JSON makes 1.4
    task, other = server.add("q", payload, b"")
    server.wait_empty("q")
    line = json.loads((tmp_path / (task + ".1")).read_bytes())
    assert base64.b64decode(line["payload_b64"]) == payload
    assert "payload" not in line and "deadline_ms" not in line and line["fields"] == {}
    assert json.loads((tmp_path / (other + ".1")).read_bytes())["payload"] == ""


def test_entry_without_payload_has_only_fields(sup, server, pipes, tmp_path):
    sup(queues=queue(pipes, "save=%s" % tmp_path, stdin="fields"))
    task = server.add_fields("q", ("n", "1"))
    server.wait_empty("q")
    line = json.loads((tmp_path / (task + ".1")).read_bytes())
    assert line["fields"] == {"n": "1"} and not {"payload", "payload_b64"} & set(line)


def test_environment_and_fds_of_a_child(sup, server, pipes, tmp_path):
    s = sup(queues=queue(pipes, env="MINE='a b'"), supervisor={"workers": 1},
            env={"REDIS_URL": "redis://secret@nowhere.invalid", "TEST_KEPT": "yes"})
    worker = s.wait_ready(1)[0]
    wait_until(lambda: len(children(pipes)) == 4)
    numbers = set()
    for pid in children(pipes):
        env = {k.decode(): v.decode() for k, v in procs.environ(pid).items()}
        numbers.add(env.pop("REDISQ_CHILD"))
        assert {k: v for k, v in env.items() if k.startswith("REDIS")} == {
            "REDISQ_QUEUE": "q", "REDISQ_WORKER": worker["consumer"], "REDISQ_SLOT": "0",
            "REDISQ_ANSWER_FD": "3"}
        assert env["MINE"] == "a b" and env["TEST_KEPT"] == "yes"
        assert sorted(map(int, os.listdir("/proc/%d/fd" % pid)))[:4] == [0, 1, 2, 3]
        assert len([fd for fd in os.listdir("/proc/%d/fd" % pid) if int(fd) > 3]) == 1, \
            "beyond 0 to 3 it has only what it opened itself: its journal"
    assert numbers == {"1", "2", "3", "4"}


def test_status_and_describe_know_the_children(sup, server, pipes):
    s = sup(queues=queue(pipes, concurrency=3), supervisor={"workers": 1})
    s.wait_ready(1)
    wait_until(lambda: len(living(pipes)) == 3)
    assert sorted(s.workers("q")[0]["children"]) == sorted(living(pipes))
    assert all(" %d" % pid in s.ctl("describe", "0").out for pid in living(pipes))


def test_reload_under_load_loses_nothing(sup, server, pipes):
    """Old children finish what they have, new ones are there before; each task runs once."""
    s = sup(queues=queue(pipes, "slots=4", "sleep=5", concurrency=8), supervisor={"workers": 2})
    s.wait_ready(2)
    ids = []
    for _ in range(4):
        ids += server.add("q", *[b"x"] * 100)
        s.ctl("reload", check=0)
    server.wait_empty("q")
    assert pipes.runs() == collections.Counter(ids) and not server.dead("q")
    assert pipes.most_at_once() <= 16
    wait_until(lambda: len(living(pipes)) == 4)


def test_started_by_a_flag(sup, server, pipes):
    """-k pipe -q QUEUE -- PROGRAM"""
    s = sup(ini=False, args=["-n", "1", "-k", "pipe", "-q", "q", "-s", "redis.url=" + server.url,
                             "--", pipes.program, pipes.path, "slots=2"])
    wait_until(lambda: len(living(pipes)) == 2)
    server.add("q", *[b"x"] * 10)
    server.wait_empty("q")
    assert s.stop() == 0 and not living(pipes)


def test_a_worker_alone(build, tmp_path, server, pipes):
    from alone import Alone
    w = Alone(build, tmp_path, server=server, keys={"handler": pipes.handler("slots=4"),
                                                    "concurrency": 8})
    try:
        w.wait_ready()
        server.add("q", b"do signal=9 until_run=2 sleep=20", *[b"do sleep=60"] * 3)
        server.wait_empty("q")
        assert server.counters("q")["done"] == 4, "suspects run in children of their own"
        assert w.stop() == 0
        assert not living(pipes)
    finally:
        w.show()
        w.close()


# ---------------------------------------------------------------- answers

@on_both
def test_every_answer(sup, server, pipes):
    sup(queues=queue(pipes, "slots=8", max_attempts=2, breaker_failures=0))
    server.add("q", b"do answer=dead error=no~such~user", b"do answer=retry error=busy until=2",
               b"do answer=snooze delay=30 until_run=3", b"do result={\"n\":1}")
    dead, = letters(server)
    assert (dead["redisq.reason"], dead["redisq.error"]) == ("rejected", "no~such~user")
    again = server.add("q", b"do answer=snooze delay=20 error=x until=2")[0]
    wait_until(lambda: len(pipes.starts(again)) >= 3)
    assert {e["attempt"] for e in pipes.starts(again)} == {1}, "a snooze charges no attempt"


def test_retry_waits_as_long_as_it_says(sup, server, pipes):
    sup(queues=queue(pipes, retry_delay="1h", retry_delay_max="2h"))
    server.add("q", b"do answer=retry delay=100 until=3")
    server.wait_empty("q")
    starts = pipes.starts()
    assert [e["attempt"] for e in starts] == [1, 2, 3]
    assert all(b["t"] - a["t"] >= 95e6 for a, b in zip(starts, starts[1:]))


def test_attempts_are_charged_and_the_letter_tells_of_the_last(sup, server, pipes):
    sup(queues=queue(pipes, max_attempts=2))
    server.add("q", b"do answer=retry error=broke cry=it~broke")
    dead, = letters(server)
    assert dead["redisq.reason"] == "attempts" and dead["redisq.error"] == "broke"
    assert "it broke" in dead["redisq.stderr"]
    assert len(pipes.starts()) == 2 and len(children(pipes)) == 8, "no child died of it"


def test_result_is_kept(sup, server, pipes):
    sup(queues=queue(pipes, result_ttl="1h"))
    task, = server.add("q", b"do result={\"n\":[1,2]}")
    server.wait_empty("q")
    assert server.r.get(server.key("q", "result:" + task)) == b'{"n":[1,2]}'


@on_both
def test_checkpoint_comes_back_with_the_next_attempt(sup, server, pipes, tmp_path):
    sup(queues=queue(pipes, "save=%s" % tmp_path))
    task, = server.add("q", b"do checkpoint={\"job\":7} answer=retry until=2")
    server.wait_empty("q")
    assert "checkpoint" not in json.loads((tmp_path / (task + ".1")).read_bytes())
    assert json.loads((tmp_path / (task + ".2")).read_bytes())["checkpoint"] == {"job": 7}


def test_answers_out_of_order(sup, server, pipes):
    sup(queues=queue(pipes, "slots=8", "hoard=8", concurrency=8), supervisor={"workers": 1})
    ids = server.add("q", *[b"x"] * 8)
    server.wait_empty("q")
    assert [e["id"] for e in pipes.ends()] == ids[::-1]


def test_an_answer_given_twice_or_late_counts_once(sup, server, pipes):
    sup(queues=queue(pipes, "slots=4", "twice=1"), supervisor={"workers": 1})
    ids = server.add("q", *[b"do sleep=5"] * 50)
    server.wait_empty("q")
    assert server.counters("q")["done"] == 50 and pipes.runs() == collections.Counter(ids)
    assert len(children(pipes)) == 1


def test_a_huge_result(sup, server, pipes):
    sup(queues=queue(pipes, "slots=4"), supervisor={"workers": 1})
    server.add("q", b"do blob=1000000", b"do blob=1048570")
    server.wait_empty("q")
    assert server.counters("q")["done"] == 2 and len(children(pipes)) == 1


def test_unknown_types_are_ignored(sup, server, pipes):
    sup(queues=queue(pipes, "'start_say={\"type\":\"hello\"}'"), supervisor={"workers": 1})
    server.add("q", b'do line={"type":"later","id":5}', b'do line={"type":"ready","slots":99}',
               b"do line=")
    server.wait_empty("q")
    assert server.counters("q")["done"] == 3
    wait_until(lambda: len(children(pipes)) == 4)
    stays(lambda: len(children(pipes)) == 4, 0.3, "none was replaced")


def test_tasks_of_one_id_are_not_in_one_child_at_once(sup, server, pipes, gate):
    """The answers to two of them could not be told apart."""
    sup(queues=queue(pipes, "slots=4"), supervisor={"workers": 1})
    for _ in range(3):
        server.add_fields("q", ("payload", "do " + str(gate)), ("redisq.id", "same"))
    other, = server.add("q", b"x")
    wait_until(lambda: other in [e["id"] for e in pipes.ends()])
    assert len(pipes.starts("same")) == 1, "the others wait, and what comes after them does not"
    gate.open()
    server.wait_empty("q")
    assert len(pipes.starts("same")) == 3 and server.counters("q")["done"] == 4


def test_an_id_that_is_no_utf8(sup, server, pipes):
    sup(queues=queue(pipes), supervisor={"workers": 1})
    server.add_fields("q", ("payload", "x"), ("redisq.id", b"a\xff\xc3"))
    server.wait_empty("q")
    assert server.counters("q")["done"] == 1
    assert pipes.starts()[0]["id"] == "a%FF%C3"
