"""redisqctl and a queue of three partitions: sums in its line, rows of all, ids that are taken back."""
import binascii
import json
import os
import re
import shlex
import signal
import subprocess

import pytest

from redisserver import documented, version
from test_state import DONE, Shell
from waiting import wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
N = 3
STREAMS = ["q:%d" % i for i in range(N)]
SAME = "1700000000000-0"


class Spread:
    """Queue q as redisqctl's file has it. Its workers, if there is a handler, serve each partition
    as a queue of its own: to Redis that is what they are."""

    def __init__(self, sup, server, path, handler=None, **keys):
        self.server, self.path = server, str(path)
        if handler:
            keys = dict({"handler": handler, "retry_delay": "1h", "retry_delay_max": "1h"}, **keys)
            self.s = sup(queues={q: keys for q in STREAMS}, supervisor={"workers": 1})
            self.s.wait_ready(N)
        else:
            self.s = sup(start=False, queues={q: {"handler": "exec true"} for q in STREAMS})
        self.write(N)

    def write(self, n, **keys):
        lines = ["[redis]"] + ["%s = %s" % kv for kv in self.s.redis.items()]
        lines += ["[queue q]", "handler = exec true", "partitions = %d" % n]
        with open(self.path, "w") as f:
            f.write("\n".join(lines + ["%s = %s" % kv for kv in keys.items()]) + "\n")

    def ctl(self, *args, check=0, **how):
        return self.s.ctl("-c", self.path, *args, check=check, config=False, **how)

    def json(self, *args):
        return json.loads(self.ctl(*args, "--json").out)

    def xlens(self):
        return [self.server.xlen(q) for q in STREAMS]

    def bury(self, part, entry, where="dead", **fields):
        """A letter of this id, as a worker leaves it."""
        self.server.r.xadd("{q:%d}:%s" % (part, where), dict(
            {"payload": "x", "redisq.id": SAME, "redisq.attempt": 1, "redisq.reason": "rejected",
             "redisq.enqueued_at": 1, "redisq.error": "exit 65", "redisq.died_at": 1},
            **{"redisq." + k: v for k, v in fields.items()}), id=entry)


@pytest.fixture
def spread(sup, server, tmp_path):
    return lambda handler=None, **keys: Spread(sup, server, tmp_path / "q.ini", handler, **keys)


def told(text):
    """The rows of a table, as words."""
    return [line.split() for line in text.splitlines()[1:]]


# ---------------------------------------------------------------- push

@pytest.mark.parametrize("key", ["user-7", "user-8", "é", ""])
def test_a_key_belongs_to_the_partition_its_crc16_says(spread, server, key):
    q = spread()
    want = binascii.crc_hqx(key.encode(), 0) % N
    id = q.ctl("push", "q", "--key", key, "x").out.strip()
    part, entry = id.split(":")
    assert int(part) == want and server.r.xrange("q:%d" % want)[0][0].decode() == entry
    assert q.json("show", "q", id)["entry"] == entry, "what it prints is taken back"


def test_the_example_of_the_readme_finds_the_same_partition(spread, server):
    q = spread()
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        code = re.search(r"### Queues of many partitions.*?```python\n(.*?)```", f.read(), re.S).group(1)
    theirs = {}
    exec(code, theirs)
    for key in ("user-%d" % i for i in range(8)):
        q.ctl("push", "q", "--key", key, key)
        theirs["push"](server.r, "q", N, key, {"key": key})
    for stream in STREAMS:
        said = [f[b"payload"].decode() for _, f in server.r.xrange(stream)]
        assert sorted(k for k in said if not k.startswith("{")) == \
            sorted(json.loads(k)["key"] for k in said if k.startswith("{"))


def test_one_can_say_which_partition(spread, server):
    q = spread()
    assert q.ctl("push", "q", "--partition", "2", "x").out.startswith("2:")
    q.ctl("push", "q:1", "x")
    assert q.xlens() == [0, 1, 1]
    assert "partitions 0 to 2" in q.ctl("push", "q", "--partition", "3", "x", check=64).err
    assert "say one" in q.ctl("push", "q", "--partition=0", "--key=a", "x", check=64).err
    assert "not a number" in q.ctl("push", "q", "--partition", "-1", "x", check=64).err
    assert "no partitions" in q.ctl("push", "other", "--partition", "1", "x", check=64).err
    assert "no partitions" in q.ctl("push", "q:1", "--partition", "1", "x", check=64).err
    assert q.xlens() == [0, 1, 1] and server.xlen("q") == server.xlen("other") == 0


