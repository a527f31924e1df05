"""redisqctl without a supervisor: Redis by url, usage, exit codes; bytes in are bytes out."""
import json
import os
import pty
import select
import subprocess
import time

import pytest

from redisserver import version
from waiting import PATIENCE

GROUP = "redisq"
ALL_BYTES = bytes(range(256)) + b"\r\n\xff\xfe\x00"


class Ctl:
    def __init__(self, build, tmp_path, url):
        self.program = os.path.join(build, "redisqctl")
        self.dir = str(tmp_path)
        self.url = url
        self.env = {"PATH": "/usr/bin:/bin", "HOME": self.dir, "LANG": "C.UTF-8",
                    "XDG_CONFIG_HOME": self.dir + "/config", "XDG_STATE_HOME": self.dir + "/state",
                    "XDG_RUNTIME_DIR": self.dir + "/run", "RUNTIME_DIRECTORY": self.dir + "/run",
                    "LOGS_DIRECTORY": self.dir + "/log"}

    def run(self, *args, stdin=b"", env=None, url=True):
        argv = [self.program] + (["-s", "redis.url=" + self.url] if url else [])
        return subprocess.run(argv + list(args), input=stdin, capture_output=True, timeout=60,
                              cwd=self.dir, env=dict(self.env, **(env or {})))

    def ok(self, *args, **how):
        p = self.run(*args, **how)
        assert p.returncode == 0, (args, p.returncode, p.stderr)
        return p.stdout.decode("utf-8", "replace")

    def fails(self, code, *args, **how):
        """It ends with `code` and one line that says what, and what to do."""
        p = self.run(*args, **how)
        err = p.stderr.decode("utf-8", "replace")
        assert p.returncode == code, (args, p.returncode, err)
        assert err.startswith("redisqctl: ") and err.count("\n") == 1, err
        return err


@pytest.fixture
def ctl(build, tmp_path, server):
    return Ctl(build, tmp_path, server.url)


def key(queue, suffix):
    return "{%s}:%s" % (queue, suffix)


def raw_entries(server, name):
    """As redis-cli would see them: redis-py makes a dictionary of the fields."""
    out = []
    for i, flat in server.r.eval("return redis.call('XRANGE', KEYS[1], '-', '+')", 1, name):
        out.append((i.decode(), list(zip(flat[::2], flat[1::2]))))
    return out


# ---------------------------------------------------------------------------- usage

@pytest.mark.parametrize("args", [
    (), ("nosuch",), ("push",), ("push", "q", "a", "b"), ("stats", "q", "--nosuch"), ("show",),
    ("pending",), ("dead", "list"), ("dead", "nosuch", "q"), ("held", "retry", "q", "1-0"),
    ("dead", "retry", "q"), ("dead", "drop", "q"), ("dead", "show", "q"), ("scale",),
    ("scale", "many"), ("push", "q", "--field", "x"), ("push", "q", "payload", "--lines"),
    ("status", "-c"), ("logs", "-n", "x"), ("push", "a}b", "x"), ("stats",),
    ("dead", "list", "q", "--all"), ("dead", "show", "q", "1-0", "--all"), ("show", "q", "1-0", "-n", "1"),
    ("stats", "q", "--watch"), ("audit", "q", "--partition", "1"), ("pending", "q", "--task", "x")])
def test_usage_is_64(ctl, args):
    ctl.fails(64, *args)


@pytest.mark.parametrize("args", [("redis://:hidden@h/0",), ("--url=redis://:hidden@h/0", "ping"),
                                  ("redis.url=redis://:hidden@h", "ping")])
def test_a_url_that_is_out_of_place_is_not_shown(ctl, args):
    err = ctl.fails(64, *args)
    assert "hidden" not in err and '""' not in err


def test_flush_names_both_meanings_and_does_neither(ctl, server):
    server.r.xadd("q", {"payload": "x"})
    err = ctl.fails(64, "flush", "q")
    assert "logs" in err and "dead drop" in err
    assert server.r.xlen("q") == 1
    assert "DEL QUEUE\n" in err
    err = ctl.fails(64, "flush", "q", "-s", "queue.partitions=3")
    assert "q has partitions: DEL q:0, and so on to q:2" in err


