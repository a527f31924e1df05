"""Workers and supervisors that die: nothing is lost, nothing is left, nothing spins."""
import collections
import os
import signal

import pytest

import procs
from waiting import elapse, stays, wait_until

BACKENDS = ("stream", "list")

LEASE = {"lease": "2s", "retry_delay": "50ms", "kill_grace": "500ms"}


def test_kill_9_of_a_worker_kills_its_handlers_first(sup, server, journal):
    s = sup(queues={"q": dict(LEASE, handler=journal.handler(), concurrency=2)},
            supervisor={"workers": 1})
    old, = s.wait_ready(1)
    server.add("q", *[b"do sleep=60000 group=60000 setsid=60000 ignore_term=1"] * 2)
    wait_until(lambda: len(journal.events("child")) == 4)
    handlers = list(journal.running()) + [e["value"] for e in journal.events("child")]
    os.kill(old["pid"], signal.SIGKILL)
    new = wait_until(lambda: [w for w in s.workers() if w["pid"] not in (None, old["pid"])])[0]
    assert not [p for p in handlers if procs.alive(p)], "they died before the replacement came"
    row, = s.wait_ready(1)
    assert row["pid"] == new["pid"] and row["restarts"] == 1
    assert row["last_exit"]["cause"] in ("signal", "killed") and row["last_exit"]["signal"] == 9


@pytest.mark.backends("stream", "list", "partitions")
def test_tasks_of_a_killed_worker_run_again(sup, server, journal, gate):
    s = sup(queues={"q": dict(LEASE, handler=journal.handler(), concurrency=2)})
    s.wait_ready(2)
    ids = server.add("q", *[b"do " + str(gate).encode()] * 4)
    journal.wait_started(4)
    victim = s.workers()[0]["pid"]
    mine = {e["id"] for e in journal.starts() if e["ppid"] == victim}
    os.kill(victim, signal.SIGKILL)
    gate.open()
    server.wait_empty("q", 40)
    assert journal.runs() == collections.Counter(ids) + collections.Counter(mine)
    assert {e["attempt"] for e in journal.starts()} == {1}, "a death of the worker is no attempt"
    assert server.counters("q")["done"] == 4 and journal.most_at_once() <= 4


def test_a_killed_consumer_is_removed_once_its_tasks_ran(sup, server, journal):
    s = sup(queues={"q": dict(LEASE, handler=journal.handler())}, supervisor={"workers": 1})
    old = s.wait_ready(1)[0]["pid"]
    os.kill(old, signal.SIGKILL)
    new = wait_until(lambda: [w for w in s.ready() if w["pid"] != old])[0]["pid"]
    wait_until(lambda: set(server.consumers("q")) == {"worker_%d" % new}, 20,
               "the dead consumer is gone")


@pytest.mark.backends("stream", "list", "partitions")
def test_kill_9_storm_loses_nothing(sup, server, journal):
    s = sup(queues={"q": dict(LEASE, handler=journal.handler(), concurrency=2)},
            supervisor={"workers": 2, "crash_limit": 1000})
    s.wait_ready(2)
    ids = server.add("q", *[b"do sleep=100"] * 60)
    for n in range(5):
        journal.wait_ended(8 * (n + 1))
        rows = wait_until(s.ready)
        os.kill(rows[n % len(rows)]["pid"], signal.SIGKILL)
    server.wait_empty("q", 60)
    assert set(journal.runs()) == set(ids) and journal.most_at_once() <= 4
    assert server.counters("q")["done"] == 60


def test_stopped_worker_is_found_by_its_heartbeat(sup, server, journal):
    s = sup(queues={"q": dict(LEASE, handler=journal.handler())},
            supervisor={"workers": 1, "heartbeat_timeout": "1s", "kill_timeout": "500ms"})
    old = s.wait_ready(1)[0]["pid"]
    os.kill(old, signal.SIGSTOP)
    new = wait_until(lambda: [w for w in s.ready() if w["pid"] != old], 20)[0]
    assert new["last_exit"]["cause"] == "stuck"
    assert not procs.alive(old)


