"""Too few processes, descriptors, directories: waited out, said once, and nothing is lost."""
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest

import procs
from conftest import on_both
from fakesup import FakeSupervisor, fake  # noqa: F401 (a fixture)
from journal import Journal
from supervised import Supervisor, close_all
from waiting import elapse, wait_until

FAST = {"lease": "20s", "kill_grace": "200ms", "retry_delay": "50ms"}
NOBODY = "54321"  # a user that has no process of its own


def limit(pid, what, soft, wrap=()):
    """Sets a soft limit of a running process, None: to the hard one. wrap: as its user, for root
    without CAP_SYS_RESOURCE may not."""
    name = {resource.RLIMIT_NOFILE: "nofile", resource.RLIMIT_NPROC: "nproc"}[what]
    key = {"nofile": "Max open files", "nproc": "Max processes"}[name]
    hard, = [x[len(key):].split()[1] for x in procs.read(pid, "limits").decode().splitlines()
             if x.startswith(key)]
    subprocess.run(list(wrap) + ["prlimit", "--pid", str(pid), "--%s=%s:" %
                                 (name, hard if soft is None else soft)], check=True)


def n_fds(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


AS_NOBODY = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]


@pytest.fixture
def nobody(build):
    """Makes supervisors that are not root, whom no limit of processes binds, with all they need in
    a directory of that user's: nobody(class, **how)."""
    if os.getuid() or subprocess.run(AS_NOBODY + ["true"], capture_output=True).returncode:
        pytest.skip("RLIMIT_NPROC does not bind root, and another user cannot be taken here")
    home = tempfile.mkdtemp(prefix="rqn", dir="/tmp")  # pytest's own are root's
    made = []

    def make(kind, **how):
        made.append(kind(home, home, start=False, wrap=AS_NOBODY, **how))
        for path in (home, made[0].run_dir):
            os.chown(path, int(NOBODY), int(NOBODY))
        return made[0].start()

    make.journal = Journal(home + "/journal", home + "/fake-handler")
    os.chmod(make.journal.path, 0o666)
    for name in ("redisq-supervisor", "redisq-worker", "fake-worker", "fake-handler"):
        shutil.copy(os.path.join(build, name), home)
    yield make
    for s in made:
        s.show()
    close_all(made)
    shutil.rmtree(home)


def test_no_process_for_a_worker_is_waited_out_and_counts_for_no_crash_loop(nobody):
    s = nobody(FakeSupervisor,
               supervisor={"workers": 2, "restart_delay": "20ms", "restart_delay_max": "100ms",
                           "crash_limit": 3, "on_crash_loop": "exit"})
    s.wait_ready()
    limit(s.pid, resource.RLIMIT_NPROC, 1, AS_NOBODY)
    os.kill(s.pids()[0], signal.SIGKILL)
    row = s.wait_state("backoff")[0]
    wait_until(lambda: s.out().count("did not start: fork ") > 4)
    assert s.workers()[0]["last_exit"]["cause"] == "spawn" and row["pid"] is None
    assert s.request("ping")["ok"]
    limit(s.pid, resource.RLIMIT_NPROC, None, AS_NOBODY)
    s.wait_ready()
    assert "crash loop" not in s.out()
    assert s.stop() == 0


def test_no_process_for_a_handler_gives_the_task_back_uncharged(nobody, server):
    journal = nobody.journal
    s = nobody(Supervisor, server=server, supervisor={"workers": 1},
               queues={"q": dict(FAST, handler=journal.handler(), max_attempts=1,
                                 breaker_delay="300ms")})
    pid = s.wait_ready(1)[0]["pid"]
    limit(pid, resource.RLIMIT_NPROC, 1, AS_NOBODY)
    ids = server.add("q", *[b"x"] * 10)
    wait_until(lambda: "(this machine is short of it)" in s.log("q"))
    assert not journal.starts() and not server.dead("q")
    limit(pid, resource.RLIMIT_NPROC, None, AS_NOBODY)
    server.wait_empty("q")
    assert not server.dead("q")
    assert journal.runs() == {i: 1 for i in ids}
    assert {e["attempt"] for e in journal.starts()} == {1} and s.pids() == [pid]