def test_lines_go_to_the_partitions_in_turn(spread, server):
    q = spread()
    lines = b"".join(b"%d\n" % i for i in range(1000))
    assert q.ctl("push", "q", "--lines", input=lines).out == "pushed 1000 tasks to q\n"
    assert sorted(q.xlens()) == [333, 333, 334]
    for stream in STREAMS:
        got = [int(f[b"payload"]) for _, f in server.r.xrange(stream)]
        assert got == list(range(got[0], 1000, N)), "each in the order of the lines"


def test_lines_with_a_key_stay_together(spread, server):
    q = spread()
    q.ctl("push", "q", "--lines", "--key", "user-7", input=b"a\nb\nc\n")
    assert q.xlens()[binascii.crc_hqx(b"user-7", 0) % N] == 3


def test_single_tasks_are_spread_too(spread):
    q = spread()
    ids = [q.ctl("push", "q", "x").out for _ in range(15)]
    assert len({id.split(":")[0] for id in ids}) > 1 and sum(q.xlens()) == 15


def test_the_first_line_that_is_missing_is_named(spread, server):
    q = spread()
    server.r.set("q:1", "no stream")
    said = q.ctl("push", "q", "--lines", input=b"x\n" * 9, check=1).err
    done, first, line = map(int, re.search(
        r"pushed (\d+) of the first (\d+) lines; line (\d+) is the first that is missing", said).groups())
    assert line <= N and done == server.xlen("q:0") + server.xlen("q:2") and first >= line


@pytest.mark.parametrize("words", [("push", "q", "x"), ("stats", "q"), ("dead", "list", "q")])
def test_who_does_not_know_of_the_partitions_is_told_that_there_may_be_some(spread, server, words):
    q = spread()
    bare = "-s", "redis.url=" + server.url
    assert q.s.ctl(*bare, *words, config=False, check=0).err == ""
    server.add("q:0", b"x")
    assert q.s.ctl(*bare, *words, config=False, check=0).err == (
        "redisqctl: q:0 is there: if q has partitions, say the file that tells so: -c FILE%s\n" % (
            " (pushed to q all the same)" if words[0] == "push" else ""))
    for args in (("-c", q.path), (*bare, "-s", "queue.partitions=3")):
        assert q.s.ctl(*args, *words, config=False, check=0).err == ""


# ---------------------------------------------------------------- waiting for the end

@pytest.fixture
def shell(tmp_path, gate):
    return Shell(tmp_path, gate)


def test_wait_brings_the_result_and_what_it_says_otherwise_works(spread, shell):
    q = spread("exec %s" % shell.script)
    assert q.ctl("push", "q", "--wait", DONE.decode()).out == '{"url":"x"}\n'
    for part in range(N):
        said = q.ctl("push", "q", "--partition", part, "--wait", "exit 65", check=1).err
        assert "task %d:" % part in said and "is a dead letter (rejected)" in said
        assert "see redisqctl dead show q %d:" % part in said
        words = said.strip().split("redisqctl ")[-1].split(" ")
        assert "exit 65" in q.ctl(*words).out, "what it says to do works"


def test_an_own_id_does_not_bring_an_earlier_result_of_its_partition(spread, shell):
    q = spread("exec %s" % shell.script)
    say = """echo '{"type":"done","result":%d}' >&3"""
    for n in 1, 2:
        assert q.ctl("push", "q", "--key=k", "--field=redisq.id=order-7", "--wait", say % n).out == \
            "%d\n" % n
    part = binascii.crc_hqx(b"k", 0) % N
    shown = q.json("show", "q", "order-7")
    assert shown["state"] == "done" and shown["result"] == 2 and shown["partition"] == part