def test_a_busy_worker_is_not_stuck(sup, server, journal):
    s = sup(queues={"q": dict(LEASE, handler=journal.handler())},
            supervisor={"workers": 1, "heartbeat_timeout": "2500ms"})
    old = s.wait_ready(1)[0]["pid"]
    server.add("q", b"do sleep=4500")
    journal.wait_ended(1)
    assert s.ready()[0]["pid"] == old and len(journal.starts()) == 1


def crashing(sup, journal, **keys):
    return sup(queues={"q": {"handler": journal.handler()}}, env={"REDISQ_WORKER_PROGRAM": "/bin/false"},
               supervisor=dict({"workers": 2, "restart_delay": "50ms", "restart_delay_max": "1s",
                                "crash_limit": 3, "crash_window": "60s"}, **keys))


def test_a_worker_that_dies_at_once_backs_off(sup, server, journal):
    s = crashing(sup, journal)
    wait_until(lambda: s.workers() and all(w["restarts"] >= 5 for w in s.workers()), 20)
    before, first = procs.cpu_ticks(s.pid), [w["restarts"] for w in s.workers()]
    elapse(3)
    cpu = (procs.cpu_ticks(s.pid) - before) / os.sysconf("SC_CLK_TCK") / 3
    assert all(w["restarts"] - n <= 4 for w, n in zip(s.workers(), first)), "once per second"
    assert cpu < (0.02 if "asan" not in s.build else 0.06), "CPU of the supervisor: %.3f" % cpu
    assert s.workers()[0]["last_exit"] == {"cause": "exit", "signal": None, "code": 1} or \
        s.workers()[0]["last_exit"]["code"] == 1
    assert s.stop() == 0


def test_on_crash_loop_park(sup, server, journal):
    s = crashing(sup, journal, on_crash_loop="park")
    wait_until(lambda: s.workers() and all(w["state"] == "parked" for w in s.workers()), 20)
    count = [w["restarts"] for w in s.workers()]
    stays(lambda: [w["restarts"] for w in s.workers()] == count, 1)
    assert s.stop() == 0


def test_on_crash_loop_exit(sup, server, journal):
    s = crashing(sup, journal, on_crash_loop="exit")
    assert s.wait_exit() == 70


def test_missing_worker_binary_is_a_crash_of_cause_spawn(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}},
            env={"REDISQ_WORKER_PROGRAM": "/nonexistent/redisq-worker"}, supervisor={"workers": 1})
    row = wait_until(lambda: [w for w in s.workers() if w["last_exit"]])[0]
    assert row["last_exit"]["cause"] == "spawn"


@pytest.mark.backends("stream", "list", "partitions")
def test_kill_9_of_the_supervisor_leaves_nothing_and_a_new_one_finishes(
        sup, server, journal, gate):
    s = sup(queues={"q": dict(LEASE, handler=journal.handler(), concurrency=2)},
            supervisor={"drain_timeout": "1s"})
    s.wait_ready(2)
    ids = server.add("q", *[b"do ignore_term=1 setsid=60000 " + str(gate).encode()] * 6)
    journal.wait_started(4)
    os.kill(s.pid, signal.SIGKILL)
    s.proc.wait()
    # drain_timeout + kill_grace + 1 s; the sanitizers' leak check takes a little longer.
    wait_until(lambda: not s.marked(), 2.5 if "asan" not in s.build else 4,
               "nothing is left of the dead supervisor")
    gate.open()
    s.start()
    s.wait_ready(2)
    server.wait_empty("q", 30)
    assert set(journal.runs()) == set(ids) and journal.most_at_once() <= 4
    assert {e["attempt"] for e in journal.starts()} == {1}


def test_kill_9_of_the_supervisor_lets_short_tasks_finish(sup, server, journal, gate):
    s = sup(queues={"q": dict(LEASE, handler=journal.handler(), concurrency=2)},
            supervisor={"drain_timeout": "10s"})
    s.wait_ready(2)
    server.add("q", *[b"do " + str(gate).encode()] * 4)
    journal.wait_started(4)
    os.kill(s.pid, signal.SIGKILL)
    s.proc.wait()
    gate.open()
    wait_until(lambda: not s.marked(), 8)
    assert len(journal.ends()) == 4 and server.is_empty("q")
    assert not server.consumers("q"), "they drained: no consumer is left"


