"""Leases: a task has one owner for as long as its worker renews, and another one afterwards."""
import os
import signal

import pytest

from links import Links, is_read
from redisserver import version
from waiting import stays, wait_until

BACKENDS = ("stream", "list")

# Long enough to be kept by a worker under load, short enough to be waited for.
LEASE = {"lease": "2s", "concurrency": 1, "kill_grace": "300ms", "breaker_failures": 0}


def queue(journal, *knobs, **keys):
    return {"q": dict(LEASE, handler=journal.handler(*knobs), **keys)}


@pytest.fixture
def links(server):
    x = Links(server.port)
    yield x
    x.close()


@pytest.fixture
def stall():
    stopped = []

    def stop(pid):
        os.kill(pid, signal.SIGSTOP)
        stopped.append(pid)

    yield stop
    for pid in stopped:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


@pytest.mark.parametrize("on_lost", ["cancel", "finish"])
def test_the_late_result_of_a_stalled_worker_is_refused(sup, server, journal, gate, stall, on_lost):
    s = sup(queues=queue(journal, on_lost_lease=on_lost),
            supervisor={"workers": 2, "heartbeat_timeout": "0"})
    s.wait_ready(2)
    task, = server.add("q", b"do %s" % str(gate).encode())
    journal.wait_started(1)
    owner = int(journal.starts()[0]["env"]["REDISQ_WORKER"].rpartition("_")[2])
    stall(owner)
    # Its name lapses, and one lease after its last sign of life the other worker takes over.
    journal.wait_started(2)
    second = journal.starts()[1]["env"]["REDISQ_WORKER"]
    assert second != "worker_%d" % owner
    os.kill(owner, signal.SIGCONT)
    wait_until(lambda: sum(w["lost_leases"] for w in s.workers("q")) == 1, 20, "it was counted")
    gate.open()
    server.wait_empty("q")
    assert server.counters("q") == {"done": 1}
    assert journal.runs() == {task: 2}
    said = s.log("q")
    assert said.count("its lease was lost; its result will not count") == 1
    wait_until(lambda: s.log("q").count("is refused") == 1, 20, "the late result is logged once")
    assert [w["pid"] for w in s.workers("q")].count(owner) == 1, "the stalled worker goes on"


def test_with_heartbeat_a_stuck_worker_is_dead_before_another_has_its_task(
        sup, server, journal, gate, stall):
    s = sup(queues=queue(journal, lease="20s"),
            supervisor={"workers": 2, "heartbeat_timeout": "2500ms", "kill_timeout": "500ms"})
    s.wait_ready(2)
    task, = server.add("q", b"do %s" % str(gate).encode())
    journal.wait_started(1)
    owner = int(journal.starts()[0]["env"]["REDISQ_WORKER"].rpartition("_")[2])
    handler = journal.starts()[0]["pid"]
    stall(owner)
    journal.wait_started(2)
    assert journal.starts()[1]["beside"] == 1, "the first handler was gone"
    assert handler not in journal.running() and not os.path.exists("/proc/%d" % handler)
    gate.open()
    server.wait_empty("q")
    assert journal.runs() == {task: 2} and server.counters("q") == {"done": 1}


def test_a_long_task_outlives_many_leases_and_a_redis_that_stands_still(
        sup, server, journal, gate):
    s = sup(queues=queue(journal, lease="3s"), supervisor={"workers": 2, "heartbeat_timeout": "0"})
    s.wait_ready(2)
    task, = server.add("q", b"do %s" % str(gate).encode())
    journal.wait_started(1)
    for _ in range(4):
        server.pause()
        stays(lambda: len(journal.running()) == 1, 1.5)
        server.go_on()
        stays(lambda: len(journal.starts()) == 1, 1)
    gate.open()
    server.wait_empty("q")
    assert journal.runs() == {task: 1}
    assert not sum(w["lost_leases"] for w in s.workers("q"))


def test_what_a_lost_reply_brought_runs_as_soon_as_it_is_known_to_be_lost(sup, server, links,
                                                                         journal):
    """That is after twice the longest wait of a read, 10 s; not when the lease is renewed next."""
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1},
            redis={"url": links.url})
    s.wait_ready(1)
    links.hold(is_read)
    task, = server.add("q", b"x")
    wait_until(lambda: server.n_pending("q") == 1 and links.held() > 0)
    links.cut("fetch")
    links.free()
    journal.wait_started(1, timeout=15)
    server.wait_empty("q")
    assert journal.runs() == {task: 1}


@pytest.mark.backends("stream", "list", "partitions")
def test_the_tasks_of_a_lost_host_run_again_within_lease_and_15_s(sup, server, journal, gate):
    """Supervisor and workers die at once, as when the machine goes: nobody hands anything over."""
    lost = sup(queues=queue(journal), supervisor={"workers": 1})
    lost.wait_ready(1)
    task, = server.add("q", b"do %s" % str(gate).encode())
    journal.wait_started(1)
    here = sup(queues=queue(journal), supervisor={"workers": 1})
    here.wait_ready(1)
    worker = lost.pids("q")[0]
    os.kill(lost.pid, signal.SIGSTOP)
    os.kill(worker, signal.SIGKILL)
    os.kill(lost.pid, signal.SIGKILL)
    journal.wait_started(2, timeout=2 + 15)
    first, second = journal.starts()
    print("figure: host lost to task started elsewhere: %.1f s, lease 2 s"
          % ((second["t"] - first["t"]) / 1e9))
    gate.open()
    server.wait_empty("q")
    assert journal.runs() == {task: 2}
    wait_until(lambda: len(server.consumers("q")) == 1, 30, "the lost host's consumer is gone")


def test_leases_that_redis_let_nobody_renew_are_not_taken_for_stale(sup, server, journal, gate):
    """All links stood, and all scripts were refused, for longer than the lease."""
    if version() < (7, 0):
        pytest.skip("scripts write without replicas there: nothing is refused")
    s = sup(queues=queue(journal, concurrency=4), supervisor={"workers": 4})
    s.wait_ready(4)
    ids = server.add("q", *[b"do %s" % str(gate).encode()] * 4)
    journal.wait_started(4)
    claims = [server.key("q", "consumer:" + w["consumer"]) for w in s.workers("q")]
    server.r.config_set("min-replicas-to-write", 1)
    wait_until(lambda: server.r.exists(*claims) == 0, 20, "all names have lapsed")
    s.ctl("scale", "q", "5", "--no-wait", check=0)
    wait_until(lambda: s.log_files("q").get(4, "").count("NOREPLICAS") >= 4, 40, "a new one waits")
    server.r.config_set("min-replicas-to-write", 0)
    wait_until(lambda: server.r.exists(*claims) == 4, 20, "they are proved again")
    gate.open()
    server.wait_empty("q")
    assert journal.runs() == dict.fromkeys(ids, 1)
