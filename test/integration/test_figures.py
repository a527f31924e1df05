"""Figures of the release build. Run alone: make test does, or
    REDISQ_BUILD=build /usr/bin/python3 -m pytest -s -m figures test/integration"""
import os
import signal
import statistics
import time

import pytest

import procs
from figures import figure, percentile, release  # noqa: F401 (a fixture)
from waiting import PATIENCE, elapse, wait_until

pytestmark = pytest.mark.figures


def test_replacement_is_ready_within_20_ms(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}},
            supervisor={"workers": 10, "log_level": "info"})
    rows = s.wait_ready(10)
    times = []
    for row in rows:
        begun = time.monotonic()
        os.kill(row["pid"], signal.SIGKILL)

        def again():
            return [w for w in s.workers() if w["slot"] == row["slot"] and
                    w["state"] == "ready" and w["consuming"] and w["pid"] != row["pid"]]
        wait_until(again, 10, every=0.0005)
        times.append((time.monotonic() - begun) * 1000)
    median = statistics.median(times)
    figure("kill -9 to ready and consuming: median %.1f ms, worst %.1f ms of %d", median,
           max(times), len(times))
    assert median < 20, times


def kill_and_time(s, journal, victim):
    """kill -9 of that worker, until the handlers of its tasks have started again: [ms]."""
    starts, alive = journal.starts(), journal.running()
    tasks = [e["id"] for e in starts if e["pid"] in alive and e["ppid"] == victim]
    begun = time.monotonic_ns()
    os.kill(victim, signal.SIGKILL)

    def again():
        new = [e for e in journal.starts()[len(starts):] if e["id"] in tasks]
        return new if len(new) == len(tasks) else None
    return [(e["t"] - begun) / 1e6 for e in wait_until(again, 20, every=0.05)]


def fill(server, journal, gate, n):
    """n new tasks that run until the gate opens; those before have ended."""
    server.wait_empty("q")
    gate.shut()
    started = len(journal.starts())
    server.add("q", *[b"do " + str(gate).encode()] * n)
    journal.wait_started(started + n)


ROUNDS = 3


def within_10_ms(what, measure):
    """What else the machine does only makes it slower: the best of a few rounds counts."""
    for _ in range(ROUNDS):
        times = measure()
        p50, p99 = percentile(times, 50), percentile(times, 99)
        figure("%s: p50 %.1f ms, p99 %.1f ms of %d kills", what, p50, p99, len(times))
        if p50 < 10 * PATIENCE and p99 < 100 * PATIENCE:
            return
    assert False, sorted(times)


@pytest.mark.parametrize("spare", [True, False], ids=["others have room", "all are full"])
def test_a_killed_workers_task_runs_again_within_10_ms(sup, server, journal, gate, spare):
    """all are full: only the replacement of the dead worker can take it."""
    s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 1}},
            supervisor={"workers": 10, "log_level": "info", "stable_after": "1s",
                        "crash_limit": 1000})
    s.wait_ready(10)
    gate.open()
    killed = {}

    def candidates():  # busy, and ready for so long that its restart is not put off
        return [w for w in s.wait_ready(10) if w["running"] and w["uptime_ms"] > 1200]

    def measure():
        times = []
        while len(times) < 40:
            fill(server, journal, gate, 7 if spare else 10)
            row = min(wait_until(candidates), key=lambda w: killed.get(w["slot"], 0))
            killed[row["slot"]] = killed.get(row["slot"], 0) + 1
            times += kill_and_time(s, journal, row["pid"])
            gate.open()
        return times

    within_10_ms("kill -9 of one of 10 workers, %s, to its task's handler started again"
                 % ("others have room" if spare else "all are full"), measure)
    server.wait_empty("q")
    assert journal.most_at_once() <= 10