def test_no_descriptor_for_a_worker_is_waited_out(fake):
    s = fake(supervisor={"workers": 2, "restart_delay": "20ms", "restart_delay_max": "100ms",
                         "crash_limit": 3, "on_crash_loop": "exit"})
    s.wait_ready()
    limit(s.pid, resource.RLIMIT_NOFILE, n_fds(s.pid) - 4)
    os.kill(s.pids()[0], signal.SIGKILL)
    wait_until(lambda: s.out().count("Too many open files") > 4)
    before = procs.cpu_ticks(s.pid)
    # Whoever asks meanwhile is served by the descriptor that is kept for it, or told to wait.
    with socket.socket(socket.AF_UNIX) as c:
        c.settimeout(5)
        c.connect(s.socket)
        elapse(1)
    assert procs.cpu_ticks(s.pid) - before < 50
    limit(s.pid, resource.RLIMIT_NOFILE, None)
    s.wait_ready()
    assert "crash loop" not in s.out() and len(s.starts()) == 3
    assert s.stop() == 0


@on_both
def test_no_descriptor_in_a_worker_gives_tasks_back_and_comes_back(sup, server, proxy, journal):
    s = sup(redis={"url": proxy.url}, supervisor={"workers": 1},
            queues={"q": dict(FAST, handler=journal.handler(), max_attempts=1,
                              breaker_delay="300ms")})
    pid = s.wait_ready(1)[0]["pid"]
    limit(pid, resource.RLIMIT_NOFILE, n_fds(pid) + 1)
    ids = server.add("q", *[b"x"] * 5)
    wait_until(lambda: "(this machine is short of it)" in s.log("q"))
    limit(pid, resource.RLIMIT_NOFILE, n_fds(pid) - 2)
    proxy.cut(refuse=False)                      # and no new link can be made either
    wait_until(lambda: not s.workers()[0]["consuming"])
    before = procs.cpu_ticks(pid)
    elapse(1)
    assert procs.cpu_ticks(pid) - before < 30
    limit(pid, resource.RLIMIT_NOFILE, None)
    server.wait_empty("q")
    assert journal.runs() == {i: 1 for i in ids} and s.pids() == [pid]


def test_a_working_directory_that_was_removed_matters_to_nobody(sup, server, journal, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    s = sup(queues={"q": dict(FAST, handler=journal.handler())}, supervisor={"workers": 1},
            wrap=["sh", "-c", 'cd %s && exec "$@"' % gone, "sh"])
    s.wait_ready(1)
    gone.rmdir()
    os.kill(s.pids()[0], signal.SIGKILL)
    wait_until(lambda: s.workers() and s.workers()[0]["restarts"] == 1)
    s.wait_ready(1)
    assert s.request("reload", wait=True)["ok"]
    server.add("q", b"x", b"x")
    server.wait_empty("q")
    assert server.counters("q")["done"] == 2
    assert s.stop() == 0


def test_an_environment_of_a_megabyte_is_handed_on(sup, server, journal):
    env = {"BIG_%d" % n: "x" * 100000 for n in range(10)}
    s = sup(queues={"q": dict(FAST, handler=journal.handler())}, supervisor={"workers": 1}, env=env)
    s.wait_ready(1)
    server.add("q", b"do sleep=1000")
    pid = journal.wait_started(1)[0]["pid"]
    assert {len(procs.environ(pid)[b"BIG_%d" % n]) for n in range(10)} == {100000}
    server.wait_empty("q")
    assert s.stop() == 0


def test_a_handler_whose_environment_does_not_fit_is_broken_not_charged(sup, server, journal):
    """The kernel takes no string of 128 KiB; fields become one."""
    s = sup(queues={"q": dict(FAST, handler=journal.handler(), max_attempts=1)},
            supervisor={"workers": 1})
    task, = server.add("q", b"x", wide=b"y" * 300000)
    server.wait_empty("q")
    assert journal.runs() == {task: 1} and not server.dead("q")
    assert s.stop() == 0
