"""What the kernel does to us: processes that do not die, numbers that are used again."""
import os
import signal
import subprocess
import sys

import pytest

import procs
from cgroup import MemoryGroup
from conftest import on_both
from fakesup import fake, queue  # noqa: F401 (a fixture)
from stuckfs import StuckDir
from waiting import elapse, stays, wait_until

FAST = {"lease": "20s", "kill_grace": "200ms", "retry_delay": "50ms", "breaker_failures": 0}


# ------------------------------------------------------------------ processes that do not die

@pytest.fixture
def stuck(tmp_path):
    try:
        d = StuckDir(tmp_path / "stuck")
    except OSError as e:
        pytest.skip("a file system that never answers needs /dev/fuse and root: %s" % e)
    yield d
    d.close()


@pytest.fixture
def sticking(tmp_path, stuck, journal):
    """A handler whose tasks with kind=stick hang in the kernel when they are delivered first."""
    script = tmp_path / "stick.sh"
    script.write_text("""#!/bin/sh
case $REDISQ_DELIVERIES$REDISQ_FIELDS in 1*stick*) exec stat %s/x ;; esac
exec %s "$@"
""" % (stuck.path, " ".join(journal.argv())))
    script.chmod(0o755)
    return "exec %s" % script


@on_both
def test_a_handler_that_cannot_be_killed_blocks_its_place_but_not_its_task(
        sup, server, journal, gate, stuck, sticking):
    s = sup(queues={"q": dict(FAST, handler=sticking, concurrency=1)},
            supervisor={"kill_timeout": "500ms"})
    s.wait_ready(2)
    task, = server.add("q", b"do " + str(gate).encode(), kind="stick")
    wait_until(lambda: stuck.asked == 1)
    worker, = [w["pid"] for w in s.workers() if w["running"]]
    handler, = procs.children(worker)
    os.kill(worker, signal.SIGKILL)
    journal.wait_started(1)                      # handed over although the first still stands
    assert procs.state(handler) == "D"
    assert "1 handler group of dead worker" in s.out() and "cannot be killed" in s.out()
    s.wait_ready(2)
    server.add("q", b"do " + str(gate).encode())
    stays(lambda: len(journal.running()) == 1, 1)
    stuck.close()
    wait_until(lambda: len(journal.running()) == 2, 10, "its place is free again")
    gate.open()
    server.wait_empty("q")
    assert journal.runs()[task] == 1 and server.counters("q")["done"] == 2
    assert s.stop() == 0


def test_a_handler_that_cannot_be_killed_keeps_its_place_after_its_timeout(
        sup, server, journal, stuck, sticking):
    s = sup(queues={"q": dict(FAST, handler=sticking, concurrency=2, timeout="300ms")},
            supervisor={"workers": 1})
    s.wait_ready(1)
    server.add("q", b"x", kind="stick")
    wait_until(lambda: "still there after SIGTERM: SIGKILL" in s.log("q"))
    server.add("q", *[b"x"] * 4)
    wait_until(lambda: server.xlen("q") == 1)    # the others go past it
    assert s.workers()[0]["running"] == 1
    stuck.close()
    server.wait_empty("q")


def test_a_handler_that_cannot_be_killed_does_not_keep_the_supervisor(
        sup, server, journal, stuck, sticking):
    s = sup(queues={"q": dict(FAST, handler=sticking, concurrency=1)},
            supervisor={"workers": 1, "kill_timeout": "300ms", "drain_timeout": "300ms"})
    s.wait_ready(1)
    server.add("q", b"x", kind="stick")
    wait_until(lambda: stuck.asked == 1)
    assert s.stop(8) == 1
    assert "cannot be killed" in s.out()
    stuck.close()


def test_a_worker_that_cannot_be_killed_does_not_keep_the_supervisor(stuck, fake):
    s = fake(knobs={"stick@0": stuck.path + "/x"}, queues=queue(),
             supervisor={"workers": 2, "heartbeat_timeout": "2s", "kill_timeout": "200ms",
                         "drain_timeout": "200ms"})
    wait_until(lambda: stuck.asked == 1)
    wait_until(lambda: "cannot be killed: it waits in the kernel" in s.out())
    row = s.workers()[0]
    assert row["state"] == "killing" and procs.state(row["pid"]) == "D"
    assert s.credit_out() == 8                   # its share goes to no other
    stays(lambda: len(s.starts()) == 2, 0.5)
    assert s.stop(10) == 1
    assert "leaving worker %d of demo/0 behind" % row["pid"] in s.out()
    stuck.close()