def test_the_task_of_the_only_worker_runs_again_within_10_ms(sup, server, journal, gate):
    s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 1}},
            supervisor={"workers": 1, "log_level": "info", "stable_after": "100ms",
                        "crash_limit": 1000})
    s.wait_ready(1)
    gate.open()

    def measure():
        times = []
        while len(times) < 20:
            fill(server, journal, gate, 1)
            row, = wait_until(lambda: [w for w in s.ready() if w["uptime_ms"] > 300])
            times += kill_and_time(s, journal, row["pid"])
            gate.open()
        return times

    within_10_ms("kill -9 of the only worker to its task's handler started again", measure)
    server.wait_empty("q")
    assert journal.most_at_once() == 1


def test_idle_wakeups_and_memory(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}},
            supervisor={"workers": 4, "log_level": "info"})
    rows = s.wait_ready(4)
    server.add("q", *[b"x"] * 100)
    server.wait_empty("q")
    elapse(6)  # let the workers come to rest
    pids = {"supervisor": s.pid}
    pids.update({"worker %d" % w["slot"]: w["pid"] for w in rows})
    before = {n: (procs.wakeups(p), procs.cpu_ticks(p)) for n, p in pids.items()}
    seconds = 10
    elapse(seconds)
    for name, pid in pids.items():
        woke = (procs.wakeups(pid) - before[name][0]) / seconds
        rss = procs.status_kb(pid, "VmRSS")
        figure("%s idle: %.1f wake-ups/s, RSS %.1f MB", name, woke, rss / 1024)
        assert woke <= 1.0, (name, woke)
        assert rss < 4096, (name, rss)


def test_throughput_of_a_task_that_does_nothing(sup, server, journal):
    s = sup(queues={"q": {"handler": "exec /bin/true", "concurrency": 4}},
            supervisor={"workers": 4, "log_level": "warning"})
    s.wait_ready(4)
    begun = time.monotonic()
    n = 3000
    server.add("q", *[b"x"] * n)
    server.wait_empty("q", 60)
    figure("exec /bin/true on 4 x 4: %.0f tasks/s", n / (time.monotonic() - begun))
    assert server.counters("q")["done"] == n


def test_crash_loop_costs_no_cpu(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, env={"REDISQ_WORKER_PROGRAM": "/bin/false"},
            supervisor={"workers": 4, "restart_delay_max": "1s", "crash_limit": 3})
    wait_until(lambda: s.workers() and all(w["restarts"] >= 5 for w in s.workers()), 30)
    before = procs.cpu_ticks(s.pid)
    elapse(5)
    cpu = (procs.cpu_ticks(s.pid) - before) / os.sysconf("SC_CLK_TCK") / 5
    figure("supervisor with four workers in a crash loop: %.1f %% CPU", cpu * 100)
    assert cpu < 0.02


def test_idle_stop_takes_less_than_a_second(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 4})
    s.wait_ready(4)
    begun = time.monotonic()
    assert s.stop() == 0
    took = time.monotonic() - begun
    figure("SIGTERM to exit while idle, 4 workers: %.0f ms", took * 1000)
    assert took < 1


def test_a_reload_of_an_idle_queue_takes_little_more_than_a_second(sup, server, journal):
    """Only the first worker waits for a task that never comes."""
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 8})
    s.wait_ready(8)
    times = []
    for _ in range(ROUNDS):
        begun = time.monotonic()
        s.ctl("reload", check=0)
        times.append(time.monotonic() - begun)
    figure("redisqctl reload while idle, 8 workers: %s ms",
           ", ".join("%.0f" % (t * 1000) for t in times))
    assert min(times) < 1.5 * PATIENCE, times


def test_a_task_starts_soon_after_xadd(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1})
    s.wait_ready(1)
    times = []
    for n in range(50):
        begun = time.monotonic_ns()
        server.add("q", b"x")
        journal.wait_ended(n + 1)
        times.append((journal.starts()[-1]["t"] - begun) / 1e6)
    figure("XADD to the handler's first instruction: median %.1f ms", statistics.median(times))
    assert statistics.median(times) < 20
