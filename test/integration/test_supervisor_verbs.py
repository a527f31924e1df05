"""Verbs, signals and the supervisor as a process, with fake workers."""
import os
import random
import signal
import subprocess

import pytest

import procs
from fakesup import fake, queue  # noqa: F401 (a fixture)
from waiting import elapse, wait_until


def test_stop_and_start(fake):
    s = fake(supervisor={"workers": 2})
    s.wait_ready()
    assert s.request("stop", target=None, wait=True)["ok"]
    assert s.pids() == [] and s.proc.poll() is None
    assert {w["state"] for w in s.workers()} == {"stopped"}
    assert s.request("start", target="demo/1", wait=True)["ok"]
    assert [w["slot"] for w in s.ready()] == [1]
    assert s.request("start", wait=True)["ok"]
    assert len(s.ready()) == 2
    assert s.stop() == 0


def test_stop_says_when_it_was_forced(fake):
    s = fake(supervisor={"workers": 2})
    s.wait_ready()
    assert s.request("stop", target="demo/0", wait=True)["result"] == {"forced": False}
    patient = dict(s.supervisor)
    s.supervisor.update(drain_timeout="50ms", kill_timeout="100ms")
    s.queues["demo"]["kill_grace"] = "50ms"
    s.write_ini()
    s.set_knobs(ignore_drain=1)
    assert s.request("reload", wait=True)["ok"]
    assert s.request("stop", target="demo/1", wait=True)["result"] == {"forced": True}
    s.set_knobs()
    s.supervisor = patient
    s.write_ini()
    assert s.request("reload", wait=True)["ok"]
    assert s.request("start", wait=True)["result"] == {}
    assert s.stop() == 0


def test_kill_without_waiting_is_answered_at_once(fake, tmp_path):
    s = fake(knobs={"tasks": 1, "task_gate": tmp_path / "gate"})
    wait_until(lambda: sum(w["running"] for w in s.workers()) == 2)
    assert s.request("kill", fast=False, wait=False)["ok"]
    assert s.proc.poll() is None
    (tmp_path / "gate").touch()
    assert s.wait_exit() == 0


def test_scale(fake):
    s = fake(supervisor={"workers": 2})
    s.wait_ready()
    assert s.request("scale", queue=None, workers="5", wait=True)["ok"]
    assert len(s.ready()) == 5
    assert s.request("scale", queue="demo", workers="-3", wait=True)["ok"]
    assert [w["slot"] for w in s.ready()] == [0, 1]
    assert s.request("scale", queue="demo", workers="+1", wait=True)["ok"]
    assert len(s.ready()) == 3
    s.request("reload", wait=True)
    wait_until(lambda: len(s.pids()) == 3)       # a scale survives HUP
    assert s.request("scale", queue="demo", workers="x")["exit"] == 64
    assert s.request("scale", queue="nope", workers="1")["exit"] == 64


def test_ttin_ttou_usr1_tstp_cont(fake):
    s = fake(supervisor={"workers": 2})
    s.wait_ready()
    s.signal(signal.SIGTTIN)
    s.wait_ready(3)
    s.signal(signal.SIGTTOU)
    s.wait_ready(2)
    s.signal(signal.SIGTSTP)
    wait_until(lambda: s.status()["supervisor"]["state"] == "quiet")
    wait_until(lambda: [w for _, _, w in s.heard()].count("quiet") >= 2)
    s.signal(signal.SIGCONT)
    wait_until(lambda: s.status()["supervisor"]["state"] == "running")
    wait_until(lambda: [w for _, _, w in s.heard()].count("resume") >= 2)
    s.signal(signal.SIGUSR1)
    wait_until(lambda: "logs reopened" in s.out())
    assert s.stop() == 0


def test_unknown_verb_and_ping(fake):
    s = fake()
    s.wait_ready()
    assert s.request("ping")["ok"]
    assert s.request("frobnicate")["exit"] == 64


def test_config_verb(fake):
    s = fake()
    s.wait_ready()
    r = s.request("config")["result"]
    assert "[queue demo]" in r["snapshot"] and r["log_dir"] == s.log_dir and r["log_files"]
    assert r["redis_from"]


def test_control_socket_comes_back(fake):
    s = fake()
    s.wait_ready()
    os.unlink(s.socket)
    wait_until(lambda: os.path.exists(s.socket) and s.status(), 15)


def test_last_words_are_in_the_log(fake):
    s = fake(knobs={"log": "these were my words", "die_ms": 0, "ready_ms": -1},
             supervisor={"workers": 1, "restart_delay": "30s"})
    s.wait_state("backoff")
    wait_until(lambda: s.log("demo").count("these were my words") == 2)
    assert "died: exit 1" in s.log("demo")