@pytest.mark.parametrize("queue,called", [("q", "1:%s"), ("q:1", "%s")])
def test_a_worker_of_all_partitions_leaves_the_end_under_its_name_for_the_task(spread, server, queue,
                                                                               called):
    q = spread()
    server.permit(*documented("ctl"))
    p = subprocess.Popen([os.path.join(q.s.build, "redisqctl"), "-c", q.path, "push", queue, "--wait",
                          "--partition=%d" % (queue == "q"), "x"], env=q.s.env,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    wait_until(lambda: server.xlen("q:1") == 1, 20, "it is pushed")
    id = server.r.xrange("q:1")[0][0].decode()
    server.r.set("{q:1}:result:1:" + id, '"done"')
    assert p.communicate(timeout=30)[0] == b'"done"\n'
    server.r.xtrim("q:1", maxlen=0)
    for name in called % id, "1:" + id:
        assert q.json("show", queue, name)["result"] == "done"


def test_ctrl_c_says_the_task_with_its_partition(spread, shell, gate):
    q = spread("exec %s" % shell.script)
    q.server.permit(*documented("ctl"))
    p = subprocess.Popen([os.path.join(q.s.build, "redisqctl"), "-c", q.path, "push", "q", "--wait",
                          "--partition", "1", "hold; " + DONE.decode()], env=q.s.env,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: len(shell.runs()) == 1, 20, "it runs")
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=30)[1].decode()
    assert re.fullmatch(r"redisqctl: task (1:\S+) goes on; see redisqctl show q \1\n", err)
    assert "running" in q.ctl(*err.strip().split("redisqctl ")[-1].split(" ")).out
    gate.open()
    q.server.wait_empty("q:1")


# ---------------------------------------------------------------- how many are where

def test_stats_are_the_sums_and_each_partition_on_request(spread, server, journal, gate):
    q = spread(journal.handler(), concurrency=1)
    for i, stream in enumerate(STREAMS):
        server.add(stream, b"x", b"do exit=65", b"do exit=1", *[b"do gate=%s" % gate.path.encode()] * (i + 2))
    wait_until(lambda: len(journal.running()) == N and all(server.dead(s) for s in STREAMS))
    sums = q.json("stats", "q")
    rows = sums.pop("partitions")
    want = {"waiting": 6, "running": 3, "delayed": 3, "held": 0, "dead": 3, "done": 3, "accepted": 18,
            "dropped": 0, "trimmed": 0, "backlog": 9, "consumers": 1}
    assert {k: sums[k] for k in want} == want and sums["queue"] == "q" and "partition" not in sums
    assert [(r["partition"], r["waiting"]) for r in rows] == [(0, 1), (1, 2), (2, 3)]
    assert sums["oldest_age_ms"] >= max(r["oldest_age_ms"] for r in rows) > 0
    # Before 7.0 nobody counts what was added.
    row = ["q", "6", "3", "3", "0", "3", "3", "18" if version() >= (7, 0) else "-"]
    assert [r[:8] for r in told(q.ctl("stats").out)] == [row]
    said = told(q.ctl("stats", "q", "--partitions").out)
    assert [r[:2] for r in said] == [["q", "6"], ["q:0", "1"], ["q:1", "2"], ["q:2", "3"]]
    one = q.json("stats", "q:1")
    assert one["queue"] == "q:1" and one["waiting"] == 2 and "partitions" not in one
    gate.open()


def test_what_is_no_partition_is_a_queue_of_its_own(spread, server):
    q = spread()
    server.permit("~q:3", "~{q:3}:*", "~q:x", "~{q:x}:*")
    said = q.ctl("stats", "q:3")
    assert said.err == "redisqctl: q has the partitions 0 to 2; q:3 is none of them\n"
    assert told(said.out)[0][0] == "q:3"
    assert "no queue q:x is configured" in q.ctl("stats", "q:x").err


def test_pending_is_one_list_in_the_order_of_ids(spread, server):
    q = spread()
    assert "no worker has served it" in q.ctl("pending", "q", check=1).err
    ids = ["10-0", "30-0", "20-0"]
    for stream, id in zip(STREAMS, ids):
        server.r.xadd(stream, {"payload": "x"}, id=id)
        server.r.xgroup_create(stream, "redisq", "0")
        server.r.xreadgroup("redisq", "w", {stream: ">"})
    server.r.hset("{q:2}:progress", "20-0", '"half"')
    assert [r[0] for r in told(q.ctl("pending", "q").out)] == ["0:10-0", "2:20-0", "1:30-0"]
    assert [(r["partition"], r["id"], r.get("progress")) for r in q.json("pending", "q", "-n", 2)] == \
        [(0, "10-0", None), (2, "20-0", "half")]
    assert [r[0] for r in told(q.ctl("pending", "q:1").out)] == ["30-0"]


