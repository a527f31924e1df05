"""Figures about Redis that goes away, comes back, or is given much at once; release build, as
test_figures.py."""
import collections
import os
import socket
import statistics
import threading
import time

import pytest

from figures import figure, percentile, release  # noqa: F401 (a fixture)
from proxy import Proxy
from redisserver import RedisServer
from waiting import PATIENCE, elapse, wait_until

pytestmark = pytest.mark.figures


@pytest.fixture
def servers(tmp_path):
    made = []

    def make(*options):
        where = tmp_path / ("redis%d" % len(made))
        where.mkdir()
        made.append(RedisServer(where, *options))
        return made[-1]

    yield make
    for s in made:
        s.close()


def accepting_since(port):
    """A thread that looks each half millisecond; its .when is when connections were accepted."""
    class Look(threading.Thread):
        when = None

        def run(self):
            while self.when is None:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    self.when = time.monotonic()
                except OSError:
                    elapse(0.0005)
    look = Look(daemon=True)
    look.start()
    return look


def done(server):
    return server.counters("q").get("done", 0)


def wait_more_done(server, before):
    wait_until(lambda: done(server) > before, 20, "a task is done", every=0.0005)
    return time.monotonic()


OUTAGE = 1.0        # seconds; longer ones end within the cap of the back-off (2 s)


def test_recovery_after_a_restart_of_redis_under_load(sup, servers, journal):
    server = servers("--appendonly", "yes", "--appendfsync", "always")
    s = sup(server=server, supervisor={"workers": 4, "log_level": "info"},
            queues={"q": {"handler": journal.handler("sleep=50"), "concurrency": 4}})
    s.wait_ready(4)
    times = []
    for n in range(10):
        server.add("q", *[b"x"] * 400)
        wait_more_done(server, done(server) + 30)
        server.stop()
        elapse(OUTAGE)
        look = accepting_since(server.port)
        server.start()
        before = done(server)
        wait_until(lambda: look.when)
        times.append((wait_more_done(server, before) - look.when) * 1000)
    figure("Redis killed and away for %.0f s under load, 4 workers: from its accepting connections "
           "to a task done: median %.0f ms, worst %.0f ms of %d", OUTAGE, statistics.median(times),
           max(times), len(times))
    assert statistics.median(times) < 2000 * PATIENCE, times


def test_downtime_of_a_failover(sup, servers, journal):
    """The master dies; 1 s later a replica is promoted and the address leads to it."""
    times = []
    s = None
    quick = "--repl-diskless-sync-delay", "0"
    master, replica = servers(*quick), servers(*quick)
    proxy = Proxy(master.port)
    for n in range(10):
        replica.r.replicaof("127.0.0.1", master.port)
        wait_until(lambda: replica.r.info("replication")["master_link_status"] == "up", 30)
        if s is None:
            s = sup(supervisor={"workers": 4, "log_level": "info"}, redis={"url": proxy.url},
                    queues={"q": {"handler": journal.handler("sleep=50"), "concurrency": 4}})
            s.wait_ready(4)
        master.add("q", *[b"x"] * 400)
        wait_more_done(master, done(master) + 30)
        assert master.r.wait(1, 5000) == 1
        master.stop()
        elapse(OUTAGE)
        before = done(replica)
        replica.r.replicaof("NO", "ONE")
        begun = time.monotonic()
        proxy.upstream = replica.port
        times.append((wait_more_done(replica, before) - begun) * 1000)
        master.start()
        master, replica = replica, master
    proxy.close()
    figure("failover, 1 s without a master, 4 workers: from the promotion to a task done: median "
           "%.0f ms, worst %.0f ms of %d", statistics.median(times), max(times), len(times))
    assert statistics.median(times) < 5000 * PATIENCE, times
    assert not any(w["restarts"] for w in s.workers())


def test_64_workers_do_not_storm_a_redis_that_comes_back(sup, server, proxy, journal):
    s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 1}},
            supervisor={"workers": 64, "log_level": "warning"}, redis={"url": proxy.url})
    s.wait_ready(64, timeout=60)
    proxy.cut()
    elapse(3)
    before, begun = proxy.accepted, time.monotonic()
    elapse(3)
    away = (proxy.accepted - before) / (time.monotonic() - begun)
    before = proxy.accepted
    proxy.heal()
    begun = time.monotonic()
    wait_until(lambda: len(server.r.client_list(_type="normal")) >= 128, 20, "all are back")
    back = time.monotonic() - begun
    figure("64 workers whose Redis hangs up: %.0f connections/s; once it does not, all are back "
           "within %.1f s by %d connections", away, back, proxy.accepted - before)
    assert away < 128, "one a second and link at most"
    assert proxy.accepted - before <= 128 + 16
    assert back < 10


