"""Signals to the supervisor."""
import os
import pty
import signal
import subprocess

import pytest

import procs
from waiting import stays, wait_until


def one(sup, journal, **keys):
    return sup(queues={"q": {"handler": journal.handler(), "kill_grace": "500ms"}},
               supervisor=dict({"workers": 1}, **keys))


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGINT])
def test_term_and_int_drain(sup, server, journal, gate, signo):
    s = one(sup, journal)
    s.wait_ready(1)
    server.add("q", b"do " + str(gate).encode())
    journal.wait_started(1)
    s.signal(signo)
    wait_until(lambda: s.status()["supervisor"]["state"] == "draining")
    gate.open()
    assert s.wait_exit() == 0
    assert len(journal.ends()) == 1


def test_quit_gives_the_tasks_back(sup, server, journal, gate):
    s = one(sup, journal, drain_timeout="1h")
    s.wait_ready(1)
    server.add("q", b"do " + str(gate).encode())
    journal.wait_started(1)
    s.signal(signal.SIGQUIT)
    assert s.wait_exit(10) in (0, 1)
    assert not journal.ends() and server.xlen("q") == 1


def test_ttin_and_ttou_change_the_number_of_workers(sup, server, journal):
    s = one(sup, journal)
    s.wait_ready(1)
    for signo, n in ((signal.SIGTTIN, 2), (signal.SIGTTIN, 3), (signal.SIGTTOU, 2),
                     (signal.SIGTTOU, 1)):
        s.signal(signo)
        wait_until(lambda: s.status()["queues"][0]["workers_wanted"] == n)
        s.wait_ready(n)
        wait_until(lambda: len(s.workers()) == n)


def test_tstp_is_quiet_and_cont_resumes(sup, server, journal):
    s = one(sup, journal)
    pid = s.wait_ready(1)[0]["pid"]
    s.signal(signal.SIGTSTP)
    wait_until(lambda: s.status()["supervisor"]["state"] == "quiet")
    server.wait_unread()
    server.add("q", *[b"x"] * 3)
    stays(lambda: not journal.starts(), 1)
    s.signal(signal.SIGCONT)
    server.wait_empty("q")
    assert s.status()["supervisor"]["state"] == "running"
    assert s.ready()[0]["pid"] == pid and len(journal.starts()) == 3


def test_term_while_quiet(sup, server, journal):
    s = one(sup, journal)
    s.wait_ready(1)
    s.signal(signal.SIGTSTP)
    wait_until(lambda: s.status()["supervisor"]["state"] == "quiet")
    assert s.stop() == 0


def test_term_during_the_start(sup, server, journal):
    for _ in range(5):
        s = one(sup, journal)
        wait_until(lambda: s.status())
        assert s.stop() == 0
        assert not s.marked()


def test_term_during_a_reload(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 3})
    s.wait_ready(3)
    s.signal(signal.SIGHUP)
    assert s.stop() == 0
    assert not s.marked() and not server.consumers("q")


@pytest.mark.parametrize("signo", [signal.SIGPIPE, signal.SIGCHLD, signal.SIGUSR1])
def test_harmless_signals(sup, server, journal, signo):
    s = one(sup, journal)
    pid = s.wait_ready(1)[0]["pid"]
    s.signal(signo)
    server.add("q", b"x")
    server.wait_empty("q")
    assert s.pids() == [pid]


def test_signals_to_a_worker_do_no_harm_to_the_tasks(sup, server, journal, gate):
    """Somebody's Ctrl-C or a stray TERM: the worker drains and is replaced; the task finishes."""
    s = one(sup, journal)
    old = s.wait_ready(1)[0]["pid"]
    server.add("q", b"do " + str(gate).encode())
    journal.wait_started(1)
    os.kill(old, signal.SIGTERM)
    gate.open()
    server.wait_empty("q")
    assert len(journal.starts()) == 1
    wait_until(lambda: [w for w in s.ready() if w["pid"] != old], 20)