def test_new_supervisor_beside_a_dying_generation_keeps_the_bound(sup, server, journal, gate):
    s = sup(queues={"q": dict(LEASE, handler=journal.handler(), concurrency=2)},
            supervisor={"drain_timeout": "20s"})
    s.wait_ready(2)
    server.add("q", *[b"do " + str(gate).encode()] * 12)
    journal.wait_started(4)
    os.kill(s.pid, signal.SIGKILL)
    s.proc.wait()
    s.start()
    wait_until(lambda: s.status(), 20)
    stays(lambda: len(journal.running()) <= 4, 1)
    gate.open()
    server.wait_empty("q", 30)
    assert journal.most_at_once() <= 4 and len(journal.starts()) == 12


def test_a_stopped_worker_of_a_dead_supervisor_does_not_keep_its_slot(sup, server, journal):
    """It cannot see that it should leave, and nobody watches it any more."""
    s = sup(queues={"q": dict(LEASE, handler=journal.handler(), concurrency=2, kill_grace="100ms")},
            supervisor={"drain_timeout": "2500ms", "kill_timeout": "500ms", "workers": 2})
    stopped, leaves = [w["pid"] for w in s.wait_ready(2)]
    os.kill(stopped, signal.SIGSTOP)
    s.signal(signal.SIGKILL)
    s.proc.wait()
    s.start()
    s.wait_ready(2)
    wait_until(lambda: [w["note"] for w in s.workers()] ==
               ["waits until a worker of an earlier supervisor has left", None])
    wait_until(lambda: [w["credit"] for w in s.workers()] == [2, 2], 20, "all places are back")
    assert not procs.alive(stopped) and not procs.alive(leaves)
    assert "worker %d of an earlier supervisor did not leave: SIGKILL" % stopped in s.out()
    assert [w["note"] for w in s.workers()] == [None, None]
    server.add("q", *[b"x"] * 20)
    server.wait_empty("q")


@pytest.fixture
def beside_the_old(sup, server, journal, gate):
    """A new supervisor for 2 x 2 while one worker of the last one still runs a task: (it, the slot
    that is free, its worker, which runs two)."""
    s = sup(queues={"q": dict(LEASE, handler=journal.handler(), concurrency=2)},
            supervisor={"drain_timeout": "60s"})
    s.wait_ready(2)
    server.add("q", b"do " + str(gate).encode())
    busy, = wait_until(lambda: [w for w in s.workers() if w["running"]])
    idle, = [w for w in s.workers() if w["slot"] != busy["slot"]]
    os.kill(s.pid, signal.SIGKILL)
    s.proc.wait()
    wait_until(lambda: not procs.alive(idle["pid"]), what="what its last read brings is run")
    s.start()
    s.wait_ready(2)
    server.add("q", *[b"do " + str(gate).encode()] * 6)
    row, = wait_until(lambda: len(journal.running()) == 3 and
                      [w for w in s.workers() if w["running"] == 2])
    assert row["slot"] != busy["slot"]
    return s, row["slot"], row["pid"]


def test_the_share_of_a_slot_that_an_old_worker_holds_goes_to_no_other(
        beside_the_old, server, journal, gate):
    s, slot, pid = beside_the_old
    s.ctl("restart", str(slot), "--no-wait", check=0)
    wait_until(lambda: [w["pid"] for w in s.ready() if w["slot"] == slot and w["pid"] != pid])
    stays(lambda: len(journal.running()) == 3, 1)
    gate.open()
    server.wait_empty("q", 30)
    assert journal.most_at_once() <= 4 and len(journal.starts()) == 7


def test_suspects_do_not_wait_for_a_slot_that_an_old_worker_holds(
        beside_the_old, server, journal, gate):
    s, slot, pid = beside_the_old
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: 2 in journal.runs().values(), 10, "a suspect runs again")
    gate.open()
    server.wait_empty("q", 30)
    assert journal.most_at_once() <= 4
