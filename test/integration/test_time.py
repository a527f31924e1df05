"""Clocks that jump and processes that stand still: deadlines are kept, nobody is taken for dead."""
import collections
import itertools
import os
import signal
import time

import pytest

import procs
from fakesup import fake, queue  # noqa: F401 (a fixture)
from conftest import on_both
from listserver import ListServer
from redisserver import RedisServer
from waiting import PATIENCE, elapse, stays, wait_until
from wallclock import HOUR, WallClock

LEASE = 2.0
FAST = {"lease": "2s", "kill_grace": "300ms", "retry_jitter": "0%", "breaker_failures": 0}


@pytest.fixture
def clock(build, tmp_path):
    return WallClock(build, tmp_path / "clock")


@pytest.fixture
def stepping(clock):
    """Waits for a fact while the clock goes an hour forth, back, and an hour back."""
    hours = itertools.cycle((1, 0, -1, 0, 1, -1))

    def until(fact, timeout=30):
        def step():
            clock.set(next(hours) * HOUR)
            return fact()
        return wait_until(step, timeout, every=0.2)
    return until


def on_clock(s, clock):
    """Starts a supervisor that was made with start=False on this clock."""
    s.env.update(clock.env(s.env["ASAN_OPTIONS"]))
    s.start()
    return s


def hours_of(text):
    """The hours that the stamps at the beginnings of the lines show."""
    return {line[11:13] for line in text.splitlines() if line[:2] == "20" and line[10:11] == "T"}


def of_queue(journal, name):
    return [e for e in journal.starts() if e["env"]["REDISQ_QUEUE"] == name]


def took(seconds, want):
    """Never early; late by what a loaded machine adds to the way, which is no hour."""
    assert want * 0.98 <= seconds <= want + 15 * PATIENCE, (seconds, want)


def test_steps_of_the_wall_clock_change_nothing_but_the_log(sup, server, journal, clock, stepping):
    s = on_clock(sup(start=False, supervisor={"heartbeat_timeout": "5s"}, queues={
        "q": dict(FAST, lease="8s", handler=journal.handler(), concurrency=4),
        "again": dict(FAST, handler=journal.handler("exit=1", "until=2"), retry_delay="1s",
                      workers=1),
        "slow": dict(FAST, handler=journal.handler("sleep=60000"), timeout="2s", max_attempts=1,
                     workers=1)}), clock)
    pids = sorted(w["pid"] for w in s.wait_ready(4))
    long_task, = server.add("q", b"do sleep=5000")
    server.add("again", b"x", b"x")
    timed, = server.add("slow", b"x")
    short = server.add("q", *[b"do sleep=50"] * 200)
    seen = {}

    def all_done():
        if server.dead("slow"):
            seen.setdefault("letter", time.monotonic_ns())
        return "letter" in seen and server.is_empty("q") and server.is_empty("again")
    stepping(all_done)

    runs = collections.Counter(e["env"]["REDISQ_QUEUE"] + e["id"] for e in journal.starts())
    once = ["q" + i for i in [long_task] + short] + ["slow" + timed]
    assert {i: n for i, n in runs.items() if i in once} == dict.fromkeys(once, 1)
    assert server.counters("q") == {"done": 201}
    ends = {e["pid"]: e["t"] for e in journal.ends()}
    for first in of_queue(journal, "again")[:2]:
        second, = [e for e in of_queue(journal, "again") if e["attempt"] == 2 and
                   e["env"]["REDISQ_ID"] == first["env"]["REDISQ_ID"]]
        took((second["t"] - ends[first["pid"]]) / 1e9, 1)
    started, = [e["t"] for e in of_queue(journal, "slow")]
    took((seen["letter"] - started) / 1e9, 2)
    assert server.dead("slow")[0][1][b"redisq.error"] == b"timed out after 2s"

    # Nobody died, was called stuck, lost a lease or was told that Redis's clock jumped.
    rows = s.workers()
    assert sorted(w["pid"] for w in rows) == pids
    assert not any(w["restarts"] or w["lost_leases"] or w["last_exit"] for w in rows)
    assert "clock jumped" not in s.log("q") and "is stuck" not in s.out()
    # The clock did jump, in the supervisor and in the workers.
    assert len(hours_of(s.log("q"))) >= 2
    deadlines = [int(e["env"]["REDISQ_DEADLINE_MS"]) for e in journal.starts()]
    assert max(deadlines) - min(deadlines) > HOUR * 1000
    assert s.stop() == 0


