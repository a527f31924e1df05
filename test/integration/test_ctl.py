"""redisqctl against a running supervisor: every verb, the PM2 habits, the exit codes."""
import json
import os
import re
import signal

import pytest

from redisserver import ROOT
from waiting import stays, wait_until


@pytest.fixture
def s(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler(), "retry_delay": "50ms"}})
    s.wait_ready(2)
    return s


def test_status_for_people_fits_80_columns(s):
    out = s.ctl("status", check=0).out
    assert max(len(x) for x in out.splitlines() if not x.startswith("logs: ")) <= 80
    assert "2 × 4 = 8 at once" in out
    for w in s.workers():
        assert str(w["pid"]) in out
    assert "\x1b" not in out, "no colour off a terminal"


@pytest.mark.parametrize("alias", ["list", "ls"])
def test_aliases_of_status(s, alias):
    strip = lambda text: re.sub(r"\d+", "N", text)  # noqa: E731
    assert strip(s.ctl(alias, check=0).out) == strip(s.ctl("status", check=0).out)


def test_status_json_has_the_contract_s_keys(s, server):
    status = json.loads(s.ctl("status", "--json", check=0).out)
    assert {"pid", "version", "state", "uptime_ms", "generation", "last_reload"} <= \
        set(status["supervisor"])
    assert status["supervisor"]["pid"] == s.pid and status["supervisor"]["last_reload"] is None
    queue, = status["queues"]
    assert {"name", "backend", "concurrency", "workers_wanted", "total_parallelism",
            "workers"} <= set(queue)
    assert (queue["name"], queue["backend"], queue["total_parallelism"]) == ("q", "stream", 8)
    for w in queue["workers"]:
        assert {"slot", "pid", "consumer", "state", "consuming", "restarts", "uptime_ms", "running",
                "done", "failed", "lost_leases", "rss_bytes", "last_exit", "tasks"} <= set(w)
        assert w["consumer"] == "worker_%d" % w["pid"] and w["state"] == "ready"
        assert w["consuming"] is True and w["rss_bytes"] > 100000 and w["last_exit"] is None
    assert json.loads(s.ctl("jlist", check=0).out)["queues"][0]["name"] == "q"


def listed_keys():
    """{object: keys} as supervisor/control.txt says it of the status."""
    with open(os.path.join(ROOT, "supervisor", "control.txt"), encoding="ascii") as f:
        table = f.read().split("In            Key")[1].split("With nothing but a shell")[0]
    keys, name = {}, None
    for of, words in re.findall(r"(?m)^([a-z_]+ +| {14})([a-z_]+(?:, [a-z_]+)*)(?:  |$)", table):
        name = of.strip() or name
        keys.setdefault(name, set()).update(words.split(", "))
    return keys


def keys_of(value, name, keys):
    """Adds those of an object, and of all in it."""
    within = {"queues": "queue", "workers": "worker", "tasks": "task"}
    for v in value if isinstance(value, list) else [value]:
        if isinstance(v, dict):
            keys.setdefault(name, set()).update(v)
            for key in v:
                keys_of(v[key], within.get(key, key), keys)