def test_help_and_version(ctl):
    for args in (("--help",), ("help",), ("push", "-h")):
        text = ctl.ok(*args)
        assert "push QUEUE" in text and max(map(len, text.splitlines())) <= 100
    assert ctl.ok("--version").startswith("redisqctl ")


def test_startup_prints_a_unit_for_this_installation(ctl, build):
    unit = ctl.ok("startup")
    assert "[Service]" in unit and "OOMPolicy=continue" in unit and "@PREFIX@" not in unit
    assert "ExecStart=%s/redisq-supervisor" % os.path.realpath(build) in unit


@pytest.mark.parametrize("verb", ["status", "ping", "reload", "stop", "start", "kill", "quiet",
                                  "resume", "reopen-logs", "monit", "jlist"])
def test_no_supervisor_is_69_and_lists_the_places(ctl, verb):
    assert ctl.dir + "/run/control.sock" in ctl.fails(69, verb)


def test_no_supervisor_at_the_configured_socket(ctl, tmp_path):
    ini = tmp_path / "x.ini"
    ini.write_text("[supervisor]\ncontrol_socket = %s/own.sock\n" % tmp_path)
    err = ctl.fails(69, "status", "-c", str(ini))
    assert "own.sock" in err and "/run/control.sock" not in err
    assert "other.sock" in ctl.fails(69, "-s", "supervisor.control_socket=/tmp/other.sock", "ping")


def test_faulty_configuration_is_78(ctl, tmp_path):
    ini = tmp_path / "x.ini"
    ini.write_text("[supervisor]\nnosuchkey = 1\nworkers = many\n")
    p = ctl.run("status", "-c", str(ini))
    assert p.returncode == 78
    assert b"x.ini:2" in p.stderr and b"x.ini:3" in p.stderr, "all errors at once"
    assert ctl.run("stats", "q", "-s", "redis.nosuch=1").returncode == 78
    assert ctl.run("stats", "q", "-c", str(tmp_path / "missing.ini")).returncode == 78


def test_no_redis_is_69_with_the_url_and_no_password(ctl):
    ctl.url = "redis://u:secret@127.0.0.1:1/0"
    err = ctl.fails(69, "push", "q", "x")
    assert "127.0.0.1:1" in err and "secret" not in err


# ---------------------------------------------------------------------------- which Redis

def test_redis_url_counts_without_a_supervisor(ctl, server):
    ctl.ok("push", "q", "x", url=False, env={"REDIS_URL": server.url})
    assert server.r.xlen("q") == 1
    ctl.ok("push", "q", "x", url=False,
           env={"REDIS_URL": "redis://127.0.0.1:1", "REDISQ_REDIS_URL": server.unix_url})
    assert server.r.xlen("q") == 2
    err = ctl.fails(69, "push", "q", "x", url=False, env={"REDIS_URL": "redis://127.0.0.1:1"})
    assert "from REDIS_URL" in err and "/run/control.sock" in err


def test_redis_of_a_file_and_its_queue_s_keys(ctl, server, tmp_path):
    ini = tmp_path / "x.ini"
    ini.write_text("[redis]\nurl = %s\n[queue q]\ngroup = mine\npayload_field = body\n"
                   "handler = exec true\n" % server.url)
    ctl.ok("push", "q", "x", "-c", str(ini), url=False, env={"REDIS_URL": "redis://127.0.0.1:1"})
    assert raw_entries(server, "q")[0][1] == [(b"body", b"x")]
    server.r.xgroup_create("q", "mine", "0")
    server.r.xreadgroup("mine", "worker_1", {"q": ">"})
    assert "worker_1" in ctl.ok("-c", str(ini), "pending", "q", url=False)


# ---------------------------------------------------------------------------- push

def test_push_prints_the_id(ctl, server):
    i = ctl.ok("push", "q", "hello").strip()
    assert raw_entries(server, "q") == [(i, [(b"payload", b"hello")])]


@pytest.mark.parametrize("args", [("push", "q"), ("push", "q", "-")])
def test_push_of_stdin_is_byte_exact(ctl, server, args):
    payload = ALL_BYTES * 5000
    ctl.ok(*args, stdin=payload)
    ctl.ok(*args, stdin=b"")
    assert [f for _, f in raw_entries(server, "q")] == [[(b"payload", payload)], [(b"payload", b"")]]