def test_daemon_returns_when_it_answers(fake, build):
    s = fake(start=False, args=["-D"])
    done = subprocess.run(s.command(), env=s.env, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    with open(s.supervisor["pid_file"]) as f:
        pid = int(f.read())
    try:
        assert s.status()["supervisor"]["pid"] == pid
        assert os.getsid(pid) == pid
        with open(os.path.join(s.log_dir, "supervisor.log")) as f:
            assert "redisq-supervisor" in f.read()
        again = subprocess.run(s.command(), env=s.env, capture_output=True, text=True, timeout=20)
        assert again.returncode == 73 and str(pid) in again.stderr
    finally:
        s.request("kill", fast=True)
    wait_until(lambda: not procs.alive(pid))


def test_pid_one_reaps_strangers(fake):
    s = fake(wrap=["unshare", "-Ufpr", "--mount-proc"], supervisor={"workers": 1})
    try:
        s.wait_ready()
    except AssertionError:
        if "unshare" in s.out():
            pytest.skip("no user namespaces here")
        raise
    inner = procs.children(s.pid)[0]
    s.env.pop(s.mark.split("=")[0])              # they are nobody's
    subprocess.run(["nsenter", "-t", str(inner), "-U", "-p", "--preserve-credentials", "sh", "-c",
                    "for i in $(seq 200); do (sleep 0.01 &) ; done"], check=True, timeout=20,
                   env=s.env)
    wait_until(lambda: not [c for c in procs.children(inner) if procs.state(c) == "Z"] and
               len(procs.children(inner)) == 1)
    assert s.request("kill", fast=False)["ok"]
    assert s.wait_exit() == 0


def test_idle_supervisor_is_quiet_and_small(fake):
    s = fake()
    s.wait_ready()
    elapse(0.5)
    before = procs.wakeups(s.pid)
    elapse(4)
    n = procs.wakeups(s.pid) - before
    print("supervisor idle: %.2f wake-ups/s, RSS %d kB" % (n / 4, procs.status_kb(s.pid, "VmRSS")))
    assert n <= 6


def test_children_of_before_are_left_alone(build, tmp_path, fake):
    s = fake(start=False)
    script = "sleep 30 & echo $! > %s; exec \"$@\"" % (tmp_path / "sleep.pid")
    s.wrap = ["sh", "-c", script, "sh"]
    s.start()
    s.wait_ready()
    sleeper = int((tmp_path / "sleep.pid").read_text())
    os.kill(s.pids()[0], signal.SIGKILL)
    s.wait_ready()
    assert procs.alive(sleeper)
    os.kill(sleeper, signal.SIGKILL)


def test_mixed_storm_ends_as_wanted(fake):
    """HUP, kills, scaling, restarts and fat workers at random: the table and /proc agree, none too
    many."""
    knobs = {"tasks": 1, "task_ms": 30}
    s = fake(knobs=knobs, supervisor={"workers": 3, "crash_limit": 10000, "max_memory": "150M",
                                      "restart_delay_max": "500ms", "heartbeat_timeout": "1s"})
    s.wait_ready()
    seed = 7
    print("seed %d" % seed)
    draw = random.Random(seed)
    for i in range(300):
        what = draw.randrange(1 << 15)
        s.set_knobs(alloc=160 if what % 7 == 0 else 0, **knobs)
        if what % 5 == 0:
            s.signal(signal.SIGHUP)
        elif what % 5 == 1:
            s.request("scale", queue="demo", workers=str(1 + what % 4), wait=False)
        elif what % 5 == 2:
            pids = s.pids()
            try:
                os.kill(pids[what % max(1, len(pids))], signal.SIGKILL)
            except (ProcessLookupError, IndexError):
                pass
        elif what % 5 == 3:
            s.request("restart", target=None, wait=False)
        else:
            status = s.status()["queues"][0]
            assert status["credit_out"] <= 16
    s.set_knobs(**knobs)
    s.request("scale", queue="demo", workers="3", wait=False)
    s.request("start", wait=False)
    wait_until(lambda: len(s.ready()) == 3 and len(s.workers()) == 3 and
               s.status()["supervisor"]["state"] == "running" and
               max(w["rss_bytes"] for w in s.ready()) < 150 << 20, 30)
    assert sorted(procs.children(s.pid)) == sorted(s.pids())
    assert s.credit_out() == 12
    assert s.stop() == 0
