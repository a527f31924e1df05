"""The main job: real tasks from a real stream, each exactly once, never more at once than told."""
import collections
import os

import pytest

from waiting import stays, wait_until

BACKENDS = ("stream", "list")


@pytest.mark.backends("stream", "list", "partitions")
def test_400_tasks_run_exactly_once_on_4_times_4(sup, server, journal, gate):
    before = server.add("video", *[b"do " + str(gate).encode()] * 200)
    s = sup(queues={"video": {"handler": journal.handler(), "concurrency": 4}}, args=["-n", 4])
    rows = s.wait_ready(4)
    journal.wait_started(16)
    gate.open()
    after = server.add("video", *[b"do sleep=50"] * 200)
    server.wait_empty("video", 60)

    assert journal.runs() == collections.Counter(before + after)
    assert journal.most_at_once() == 16
    by_worker = collections.Counter(e["env"]["REDISQ_WORKER"] for e in journal.starts())
    assert set(by_worker) == {"worker_%d" % w["pid"] for w in rows}
    assert server.xlen("video") == 0 and server.n_pending("video") == 0
    assert server.counters("video")["done"] == 400
    wait_until(lambda: sum(w["done"] for w in s.workers("video")) == 400)
    assert s.stop() == 0


def test_three_tasks_with_concurrency_two(sup, server, journal, gate):
    """The seed case: two run together, the third stays unclaimed in the stream until one ends."""
    s = sup(queues={"video": {"handler": journal.handler(), "concurrency": 2}},
            supervisor={"workers": 1})
    s.wait_ready(1)
    first, second = server.add("video", b"do sleep=0 gate=%s.1" % gate.path.encode(),
                               b"do gate=%s.2" % gate.path.encode())
    journal.wait_started(2)
    third, = server.add("video", b"do gate=%s.2" % gate.path.encode())
    stays(lambda: server.n_pending("video") == 2 and len(journal.starts()) == 2, 0.5,
          "the third task is not touched")
    assert server.xlen("video") == 3
    open(gate.path + ".1", "w").close()
    journal.wait_started(3)
    assert [e["id"] for e in journal.ends()] == [first]
    open(gate.path + ".2", "w").close()
    server.wait_empty("video")
    assert journal.runs() == collections.Counter([first, second, third])
    assert journal.most_at_once() == 2

    started = os.times().elapsed
    assert s.stop() == 0
    assert os.times().elapsed - started < 4, "the read would have blocked for up to five seconds"


BYTES = [b"", b"\0", b"a\0b", b"\xff\xfe invalid \xc3\x28", b"line\r\nline\r\n", b"\n", b" x ",
         b"$(rm -rf) 'quotes' \"double\"", bytes(range(256)), bytes(range(256)) * 4096]