def test_the_timers_of_the_supervisor_follow_no_wall_clock(fake, clock, stepping):
    s = fake(start=False, knobs={"ready_ms@0": -1, "ready_ms@1": -1, "die_ms@1": 0, "hang_ms@2": 1},
             queues=queue(lease="60s"),
             supervisor={"workers": 4, "ready_timeout": "2500ms", "restart_delay": "1s",
                         "heartbeat_timeout": "2500ms", "kill_timeout": "300ms"})
    on_clock(s, clock)
    causes = {}

    def look():
        for w in s.workers():
            if w["last_exit"]:
                causes.setdefault(w["slot"], w["last_exit"]["cause"])
        return len(causes) == 3 and all(len(s.started_at(n)) >= 2 for n in range(3))
    stepping(look)
    assert causes == {0: "killed", 1: "exit", 2: "stuck"}
    # The limit of the first runs since it was spawned, which may be well before it began; the second
    # has jitter. Wrong would be 0.2 s, where the clock steps, or an hour.
    for n, least in ((0, 0.7), (1, 0.7), (2, 2.2)):
        first, second = s.started_at(n)[:2]
        assert least <= second - first <= 15 * PATIENCE, (n, first, second)
    assert len(s.starts(3)) == 1
    assert len(hours_of(s.out())) >= 2


# ------------------------------------------------------------------ the clock of Redis

@pytest.fixture
def jumpy(tmp_path, clock, backend):
    """A redis-server on the clock that jumps; the programs under test are not."""
    server = (ListServer if backend == "list" else RedisServer)(tmp_path, env=clock.env())
    yield server
    server.close()


def two_workers(sup, server, journal, **keys):
    s = sup(server=server, queues={"q": dict(FAST, handler=journal.handler(), concurrency=2,
                                             **keys)},
            supervisor={"heartbeat_timeout": "0"})
    s.wait_ready(2)
    return s


@pytest.mark.parametrize("leases", [0.9, -0.9])
def test_a_jump_of_redis_s_clock_below_the_lease_runs_nothing_twice(
        sup, jumpy, clock, journal, gate, leases):
    s = two_workers(sup, jumpy, journal)
    ids = jumpy.add("q", *[b"do " + str(gate).encode()] * 3)
    journal.wait_started(3)
    elapse(LEASE / 2)                            # each has renewed since it knows Redis's time
    clock.set(leases * LEASE)
    wait_until(lambda: "Redis's clock jumped against ours" in s.log("q"))
    stays(lambda: len(journal.starts()) == 3, 1.5 * LEASE)
    gate.open()
    jumpy.wait_empty("q")
    assert journal.runs() == {i: 1 for i in ids}
    assert not any(w["lost_leases"] for w in s.workers())


@on_both
@pytest.mark.parametrize("seconds", [4 * LEASE, HOUR, -HOUR])
def test_a_jump_of_redis_s_clock_beyond_the_lease_loses_nothing(
        sup, jumpy, clock, journal, gate, seconds):
    s = two_workers(sup, jumpy, journal)
    ids = jumpy.add("q", *[b"do " + str(gate).encode()] * 6)
    journal.wait_started(4)
    elapse(LEASE / 2)
    clock.set(seconds)
    wait_until(lambda: "Redis's clock jumped against ours" in s.log("q"))
    elapse(LEASE / 2)
    os.kill(s.pids()[0], signal.SIGKILL)
    ids += jumpy.add("q", *[b"x"] * 20)
    gate.open()
    jumpy.wait_empty("q")
    assert set(journal.runs()) == set(ids)
    assert jumpy.counters("q")["done"] == 26
    late = jumpy.add("q", b"x")[0]               # and goes on
    wait_until(lambda: journal.ends(late), 10)


# ------------------------------------------------------------------ standing still

def test_a_suspended_supervisor_takes_nobody_for_dead_and_hands_over_the_dead_at_once(
        sup, server, journal, gate):
    s = sup(queues={"q": dict(FAST, lease="60s", handler=journal.handler(), concurrency=1)},
            supervisor={"workers": 3, "heartbeat_timeout": "2500ms"})
    pids = [w["pid"] for w in s.wait_ready(3)]
    ids = server.add("q", *[b"do " + str(gate).encode()] * 3)
    victim = journal.wait_started(3)[0]
    os.kill(s.pid, signal.SIGSTOP)
    os.kill(victim["ppid"], signal.SIGKILL)
    s.signal(signal.SIGHUP)
    elapse(3)
    gate.open()                                  # the others go on meanwhile
    journal.wait_ended(2)
    more = server.add("q", b"x", b"x")
    journal.wait_ended(4)
    went_on = time.monotonic_ns()
    os.kill(s.pid, signal.SIGCONT)
    journal.wait_ended(5)
    again = journal.starts(victim["id"])[1]
    assert again["t"] - went_on < 20e9 * PATIENCE, "not at the end of its lease"
    s.wait_reload(1)
    assert s.last_reload()["ok"]
    wait_until(lambda: len(s.pids()) == 3 and not set(pids) & set(s.pids()))
    assert journal.runs() == {i: 2 if i == victim["id"] else 1 for i in ids + more}
    assert "is stuck" not in s.out() and s.out().count(" died: ") == 1
    assert s.stop() == 0


