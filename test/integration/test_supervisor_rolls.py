"""Rolls and drains, and the credit that moves, with fake workers."""
import os
import signal
import time

import pytest

import procs
from fakesup import fake, queue  # noqa: F401 (a fixture)
from supervised import kill
from waiting import stays, wait_until


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
    s = fake(supervisor={"workers": 2})
    s.wait_ready()
    pids = s.pids()
    s.set_knobs(**knobs)
    if why == "not ready within":
        s.supervisor["ready_timeout"] = "400ms"
        s.write_ini()
    answer = s.request("reload", wait=True)
    assert not answer["ok"] and why in answer["error"] and "demo/0" in answer["error"]
    last = s.last_reload()
    assert not last["ok"] and why in last["error"]
    wait_until(lambda: s.pids() == pids, what="the old ones, and nobody else")
    assert s.status()["supervisor"]["state"] == "running"
    s.set_knobs()
    s.supervisor.pop("ready_timeout", None)
    s.write_ini()
    assert s.request("reload", wait=True)["ok"]
    assert s.last_reload()["ok"]


def test_crash_after_a_failed_roll_starts_the_old_generation(fake):
    s = fake(supervisor={"workers": 1})
    s.wait_ready()
    s.set_knobs(ready_ms=-1, die_ms=0)
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
    for n in (1, 2):                 # the worker in charge is busy; it is rolled and goes on
        wait_until(lambda: [w for w in s.ready() if w["running"] == 1])
        assert s.request("reload", wait=True)["ok"]
        wait_until(lambda: len([w for w in s.workers() if w["state"] == "draining"]) == n)
    draining = [w["pid"] for w in s.workers() if w["state"] == "draining"]
    before = s.ready()[0]["pid"]
    assert s.request("reload", wait=False)["ok"]
    assert s.request("reload", wait=False)["ok"]          # merges into the one that waits
    stays(lambda: s.ready()[0]["pid"] == before, 1.2)
    assert s.status()["supervisor"]["state"] == "reloading"
    assert all(procs.alive(p) for p in draining) and s.credit_out() == 2
    os.kill(draining[0], signal.SIGKILL)                  # one of the old ones is gone
    assert s.wait_reload()["ok"]
    assert s.ready()[0]["pid"] != before and procs.alive(draining[1])


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
    s = fake(env={"REDISQ_WORKER_PROGRAM": str(path)}, supervisor={"workers": 1})
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
    assert time.monotonic() - began < 10         # no limit was waited for


def test_second_term_stops_now(fake):
    s = fake(knobs={"tasks": 1})
    s.wait_ready()
    wait_until(lambda: sum(w["running"] for w in s.workers()) == 2)
    s.signal(signal.SIGTERM)
    wait_until(lambda: s.status() and s.status()["supervisor"]["state"] == "draining")
    s.signal(signal.SIGINT)
    assert s.wait_exit(5) == 0
    assert [w for _, _, w in s.heard()].count("stop") == 2


def test_a_storm_of_terms_is_one_drain_and_one_stop(fake):
    s = fake(knobs={"tasks": 1, "task_ms": 300, "ignore_drain@1": 1}, queues=queue(),
             supervisor={"workers": 2, "kill_timeout": "500ms"})
    s.wait_ready()
    for _ in range(200):
        if s.proc.poll() is None:
            s.signal(signal.SIGTERM)
    s.wait_exit()
    words = [(slot, w.split()[0]) for _, slot, w in s.heard()]
    assert {words.count((slot, w)) for slot in (0, 1) for w in ("drain", "stop")} <= {0, 1}
    assert words.count((1, "drain")) == 1 and len(s.starts()) == 2


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
    pids = s.pids()
    s.proc.kill()
    s.proc.wait()
    # The fake worker leaves at end of file and does not tend its handlers; the real one does.
    wait_until(lambda: not any(procs.alive(p) for p in pids), what="the workers have left")
    for pid in s.marked():
        kill(pid)


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
