"""The supervisor alone: lives and deaths, readiness, rolls, drains, credit, with fake workers."""
import json
import os
import signal
import statistics
import subprocess
import time

import pytest

import procs
from fakesup import FakeSupervisor
from waiting import elapse, stays, wait_until


@pytest.fixture
def fake(build, tmp_path):
    made = []

    def make(**how):
        where = tmp_path / ("fake%d" % len(made))
        where.mkdir()
        made.append(FakeSupervisor(build, where, **how))
        return made[-1]

    yield make
    for s in reversed(made):
        s.close()


def queue(**keys):
    return {"demo": dict({"handler": "exec /bin/true", "kill_grace": "200ms"}, **keys)}


# ---------------------------------------------------------------------------- start and status

def test_status_has_the_keys_of_the_contract(fake):
    s = fake(supervisor={"workers": 3})
    s.wait_ready()
    status = s.status()
    sup = status["supervisor"]
    assert {"pid", "version", "state", "uptime_ms", "generation", "last_reload"} <= set(sup)
    assert sup["pid"] == s.pid and sup["state"] == "running"
    assert sup["generation"] == 1 and sup["last_reload"] is None
    q = status["queues"][0]
    assert {"name", "backend", "concurrency", "workers_wanted", "total_parallelism",
            "workers"} <= set(q)
    assert (q["workers_wanted"], q["concurrency"], q["total_parallelism"]) == (3, 4, 12)
    assert [w["slot"] for w in q["workers"]] == [0, 1, 2]
    for w in q["workers"]:
        assert {"slot", "pid", "consumer", "state", "consuming", "restarts", "uptime_ms",
                "running", "done", "failed", "lost_leases", "rss_bytes", "last_exit",
                "tasks"} <= set(w)
        assert w["consumer"] == "worker_%d" % w["pid"] and w["consuming"]
        assert w["last_exit"] is None and w["rss_bytes"] > 0
    assert s.stop() == 0


def test_first_lines_say_the_product_and_the_logs(fake):
    s = fake(supervisor={"workers": 4})
    s.wait_ready()
    assert "4 workers \u00d7 4 = 16 at once on this host" in s.out()
    assert s.log_dir in s.out()


def test_worker_descriptors_and_session(fake):
    s = fake(supervisor={"workers": 1})
    pid = s.wait_ready()[0]["pid"]
    links = {int(n): os.readlink("/proc/%d/fd/%s" % (pid, n))
             for n in os.listdir("/proc/%d/fd" % pid)}
    assert links[0] == "/dev/null"
    assert links[1].startswith("pipe:") and links[2].startswith("pipe:")
    assert links[3].startswith("socket:")
    assert "redisq-conf" in links[4] and "redisq-board" in links[5]
    assert links[6].endswith("slot-demo-0.lock")
    assert all(n <= 7 for n in links), links     # 7: its own journal
    assert os.getsid(pid) == pid
    status = procs.read(pid, "status").decode()
    assert "SigBlk:\t0000000000000000" in status
    cmd = procs.read(pid, "cmdline").split(b"\0")
    assert cmd[1:] == [b"--supervised", b"-q", b"demo", b"--slot", b"0", b""]


def test_second_instance_is_refused(fake):
    s = fake()
    s.wait_ready()
    other = subprocess.run(s.command(), env=s.env, capture_output=True, text=True, timeout=20)
    assert other.returncode == 73
    assert str(s.pid) in other.stderr


@pytest.mark.parametrize("content", ["1\n", "garbage", "", "999999999\n"])
def test_stale_pid_file_does_not_matter(fake, content):
    s = fake(start=False)
    with open(s.supervisor["pid_file"], "w") as f:
        f.write(content)
    s.start()
    s.wait_ready()
    with open(s.supervisor["pid_file"]) as f:
        assert int(f.read()) == s.pid
    assert s.stop() == 0
    assert not os.path.exists(s.supervisor["pid_file"])


