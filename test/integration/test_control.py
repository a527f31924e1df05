"""The control socket's requests: what they take, what they wait for, who is told what."""
import json
import os
import signal
import socket
import subprocess
import threading

import pytest

from fakesup import fake, queue  # noqa: F401 (a fixture)
from waiting import wait_until


class Asked:
    """A request on a connection of its own, answered some time later."""

    def __init__(self, s, verb, **members):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(s.socket)                 # waits while the backlog is full
        self.sock.settimeout(60)
        self.lines = self.sock.makefile("r")
        self.sock.sendall(json.dumps(dict({"verb": verb}, **members)).encode() + b"\n")

    def next(self):
        return json.loads(self.lines.readline())

    def said(self):
        """The next progress line."""
        return self.next()["say"]

    def answer(self):
        while True:
            line = self.next()
            if "ok" in line:
                self.close()
                return line

    def close(self):
        self.lines.close()
        self.sock.close()


def n_fds(s):
    return len(os.listdir("/proc/%d/fd" % s.pid))


@pytest.mark.parametrize("verb", ["stop", "start", "restart"])
@pytest.mark.parametrize("target", [True, 1.5, [], {}, ["demo/0"], -1, 512, 2 ** 40])
def test_target_of_a_wrong_type_is_not_all(fake, verb, target):
    s = fake(supervisor={"workers": 2})
    pids = sorted(w["pid"] for w in s.wait_ready())
    assert s.request(verb, target=target, wait=True)["exit"] == 64
    assert sorted(s.pids()) == pids and len(s.ready()) == 2
    assert s.stop() == 0


def test_target_may_be_a_slot_s_number(fake):
    s = fake(supervisor={"workers": 2})
    s.wait_ready()
    assert s.request("stop", target=0, wait=True)["ok"]
    assert [w["slot"] for w in s.ready()] == [1]
    assert s.request("start", target=0, wait=True)["ok"]
    assert len(s.ready()) == 2
    assert s.stop() == 0


@pytest.mark.parametrize("verb,members,what", [
    ("stop", {"wait": 1}, '"wait"'), ("reload", {"wait": "yes"}, '"wait"'),
    ("kill", {"fast": 1}, '"fast"'), ("kill", {"wait": 0}, '"wait"'),
    ("scale", {"queue": 1, "workers": "1"}, '"queue"'), ("scale", {"workers": 1.5}, '"workers"'),
    ("stop", {"slot": 0}, '"slot"'), ("scale", {"workers": -1}, "negative"), ("scale", {}, "nothing")])
def test_every_member_is_checked(fake, verb, members, what):
    s = fake(supervisor={"workers": 1})
    pid = s.wait_ready()[0]["pid"]
    answer = s.request(verb, **members)
    assert answer["exit"] == 64 and what in answer["error"]
    assert s.pids() == [pid] and s.status()["supervisor"]["state"] == "running"
    assert s.request("scale", workers=2, wait=True)["ok"] and len(s.ready()) == 2
    assert s.stop() == 0


def test_mistyped_queue_is_suggested(fake):
    s = fake(queues={"video": {"handler": "exec /bin/true"}, "audio": {"handler": "exec /bin/true"}},
             supervisor={"workers": 1})
    s.wait_ready()
    for verb, members in (("stop", {"target": "vidoe"}), ("restart", {"target": "vidoe/0"}),
                          ("scale", {"queue": "vidoe", "workers": "2"})):
        answer = s.request(verb, **members)
        assert answer["exit"] == 64 and "did you mean video?" in answer["error"]
    for answer in (s.request("scale", workers="2"), s.request("stop", target="0")):
        assert answer["exit"] == 64 and "which queue?" in answer["error"]
        assert "video" in answer["error"] and "audio" in answer["error"]
    assert s.stop() == 0


def test_clients_that_went_away_block_nobody(fake):
    """80 programs asked for a stop that takes long, and gave up waiting."""
    s = fake(knobs={"tasks": 1}, supervisor={"workers": 1, "drain_timeout": "10m"})
    wait_until(lambda: [w for w in s.ready() if w["running"]])
    fds = n_fds(s)
    for _ in range(80):
        Asked(s, "stop", target=None, wait=True).close()
    assert s.request("ping")["ok"]
    wait_until(lambda: n_fds(s) <= fds)
    assert s.request("kill", fast=True)["ok"]
    assert s.wait_exit() == 0