DELAYED = """
for n = 1, ARGV[1] do
  local id = '1-' .. n
  redis.call('HSET', KEYS[2], id, cmsgpack.pack({{'payload', 'x'}, id, 2, 1, 0, '1', '', ''}))
  redis.call('ZADD', KEYS[1], ARGV[2], id)
end
"""


def test_ten_thousand_due_at_once_are_promoted_within_a_second(sup, server, journal, gate):
    n = 10000
    s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 1}},
            supervisor={"log_level": "info"})
    s.wait_ready(2)
    server.add("q", *[b"do " + str(gate).encode()] * 2)     # nothing but the promotion is measured
    journal.wait_started(2)
    due = (server.r.time()[0] + 6) * 1000   # later than the workers' look for tasks of others
    server.r.eval(DELAYED, 2, server.key("q", "delayed"), server.key("q", "bodies"), n, due)

    def left():
        with server.r.pipeline(transaction=True) as p:
            p.zcard(server.key("q", "delayed"))
            p.time()
            return p.execute()

    def all_moved():
        n_left, (sec, micro) = left()
        return (sec * 1000 + micro / 1000 - due) or 1 if n_left == 0 else None
    took = wait_until(all_moved, 30, every=0.005)
    figure("%d delayed tasks due at once: all promoted %.0f ms later", n, took)
    assert took < 1000 * PATIENCE
    assert server.xlen("q") == n + 2


def test_a_delayed_task_is_not_late(sup, server, journal):
    """As idle as can be: each is due at a moment of its own."""
    s = sup(queues={"q": {"handler": journal.handler("exit=1", "until=2"), "concurrency": 16,
                          "retry_delay": "2s", "retry_jitter": "100%", "max_attempts": 3,
                          "breaker_failures": 0}},
            supervisor={"workers": 2, "log_level": "info"})
    s.wait_ready(2)
    server.add("q", *[b"x"] * 100)
    due = {}

    def all_delayed():
        due.update(server.delayed("q"))
        return len(due) == 100
    wait_until(all_delayed, 20, every=0.001)

    def ahead():  # of our clock; too little by what passes between the two looks
        sec, micro = server.r.time()
        return sec * 1000 + micro / 1000 - time.monotonic() * 1000
    offset = max(ahead() for _ in range(50))
    journal.wait_ended(200)
    second = [e for e in journal.starts() if e["attempt"] == 2]
    late = [e["t"] / 1e6 + offset - due[e["id"]] for e in second]
    figure("lateness of 100 retries: p50 %.0f ms, p99 %.0f ms", percentile(late, 50),
           percentile(late, 99))
    assert min(late) > -5 and percentile(late, 99) < 100 * PATIENCE


def test_memory_comes_back_when_all_is_done(sup, server, build):
    n, chunk = 200000, 20000
    library = os.path.join(build, "fake-library.so")
    s = sup(queues={"q": {"handler": "so " + library, "concurrency": 16,
                          "env": "SO_JOURNAL=/dev/null"}},
            supervisor={"workers": 2, "log_level": "warning"})
    s.wait_ready(2)
    server.add("q", *[b"x" * 200] * 100)
    server.wait_empty("q")
    server.r.memory_purge()
    before = server.r.info("memory")["used_memory"]
    begun, most = time.monotonic(), 0
    for _ in range(0, n, chunk):
        server.add("q", *[b"x" * 200] * chunk)
        most = max(most, server.r.info("memory")["used_memory"])
    server.wait_empty("q", 240)
    took = time.monotonic() - begun
    server.r.memory_purge()
    after = server.r.info("memory")["used_memory"]
    figure("%d tasks in %.0f s: memory of Redis %.2f MB before, %.2f MB at most, %.2f MB after", n,
           took, before / 1e6, most / 1e6, after / 1e6)
    assert after - before < 0.05 * before
    left = collections.Counter(k.decode() for k in server.r.scan_iter("*"))
    assert set(left) <= {"q", server.key("q", "counters"), server.key("q", "names"),
                         *(server.key("q", "consumer:worker_%d" % p) for p in s.pids())}