def test_the_account_is_that_of_all_partitions(spread, server):
    q = spread()
    for stream in STREAMS[:2]:
        server.add(stream, b"x", b"x")
    said = q.ctl("audit", "q").out
    assert said.startswith("q: ") and said.count("\n") == 1
    assert "waiting 4 + running 0" in said or "4 tasks in all places" in said
    server.r.hset("{q:1}:bodies", "1-1", "x")
    said = q.ctl("audit", "q", check=1)
    assert "q:1: 1 bodies of delayed tasks belong to no task" in said.out
    assert "q: 1 discrepancy; see above" in said.err


def test_what_was_trimmed_in_one_partition_is_not_hidden_by_a_sum(spread, server):
    q = spread()
    server.add("q:0", b"x", b"x")
    server.add("q:1", b"x")
    server.r.xtrim("q:0", maxlen=1, approximate=False)
    server.r.hset("{q:1}:counters", "done", 1)
    if "entries-added" not in server.r.xinfo_stream("q:0"):  # before 7.0
        assert "3 tasks in all places; how many were accepted cannot be told" in q.ctl("audit", "q").out
        return
    said = q.ctl("audit", "q", check=1)
    assert "q:0: accepted 2, found 1" in said.out and "q:1: accepted 1, found 2" in said.out


# ---------------------------------------------------------------- one task

def test_a_task_is_found_in_whichever_partition_it_is(spread, server, journal):
    q = spread(journal.handler())
    id = server.add("q:1", b"do exit=1")[0]
    wait_until(lambda: server.delayed("q:1"))
    for name in id, "1:" + id:
        shown = q.json("show", "q", name)
        assert (shown["state"], shown["partition"], shown["queue"]) == ("delayed", 1, "q")
    assert q.ctl("show", "q", id).out.startswith("1:")
    assert "partition" not in q.json("show", "q:1", id)
    assert "no task 0:%s in q" % id in q.ctl("show", "q", "0:" + id, check=1).err


def test_an_id_that_several_partitions_have_must_be_said_whole(spread, server):
    q = spread()
    for stream in STREAMS[:2]:
        server.r.xadd(stream, {"payload": stream}, id=SAME)
    assert "in the partitions 0 and 1, maybe more; say which: 0:" + SAME in \
        q.ctl("show", "q", SAME, check=1).err
    assert q.json("show", "q", "1:" + SAME)["fields"]["payload"] == "q:1"


def test_an_id_that_a_producer_chose_may_look_like_one_with_a_partition(spread, server):
    q = spread()
    server.add("q:0", b"x", **{"redisq.id": "2:order"})
    assert q.json("show", "q", "2:order")["partition"] == 0
    assert q.json("show", "q", "0:2:order")["partition"] == 0
    server.add("q:2", b"x", **{"redisq.id": "order"})
    assert q.json("show", "q", "2:order")["partition"] == 2
    q.bury(1, "10-0", id="0:7")
    assert q.json("dead", "show", "q", "0:7")[0]["partition"] == 1
    assert "no dead task 0:8 in q" in q.ctl("dead", "show", "q", "0:8", check=1).err


# ---------------------------------------------------------------- dead letters, held tasks

@pytest.mark.parametrize("where,again", [("dead", "retry"), ("held", "release")])
def test_letters_are_one_list_and_go_back_where_they_were(spread, server, where, again):
    q = spread()
    assert q.ctl(where, "list", "q").out == "no %s tasks in q\n" % where
    for part, entry in (0, "10-0"), (2, "20-0"), (1, "30-0"), (0, "40-0"):
        q.bury(part, entry, where, id="t" + entry)
    ids = ["0:10-0", "2:20-0", "1:30-0", "0:40-0"]
    assert [r[0] for r in told(q.ctl(where, "list", "q").out)] == ids
    said = q.ctl(where, "list", "q", "-n", 3).out
    assert [r[0] for r in told(said)[:-1]] == ids[1:] and "the newest 3 of 4; -n for more" in said
    rows = q.json(where, "list", "q", "-n", 2)
    assert [(r["partition"], r["entry"]) for r in rows] == [(1, "30-0"), (0, "40-0")]
    assert q.ctl(where, "show", "q", "2:20-0").out.startswith("2:20-0  " + where)
    assert q.json(where, "show", "q", "t30-0")[0]["partition"] == 1, "by its task id"
    q.ctl(where, again, "q", "1:30-0", "t20-0")
    assert q.xlens() == [0, 1, 1]
    q.ctl(where, "drop", "q", "10-0")
    assert q.xlens() == [0, 1, 1] and len(server.letters("q:0", where)) == 1
    assert "1 %s task put back on q," % where in q.ctl(where, again, "q", "--all").out
    assert q.xlens() == [1, 1, 1]


