"""redisqctl push --wait: the result of one task, or why there is none. And what show tells of it."""
import json
import os
import pty
import re
import signal
import subprocess

import pytest

from conftest import on_both
from test_state import DONE, Shell
from redisserver import documented
from waiting import wait_until


@pytest.fixture
def shell(tmp_path, gate):
    return Shell(tmp_path, gate)


@pytest.fixture
def up(sup, shell):
    """A supervisor that answers, for the queue of `shell`."""
    def make(redis=None, **keys):
        s = sup(queues=shell.queue(**keys), supervisor={"workers": 1}, redis=redis)
        s.server.permit(*documented("ctl"))
        s.wait_ready(1)
        return s
    return make


def started(s, *args, **how):
    return subprocess.Popen([os.path.join(s.build, "redisqctl"), "-s",
                             "supervisor.control_socket=" + s.socket, *args],
                            env=s.env, stdin=subprocess.DEVNULL, **how)


@on_both
def test_the_result_is_printed(up, server, shell):
    s = up()
    assert s.ctl("push", "q", "--wait", DONE.decode(), check=0).out == '{"url":"x"}\n'
    said = s.ctl("push", "q", "--wait", "-", input=b"[ $REDISQ_ATTEMPT = 3 ] || exit 1; " + DONE,
                 check=0)
    assert said.out == '{"url":"x"}\n' and said.err == "", "after two failed attempts"
    assert s.ctl("push", "q", "--wait", "true", check=0).out == ""
    s.ctl("audit", "q", check=0)


@on_both
@pytest.mark.parametrize("payload,says", [
    ("exit 65", "is a dead letter (rejected): exit 65; see redisqctl dead show q "),
    ("""echo '{"type":"dead","error":"no such user"}' >&3""", "(rejected): no such user; see"),
    ("kill -9 $$", "is held (crashes): signal 9 SIGKILL; see redisqctl held show q ")])
def test_a_task_that_comes_to_a_bad_end_is_said_in_one_line(up, server, shell, payload, says):
    s = up(on_crash="hold")
    said = s.ctl("push", "q", "--wait", payload, check=1)
    assert says in said.err and said.err.count("\n") == 1 and said.out == ""
    line = said.err.strip().split("redisqctl ")[-1].split(" ")
    assert payload in s.ctl(*line, check=0).out, "what it says to do works"


@on_both
def test_an_own_id_does_not_bring_an_earlier_result(up, server, shell, gate):
    s = up()
    say = """echo '{"type":"done","result":%d}' >&3"""
    assert s.ctl("push", "q", "--wait", "--field", "redisq.id=order-7", say % 1).out == "1\n"
    assert s.ctl("push", "q", "--wait", "--field", "redisq.id=order-7", say % 2).out == "2\n"


@pytest.mark.parametrize("args", [("--lines",), ("--field", "redisq.result_ttl=0", "x"),
                                  ("--field", "redisq.result_ttl=59999", "x"),
                                  ("--field", "redisq.result_ttl=90000ms", "x"),
                                  ("--field", "redisq.id=a b", "x"), ("--field", "redisq.id=", "x")])
def test_what_cannot_be_waited_for_is_refused_at_once(up, server, shell, args):
    s = up()
    assert "--wait" in s.ctl("push", "q", "--wait", *args, input=b"x\n", check=64).err
    assert server.counters("q") == {} and shell.runs() == []


@on_both
def test_ctrl_c_leaves_the_task_and_says_how_to_look(up, server, shell, gate):
    s = up()
    p = started(s, "push", "q", "--wait", "hold; " + DONE.decode(), stdout=subprocess.PIPE,
                stderr=subprocess.PIPE)
    wait_until(lambda: len(shell.runs()) == 1, 20, "it runs")
    task = server.entries("q")[0][0]
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=30)
    assert p.returncode == -signal.SIGINT and out == b""
    assert err.decode() == ("redisqctl: task %s goes on; see redisqctl show q %s\n" % (task, task))
    assert json.loads(s.ctl("show", "q", task, "--json", check=0).out)["state"] == "running"
    gate.open()
    server.wait_empty("q")
    shown = json.loads(s.ctl("show", "q", task, "--json", check=0).out)
    assert shown["state"] == "done" and shown["result"] == {"url": "x"}


def test_a_second_signal_does_not_wait_for_a_silent_redis(up, server, shell, gate):
    s = up()
    p = started(s, "push", "q", "-s", "redis.url=" + server.url, "-s", "redis.command_timeout=1m",
                "--wait", "hold", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: len(shell.runs()) == 1, 20, "it runs")
    server.pause()
    try:
        wait_until(lambda: p.send_signal(signal.SIGINT) or p.poll() is not None, 10, every=0.2)
    finally:
        server.go_on()
        p.kill()
    assert p.communicate(timeout=30)[0] == b"" and p.returncode == -signal.SIGINT
    gate.open()
    server.wait_empty("q")