def test_a_worker_that_dies_late_is_not_left_behind_during_its_burial(stuck, fake, tmp_path):
    """It waits for handlers that cannot be killed either, and the others still drain."""
    try:
        late = StuckDir(tmp_path / "late")
    except OSError as e:
        pytest.skip("a file system that never answers needs /dev/fuse and root: %s" % e)
    try:
        s = fake(knobs={"tasks@0": 1, "handler@0": 1, "handler_stick@0": stuck.path + "/x",
                        "stick@0": late.path + "/x", "ignore_drain@1": 1}, queues=queue(),
                 supervisor={"workers": 2, "heartbeat_timeout": "300ms", "kill_timeout": "1500ms",
                             "drain_timeout": "1s"})
        wait_until(lambda: stuck.asked == 1 and late.asked == 1)
        wait_until(lambda: "cannot be killed: it waits in the kernel" in s.out())
        pid = s.workers()[0]["pid"]
        late.close()
        wait_until(lambda: procs.state(pid) == "Z", what="it is dead, and not reaped yet")
        assert s.stop(15) == 1
        assert "leaving worker" not in s.out() and "worker %d of demo/0 died" % pid in s.out()
    finally:
        late.close()
        stuck.close()


# ------------------------------------------------------------------ no memory left

@pytest.fixture
def lean(tmp_path):
    try:
        group = MemoryGroup("redisq-test-%d" % os.getpid(), 256 << 20)
    except OSError as e:
        pytest.skip("a memory cgroup of our own cannot be made here: %s" % e)
    yield group
    group.close()


def test_a_worker_that_the_kernel_kills_for_memory_is_reported_as_oom(lean, fake):
    s = fake(knobs={"alloc@0": 500}, supervisor={"workers": 2, "restart_delay": "10ms", "heartbeat_timeout": "2s"},
             wrap=lean.wrap)
    wait_until(lambda: [w for w in s.workers() if w["slot"] == 0 and w["last_exit"]])
    s.set_knobs()
    s.wait_ready()
    first, second = s.workers()
    assert first["last_exit"] == {"cause": "oom", "signal": 9, "code": None}
    assert "signal 9 SIGKILL (out of memory)" in s.out()
    assert second["last_exit"] is None
    elapse(1.2)                                  # two looks: what was long ago explains nothing
    os.kill(first["pid"], signal.SIGKILL)
    wait_until(lambda: s.workers()[0]["last_exit"]["cause"] == "signal")
    assert s.stop() == 0


def test_a_handler_that_the_kernel_kills_for_memory_is_a_crash_and_says_so(
        lean, sup, server, journal, tmp_path):
    script = tmp_path / "eat.sh"
    script.write_text("""#!/bin/sh
case $REDISQ_FIELDS in *eat*) exec %s -c 'x = b"x" * (500 << 20)' ;; esac
exec %s "$@"
""" % (sys.executable, " ".join(journal.argv())))
    script.chmod(0o755)
    s = sup(queues={"q": dict(FAST, handler="exec %s" % script, concurrency=1, max_crashes=2)},
            supervisor={"workers": 1}, wrap=lean.wrap)
    pid = s.wait_ready(1)[0]["pid"]
    server.add("q", b"x", kind="eat")
    server.add("q", b"do signal=9", b"x")
    server.wait_empty("q")
    errors = {f[b"payload"]: f[b"redisq.error"] for _, f in server.dead("q")}
    assert errors == {b"x": b"signal 9 SIGKILL (out of memory)", b"do signal=9": b"signal 9 SIGKILL"}
    assert s.pids() == [pid] and server.counters("q")["done"] == 1


# ------------------------------------------------------------------ numbers that are used again