def test_one_client_too_many_is_told_so(fake):
    s = fake(supervisor={"workers": 1})
    s.wait_ready()
    idle = []
    for _ in range(64):
        idle.append(socket.socket(socket.AF_UNIX))
        idle[-1].connect(s.socket)
    done = s.ctl("ping", check=69)
    assert "serves 64 clients already" in done.err
    for c in idle:
        c.close()
    wait_until(lambda: s.ctl("ping").returncode == 0)
    assert s.stop() == 0


def test_two_kills_are_both_answered_at_the_end(fake, tmp_path):
    s = fake(knobs={"tasks": 1, "task_gate": tmp_path / "gate"}, supervisor={"workers": 1})
    wait_until(lambda: [w for w in s.ready() if w["running"]])
    kills = [Asked(s, "kill", fast=False) for _ in range(3)]
    assert all("task" in k.said() for k in kills)
    assert s.status()["supervisor"]["state"] == "draining"
    (tmp_path / "gate").touch()
    assert [k.answer() for k in kills] == [{"ok": True, "result": {"forced": False}}] * 3
    assert s.wait_exit() == 0


def test_stop_overtaken_by_start_fails(fake):
    s = fake(knobs={"tasks": 1}, supervisor={"workers": 2, "drain_timeout": "10m"})
    wait_until(lambda: len([w for w in s.ready() if w["running"]]) == 2)
    stop = Asked(s, "stop", target="0", wait=True)
    wait_until(lambda: [w for w in s.workers() if w["state"] == "draining"])
    assert s.request("start", target="0", wait=True)["ok"]
    answer = stop.answer()
    assert answer["exit"] == 1 and answer["error"] == "demo/0 was started again meanwhile"
    assert s.request("kill", fast=True)["ok"]


def test_start_overtaken_by_stop_fails(fake):
    s = fake(supervisor={"workers": 1})
    s.wait_ready()
    assert s.request("stop", wait=True)["ok"]
    s.set_knobs(ready_ms=-1)
    start = Asked(s, "start", wait=True)
    wait_until(lambda: [w for w in s.workers() if w["state"] == "starting"])
    assert s.request("stop", wait=True)["ok"]
    answer = start.answer()
    assert answer["exit"] == 1 and answer["error"] == "demo/0 was stopped meanwhile"
    assert s.stop() == 0


def test_restart_of_a_stopped_slot_does_not_report_an_old_failure(fake):
    s = fake(supervisor={"workers": 1})
    s.wait_ready()
    s.set_knobs(ready_ms=-1, die_ms=0)
    failed = s.request("reload", wait=True)
    assert not failed["ok"]
    s.set_knobs()
    assert s.request("stop", wait=True)["ok"]
    assert s.request("restart", target="0", wait=True)["ok"]
    assert len(s.ready()) == 1
    s.set_knobs(ready_ms=-1, die_ms=0)
    answer = s.request("restart", target="0", wait=True)      # its own failure is reported
    assert answer["exit"] == 1 and "demo/0" in answer["error"]
    assert s.stop() == 0


def test_reload_says_what_it_waits_for(fake):
    s = fake(knobs={"tasks": 1}, queues=queue(concurrency=2),
             supervisor={"workers": 1, "max_old_generations": 2})
    s.wait_ready()
    for n in (1, 2):
        wait_until(lambda: [w for w in s.ready() if w["running"] == 1])
        assert s.request("reload", wait=True)["ok"]
        wait_until(lambda: len([w for w in s.workers() if w["state"] == "draining"]) == n)
    reload = Asked(s, "reload", wait=True)
    assert reload.said() == "waits for demo/0: 2 old workers still run tasks"
    os.kill([w["pid"] for w in s.workers() if w["state"] == "draining"][0], signal.SIGKILL)
    assert reload.answer()["ok"]
    assert s.request("kill", fast=True)["ok"]