def test_missing_worker_program_backs_off(fake):
    s = fake(env={"REDISQ_WORKER": "/nowhere/redisq-worker"}, supervisor={"workers": 1})
    row = s.wait_state("backoff")[0]
    assert row["last_exit"]["cause"] == "spawn" and row["pid"] is None
    assert "/nowhere/redisq-worker" in s.out()
    assert s.stop() == 0


# ------------------------------------------------------------------------------------- deaths

def test_killed_worker_is_back_at_once(fake):
    s = fake(supervisor={"workers": 10, "crash_limit": 100})
    rows = s.wait_ready()
    times = []
    for row in rows:
        os.kill(row["pid"], signal.SIGKILL)
        wait_until(lambda: any(w["slot"] == row["slot"] and w["pid"] not in (None, row["pid"])
                               and w["state"] == "ready" for w in s.workers()), every=0)
    for slot in range(10):
        died, ready = None, None
        for line in s.out().splitlines():
            stamp = line.split(" ", 1)[0]
            if "of demo/%d died: signal 9" % slot in line:
                died = stamp
            elif died and not ready and "of demo/%d is ready" % slot in line:
                ready = stamp
        def ms(t):
            return sum(float(x) * f for x, f in
                       zip(t[11:-1].split(":"), (3600000, 60000, 1000)))
        times.append(ms(ready) - ms(died))
    print("death to ready, fake worker: median %.1f ms" % statistics.median(times))
    assert statistics.median(times) < 100          # figures proper are for the release build
    row = s.workers()[0]
    assert row["restarts"] == 1
    assert row["last_exit"] == {"cause": "signal", "signal": 9, "code": None}


def test_worker_that_dies_at_once_backs_off(fake):
    s = fake(knobs={"die_ms": 0, "die_code": 3, "ready_ms": -1},
             supervisor={"workers": 1, "restart_delay": "50ms", "crash_limit": 10000})
    wait_until(lambda: len(s.starts()) >= 4, what="four starts")
    lines = [x for x in s.out().splitlines() if "died: exit 3" in x]
    assert len(lines) >= 3
    row = s.wait_state("backoff")[0]
    assert row["last_exit"] == {"cause": "exit", "signal": None, "code": 3}
    before, ticks = len(s.starts()), procs.cpu_ticks(s.pid)
    elapse(1)
    assert len(s.starts()) - before <= 3
    assert procs.cpu_ticks(s.pid) - ticks <= 5


def test_crash_loop_parks_and_start_unparks(fake):
    s = fake(knobs={"die_ms": 5}, supervisor={"workers": 1, "restart_delay": "1ms",
                                              "crash_limit": 3, "on_crash_loop": "park"})
    s.wait_state("parked")
    assert len(s.starts()) == 4
    stays(lambda: len(s.starts()) == 4, 0.3)
    s.set_knobs()
    assert s.request("start", wait=True)["ok"]
    assert s.wait_ready()


def test_crash_loop_exits_70_when_none_was_ever_ready(fake):
    s = fake(knobs={"die_ms": 0, "ready_ms": -1},
             supervisor={"workers": 2, "restart_delay": "1ms", "crash_limit": 3,
                         "on_crash_loop": "exit"})
    assert s.wait_exit() == 70


def test_crash_loop_exits_1_when_one_had_been_ready(fake):
    s = fake(knobs={"die_ms@0": 30}, supervisor={"workers": 2, "restart_delay": "1ms",
                                                 "crash_limit": 3, "on_crash_loop": "exit"})
    assert s.wait_exit() == 1


def test_start_ends_a_back_off(fake):
    s = fake(knobs={"die_ms": 0, "ready_ms": -1},
             supervisor={"workers": 1, "restart_delay": "30s"})
    s.wait_state("backoff")
    s.set_knobs()
    assert s.request("start", wait=True)["ok"]
    assert len(s.starts()) == 2