def test_workers_live_in_their_own_sessions(sup, server, journal, gate):
    s = one(sup, journal)
    worker = s.wait_ready(1)[0]["pid"]
    server.add("q", b"do " + str(gate).encode())
    handler = journal.wait_started(1)[0]
    assert os.getsid(worker) == worker != os.getsid(s.pid)
    assert handler["pgid"] == handler["pid"]
    status = procs.read(handler["pid"], "status").decode()
    for key in ("SigBlk", "SigIgn"):
        mask = int([x for x in status.splitlines() if x.startswith(key)][0].split()[1], 16)
        mask &= ~(3 << 31)  # glibc keeps 32 and 33 for itself
        assert mask == 0, "%s of the handler is %x" % (key, mask)
    fds = {int(x) for x in os.listdir("/proc/%d/fd" % handler["pid"])}
    assert fds - {4} == {0, 1, 2, 3} - {4}, "nothing but stdin, the logs, the answer (and journal)"
    gate.open()
    server.wait_empty("q")


def test_hup_without_the_terminal_of_the_start_drains(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1}, start=False)
    s.out_path = s.dir + "/none"
    open(s.out_path, "w").close()
    pid, master = pty.fork()
    if pid == 0:
        os.execve(s.command()[0], s.command(), s.env)
    ready = False
    try:
        os.set_blocking(master, False)

        def drained():
            try:
                os.read(master, 65536)
            except (BlockingIOError, OSError):
                pass
            return len([w for w in s.workers() if w["state"] == "ready"]) == 1
        wait_until(drained, 20)
        ready = True
        os.kill(pid, signal.SIGHUP)  # the terminal is there: a reload

        def reloaded():
            drained()
            return (s.last_reload() or {}).get("ok")
        wait_until(reloaded, 20)
        os.close(master)             # the terminal goes away: the kernel sends HUP
        status = wait_until(lambda: (lambda r: r if r[0] else None)(os.waitpid(pid, os.WNOHANG)),
                            20)
        assert os.WIFEXITED(status[1]) and os.WEXITSTATUS(status[1]) == 0
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise AssertionError("ready: %s" % ready)
    wait_until(lambda: not s.marked())


@pytest.fixture
def init(sup, journal):
    """A supervisor that is process 1 of its own pid namespace."""
    if subprocess.run(["unshare", "-pf", "--mount-proc", "true"], capture_output=True).returncode:
        pytest.skip("a pid namespace needs root")
    s = sup(queues={"q": {"handler": journal.handler(), "kill_grace": "500ms"}},
            supervisor={"workers": 1}, wrap=["unshare", "-pf", "--mount-proc", "--kill-child"])
    s.wait_ready(1)
    s.inner, = procs.children(s.pid)
    return s


def test_as_process_1_it_works_and_drains(init, server, journal):
    server.add("q", *[b"do setsid=60000"] * 5)
    server.wait_empty("q")
    assert init.status()["supervisor"]["pid"] == 1
    os.kill(init.inner, signal.SIGTERM)
    assert init.wait_exit() == 0


def test_as_process_1_it_reloads(init, server, journal):
    os.kill(init.inner, signal.SIGHUP)
    assert wait_until(init.last_reload)["ok"] is True


def test_as_process_1_it_reaps_strangers(init, server, journal):
    """Orphans with our magic exit codes change nothing; a worker killed meanwhile comes back."""
    before = init.workers()[0]
    script = "for c in 0 1 3 75 78 70; do for i in 1 2 3 4 5 6 7 8; do (exit $c) & done; done"
    worker = [p for p in procs.children(init.inner) if procs.name(p).startswith("redisq-w")]
    for n in range(5):
        subprocess.run(["nsenter", "-t", str(init.inner), "-p", "-m", "sh", "-c",
                        "(%s) & exit 0" % script], check=True)
        if n == 2:
            os.kill(worker[0], signal.SIGKILL)
    wait_until(lambda: [w["restarts"] for w in init.ready()] == [1], 20)
    wait_until(lambda: not [p for p in procs.children(init.inner) if procs.state(p) == "Z"],
               what="no zombie is left")
    assert init.ready()[0]["pid"] != before["pid"]
    os.kill(init.inner, signal.SIGTERM)
    assert init.wait_exit() == 0