def test_the_task_of_a_letter_is_called_as_in_the_logs(spread):
    q = spread()
    q.bury(1, "10-0")
    q.bury(2, "11-0", id="order-7")
    assert [r[1] for r in told(q.ctl("dead", "list", "q").out)] == ["1:" + SAME, "order-7"]
    assert q.json("dead", "show", "q", "1:" + SAME)[0]["entry"] == "10-0"


def test_all_letters_are_put_back_each_in_its_partition(spread, server):
    q = spread()
    for part in range(N):
        for n in range(150):  # more than one call of the script takes
            q.bury(part, "%d-%d" % (n + 1, part))
    assert "450 dead tasks put back on q" in q.ctl("dead", "retry", "q", "--all").out
    assert q.xlens() == [150] * N
    q.bury(1, "999-9")
    assert "dropped 1 dead task of q" in q.ctl("dead", "drop", "q", "--all").out
    assert server.counters("q:1")["dropped"] == 1


def test_a_letter_that_several_partitions_have_is_not_guessed(spread, server):
    q = spread()
    for part in 0, 2:
        q.bury(part, "10-0")
    for id in "10-0", SAME:  # by its entry, by its task
        said = q.ctl("dead", "drop", "q", id, check=1).err
        assert "%s is in the partitions 0 and 2" % id in said and "0:" + id in said
    assert len(server.dead("q:0")) == len(server.dead("q:2")) == 1
    q.ctl("dead", "drop", "q", "2:" + SAME)
    assert len(server.dead("q:0")) == 1 and server.dead("q:2") == []


# ---------------------------------------------------------------- doctor

def findings(q, *args):
    """{check: [finding]} of queue q; but for where it is, of which every cluster is told."""
    done = q.ctl("doctor", "q", "--json", *args, check=None)
    answer = json.loads(done.out)
    bad = [f for f in answer["findings"] if f["state"] == "bad" and f["queue"]]
    found = {}
    for f in answer["findings"]:
        assert f["queue"] in (None, "q") and (f["do"] is not None) == (f["state"] == "bad")
        if not re.match(r"\d+ at rediss?://", f["text"]):
            found.setdefault(f["check"], []).append(f)
    return found, bad


def test_doctor_says_once_what_is_so_in_all_partitions(spread, server, journal, gate):
    q = spread(journal.handler())
    server.add("q:0", b"x")
    server.add("q:1", b"do gate=%s" % gate.path.encode(), b"do exit=65")
    wait_until(lambda: server.dead("q:1") and server.is_empty("q:0") and journal.running())
    found, bad = findings(q)
    assert bad == []
    each = {"text": "in each of the 3 partitions", "partitions": [0, 1, 2], "state": "fine"}
    for check, want in (("group", each), ("pending", each), ("workers", dict(each, text="1 alive")),
                        ("types", dict(each, text="every key is of its type"))):
        assert len(found[check]) == 1 and {k: found[check][0][k] for k in want} == want, found[check]
    assert "accepted 3 = done 1 + dead 1" in found["account"][0]["text"] or \
        "3 tasks in all places" in found["account"][0]["text"]
    letters = found["dead letters"]
    assert [(f["state"], f["text"], f["partitions"]) for f in letters] == \
        [("note", "1: redisqctl dead list q:1", [1])]
    assert [f["text"] for f in found["partitions"]] == ["3, and nothing is left in other streams"]
    lines = q.ctl("doctor", "q", check=None).out.splitlines()
    assert [ln.split()[:5] for ln in lines if "dead letters" in ln] == [["q:1", "dead", "letters", "--", "1:"]]
    gate.open()
    server.wait_empty("q:1")