def test_every_key_of_the_status_is_listed_in_control_txt(sup, server, journal, gate):
    own = server.backend != "partitions"
    s = sup(queues={"q": dict({"handler": journal.handler()}, **({"partitions": 2} if own else {}))},
            supervisor={"workers": 1})
    pid = s.wait_ready(1)[0]["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: [w for w in s.ready() if w["pid"] != pid], what="another is ready")
    s.reload()
    server.add("q:0" if own else "q", b"do " + str(gate).encode())
    wait_until(lambda: any(w["tasks"] for w in s.workers()), what="a task runs")
    keys = {}
    keys_of(s.status(), "all", keys)
    s.ctl("reload", "--no-wait", check=0)     # the old worker has its task, and the roll is on trial
    keys_of(wait_until(lambda: (lambda t: t if t["queues"][0]["roll"] else None)(s.status())), "all", keys)
    gate.open()
    assert listed_keys() == keys


def test_status_shows_running_tasks(s, server, journal, gate):
    ids = server.add("q", *[b"do " + str(gate).encode()] * 3)
    journal.wait_started(3)
    tasks = wait_until(lambda: (lambda t: t if len(t) == 3 else None)(
        [t for w in s.workers() for t in w["tasks"]]))
    assert sorted(t["id"] for t in tasks) == sorted(ids)
    assert all(t["attempt"] == 1 and 0 <= t["age_ms"] < 60000 for t in tasks)
    assert sum(w["running"] for w in s.workers()) == 3
    gate.open()
    server.wait_empty("q")
    wait_until(lambda: sum(w["done"] for w in s.workers()) == 3)


def test_ping(s):
    assert s.ctl("ping", check=0).out.strip() == "pong"


@pytest.mark.parametrize("args", [("describe", "0"), ("describe", "q/1"), ("show", "q/0")])
def test_describe(s, args):
    out = s.ctl(*args, check=0).out
    slot = int(args[1][-1])
    pid = [w for w in s.workers() if w["slot"] == slot][0]["pid"]
    assert str(pid) in out
    assert [w["pid"] for w in json.loads(s.ctl(*args, "--json", check=0).out)] == [pid]


def test_scale(s):
    for arg, n in (("+1", 3), ("-2", 1), ("4", 4), ("2", 2)):
        s.ctl("scale", arg, check=0)
        assert s.status()["queues"][0]["workers_wanted"] == n
        assert len(s.ready()) == n, "it waited"
    s.ctl("scale", "q", "1", check=0)
    assert len(s.ready()) == 1
    assert s.ctl("scale", "nosuch", "1").returncode != 0
    assert s.ctl("scale", "q", "many").returncode == 64


def test_start_of_a_queue_scaled_to_nothing_says_what_to_do(s):
    s.ctl("scale", "q", "-9", check=0)
    for verb in ("start", "restart"):
        done = s.ctl(verb, "q", check=1)
        assert "queue q has 0 workers; say redisqctl scale q N" in done.err


def test_stop_and_start_all(s, server, journal):
    s.ctl("stop", check=0)
    assert not s.ready() and s.status()["supervisor"]["pid"] == s.pid
    server.add("q", b"x")
    stays(lambda: not journal.starts(), 0.5)
    s.ctl("start", check=0)
    assert len(s.ready()) == 2
    server.wait_empty("q")


def test_stop_start_and_restart_one_slot(s):
    pids = {w["slot"]: w["pid"] for w in s.workers()}
    s.ctl("stop", "q/1", check=0)
    assert [w["slot"] for w in s.ready()] == [0]
    row = [w for w in s.workers() if w["slot"] == 1]
    assert not row or row[0]["pid"] is None
    s.ctl("start", "1", check=0)
    assert len(s.ready()) == 2
    s.ctl("restart", "q/0", check=0)
    now = {w["slot"]: w["pid"] for w in s.ready()}
    assert now[0] != pids[0]
    assert s.ctl("restart", "q/9").returncode != 0


def test_stop_waits_for_the_running_task(s, server, journal, gate):
    server.add("q", b"do " + str(gate).encode())
    journal.wait_started(1)
    s.ctl("stop", "--no-wait", check=0)
    assert len(journal.running()) == 1
    gate.open()
    s.ctl("stop", check=0)
    assert not s.marked() or not journal.running()
    assert server.is_empty("q")


def test_quiet_and_resume(s, server, journal):
    s.ctl("quiet", check=0)
    assert s.status()["supervisor"]["state"] == "quiet"
    server.wait_unread()
    server.add("q", b"x")
    stays(lambda: not journal.starts(), 0.5)
    s.ctl("resume", check=0)
    server.wait_empty("q")


@pytest.mark.parametrize("verb", ["reload", "reopen-logs", "reloadLogs"])
def test_verbs_that_just_work(s, verb):
    s.ctl(verb, check=0)
    s.wait_ready(2)


def test_kill_drains_and_ends_the_supervisor(s, server, journal, gate):
    server.add("q", b"do sleep=300")
    journal.wait_started(1)
    s.ctl("kill", check=0)
    assert s.wait_exit(10) == 0
    assert len(journal.ends()) == 1 and not s.marked()


def test_logs(s, server):
    a, b = server.add("q", b"do say=first", b"do say=second")
    server.wait_empty("q")
    wait_until(lambda: "second" in s.log("q") and "first" in s.log("q"))
    out = s.ctl("logs", check=0).out
    assert "] first" in out and "] second" in out
    only = s.ctl("logs", "--task", a, check=0).out
    assert "] first" in only and "second" not in only
    assert len(s.ctl("logs", "-n", "1", "0", check=0).out.splitlines()) <= 1


def test_startup_prints_the_unit(s):
    out = s.ctl("startup", check=0).out
    for line in ("[Unit]", "[Service]", "KillMode=mixed", "OOMPolicy=continue", "ExecReload="):
        assert line in out


def test_flush_never_acts(s, server):
    server.add("nobody", b"x")
    done = s.ctl("flush")
    assert done.returncode == 64 and done.err.startswith("redisqctl: ")
    assert server.xlen("nobody") == 1


def test_push_one(s, server, journal, tmp_path):
    done = s.ctl("push", "q", "do say=pushed", check=0)
    task = done.out.strip()
    assert re.fullmatch(r"\d+-\d+", task)
    server.wait_empty("q")
    assert list(journal.runs()) == [task]


def test_push_bytes_from_stdin_and_fields(s, server):
    s.ctl("stop", check=0)
    s.ctl("push", "q", "-", input=b"a\0b\r\n\xff", check=0)
    s.ctl("push", "q", "--field", "user=7", "--field", "x=a=b", "hello", check=0)
    s.ctl("push", "q", "--field", "only=1", check=0)
    got = [f for _, f in server.r.xrange("q")]
    assert got[0] == {b"payload": b"a\0b\r\n\xff"}
    assert got[1] == {b"payload": b"hello", b"user": b"7", b"x": b"a=b"}
    assert got[2] == {b"only": b"1"}


def test_push_lines(s, server, journal):
    done = s.ctl("push", "q", "--lines", input=b"".join(b"%d\n" % i for i in range(500)), check=0)
    assert "pushed 500 tasks to q" in done.out + done.err
    server.wait_empty("q")
    assert len(journal.starts()) == 500


def test_stats(s, server, journal, gate):
    server.add("q", *[b"do exit=65"] * 2 + [b"x"] * 3)
    server.wait_empty("q")
    server.add("q", *[b"do " + str(gate).encode()] * 10)
    journal.wait_started(13)
    stats = json.loads(s.ctl("stats", "q", "--json", check=0).out)
    assert set(stats) >= {"queue", "waiting", "running", "delayed", "held", "dead", "accepted",
                          "done", "dropped", "trimmed", "consumers", "oldest_age_ms", "backlog"}
    want = {"queue": "q", "waiting": 2, "running": 8, "delayed": 0, "held": 0, "dead": 2,
            "accepted": 15, "done": 3, "dropped": 0, "trimmed": 0, "consumers": 2}
    assert {k: stats[k] for k in want} == want
    out = s.ctl("stats", check=0).out
    assert max(map(len, out.splitlines())) <= 80
    gate.open()
    server.wait_empty("q")


def test_show_and_pending(s, server, journal, gate):
    task, = server.add("q", b"do " + str(gate).encode())
    journal.wait_started(1)
    assert task in s.ctl("pending", "q", check=0).out
    out = s.ctl("show", "q", task, check=0).out
    assert "worker_" in out and "gate=" in out
    gate.open()
    server.wait_empty("q")
    assert s.ctl("show", "q", "1-1").returncode == 1


def test_dead_letters(s, server, journal):
    a, b, c = server.add("q", b"do exit=65 cry=bad", b"do exit=65", b"do exit=65")
    wait_until(lambda: len(server.dead("q")) == 3)
    out = s.ctl("dead", "list", "q", check=0).out
    assert a in out and max(map(len, out.splitlines())) <= 80
    ids = {f[b"redisq.id"].decode(): i for i, f in server.dead("q")}
    shown = s.ctl("dead", "show", "q", ids[a], check=0).out
    assert "rejected" in shown and "bad" in shown
    s.ctl("dead", "drop", "q", ids[b], check=0)
    assert len(server.dead("q")) == 2
    assert server.counters("q")["dropped"] == 1
    s.ctl("dead", "retry", "q", ids[a], check=0)
    wait_until(lambda: journal.runs()[a] == 2, what="it ran again under its stable id")
    again = journal.starts(a)[1]
    assert again["attempt"] == 1
    wait_until(lambda: len(server.dead("q")) == 2)


@pytest.mark.parametrize("args,code", [
    ((), 64), (("nosuchverb",), 64), (("push",), 64), (("stats", "q", "--nosuch"), 64),
    (("dead", "nosuch", "q"), 64), (("dead", "show", "q", "99-1"), 1)])
def test_errors_are_one_line(s, args, code):
    done = s.ctl(*args)
    assert done.returncode == code
    assert done.err.splitlines()[0].startswith(("redisqctl: ", "usage: ", "Usage: "))


def test_nobody_there_lists_every_path_tried(s, server):
    s.stop()
    done = s.ctl("status")
    assert done.returncode == 69 and s.socket in done.err
    done = s.ctl("status", config=False)
    assert done.returncode == 69 and "control.sock" in done.err


def test_redis_is_taken_from_the_supervisor(s, server, journal):
    """REDIS_URL of the shell plays no part while a supervisor answers."""
    s.ctl("push", "q", "x", env={"REDIS_URL": "redis://127.0.0.1:1/0"}, check=0)
    server.wait_empty("q")
    assert len(journal.starts()) == 1


def test_redis_url_counts_when_no_supervisor_answers(s, server):
    s.stop()
    s.ctl("push", "q", "x", env={"REDIS_URL": server.url}, check=0)
    assert server.xlen("q") == 1
    done = s.ctl("push", "q", "x", env={"REDIS_URL": "redis://127.0.0.1:1/0"})
    assert done.returncode == 69 and "127.0.0.1:1" in done.err


def test_options_after_the_verb(s):
    done = s.ctl("ping", "-s", "supervisor.control_socket=" + s.socket, config=False, check=0)
    assert done.out.strip() == "pong"


def test_a_second_supervisor_is_refused(s, build):
    import subprocess
    done = subprocess.run(s.command(), env=s.env, capture_output=True, timeout=20)
    assert done.returncode == 73
    assert str(s.pid) in done.stderr.decode()
    assert s.ctl("ping", check=0)


def test_a_stale_pid_file_is_no_hindrance(s):
    s.signal(signal.SIGKILL)
    s.proc.wait()
    wait_until(lambda: not s.marked())
    with open(s.supervisor["pid_file"], "w") as f:
        f.write("1\n")
    s.start()
    s.wait_ready(2)
    with open(s.supervisor["pid_file"]) as f:
        assert int(f.read()) == s.pid


def on_terminal(s, columns, *args):
    """What redisqctl prints on a terminal of that width."""
    import fcntl
    import os
    import pty
    import struct
    import subprocess
    import termios
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    p = subprocess.Popen([os.path.join(s.build, "redisqctl"), "-s",
                          "supervisor.control_socket=" + s.socket] + list(args),
                         env=dict(s.env, NO_COLOR="1"), stdout=slave, stdin=slave, cwd=s.dir)
    os.close(slave)
    out = b""
    try:
        while part := os.read(master, 4096):
            out += part
    except OSError:
        pass
    os.close(master)
    assert p.wait(20) == 0
    return out.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_status_fits_the_terminal(s, columns):
    out = on_terminal(s, columns, "status")
    assert max(len(x) for x in out.splitlines() if not x.startswith("logs: ")) <= columns, out
    for w in s.workers():
        assert re.search(r"^ +%d +%d +ready " % (w["slot"], w["pid"]), out, re.M), out


def test_sums_of_status_are_the_queue_s(s, server, journal):
    server.add("q", *[b"x"] * 3, b"do exit=65")
    server.wait_empty("q")
    wait_until(lambda: re.search(r"done 3 +failed 1\b", s.ctl("status").out))


def test_faulty_file_hinders_no_verb_about_processes(s):
    """The supervisor judges its file: status and kill must work, reload must reach it."""
    text = open(s.ini).read()
    s.write_ini(text.replace("workers = 2", "workers = many"))
    line = [i for i, x in enumerate(text.splitlines(), 1) if x == "workers = 2"][0]
    at = "redisq.ini:%d" % line
    done = s.ctl("-c", s.ini, "status", config=False, check=0)
    assert "queue q" in done.out
    assert done.err.count("\n") == 1 and at in done.err and s.socket in done.err
    done = s.ctl("-c", s.ini, "reload", config=False)
    assert done.returncode == 78 and at in done.err.splitlines()[-1]
    reload = s.last_reload()
    assert reload["ok"] is False and at in reload["error"]
    s.ctl("-c", s.ini, "restart", "0", config=False, check=0)
    assert s.ctl("-c", s.ini, "stats", "q", config=False).returncode == 78, "not of its Redis"
    s.ctl("-c", s.ini, "kill", config=False, check=0)
    assert s.wait_exit() == 0
    done = s.ctl("-c", s.ini, "status", config=False)
    assert done.returncode == 78 and at in done.err, "nobody there to judge"


def test_file_that_is_not_there_means_no_other_supervisor(s):
    for path in ("missing.ini", s.dir):
        assert s.ctl("-c", path, "kill", config=False,
                     env={"XDG_RUNTIME_DIR": s.run_dir}).returncode == 78
    assert s.ctl("ping", check=0)


@pytest.mark.parametrize("args,code,says", [
    (("stauts",), 64, 'no verb "stauts"; did you mean status?'),
    (("stop", "video/9"), 64, "no slot 9 of queue video"),
    (("stop", "vidoe"), 64, "no queue vidoe; did you mean video?"),
    (("scale", "vidoe", "3"), 64, "no queue vidoe; did you mean video?"),
    (("scale", "3"), 64, "which queue? Say redisqctl scale QUEUE N, of video, audio"),
    (("restart", "0"), 64, "slot 0 of which queue? Say QUEUE/0, of video, audio"),
    (("describe", "vidoe/0"), 64, "no worker vidoe/0; did you mean video/0?"),
    (("logs", "vidoe"), 1, "did you mean video?"), (("logs", "vidoe/0"), 1, "did you mean video?"),
    (("logs", "--task", "9-9"), 1, "no line of task 9-9"),
    (("show", "vidoe", "1-1"), 1, "no queue vidoe is configured; did you mean video?"),
    (("pending", "vidoe"), 1, "no queue vidoe is configured; did you mean video?"),
    (("dead", "show", "vidoe", "1-1"), 1, "no queue vidoe is configured; did you mean video?"),
    (("dead", "list", "vidoe"), 0, "no queue vidoe is configured; did you mean video?"),
    (("stats", "vidoe"), 0, "no queue vidoe is configured; did you mean video?"),
    (("push", "vidoe", "x"), 0,
     "no queue vidoe is configured; did you mean video? (pushed to vidoe all the same)"),
    (("push", "mail", "x"), 0,
     "no queue mail is configured; there are video, audio (pushed to mail all the same)")])
def test_what_is_mistyped_is_said_kindly(sup, journal, args, code, says):
    s = sup(queues={"video": {"handler": journal.handler()}, "audio": {"handler": journal.handler()}},
            supervisor={"workers": 1})
    s.wait_ready(2)
    s.server.permit("~vidoe", "~{vidoe}:*", "~mail", "~{mail}:*")
    done = s.ctl(*args, check=code)
    assert says in done.err and done.err.startswith("redisqctl: "), done.err
    assert done.err.count("\n") == 1, "one line"


def test_hundred_slow_clients_do_no_harm(s):
    import socket
    held = []
    try:
        for _ in range(100):
            c = socket.socket(socket.AF_UNIX)
            c.settimeout(1)
            try:
                c.connect(s.socket)
                c.sendall(b'{"verb":')
                held.append(c)
            except OSError:
                break
        for c in held[-50:]:
            c.close()
        s.ctl("ping", check=0)
        s.request("status", unknown=1)
    finally:
        for c in held:
            c.close()