def test_push_fields(ctl, server):
    ctl.ok("push", "q", "--field", "a=1", "--field", "a=2", "--field", "b==")
    ctl.ok("push", "q", "--field", "a=1", "text")
    ctl.ok("push", "q", "--", "--json")
    assert [f for _, f in raw_entries(server, "q")] == [
        [(b"a", b"1"), (b"a", b"2"), (b"b", b"=")], [(b"a", b"1"), (b"payload", b"text")],
        [(b"payload", b"--json")]]


def test_push_lines(ctl, server):
    assert ctl.ok("push", "q", "--lines", stdin=b"one\n\n\xff\r\nlast") == \
        "pushed 4 tasks to q\n"
    assert [f[0][1] for _, f in raw_entries(server, "q")] == [b"one", b"", b"\xff\r", b"last"]
    assert ctl.ok("push", "e", "--lines", stdin=b"") == "pushed 0 tasks to e\n"
    assert ctl.ok("--lines", "push", "e", stdin=b"x\n") == "pushed 1 task to e\n"


def test_push_many_lines(ctl, server):
    n = 50000
    out = ctl.ok("push", "q", "--lines", stdin=b"".join(b"%d\n" % i for i in range(n)))
    assert out == "pushed %d tasks to q\n" % n and server.r.xlen("q") == n
    assert raw_entries(server, "q")[-1][1] == [(b"payload", b"%d" % (n - 1))]


def test_push_of_a_line_of_five_megabytes(ctl, server):
    line = b"x" * (5 * 1024 * 1024)
    ctl.ok("push", "q", "--lines", stdin=line + b"\nend\n")
    assert [f[0][1] for _, f in raw_entries(server, "q")] == [line, b"end"]