# A group of its own in a session of its own; with "orphan" its leader has gone and a member lives.
GROUP = """
import os, sys
os.setsid()
if sys.argv[1] == "orphan" and os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["leader", "orphan"])
def test_a_group_that_is_not_a_handler_s_is_left_alone_and_blocks_nothing(fake, how):
    """The number on the board was a handler's, and is another's when the worker dies."""
    canary = subprocess.Popen([sys.executable, "-c", GROUP, how], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    pid = int(canary.stdout.readline())
    if how == "orphan":
        canary.wait()
    try:
        s = fake(knobs={"tasks": 1, "pgid": canary.pid}, queues=queue(concurrency=1),
                 supervisor={"workers": 1, "kill_timeout": "300ms"})
        old = s.wait_ready()[0]["pid"]
        wait_until(lambda: s.workers()[0]["running"] == 1)
        s.set_knobs()
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: [w for w in s.ready() if w["pid"] != old])
        wait_until(lambda: s.credit_out() == 1)
        assert procs.alive(pid) and "cannot be killed" not in s.out()
        assert s.stop() == 0
        assert procs.alive(pid)
    finally:
        canary.stdin.close()
        wait_until(lambda: not procs.alive(pid))
        canary.wait()
        canary.stdout.close()


class Inside:
    """A supervisor that is process 1 of a pid namespace whose numbers can be turned back."""

    def __init__(self, s):
        self.s = s
        self.pid = wait_until(lambda: procs.children(s.pid))[0]

    def run(self, script, **how):
        return subprocess.Popen(["nsenter", "-t", str(self.pid), "-p", "-m", "sh", "-c", script],
                                **how)

    def next_number(self, n):
        """The next process in there gets this pid, or the first free one behind it."""
        assert self.run("echo %d > /proc/sys/kernel/ns_last_pid" % (n - 1)).wait() == 0

    def workers(self):
        """{pid in there: pid out here}"""
        found = {}
        for pid in procs.children(self.pid):
            ids = [x.split() for x in procs.read(pid, "status").decode().splitlines()
                   if x.startswith("NSpid:")]
            if ids and procs.name(pid).startswith("redisq-w") and procs.alive(pid):
                found[int(ids[0][-1])] = pid
        return found


@pytest.fixture
def inside(sup, journal):
    if subprocess.run(["unshare", "-pf", "--mount-proc", "sh", "-c",
                       "echo 299 > /proc/sys/kernel/ns_last_pid"], capture_output=True).returncode:
        pytest.skip("a pid namespace and its ns_last_pid need root, and CONFIG_CHECKPOINT_RESTORE")
    s = sup(queues={"q": dict(FAST, handler=journal.handler(), concurrency=2, max_crashes=1000)},
            supervisor={"crash_limit": 1000, "restart_delay": "10ms",
                        "restart_delay_max": "50ms"},
            wrap=["unshare", "-pf", "--mount-proc", "--kill-child"])
    s.wait_ready(2)
    return Inside(s)


def test_a_worker_with_the_number_of_a_dead_one_takes_another_name(inside, server, journal, gate):
    ids = server.add("q", *[b"do " + str(gate).encode()] * 4)
    journal.wait_started(4)
    victim, outside = list(inside.workers().items())[0]
    server.r.client_pause(400, all=True)         # so that it starts before anything is handed over
    inside.next_number(victim)
    os.kill(outside, signal.SIGKILL)
    wait_until(lambda: inside.workers().get(victim, outside) != outside, 10,
               "the next one has the dead one's number")
    inside.s.wait_ready(2)
    names = {w["pid"]: w["consumer"] for w in inside.s.ready()}
    assert names[victim] != "worker_%d" % victim, names
    gate.open()
    server.wait_empty("q")
    assert set(journal.runs()) == set(ids) and server.counters("q")["done"] == 4
    assert sum(journal.runs().values()) == 6     # the two of the dead one, and no other, twice
    wait_until(lambda: set(server.consumers("q")) == set(names.values()), 20,
               "the dead one's name is gone")


def test_numbers_that_come_again_and_again_hit_no_stranger(inside, server, journal):
    """Workers die among few numbers, with other people's groups in between."""
    canaries = []
    try:
        for n in range(12):
            inside.next_number(330 + 5 * n)
            how = "leader" if n % 2 else "orphan"
            p = inside.run("exec %s -c '%s' %s" % (sys.executable, GROUP, how),
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            p.stdout.readline()
            canaries.append(p)
        ids = server.add("q", *[b"do sleep=20"] * 400)
        numbers = []
        for n in range(25):
            inside.next_number(300)
            journal.wait_started(10 * (n + 1))
            inside_pid, outside = wait_until(lambda: list(inside.workers().items()))[n % 2 - 1]
            numbers.append(inside_pid)
            os.kill(outside, signal.SIGKILL)
        server.wait_empty("q", 60)
        assert len(set(numbers)) < len(numbers) and max(numbers) < 1000, numbers
        assert set(journal.runs()) == set(ids) and server.counters("q")["done"] == 400
        for p in canaries:                       # alive: their pipes have a reader
            p.stdin.write(b"x")
            p.stdin.flush()
        wait_until(lambda: len(inside.s.ready()) == 2)
        # How many ran at once the journal cannot tell here: its register knows them by number.
    finally:
        for p in canaries:
            p.stdin.close()
            p.wait()
            p.stdout.close()


# 1000 children that all end when the pipe closes; their parent leaves them to process 1 at once.
ORPHANS = """
import os, sys
for n in range(1000):
    if os.fork() == 0:
        os.close(1)
        os.read(0, 1)
        os._exit((3, 75, 78, 70)[n % 4])
print("ready", flush=True)
os._exit(0)
"""


def test_a_thousand_orphans_that_end_with_a_worker_hide_its_death(inside, server, journal):
    """And change nothing themselves, whatever their exit codes; no zombie is left."""
    p = inside.run("exec %s -c '%s'" % (sys.executable, ORPHANS), stdin=subprocess.PIPE,
                   stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    p.wait()
    n_workers = len(inside.workers())
    victim, outside = list(inside.workers().items())[0]
    assert len(procs.children(inside.pid)) == 1000 + n_workers
    p.stdin.close()
    os.kill(outside, signal.SIGKILL)
    p.stdout.close()
    wait_until(lambda: sum(w["restarts"] for w in inside.s.ready()) == 1, 20)
    wait_until(lambda: len(procs.children(inside.pid)) == n_workers, 20, "all are reaped")
    assert sum(w["restarts"] for w in inside.s.wait_ready(2)) == 1
    server.add("q", b"x")
    server.wait_empty("q")
    os.kill(inside.pid, signal.SIGTERM)
    assert inside.s.wait_exit() == 0