def test_doctor_names_the_partitions_in_which_something_is_wrong(spread, server):
    q = spread()
    server.r.set("q:1", "x")
    for part in 0, 2:
        server.r.hset("{q:%d}:bodies" % part, "1-1", "x")
    found, bad = findings(q)
    assert [(f["text"], f["partitions"]) for f in found["types"]] == [
        ("q:1 is a string, not a stream", [1])]
    account = [f for f in found["account"] if f["state"] == "bad"]
    assert [f["partitions"] for f in account] == [[0, 2]] and len(found["account"]) == 1
    assert "q:0,2 " in q.ctl("doctor", "q", check=1).out
    assert "q:1 " in q.ctl("doctor", "q", check=1).out
    # One by itself is as any queue.
    said = q.ctl("doctor", "q:1", check=1).out
    assert "q:1    types" in said and "q:0" not in said


def test_doctor_tells_of_too_few_slots(spread):
    q = spread()
    q.write(N, concurrency=2)
    found, bad = findings(q)
    assert [f["text"][:44] for f in found["partitions"] if f["state"] == "note"] == [
        "concurrency 2 is lower than the 3 partitions"] and bad == []


@pytest.mark.parametrize("n,left,says,cure", [
    (3, ["q"], "1 task is in q itself", "REDISQ_QUEUE_PARTITIONS=1 redisq-worker -c FILE -q q"),
    (2, ["q:2"], "1 task is in q:2, and no worker serves it", "set partitions = 3, or"),
    (2, ["q:2", "q:40"], "2 tasks are in q:2, q:40, and no worker serves these",
     "REDISQ_QUEUE_PARTITIONS=41 redisq-worker -c FILE -q q"),
    (1, ["q:0", "q:1"], "2 tasks are in q:0, q:1, and no worker", "set partitions = 2, or")])
def test_doctor_finds_what_another_number_of_partitions_has_left(spread, server, n, left, says, cure):
    q = spread()
    server.permit(*["~%s" % s for s in left + ["q"]], *["~{%s}:*" % s for s in left + ["q"]])
    q.write(n)
    for stream in left:
        server.add(stream, b"x")
    found, bad = findings(q)
    row = [f for f in bad if f["check"] == "partitions"]
    assert len(row) == 1 and says in row[0]["text"] and cure in row[0]["do"]


def test_doctor_finds_delayed_tasks_and_letters_that_are_left(spread, server):
    q = spread()
    q.write(2)
    server.r.zadd("{q:2}:delayed", {"1-1": 1})
    q.bury(2, "10-0")
    found, bad = findings(q)
    assert "1 task is in q:2" in "".join(f["text"] for f in bad)
    note = [f["text"] for f in found["partitions"] if f["state"] == "note"]
    assert note == ["1 dead letter is in q:2, which no worker serves: redisqctl dead list q:2"]
    assert "10-0" in q.ctl(*note[0].split("redisqctl ")[1].split()).out
    q.write(3)
    server.permit("~{q}:*", "~q")
    server.r.xadd("{q}:held", {"redisq.id": "x"}, id="11-0")
    note = [f["text"] for f in findings(q)[0]["partitions"] if f["state"] == "note"][0]
    assert "11-0" in q.ctl(*shlex.split(note.split("redisqctl ")[1])).out


def test_doctor_names_the_verb_for_each_kind_of_letter_that_is_left(spread, server):
    """One held in q:4 and one dead in q:5: each is found by the command that stands behind it."""
    q = spread()
    server.permit("~q:4", "~{q:4}:*", "~q:5", "~{q:5}:*")
    q.write(2)
    server.r.xadd("{q:4}:held", {"redisq.id": "x"}, id="11-0")
    q.bury(5, "10-0")
    notes = [f["text"] for f in findings(q)[0]["partitions"] if f["state"] == "note"]
    assert notes == [
        "1 dead letter is in q:5, which no worker serves: redisqctl dead list q:5",
        "1 held task is in q:4, which no worker serves: redisqctl held list q:4"]
    for note, id in zip(notes, ("10-0", "11-0")):
        assert id in q.ctl(*note.split("redisqctl ")[1].split()).out