def test_stop_and_scale_say_what_they_wait_for(fake):
    s = fake(knobs={"tasks": 1}, supervisor={"workers": 2, "drain_timeout": "10m"})
    wait_until(lambda: len([w for w in s.ready() if w["running"]]) == 2)
    scale = Asked(s, "scale", workers="1", wait=True)
    assert scale.said() == "waits for demo/1: 1 task still runs"
    stop = Asked(s, "stop", wait=True)
    assert stop.said() == "waits for demo/0, demo/1: 2 tasks still run"
    for w in s.workers():
        os.kill(w["pid"], signal.SIGKILL)
    assert stop.answer()["ok"] and scale.answer()["ok"]
    assert s.stop() == 0


def test_reload_that_went_through_is_not_failed_by_a_refused_one(fake):
    """The one that waits is told of its own, not of what somebody broke meanwhile."""
    s = fake(knobs={"tasks": 1}, supervisor={"workers": 1, "max_old_generations": 1})
    s.wait_ready()
    wait_until(lambda: [w for w in s.ready() if w["running"] == 1])
    assert s.request("reload", wait=True)["ok"]
    first = Asked(s, "reload", wait=True)
    assert "1 old worker still runs tasks" in first.said()
    with open(s.ini) as f:
        text = f.read()
    s.write_ini(text + "\n[nonsense]\n")
    assert s.request("reload", wait=True)["exit"] == 78
    os.kill([w["pid"] for w in s.workers() if w["state"] == "draining"][0], signal.SIGKILL)
    assert first.answer()["ok"]
    assert s.last_reload()["ok"] is False and "refused" in s.last_reload()["error"]
    assert s.request("kill", fast=True)["ok"]


@pytest.mark.parametrize("verb", ["start", "restart"])
def test_start_of_a_slot_that_was_scaled_away_is_refused(fake, verb):
    s = fake(knobs={"tasks": 1}, supervisor={"workers": 2, "drain_timeout": "10m"})
    wait_until(lambda: len([w for w in s.ready() if w["running"]]) == 2)
    assert s.request("scale", workers="1", wait=False)["ok"]
    answer = s.request(verb, target="1", wait=True)
    assert answer["exit"] == 64 and "redisqctl scale demo 2" in answer["error"]
    assert s.request("kill", fast=True)["ok"]


def test_redisqctl_shows_progress_on_stderr(fake):
    s = fake(knobs={"tasks": 1, "task_ms": 5000}, supervisor={"workers": 1})
    wait_until(lambda: [w for w in s.ready() if w["running"]])
    done = s.ctl("stop", check=0)
    assert done.out == "stopped\n"
    assert done.err == "waits for demo/0: 1 task still runs\n"
    assert s.stop() == 0


def test_a_second_supervisor_does_not_take_the_socket(fake):
    s = fake(supervisor={"workers": 1})
    pid = s.wait_ready()[0]["pid"]
    done = subprocess.run(s.command() + ["-s", "supervisor.pid_file=" + s.run_dir + "/other.pid"],
                          env=s.env, capture_output=True, text=True, timeout=20)
    assert done.returncode == 73 and "another supervisor answers there" in done.stderr
    assert s.pids() == [pid] and os.path.exists(s.socket)
    assert s.stop() == 0


def test_kill_and_start_again_at_once(fake):
    """The one that says it has ended holds neither the socket nor the lock."""
    s = fake(supervisor={"workers": 1})
    s.wait_ready()
    for _ in range(3):
        assert s.ctl("kill").returncode == 0
        old, s.proc = s.proc, None
        threading.Thread(target=old.wait).start()
        s.start()
        s.wait_ready(1)
    assert s.stop() == 0


def test_slots_that_are_no_more_leave_no_file_open(fake):
    """Scaling to and fro, and queues that come and go."""
    s = fake(supervisor={"workers": 1})
    s.wait_ready()
    fds = n_fds(s)
    for _ in range(2):
        assert s.request("scale", workers="5", wait=True)["ok"]
        assert n_fds(s) > fds
        assert s.request("scale", workers="1", wait=True)["ok"]
    demo = s.queues
    for n in range(3):
        s.queues = dict(demo, **{"other%d" % n: {"handler": "exec /bin/true"}})
        s.write_ini()
        assert s.request("reload", wait=True)["ok"]
    s.queues = demo
    s.write_ini()
    assert s.request("reload", wait=True)["ok"]
    wait_until(lambda: len(s.workers()) == 1 and n_fds(s) <= fds)
    assert s.stop() == 0