def test_handlers_die_with_their_worker(fake):
    s = fake(knobs={"tasks": 2, "handler": 1, "setsid": 1},
             queues=queue(concurrency=2), supervisor={"workers": 1})
    pid = s.wait_ready()[0]["pid"]
    wait_until(lambda: len(procs.children(pid)) == 2)
    wait_until(lambda: len(s.marked()) == 6, what="worker, 2 handlers, 2 grandchildren, ours")
    s.set_knobs()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: s.ready() and s.ready()[0]["pid"] != pid)
    # by the time the next one is ready nothing of the old one is left, and no zombie either
    assert set(s.marked()) == {s.pid, s.ready()[0]["pid"]}
    assert procs.children(s.pid) == s.pids()
    assert procs.state(s.pids()[0]) in "SR"
    assert s.credit_out() == 2


def test_stuck_worker_gets_abort_then_kill(fake):
    s = fake(knobs={"hang_ms": 200},
             supervisor={"workers": 1, "heartbeat_timeout": "300ms", "kill_timeout": "300ms"})
    s.wait_ready()
    s.set_knobs()
    wait_until(lambda: s.workers()[0]["last_exit"])
    assert s.workers()[0]["last_exit"] == {"cause": "stuck", "signal": 6, "code": None}
    s.wait_ready()


def test_busy_or_suspended_supervisor_kills_nobody(fake):
    s = fake(supervisor={"workers": 2, "heartbeat_timeout": "500ms"})
    s.wait_ready()
    pids = s.pids()
    # Everybody stands still, as in a suspended machine: workers and supervisor.
    for pid in [s.pid] + pids:
        os.kill(pid, signal.SIGSTOP)
    elapse(2.5)
    for pid in [s.pid] + pids:
        os.kill(pid, signal.SIGCONT)
    stays(lambda: s.pids() == pids, 1)


def test_not_ready_in_time_is_killed(fake):
    s = fake(knobs={"ready_ms": -1}, supervisor={"workers": 1, "ready_timeout": "200ms"})
    wait_until(lambda: len(s.starts()) >= 2)
    assert s.workers()[0]["last_exit"]["cause"] == "killed"
    assert "was not ready within ready_timeout" in s.out()


def test_redis_wait_is_no_failure(fake):
    s = fake(knobs={"wait": "connection refused"},
             supervisor={"workers": 1, "ready_timeout": "100ms"})
    wait_until(lambda: s.workers() and s.workers()[0]["note"] == "connection refused")
    pid = s.pids()[0]
    stays(lambda: s.pids() == [pid], 0.5)
    assert s.workers()[0]["restarts"] == 0
    assert s.status()["supervisor"]["state"] == "running"


def test_refused_queue_parks_and_every_queue_refused_is_78(fake):
    s = fake(knobs={"refuse": "the stream has another group"}, supervisor={"workers": 2})
    assert s.wait_exit() == 78
    assert "the stream has another group" in s.out()


def test_refused_slot_is_not_a_crash(fake):
    s = fake(knobs={"refuse@1": "WRONGTYPE"}, supervisor={"workers": 2, "crash_limit": 1})
    row = s.wait_state("parked")[0]
    assert row["note"] == "WRONGTYPE" and row["restarts"] == 0
    assert len(s.starts(1)) == 1
    s.set_knobs()
    answer = s.request("reload", wait=True)
    assert answer["ok"], answer
    s.wait_ready()


def test_worker_killed_in_a_storm_while_stopping(fake):
    s = fake(knobs={"tasks": 1, "task_ms": 300}, supervisor={"workers": 6})
    s.wait_ready()
    wait_until(lambda: sum(w["running"] for w in s.workers()) == 6)
    s.signal(signal.SIGTERM)
    wait_until(lambda: "draining" in s.out())
    n = len(s.starts())
    for pid in s.pids()[:3]:
        os.kill(pid, signal.SIGKILL)
    s.wait_exit()
    assert len(s.starts()) == n == 6


# --------------------------------------------------------------------------------------- rolls