def test_progress_is_told_on_a_terminal_only(up, server, shell, gate):
    s = up()
    ours, theirs = pty.openpty()
    p = started(s, "push", "q", "--wait", "say progress '\"40 %\"'; hold; " + DONE.decode(),
                stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    seen = b""
    while b": 40 % (" not in seen:
        seen += os.read(ours, 4096)
    gate.open()
    assert p.communicate(timeout=30)[0] == b'{"url":"x"}\n' and p.returncode == 0
    os.close(ours)


def test_waiting_goes_on_over_a_restart_of_redis(up, server, proxy, shell, gate):
    s = up(redis={"url": proxy.url})
    p = started(s, "push", "q", "--wait", "hold; " + DONE.decode(), stdout=subprocess.PIPE,
                stderr=subprocess.PIPE)
    wait_until(lambda: len(shell.runs()) == 1, 20, "it runs")
    n = proxy.accepted
    proxy.cut()
    wait_until(lambda: proxy.accepted > n + 3, 20, "several tries")
    proxy.heal()
    gate.open()
    out, err = p.communicate(timeout=60)
    assert (out, err, p.returncode) == (b'{"url":"x"}\n', b"", 0)


def test_it_looks_at_most_four_times_a_second(up, server, shell, gate):
    s = up()
    p = started(s, "push", "q", "--wait", "hold")
    wait_until(lambda: len(shell.runs()) == 1, 20, "it runs")
    server.r.config_resetstat()

    def looks():
        """(how many so far, when that was)"""
        with server.r.pipeline(transaction=True) as both:
            stats, (s, us) = both.info("commandstats").time().execute()
        return stats.get("cmdstat_mget", {"calls": 0})["calls"], s + us / 1e6
    n, begun = wait_until(lambda: looks()[0] and looks(), 20, "it looks")
    more, ended = wait_until(lambda: looks()[0] >= n + 5 and looks(), 20, "it goes on")
    assert more - n <= 4 * (ended - begun) + 1.1
    gate.open()
    assert p.wait(30) == 0


# ---------------------------------------------------------------- show

def shown(s, *args):
    return json.loads(s.ctl("show", "q", *args, "--json", check=0).out)


@on_both
def test_show_tells_what_a_task_has_left(up, server, shell, gate):
    s = up(retry_delay="1h", retry_delay_max="1h", result_ttl="1h")
    task, = server.add("q", b"""say checkpoint '{"job":7}'; say progress '"40 %"'; hold; exit 1""")
    wait_until(lambda: server.r.hlen("{q}:ckpt") and server.r.hlen("{q}:progress"), 20)
    now = shown(s, task)
    assert (now["state"], now["checkpoint"], now["progress"]) == ("running", {"job": 7}, "40 %")
    row, = json.loads(s.ctl("pending", "q", "--json", check=0).out)
    assert row["progress"] == "40 %"
    assert s.ctl("pending", "q", check=0).out.splitlines()[1].endswith("  40 %")
    text = s.ctl("show", "q", task, check=0).out
    assert '  checkpoint          {"job":7}\n  progress            "40 %"\n' in text
    gate.open()
    wait_until(lambda: server.delayed("q"), 20)
    now = shown(s, task)
    assert now["state"] == "delayed" and now["checkpoint"] == {"job": 7} and "progress" not in now
    assert s.ctl("show", "q", task, check=0).out.count("\n  checkpoint ") == 1
    server.add("q", b"say checkpoint 1; exit 65")
    wait_until(lambda: server.dead("q"), 20)
    letter, fields = server.dead("q")[0]
    now = shown(s, letter)
    assert now["state"] == "dead" and now["checkpoint"] == 1
    assert now["failed"] == "dead %s rejected exit 65" % letter


@on_both
def test_a_done_task_is_found_by_its_result(up, server, shell):
    s = up(result_ttl="1h")
    with_result, without = server.add("q", DONE, b"true")
    server.wait_empty("q")
    assert shown(s, with_result) == {"queue": "q", "state": "done", "result": {"url": "x"},
                                     "fields": {}}
    assert "done" in s.ctl("show", "q", with_result, check=0).out
    assert "no task" in s.ctl("show", "q", without, check=1).err


# ---------------------------------------------------------------- many at once

@on_both
def test_an_error_of_lines_says_which_line(up, server, shell):
    s = up()
    s.ctl("quiet", check=0)
    server.wait_unread()
    server.r.config_set("maxmemory-policy", "noeviction")
    size = server.r.info("memory")["used_memory"]
    server.r.config_set("maxmemory", size + 3 * 1024 * 1024)
    lines = b"".join(b"%d %s\n" % (i, b"x" * 5000) for i in range(1, 2001))
    said = s.ctl("push", "q", "--lines", input=lines, check=1)
    n = server.xlen("q")
    assert 0 < n < 2000
    server.r.config_set("maxmemory", 0)
    assert said.err.startswith("redisqctl: pushed %d of the first " % n)
    number = int(said.err.split("line ")[1].split(" ")[0])
    # Before 7.0 that of a script, which pushes into lists, is behind where it happened.
    assert re.search("is the first that is missing: Redis refuses it: (ERR Error running .*)?OOM",
                     said.err)
    got = [int(f[b"payload"].split()[0]) for _, f in server.entries("q")]
    assert number == min(set(range(1, 2001)) - set(got)), "the first that is not there"