def test_push_of_a_slow_writer_is_not_held_back(ctl, server):
    from waiting import wait_until
    p = subprocess.Popen([ctl.program, "-s", "redis.url=" + ctl.url, "push", "q", "--lines"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ctl.env)
    p.stdin.write(b"first\n")
    p.stdin.flush()
    wait_until(lambda: server.r.xlen("q") == 1)
    p.stdin.write(b"second\n")
    p.stdin.close()
    assert p.stdout.read() == b"pushed 2 tasks to q\n" and p.wait(20) == 0
    p.stdout.close()


def test_push_refused_by_redis(ctl, server):
    server.r.set("q", "a string")
    assert "WRONGTYPE" in ctl.fails(1, "push", "q", "x")
    err = ctl.fails(1, "push", "q", "--lines", stdin=b"a\nb\n")
    assert "pushed 0 of the first" in err and "line 1 is" in err and "WRONGTYPE" in err


def test_push_without_anything_on_a_terminal_is_usage(ctl):
    master, slave = pty.openpty()
    p = subprocess.run([ctl.program, "-s", "redis.url=" + ctl.url, "push", "q"], stdin=slave,
                       capture_output=True, env=ctl.env, timeout=20)
    os.close(slave)
    os.close(master)
    assert p.returncode == 64 and b"push what?" in p.stderr


# ---------------------------------------------------------------------------- stats, pending, show

def stats(ctl, queue="q"):
    return json.loads(ctl.ok("stats", queue, "--json"))


def test_stats_of_nothing(ctl):
    assert stats(ctl) == {
        "queue": "q", "waiting": 0, "running": 0, "delayed": 0, "held": 0, "dead": 0,
        "accepted": 0, "done": 0, "dropped": 0, "trimmed": 0, "consumers": 0,
        "oldest_age_ms": 0, "backlog": 0}


def test_stats_counts_every_place(ctl, server):
    r = server.r
    for i in range(10):
        r.xadd("q", {"payload": i})
    r.xgroup_create("q", GROUP, "0")
    r.xreadgroup(GROUP, "worker_1", {"q": ">"}, count=4)
    ids = [i for i, _ in raw_entries(server, "q")]
    r.xack("q", GROUP, ids[0])
    r.xdel("q", ids[0])
    r.hset(key("q", "counters"), mapping={"done": 1, "dropped": 2, "readded": 0, "retried": 9})
    r.zadd(key("q", "delayed"), {"1-1": 5, "1-2": 6})
    r.xadd(key("q", "dead"), {"payload": "x"})
    r.xadd(key("q", "held"), {"payload": "x"})
    s = stats(ctl)
    assert (s["waiting"], s["running"], s["delayed"], s["held"], s["dead"], s["done"],
            s["dropped"], s["consumers"], s["backlog"]) == (6, 3, 2, 1, 1, 1, 2, 1, 8)
    # Before 7.0 Redis does not count what is added: it is what is in all places.
    assert s["accepted"] == (10 if version() >= (7,) else 16) and s["oldest_age_ms"] >= 0
    table = ctl.ok("stats", "q")
    assert "2 dropped" in table and max(map(len, table.splitlines())) <= 80


def test_stats_finds_trimming(ctl, server):
    for i in range(10):
        server.r.xadd("q", {"payload": i})
    server.r.xtrim("q", maxlen=3, approximate=False)
    s = stats(ctl)
    if version() >= (7,):
        assert (s["accepted"], s["waiting"], s["trimmed"]) == (10, 3, 7)
        assert "7 were removed" in ctl.ok("stats", "q")
    else:  # it cannot be told, and is not claimed
        assert (s["accepted"], s["waiting"], s["trimmed"]) == (3, 3, 0)
        assert "removed" not in ctl.ok("stats", "q")


def test_stats_with_on_done_ack(ctl, server):
    r = server.r
    for i in range(10):
        r.xadd("q", {"payload": i})
    r.xgroup_create("q", GROUP, "0")
    r.xreadgroup(GROUP, "worker_1", {"q": ">"}, count=4)
    r.xack("q", GROUP, *[i for i, _ in raw_entries(server, "q")[:3]])
    s = json.loads(ctl.ok("stats", "q", "--json", "-s", "queue.on_done=ack"))
    assert (s["waiting"], s["running"]) == (6, 1)


def test_stats_of_all_configured_queues(ctl, server, tmp_path):
    ini = tmp_path / "x.ini"
    ini.write_text("[redis]\nurl = %s\n[queue a]\nhandler = exec true\n[queue b/c]\n"
                   "handler = exec true\n" % server.url)
    rows = json.loads(ctl.ok("stats", "--json", "-c", str(ini), url=False))
    assert [row["queue"] for row in rows] == ["a", "b/c"]


def test_stats_of_another_type(ctl, server):
    server.r.rpush("q", "x")
    assert "list" in ctl.fails(1, "stats", "q")


def test_pending(ctl, server):
    r = server.r
    assert "no group" in ctl.fails(1, "pending", "q")
    i = r.xadd("q", {"payload": "x"}).decode()
    r.xgroup_create("q", GROUP, "0")
    assert ctl.ok("pending", "q") == "nothing is pending\n"
    r.xreadgroup(GROUP, "worker_7", {"q": ">"})
    row, = json.loads(ctl.ok("pending", "q", "--json"))
    assert (row["id"], row["consumer"], row["deliveries"]) == (i, "worker_7", 1)
    r.eval("redis.call('XCLAIM', KEYS[1], ARGV[1], 'worker_7', 0, ARGV[2], 'TIME', 1, 'JUSTID')",
           1, "q", GROUP, i)
    assert "given back" in ctl.ok("pending", "q")


def test_pending_names_the_stream_that_is_none(ctl, server):
    server.r.set("q:1", "x")
    p = ctl.fails(1, "-s", "queue.partitions=2", "pending", "q")
    assert "q:1 is not a stream" in p


def test_show_in_the_stream(ctl, server):
    r = server.r
    i = r.xadd("q", {"payload": b"\xff\n"}).decode()
    assert "waiting" in ctl.ok("show", "q", i)
    r.xgroup_create("q", GROUP, "0")
    r.xreadgroup(GROUP, "worker_7", {"q": ">"})
    shown = json.loads(ctl.ok("show", "q", i, "--json"))
    assert (shown["state"], shown["consumer"], shown["deliveries"]) == ("running", "worker_7", 1)
    assert shown["fields_b64"] == {"payload": "/wo="} and shown["fields"] == {}
    r.xack("q", GROUP, i)
    assert "done" in ctl.ok("show", "q", i)
    ctl.fails(1, "show", "q", "99-1")
    ctl.fails(1, "show", "q", "no-such-task")


def test_show_a_delayed_task_by_either_id(ctl, server):
    pack = "redis.call('HSET', KEYS[1], ARGV[1], cmsgpack.pack({{'payload', ARGV[2], 'a', '1'}," \
           " ARGV[3], '3', '2', '0', '1700000000000', '', '1:2:x'}))"
    for n in range(700):
        server.r.eval(pack, 1, key("q", "bodies"), "5-%d" % n, "p%d" % n, "task-%d" % n)
        server.r.zadd(key("q", "delayed"), {"5-%d" % n: 1800000000000 + n})
    for asked in ("5-600", "task-600"):
        shown = json.loads(ctl.ok("show", "q", asked, "--json"))
        assert (shown["entry"], shown["state"], shown["due_ms"]) == ("5-600", "delayed", 1800000000600)
        assert shown["fields"]["payload"] == "p600" and shown["fields"]["redisq.attempt"] == "3"
    assert "delayed" in ctl.ok("show", "q", "task-1")


# ---------------------------------------------------------------------------- dead, held

def add_letter(server, place, task, payload=b"x", **extra):
    fields = [b"payload", payload, b"a", b"1", b"a", b"2", b"redisq.id", task.encode(),
              b"redisq.attempt", b"12", b"redisq.deliveries", b"14", b"redisq.enqueued_at",
              b"1700000000000", b"redisq.reason", b"attempts", b"redisq.error", b"exit 1",
              b"redisq.exit", b"1", b"redisq.stderr", b"boom\n", b"redisq.worker", b"worker_1",
              b"redisq.host", b"h", b"redisq.died_at", b"1700000001000"]
    return server.r.execute_command("XADD", key("q", place), "*", *fields).decode()


@pytest.fixture(params=["dead", "held"])
def place(request):
    return request.param


def again(place):
    return "retry" if place == "dead" else "release"


def test_letters_list_and_show(ctl, server, place):
    assert ctl.ok(place, "list", "q") == "no %s tasks in q\n" % place
    i = add_letter(server, place, "7-7")
    listed = ctl.ok(place, "list", "q")
    assert i in listed and "7-7" in listed and "attempts" in listed and "exit 1" in listed
    assert max(map(len, listed.splitlines())) <= 80
    assert json.loads(ctl.ok(place, "list", "q", "--json"))[0]["entry"] == i
    for asked in (i, "7-7"):
        shown = ctl.ok(place, "show", "q", asked)
        assert "boom\\n" in shown and "exit 1" in shown
        assert ("%s" % place) in ctl.ok("show", "q", asked)
    ctl.fails(1, place, "show", "q", "8-8")


def test_letters_again(ctl, server, place):
    payload = ALL_BYTES
    i = add_letter(server, place, "7-7", payload)
    assert "1 %s task put back on q" % place in ctl.ok(place, again(place), "q", "7-7")
    (new, fields), = raw_entries(server, "q")
    assert fields == [(b"payload", payload), (b"a", b"1"), (b"a", b"2"), (b"redisq.id", b"7-7"),
                      (b"redisq.attempt", b"1"), (b"redisq.deliveries", b"14"),
                      (b"redisq.enqueued_at", b"1700000000000")]
    assert server.r.xlen(key("q", place)) == 0
    assert server.r.hget(key("q", "counters"), "readded") == b"1"
    ctl.fails(1, place, again(place), "q", i)
    assert server.r.xlen("q") == 1


def test_letters_drop(ctl, server, place):
    a, b = add_letter(server, place, "7-7"), add_letter(server, place, "8-8")
    assert "dropped 1 %s task of q" % place in ctl.ok(place, "drop", "q", a)
    assert server.r.hget(key("q", "counters"), "dropped") == b"1"
    assert "dropped 1 %s task of q" % place in ctl.ok(place, "drop", "q", "--all")
    assert server.r.xlen(key("q", place)) == 0 and server.r.xlen("q") == 0


@pytest.mark.parametrize("narrower", [("--partition", "0"), ("-n", "1"), ("--task", "7-7"),
                                      ("--key", "x")])
def test_what_is_said_of_all_letters_is_not_said_of_some(ctl, server, place, narrower):
    """Options that did not concern these verbs were not looked at: all letters were dropped."""
    add_letter(server, place, "7-7"), add_letter(server, place, "8-8")
    for what in "drop", again(place):
        err = ctl.fails(64, place, what, "q", "--all", *narrower)
        assert "%s %s takes no %s; " % (place, what, narrower[0]) in err or \
            "%s takes no %s; " % (place, narrower[0]) in err
    assert server.r.xlen(key("q", place)) == 2 and server.r.xlen("q") == 0


@pytest.mark.parametrize("task", ["2026-11-29", "2026", "-", "1-", "99999999999999999999-1", "1-2-3-4"])
def test_a_task_id_of_digits_and_dashes_names_its_letter(ctl, server, place, task):
    """It was asked for as the id of an entry, and Redis said that this is none."""
    i = add_letter(server, place, task)
    assert ctl.ok(place, "show", "q", task).startswith(i)
    assert ctl.ok("show", "q", task)
    assert "1 %s task put back" % place in ctl.ok(place, again(place), "q", task)


def test_the_time_in_an_entry_id_names_no_letter(ctl, server, place):
    """It was taken for all of that millisecond, and the first of them was dropped."""
    i = add_letter(server, place, "mine")
    ctl.fails(1, place, "drop", "q", i.split("-")[0])
    assert server.r.xlen(key("q", place)) == 1
    j = add_letter(server, place, i.split("-")[0])
    assert "dropped 1" in ctl.ok(place, "drop", "q", i.split("-")[0])
    assert [e for e, _ in raw_entries(server, key("q", place))] == [i] != [j]


@pytest.mark.parametrize("how", ["letter", "consumer"])
def test_what_others_wrote_does_not_steer_the_terminal(ctl, server, how):
    evil = "a\x1b]0;title\x07\x1b[2Jb"
    if how == "letter":
        i = add_letter(server, "dead", evil)
        said = [ctl.ok("dead", "list", "q"), ctl.ok("dead", "show", "q", i), ctl.ok("show", "q", i),
                ctl.fails(1, "dead", "show", "q", evil + "x"), ctl.fails(64, evil)]
    else:
        server.r.xgroup_create("q", "redisq", mkstream=True)
        i = server.r.xadd("q", {"payload": "x"}).decode()
        server.r.xreadgroup("redisq", evil, {"q": ">"}, count=1)
        said = [ctl.ok("pending", "q"), ctl.ok("show", "q", i)]
    for text in said:
        assert "\x1b" not in text and "\x07" not in text and "title" in text


def test_all_letters_again(ctl, server, place):
    pipe = server.r.pipeline()
    for n in range(250):
        pipe.xadd(key("q", place), {"payload": n, "redisq.id": "5-%d" % n, "redisq.reason": "x",
                                    "redisq.enqueued_at": 1})
    pipe.execute()
    assert "250 %s tasks put back on q" % place in ctl.ok(place, again(place), "q", "--all")
    assert server.r.xlen("q") == 250 and server.r.xlen(key("q", place)) == 0
    assert "0 %s tasks put back" % place in ctl.ok(place, again(place), "q", "--all")


def test_letters_that_cannot_go_back_stay(ctl, server):
    pipe = server.r.pipeline()
    for n in range(130):
        pipe.xadd(key("q", "dead"), {"redisq.id": "5-%d" % n, "redisq.reason": "body_missing",
                                     "redisq.error": "gone", "redisq.died_at": 1})
    pipe.execute()
    good = add_letter(server, "dead", "7-7")
    p = ctl.run("dead", "retry", "q", "--all")
    assert p.returncode == 1 and b"1 dead task put back" in p.stdout
    assert b"130 could not be put back" in p.stderr and b"body is lost" in p.stderr
    assert server.r.xlen(key("q", "dead")) == 130 and server.r.xlen("q") == 1
    assert good not in [i for i, _ in raw_entries(server, key("q", "dead"))]


def test_letters_of_a_wrong_type_change_nothing(ctl, server):
    i = add_letter(server, "dead", "7-7")
    server.r.set("q", "not a stream")
    ctl.fails(1, "dead", "retry", "q", i)
    assert server.r.xlen(key("q", "dead")) == 1 and server.r.get("q") == b"not a stream"


# ---------------------------------------------------------------------------- logs

def write_log(path, slot, lines):
    with open(path, "a") as f:
        for ms, task, text in lines:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1795966000 + ms // 1000))
            f.write("%s.%03dZ %d 812 O [%s] %s\n" % (stamp, ms % 1000, slot, task, text))


def test_logs_are_merged_by_time_and_cut_from_the_end(ctl, tmp_path):
    log = tmp_path / "log"
    log.mkdir()
    write_log(log / "q-0.log", 0, [(n * 10, "1-%d" % n, "zero %d" % n) for n in range(40)])
    write_log(log / "q-1.log.1", 1, [(5, "2-0", "rotated")])
    write_log(log / "q-1.log", 1, [(n * 10 + 1, "1-%d" % n, "one %d" % n) for n in range(40)])
    (log / "supervisor.log").write_text("not a worker's\n")
    assert [x.split("] ")[1] for x in ctl.ok("logs", "-n", "4").splitlines()] == \
        ["zero 38", "one 38", "zero 39", "one 39"]
    assert len(ctl.ok("logs").splitlines()) == 15
    assert len(ctl.ok("logs", "-n", "1000").splitlines()) == 81
    for slot in ("1", "q/1"):
        assert {x.split()[1] for x in ctl.ok("logs", slot, "-n", "99").splitlines()} == {"1"}
    assert [x.split("] ")[1] for x in ctl.ok("logs", "--task", "1-7").splitlines()] == \
        ["zero 7", "one 7"]
    assert "rotated" in ctl.ok("logs", "--task=2-0")
    ctl.fails(1, "logs", "7")


def test_logs_of_several_queues_say_which(ctl, tmp_path):
    log = tmp_path / "log"
    log.mkdir()
    write_log(log / "a%2Fb-0.log", 0, [(1, "-", "hello")])
    write_log(log / "q-0.log", 0, [(2, "-", "world")])
    first, second = ctl.ok("logs").splitlines()
    assert " a%2Fb/0 812 O [-] hello" in first and " q/0 812 O [-] world" in second
    assert ctl.ok("logs", "a/b/0").endswith(" 0 812 O [-] hello\n")
    assert ctl.ok("logs", "a/b").endswith(" 0 812 O [-] hello\n")


def test_logs_follow_across_a_rotation(ctl, tmp_path):
    log = tmp_path / "log"
    log.mkdir()
    write_log(log / "q-0.log", 0, [(1, "-", "one")])
    p = subprocess.Popen([ctl.program, "logs", "-f"], stdout=subprocess.PIPE, env=ctl.env,
                         cwd=ctl.dir, bufsize=0)

    def line():
        """The next one; unbuffered, so that select() knows of all that has come."""
        assert select.select([p.stdout], [], [], 20 * PATIENCE)[0], "it says nothing"
        return p.stdout.readline()
    try:
        assert line().endswith(b"one\n")
        write_log(log / "q-0.log", 0, [(2, "-", "two")])
        os.rename(log / "q-0.log", log / "q-0.log.1")
        write_log(log / "q-0.log", 0, [(3, "-", "three")])
        write_log(log / "q-1.log", 1, [(4, "-", "a new slot")])
        assert line().endswith(b"two\n")
        assert {line().split(b"] ")[1] for _ in range(2)} == {b"three\n", b"a new slot\n"}
    finally:
        p.kill()
        p.wait()
        p.stdout.close()


def test_logs_without_a_directory(ctl):
    assert "log directory" in ctl.fails(1, "logs")


def test_reader_that_leaves_is_no_error(ctl, tmp_path):
    log = tmp_path / "log"
    log.mkdir()
    write_log(log / "q-0.log", 0, [(n, "-", "x" * 1000) for n in range(5000)])
    p = subprocess.run(["sh", "-c", "%s logs -n 5000 | head -1 >/dev/null" % ctl.program],
                       env=ctl.env, cwd=ctl.dir, capture_output=True, timeout=30)
    assert p.stderr == b""