def test_reload_replaces_all_and_new_is_ready_before_old_is_told(fake):
    s = fake(supervisor={"workers": 3})
    s.wait_ready()
    old = s.pids()
    assert s.request("reload", wait=True)["ok"]
    assert s.last_reload() == {"ok": True, "error": None}
    wait_until(lambda: len(s.pids()) == 3)
    assert not set(old) & set(s.pids())
    heard = s.heard()
    for slot in range(3):
        words = [(p, w) for p, sl, w in heard if sl == slot]
        new = [p for p, w in words if w == "started"][1]
        assert words.index((new, "started")) < words.index((old[slot], "drain 0"))
    assert s.status()["supervisor"]["generation"] == 2


def test_broken_file_changes_nothing(fake):
    s = fake()
    s.wait_ready()
    pids = s.pids()
    s.write_ini("[supervisor]\nworkers = many\n")
    s.signal(signal.SIGHUP)
    last = wait_until(s.last_reload)
    assert not last["ok"] and "redisq.ini:2" in last["error"]
    answer = s.request("reload", wait=True)
    assert not answer["ok"] and answer["exit"] == 78 and "redisq.ini:2" in answer["error"]
    assert s.pids() == pids and s.status()["supervisor"]["generation"] == 1


@pytest.mark.parametrize("knobs,why", [
    ({"die_ms": 10, "ready_ms": -1}, "exit 1"),
    ({"ready_ms": -1}, "not ready within"),
    ({"refuse": "other group"}, "other group"),
    ({"wait": "connection refused"}, "connection refused"),
])
def test_failing_new_worker_keeps_the_old(fake, knobs, why):
    s = fake(supervisor={"workers": 2, "ready_timeout": "400ms"})
    s.wait_ready()
    pids = s.pids()
    s.set_knobs(**knobs)
    answer = s.request("reload", wait=True)
    assert not answer["ok"] and why in answer["error"] and "demo/0" in answer["error"]
    last = s.last_reload()
    assert not last["ok"] and why in last["error"]
    wait_until(lambda: s.pids() == pids, what="the old ones, and nobody else")
    assert s.status()["supervisor"]["state"] == "running"
    s.set_knobs()
    assert s.request("reload", wait=True)["ok"]
    assert s.last_reload()["ok"]


def test_crash_after_a_failed_roll_starts_the_old_generation(fake):
    s = fake(supervisor={"workers": 1, "ready_timeout": "300ms"})
    s.wait_ready()
    s.set_knobs(ready_ms=-1)
    assert not s.request("reload", wait=True)["ok"]
    s.set_knobs()
    os.kill(s.pids()[0], signal.SIGKILL)
    row = s.wait_ready()[0]
    assert row["generation"] == 1


def test_credit_moves_and_never_exceeds(fake):
    s = fake(knobs={"tasks": 4, "task_ms": 150}, queues=queue(concurrency=4),
             supervisor={"workers": 4})
    s.wait_ready()
    bounds = []
    for c in (2, 4, 2, 4):
        s.queues["demo"]["concurrency"] = c
        s.write_ini()
        assert s.request("reload", wait=True)["ok"]

        def settled():
            bounds.append(s.credit_out())
            rows = s.workers()
            return len(rows) == 4 and all(w["credit"] == c for w in rows)
        wait_until(settled)
    assert max(bounds) <= 16


def test_hup_during_a_roll_merges(fake):
    s = fake(knobs={"ready_ms": 100}, supervisor={"workers": 4})
    s.wait_ready()
    for _ in range(5):
        s.signal(signal.SIGHUP)
        g = s.status()["supervisor"]["generation"]
        wait_until(lambda: s.status()["supervisor"]["generation"] >= g)
    last = s.wait_reload()
    assert last["ok"]
    wait_until(lambda: len(s.pids()) == 4)
    generation = s.status()["supervisor"]["generation"]
    assert {w["generation"] for w in s.workers()} == {generation}


def test_max_old_generations_waits_and_kills_nobody(fake):
    s = fake(knobs={"tasks": 1}, queues=queue(concurrency=2),
             supervisor={"workers": 1, "max_old_generations": 2})
    s.wait_ready()
    first = s.pids()[0]
    for _ in range(2):
        wait_until(lambda: any(w["state"] == "ready" and w["running"] for w in s.workers()) or
                   s.credit_out() == 2)
        s.set_knobs()
        answer = s.request("reload", wait=True)
        assert answer["ok"], answer
    s.request("reload", wait=False)
    assert procs.alive(first)
    assert len([w for w in s.workers() if w["state"] == "draining"]) <= 2