@pytest.mark.backends("stream", "list", "partitions")
def test_any_bytes_reach_stdin_the_first_time_and_after_a_retry(sup, server, journal, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    sup(queues={"bytes": {"handler": journal.handler("save=%s" % kept, "exit=1", "until=2"),
                          "payload_max": "2M", "retry_delay": "50ms", "retry_jitter": "0%"}})
    ids = server.add("bytes", *BYTES)
    server.wait_empty("bytes", 40)
    for task, payload in zip(ids, BYTES):
        for attempt in (1, 2):
            assert (kept / ("%s.%d" % (task, attempt))).read_bytes() == payload, (task, attempt)
    assert set(journal.runs().values()) == {2}


def test_repeated_field_names_survive_a_retry(sup, server, journal):
    pairs = [("a", b"1"), ("payload", b"do exit=1"), ("a", b"2\0\xff"), ("b", b""), ("a", b"1")]
    task = server.add_fields("fields", *pairs)
    sup(queues={"fields": {"handler": journal.handler(), "max_attempts": 2,
                           "retry_delay": "50ms"}})
    wait_until(lambda: server.dead("fields"), 30)
    flat, = server.letter_fields("fields", "dead")
    own = [(n.decode(), v) for n, v in zip(flat[::2], flat[1::2]) if not n.startswith(b"redisq.")]
    assert own == pairs
    assert journal.runs()[task] == 2


def test_entry_without_the_payload_field_is_given_as_json(sup, server, journal, tmp_path):
    import json
    sup(queues={"j": {"handler": journal.handler("save=%s" % tmp_path)}})
    task = server.add_fields("j", ("name", "x"), ("n", "1"), ("bin", b"\xff"))
    server.wait_empty("j")
    got = json.loads((tmp_path / (task + ".1")).read_bytes())
    assert got["name"] == "x" and got["n"] == "1"
    assert got["fields_b64"] == {"bin": "/w=="}


def test_stdin_fields_gives_all_fields_as_json(sup, server, journal, tmp_path):
    import json
    sup(queues={"j": {"handler": journal.handler("save=%s" % tmp_path), "stdin": "fields"}})
    task = server.add_fields("j", ("payload", "p"), ("n", "1"), ("n", "2"))
    server.wait_empty("j")
    assert json.loads((tmp_path / (task + ".1")).read_bytes()) == {"payload": "p", "n": "2"}


def test_environment_of_a_handler(sup, server, journal):
    s = sup(queues={"env": {"handler": journal.handler(), "max_attempts": 7, "timeout": "1m"}},
            supervisor={"workers": 1},
            env={"REDIS_URL": "redis://secret@nowhere.invalid", "TEST_KEPT": "yes"})
    s.wait_ready(1)
    task, = server.add("env", b"x")
    env = journal.wait_ended(1) and journal.starts()[0]["env"]
    assert env["REDISQ_ID"] == task
    assert env["REDISQ_QUEUE"] == "env"
    assert env["REDISQ_ATTEMPT"] == "1" and env["REDISQ_MAX_ATTEMPTS"] == "7"
    assert env["REDISQ_DELIVERIES"] == "1"
    assert env["REDISQ_SLOT"] == "0"
    assert env["REDISQ_ANSWER_FD"] == "3"
    assert abs(int(env["REDISQ_ENQUEUED_AT_MS"]) - int(task.split("-")[0])) < 2
    late = int(env["REDISQ_DEADLINE_MS"]) - int(task.split("-")[0])
    assert 55000 < late < 70000
    assert env["PYTHONUNBUFFERED"] == "1"
    assert env["TEST_KEPT"] == "yes"
    assert "REDIS_URL" not in env and not [k for k in env if k.startswith("REDISQ_REDIS")]


def test_two_queues_share_one_supervisor(sup, server, journal):
    s = sup(queues={"a": {"handler": journal.handler(), "workers": 1, "concurrency": 2},
                    "b{tag}": {"handler": journal.handler(), "workers": 2, "concurrency": 1}})
    s.wait_ready(3)
    ids = server.add("a", *[b"x"] * 20) + server.add("b{tag}", *[b"x"] * 20)
    server.wait_empty("a")
    server.wait_empty("b{tag}")
    # Two streams may give out equal ids: a task is its queue and its id.
    runs = [(e["env"]["REDISQ_QUEUE"], e["id"]) for e in journal.starts()]
    assert len(set(runs)) == len(runs) == len(ids) == 40
    status = {q["name"]: q for q in s.status()["queues"]}
    assert status["a"]["total_parallelism"] == 2 and status["b{tag}"]["total_parallelism"] == 2


def test_links_are_named_after_the_consumer(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1})
    pid = s.wait_ready(1)[0]["pid"]
    if "CLIENT" in server.secrets:
        wait_until(lambda: "does not let us use client|setname" in s.log("q"))
        return
    wait_until(lambda: {"redisq:worker_%d:fetch" % pid, "redisq:worker_%d:cmd" % pid} <=
               {c["name"] for c in server.r.client_list()})


@pytest.mark.one_server("there is no database 3")
def test_unix_socket_and_database_number(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1},
            redis={"url": "unix://%s?db=3" % server.socket})
    s.wait_ready(1)
    server.r = server.client(db=3)
    server.add("q", "x")
    journal.wait_ended(1)
    wait_until(lambda: server.xlen("q") == 0)