def test_a_neighbour_of_such_a_name_is_no_fault(spread, server):
    q = spread()
    q.write(1)
    server.permit("~q", "~{q}:*", "~q:7", "~{q:7}:*")
    server.add("q:7", b"x")
    found, bad = findings(q)
    assert [(f["state"], f["text"]) for f in found["partitions"]] == [
        ("note", "1 entry is in q:7, which is no queue")]


def test_a_worker_with_the_old_number_runs_what_is_left(sup, server, journal, tmp_path):
    """What doctor says to do about tasks from before there were partitions."""
    server.add("q", *[b"x"] * 5)
    s = sup(start=False, queues={"q": {"handler": journal.handler(), "partitions": 3}})
    server.permit("~q", "~{q}:*")
    worker = subprocess.Popen([os.path.join(s.build, "redisq-worker"), "-c", s.ini, "-q", "q"],
                              env=dict(s.env, REDISQ_QUEUE_PARTITIONS="1"), stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        server.wait_empty("q")
        assert server.counters("q")["done"] == 5
    finally:
        worker.terminate()
        assert worker.wait(30) == 0


# ---------------------------------------------------------------- with the workers themselves

@pytest.mark.backends("stream", "list")
def test_workers_and_redisqctl_mean_the_same_partitions(sup, server, journal, gate):
    s = sup(queues={"q": {"handler": journal.handler(), "partitions": N, "retry_delay": "1h",
                          "retry_delay_max": "1h", "concurrency": 4}}, supervisor={"workers": 1})
    s.wait_ready(1)

    def ask(*args):
        return json.loads(s.ctl(*args, "--json", check=0).out)

    assert "pushed 30 tasks" in s.ctl("push", "q", "--lines", input=b"do\n" * 30, check=0).out
    wait_until(lambda: ask("stats", "q")["done"] == 30, 30, "all are done")
    assert [p["done"] for p in ask("stats", "q")["partitions"]] == [10] * N
    ids = [s.ctl("push", "q", "--partition", i, "do gate=%s" % gate.path, check=0).out.strip()
           for i in range(N)]
    wait_until(lambda: len(journal.running()) == N, 20, "they run")
    if server.backend == "stream":
        assert set(ids) <= {e["id"] for e in journal.starts()}, "handlers have what push prints"
        assert [r[0] for r in told(s.ctl("pending", "q", check=0).out)] == ids
        assert [ask("show", "q", id)["state"] for id in ids] == ["running"] * N
    assert ask("stats", "q")["running"] == N and len(ask("pending", "q")) == N
    if server.backend == "stream":
        assert {line.split()[0] for line in s.ctl("describe", "q/0", check=0).out.split("\n")
                if "attempt 1" in line} == set(ids), "describe calls them as pending does"
    assert sorted(t["partition"] for t in s.workers()[0]["tasks"]) == list(range(N))
    assert "queue q   %s, 3 partitions   1 × 4 = 4 at once" % server.backend in s.ctl("status").out
    gate.open()
    said = s.ctl("push", "q", "--key", "k", "--wait", "do say=hello exit=65", check=1).err
    part = binascii.crc_hqx(b"k", 0) % N
    assert "task %d:" % part in said and "dead letter (rejected)" in said
    letter = told(s.ctl("dead", "list", "q", check=0).out)[0]
    assert letter[0].startswith("%d:" % part) and letter[1].startswith("%d:" % part)
    assert "hello" in s.ctl("logs", "--task", letter[1], check=0).out
    said = s.ctl("logs", "--task", letter[1].split(":")[1], check=0).out
    assert "hello" in said and "[%s]" % letter[1] in said, "it is looked for in all partitions"
    assert "1 dead task put back" in s.ctl("dead", "retry", "q", letter[1], check=0).out
    wait_until(lambda: ask("stats", "q")["dead"] == 1, 20, "it has died again")
    s.ctl("push", "q", "do exit=1", check=0)
    wait_until(lambda: ask("stats", "q")["delayed"] == 1, 20, "it waits for its next attempt")
    s.ctl("audit", "q", check=0)
    found = json.loads(s.ctl("doctor", "q", "--json").out)["findings"]
    assert [f for f in found if f["state"] == "bad" and f["queue"]] == []