def test_added_and_removed_queues(fake):
    s = fake(supervisor={"workers": 1})
    s.wait_ready()
    s.queues = {"other": {"handler": "exec /bin/true"}}
    s.write_ini()
    assert s.request("reload", wait=True)["ok"]
    wait_until(lambda: [q["name"] for q in s.status()["queues"]] == ["other"])
    s.queues = queue()
    s.write_ini()
    assert s.request("reload", wait=True)["ok"]
    wait_until(lambda: [q["name"] for q in s.status()["queues"]] == ["demo"])


def test_restart_of_one_slot(fake):
    s = fake(supervisor={"workers": 3})
    s.wait_ready()
    before = s.pids()
    assert s.request("restart", target="1", wait=True)["ok"]
    wait_until(lambda: len(s.pids()) == 3)
    after = s.pids()
    assert before[0] == after[0] and before[2] == after[2] and before[1] != after[1]
    assert s.request("restart", target="demo/7", wait=True)["exit"] == 64


def test_deploy_replaces_the_worker_program(fake, build, tmp_path):
    path = tmp_path / "worker"
    path.symlink_to(os.path.join(build, "fake-worker"))
    s = fake(env={"REDISQ_WORKER": str(path)}, supervisor={"workers": 1})
    s.wait_ready()
    pids = s.pids()
    path.unlink()
    assert not s.request("reload", wait=True)["ok"]
    assert s.pids() == pids
    path.symlink_to(os.path.join(build, "fake-worker"))
    assert s.request("reload", wait=True)["ok"]


def test_memory_limit_recycles_gracefully(fake):
    s = fake(knobs={"alloc@0": 64}, supervisor={"workers": 2, "max_memory": "0"})
    s.wait_ready()
    s.set_knobs()
    limit = max(w["rss_bytes"] for w in s.workers() if w["slot"] == 1) + (32 << 20)
    s.supervisor["max_memory"] = "%dM" % (limit >> 20)
    old = s.pids()
    s.write_ini()
    # LIVE key: the roll of the reload itself replaces the fat one; make the next fat, too
    s.set_knobs(**{"alloc@0": 64})
    assert s.request("reload", wait=True)["ok"]
    fat = [w["pid"] for w in s.ready() if w["slot"] == 0][0]
    s.set_knobs()
    wait_until(lambda: fat not in s.pids() and len(s.ready()) == 2)
    assert old[0] != fat and "max_memory" in s.out()
    assert all(w["restarts"] == 0 for w in s.workers())


# -------------------------------------------------------------------------------------- drains

def test_term_drains_and_exits_0(fake):
    s = fake(knobs={"tasks": 2, "task_ms": 400})
    s.wait_ready()
    wait_until(lambda: sum(w["running"] for w in s.workers()) == 4)
    assert s.stop() == 0
    drains = [w for _, _, w in s.heard() if w.startswith("drain")]
    assert drains == ["drain 25000"] * 2


def test_idle_stop_is_prompt(fake):
    s = fake()
    s.wait_ready()
    began = time.monotonic()
    assert s.stop() == 0
    assert time.monotonic() - began < 1


def test_second_term_stops_now(fake):
    s = fake(knobs={"tasks": 1})
    s.wait_ready()
    wait_until(lambda: sum(w["running"] for w in s.workers()) == 2)
    s.signal(signal.SIGTERM)
    wait_until(lambda: s.status() and s.status()["supervisor"]["state"] == "draining")
    s.signal(signal.SIGINT)
    assert s.wait_exit(5) == 0
    assert [w for _, _, w in s.heard()].count("stop") == 2