def test_a_suspended_supervisor_hears_what_was_said_before_it_looks_at_its_limits(fake):
    s = fake(knobs={"ready_ms": 600, "tasks": 1, "task_ms": 600}, queues=queue(),
             supervisor={"workers": 2, "ready_timeout": "2s", "drain_timeout": "1500ms",
                         "kill_timeout": "100ms", "heartbeat_timeout": "0"})
    wait_until(lambda: len(s.starts()) == 2)
    os.kill(s.pid, signal.SIGSTOP)
    elapse(2.1)
    wait_until(lambda: [w for _, _, w in s.heard()].count("ready") == 2)
    os.kill(s.pid, signal.SIGCONT)
    s.wait_ready()
    assert len(s.starts()) == 2 and "within ready_timeout" not in s.out()
    wait_until(lambda: sum(w["running"] for w in s.workers()) == 2)
    s.signal(signal.SIGTERM)
    wait_until(lambda: [w for _, _, w in s.heard()].count("drain 1500") == 2)
    os.kill(s.pid, signal.SIGSTOP)
    elapse(2.5)
    wait_until(lambda: not any(procs.alive(p) for p in s.starts()), what="they have left")
    os.kill(s.pid, signal.SIGCONT)
    assert s.wait_exit() == 0
    assert "within its drain limit" not in s.out()


@on_both
def test_a_suspended_tree_runs_nothing_twice(sup, server, journal, gate):
    """All stand still, as with the machine. The owner of the tasks is the last to be woken."""
    s = sup(queues={"q": dict(FAST, handler=journal.handler(), concurrency=2)},
            supervisor={"workers": 2, "heartbeat_timeout": "2s"})
    pids = [w["pid"] for w in s.wait_ready(2)]
    ids = server.add("q", b"do " + str(gate).encode())
    owner = journal.wait_started(1)[0]["ppid"]
    elapse(LEASE)                                # well beyond a lease of link
    other, = set(pids) - {owner}
    tree = [s.pid, owner] + list(journal.running())
    for pid in tree + [other]:
        os.kill(pid, signal.SIGSTOP)
    elapse(1.3 * LEASE)
    os.kill(other, signal.SIGCONT)
    elapse(0.4)
    for pid in tree:
        os.kill(pid, signal.SIGCONT)
    stays(lambda: len(journal.starts()) == 1, 0.8 * LEASE)
    gate.open()
    server.wait_empty("q")
    assert journal.runs() == {i: 1 for i in ids}
    assert sorted(s.pids()) == sorted(pids) and "is stuck" not in s.out()
    assert not any(w["lost_leases"] for w in s.workers())


@pytest.mark.parametrize("leases", [0.8, 5])
def test_a_machine_that_slept_kills_nobody_and_runs_nothing_twice(
        sup, jumpy, clock, journal, gate, leases):
    """Redis sleeps on the same machine; the clock of the timers stands still meanwhile."""
    s = on_clock(sup(start=False, server=jumpy, supervisor={"workers": 2}, queues={
        "q": dict(FAST, handler=journal.handler(), concurrency=2)}), clock)
    pids = sorted(w["pid"] for w in s.wait_ready(2))
    ids = jumpy.add("q", *[b"do " + str(gate).encode()] * 3)
    journal.wait_started(3)
    elapse(LEASE)                                # well beyond a lease of link
    for n in (1, 2):
        clock.sleep(n * leases * LEASE)
        stays(lambda: len(journal.starts()) == 3, 0.8 * LEASE)
    gate.open()
    jumpy.wait_empty("q")
    assert journal.runs() == {i: 1 for i in ids}
    assert sorted(s.pids()) == pids and "is stuck" not in s.out()
    assert not any(w["restarts"] or w["lost_leases"] for w in s.workers())
