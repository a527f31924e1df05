"""Start, readiness, deaths, restart policy and burial, with fake workers."""
import os
import signal
import subprocess

import pytest

import procs
from fakesup import fake, queue  # noqa: F401 (a fixture)
from waiting import elapse, stays, wait_until


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


@pytest.mark.parametrize("content", ["1\n", "garbage", "", "999999999\n", "%d\n" % os.getppid()])
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
    s = fake(env={"REDISQ_WORKER_PROGRAM": "/nowhere/redisq-worker"}, supervisor={"workers": 1})
    row = s.wait_state("backoff")[0]
    assert row["last_exit"]["cause"] == "spawn" and row["pid"] is None
    assert "/nowhere/redisq-worker" in s.out()
    assert s.stop() == 0


def test_killed_worker_is_back_at_once(fake):
    """Without the delay, that is; how fast is test_figures' business."""
    s = fake(supervisor={"workers": 10, "crash_limit": 100, "restart_delay": "5m",
                         "restart_delay_max": "5m"})
    for row in s.wait_ready():
        os.kill(row["pid"], signal.SIGKILL)
        wait_until(lambda: any(w["slot"] == row["slot"] and w["pid"] not in (None, row["pid"])
                               and w["state"] == "ready" for w in s.workers()))
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


def test_crash_loop_exits_70_also_when_one_had_been_ready(fake):
    s = fake(knobs={"die_ms@0": 30}, supervisor={"workers": 2, "restart_delay": "1ms",
                                                 "crash_limit": 3, "on_crash_loop": "exit"})
    assert s.wait_exit() == 70


def test_a_slot_that_dies_each_time_it_is_stable_is_in_a_crash_loop(fake):
    s = fake(knobs={"die_ms": 150}, supervisor={"workers": 1, "stable_after": "50ms",
                                                "restart_delay": "1ms", "crash_limit": 3,
                                                "on_crash_loop": "park"})
    s.wait_state("parked")
    assert len(s.starts()) == 4


def test_a_crash_loop_that_is_retried_is_said_once(fake):
    s = fake(knobs={"die_ms": 5}, supervisor={"workers": 1, "restart_delay": "1ms",
                                              "restart_delay_max": "20ms", "crash_limit": 2,
                                              "on_crash_loop": "retry"})
    wait_until(lambda: len(s.starts()) >= 8)
    assert s.out().count("demo/0 is in a crash loop: more than 2 deaths within 60s") == 1


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
    wait_until(lambda: [w for w in s.ready() if w["pid"] != pid])
    # by the time the next one is ready nothing of the old one is left, and no zombie either
    assert set(s.marked()) == {s.pid, s.ready()[0]["pid"]}
    assert procs.children(s.pid) == s.pids()
    assert procs.state(s.pids()[0]) in "SR"
    assert s.credit_out() == 2


def test_stuck_worker_gets_abort_then_kill(fake):
    s = fake(knobs={"hang_ms": 200},
             supervisor={"workers": 1, "heartbeat_timeout": "300ms", "kill_timeout": "10s"})
    s.wait_ready()
    s.set_knobs()
    wait_until(lambda: s.workers()[0]["last_exit"])
    assert s.workers()[0]["last_exit"] == {"cause": "stuck", "signal": 6, "code": None}
    s.wait_ready()


def test_busy_or_suspended_supervisor_kills_nobody(fake):
    s = fake(supervisor={"workers": 2, "heartbeat_timeout": "3500ms"})
    s.wait_ready()
    pids = s.pids()
    # Everybody stands still, as in a suspended machine: workers and supervisor.
    for pid in [s.pid] + pids:
        os.kill(pid, signal.SIGSTOP)
    elapse(4.2)
    for pid in [s.pid] + pids:
        os.kill(pid, signal.SIGCONT)
    stays(lambda: s.pids() == pids, 1)           # longer than the interval between two looks
    assert "is stuck" not in s.out()


def test_not_ready_in_time_is_killed(fake):
    s = fake(knobs={"ready_ms": -1}, supervisor={"workers": 1, "ready_timeout": "200ms"})
    wait_until(lambda: len(s.starts()) >= 2)
    assert s.workers()[0]["last_exit"]["cause"] == "killed"
    assert "was not ready within ready_timeout" in s.out()


def test_redis_wait_is_no_failure(fake):
    s = fake(knobs={"wait@0": "connection refused", "ready_ms@1": -1},
             supervisor={"workers": 2, "ready_timeout": "2s"})
    wait_until(lambda: s.workers() and s.workers()[0]["note"] == "connection refused")
    wait_until(lambda: len(s.starts(1)) == 2, what="its neighbour, begun later, was killed")
    assert s.starts(0) == [s.workers()[0]["pid"]] and s.workers()[0]["restarts"] == 0
    assert s.workers()[1]["last_exit"]["cause"] == "killed"
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