def test_worker_that_ignores_the_drain_is_killed_and_that_is_said(fake):
    s = fake(knobs={"ignore_drain": 1}, queues=queue(kill_grace="100ms"),
             supervisor={"workers": 1, "drain_timeout": "100ms", "kill_timeout": "200ms"})
    s.wait_ready()
    assert s.stop() == 1
    assert "did not leave within its drain limit" in s.out()


def test_worker_that_had_to_signal_makes_exit_1(fake):
    s = fake(knobs={"exit": 1})
    s.wait_ready()
    assert s.stop() == 1


def test_kill_verb_answers_at_the_end(fake):
    s = fake(knobs={"tasks": 1, "task_ms": 200})
    s.wait_ready()
    answer = s.request("kill", fast=False)
    assert answer == {"ok": True, "result": {"forced": False}}
    assert s.wait_exit() == 0


def test_supervisor_killed_leaves_nothing(fake):
    s = fake(knobs={"tasks": 1, "handler": 1}, supervisor={"workers": 2})
    s.wait_ready()
    wait_until(lambda: len(s.marked()) >= 5)
    s.proc.kill()
    s.proc.wait()
    # The fake worker leaves at end of file and does not tend its handlers; the real one does.
    wait_until(lambda: not [p for p, n in s.marked().items() if n == "fake-worker" and
                            procs.ppid(p) != 1 and os.getsid(p) == p])
    for pid in s.marked():
        os.kill(pid, signal.SIGKILL)


def test_new_supervisor_gives_no_credit_beside_a_dying_generation(fake):
    s = fake(supervisor={"workers": 1})
    old = s.wait_ready()[0]["pid"]
    os.kill(old, signal.SIGSTOP)                 # a worker that takes its time to leave
    s.proc.kill()
    s.proc.wait()
    s.start()
    row = s.wait_ready()[0]
    stays(lambda: s.credit_out() == 0, 0.6)
    assert row["state"] == "ready"
    os.kill(old, signal.SIGCONT)
    wait_until(lambda: s.credit_out() == 4)
    wait_until(lambda: not procs.alive(old))


# --------------------------------------------------------------------------- verbs and signals

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
    s = fake(knobs={"ignore_drain@1": 1}, queues=queue(kill_grace="50ms"),
             supervisor={"workers": 2, "drain_timeout": "50ms", "kill_timeout": "100ms"})
    s.wait_ready()
    assert s.request("stop", target="demo/0", wait=True)["result"] == {"forced": False}
    assert s.request("stop", target="demo/1", wait=True)["result"] == {"forced": True}
    s.set_knobs()
    assert s.request("start", wait=True)["result"] == {}
    assert s.stop() == 0


def test_kill_without_waiting_is_answered_at_once(fake):
    s = fake(knobs={"tasks": 1, "task_ms": 300})
    s.wait_ready()
    assert s.request("kill", fast=False, wait=False)["ok"]
    assert s.proc.poll() is None
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
    """HUP, kills, scaling and restarts at random: the table and /proc agree, none too many."""
    s = fake(knobs={"tasks": 1, "task_ms": 30}, supervisor={"workers": 3, "crash_limit": 10000})
    s.wait_ready()
    seed = 7
    for i in range(120):
        seed = (seed * 1103515245 + 12345) % 2 ** 31
        what = seed >> 16
        if what % 5 == 0:
            s.signal(signal.SIGHUP)
        elif what % 5 == 1:
            s.request("scale", queue="demo", workers=str(1 + what % 4), wait=False)
        elif what % 5 == 2 and s.pids():
            try:
                os.kill(s.pids()[what % len(s.pids())], signal.SIGKILL)
            except (ProcessLookupError, IndexError):
                pass
        elif what % 5 == 3:
            s.request("restart", target=None, wait=False)
        else:
            status = s.status()["queues"][0]
            assert status["credit_out"] <= 16
    s.request("scale", queue="demo", workers="3", wait=False)
    s.request("start", wait=False)
    wait_until(lambda: len(s.ready()) == 3 and len(s.workers()) == 3, 30)
    assert sorted(procs.children(s.pid)) == sorted(s.pids())
    assert s.credit_out() == 12
    assert s.stop() == 0
