"""What the supervisor is started in and what happens around it: descriptors, limits, terminals,
directories that go away, pauses. With fake workers."""
import fcntl
import glob
import os
import pty
import shutil
import signal
import subprocess
import sys

import pytest

import procs
from fakesup import fake, queue  # noqa: F401 (a fixture)
from waiting import elapse, stays, wait_until

CLOSE_STANDARD = ("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")


def test_closed_standard_descriptors_are_filled(fake):
    s = fake(wrap=CLOSE_STANDARD)
    s.wait_ready()
    assert [os.readlink("/proc/%d/fd/%d" % (s.pid, n)) for n in range(3)] == ["/dev/null"] * 3
    with open(s.supervisor["pid_file"] + ".lock") as f:
        assert f.read() == ""                    # no log line went there
    assert s.stop() == 0


def test_daemon_with_closed_standard_descriptors_serves(fake):
    s = fake(start=False)
    done = subprocess.run(list(CLOSE_STANDARD) + s.command() + ["-D"], env=s.env, cwd=s.dir,
                          stdin=subprocess.DEVNULL, timeout=30)
    assert done.returncode == 0
    status = s.status()                          # 0 means that it answers
    assert status
    pid = status["supervisor"]["pid"]
    wait_until(lambda: len(s.ready()) == 2)
    assert s.request("kill")["ok"]
    wait_until(lambda: not procs.alive(pid))


def limits(pid):
    for line in procs.read(pid, "limits").decode().splitlines():
        if line.startswith("Max open files"):
            return line.split()[3:5]
    return None


def test_many_workers_under_a_small_soft_limit(fake):
    s = fake(supervisor={"workers": 20}, wrap=("prlimit", "--nofile=64:1024"))
    rows = s.wait_ready()
    assert limits(s.pid) == ["1024", "1024"]
    # The worker is a program of ours, too; a real one gives its handlers what it was given.
    assert limits(rows[0]["pid"]) == ["64", "1024"]
    assert s.request("reload", wait=True)["ok"]
    assert s.stop() == 0


def test_workers_beyond_the_hard_limit_are_refused(fake):
    s = fake(supervisor={"workers": 20}, wrap=("prlimit", "--nofile=100:100"), start=False)
    for args in ([], ["-t"]):
        done = subprocess.run(s.command() + args, env=s.env, capture_output=True, text=True,
                              timeout=20)
        assert done.returncode == 78
        assert "redisq.ini" in done.stderr and "20 workers" in done.stderr
        assert "184 open files, the hard limit is 100" in done.stderr


# A session leader without a terminal that opens one gets it as its own.
TAKE_TERMINAL = "import os, sys; os.open(sys.argv[1], os.O_RDWR); os.execvp(sys.argv[2], sys.argv[2:])"


@pytest.mark.parametrize("nohup", [False, True])
def test_a_terminal_that_goes_away_drains_except_under_nohup(fake, nohup):
    master, slave = pty.openpty()
    path = os.ttyname(slave)
    wrap = (sys.executable, "-c", TAKE_TERMINAL, path) + (("nohup",) if nohup else ())
    s = fake(wrap=wrap)
    os.close(slave)
    s.wait_ready()
    pids = s.pids()
    os.close(master)                             # the kernel sends HUP
    if nohup:
        assert s.wait_reload(1)["ok"]
        assert not set(pids) & {w["pid"] for w in s.ready()}
        assert s.stop() == 0
    else:
        assert s.wait_exit() == 0
        assert "the terminal is gone" in s.out()


def test_ctrl_c_reaches_the_supervisor_alone_and_is_one_drain(fake):
    master, slave = pty.openpty()
    s = fake(wrap=(sys.executable, "-c", TAKE_TERMINAL, os.ttyname(slave)),
             knobs={"tasks": 1, "task_ms": 300}, queues=queue())
    os.close(slave)
    s.wait_ready()
    pids = s.pids()
    wait_until(lambda: sum(w["running"] for w in s.workers()) == 2)
    os.write(master, b"\x03")
    assert s.wait_exit() == 0
    told = [(pid, w.split()[0]) for pid, _, w in s.heard()]
    assert [told.count((pid, "drain")) for pid in pids] == [1, 1]
    assert " died: " not in s.out() and s.out().count(" left: exit 0") == 2
    os.close(master)


def test_a_long_queue_name_gets_its_tasks(fake):
    name = "a/b c" * 40                          # 200 bytes, each third written in hex
    s = fake(queues={name: {"handler": "exec /bin/true"}})
    s.wait_ready()
    wait_until(lambda: s.credit_out(name) == 8)
    locks = glob.glob(s.run_dir + "/slot-*.lock")
    assert len(locks) == 2 and all(len(os.path.basename(p)) < 255 for p in locks)


def test_a_removed_run_directory_is_made_again(fake):
    s = fake()
    s.wait_ready()
    shutil.rmtree(s.run_dir)
    s.signal(signal.SIGTTIN)
    wait_until(lambda: os.path.exists(s.run_dir + "/slot-demo-2.lock"))
    wait_until(lambda: len(s.starts()) == 3)
    assert "slot lock of" not in s.out()
    assert s.stop() == 0


def test_what_was_cleaned_up_below_us_comes_back_and_keeps_others_out(fake):
    s = fake()
    s.wait_ready()
    pids = s.pids()
    shutil.rmtree(s.run_dir)                     # as systemd-tmpfiles does it below /tmp
    wait_until(lambda: s.status(), 15)
    wait_until(lambda: os.path.exists(s.run_dir + "/slot-demo-1.lock"))
    with open(s.supervisor["pid_file"]) as f:
        assert int(f.read()) == s.pid
    assert s.out().count("had been removed; made") == 2
    other = subprocess.run(s.command(), env=s.env, capture_output=True, text=True, timeout=20)
    assert other.returncode == 73 and str(s.pid) in other.stderr
    assert s.pids() == pids and s.credit_out() == 8
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: len(s.starts()) == 3)
    s.wait_ready()
    new, = set(s.pids()) - set(pids)
    assert os.readlink("/proc/%d/fd/6" % new) == s.run_dir + "/slot-demo-0.lock"
    assert s.credit_out() == 8
    os.unlink(s.supervisor["pid_file"])          # alone
    wait_until(lambda: os.path.exists(s.supervisor["pid_file"]))
    assert s.stop() == 0
    assert not os.path.exists(s.supervisor["pid_file"])


def test_a_second_supervisor_that_took_a_removed_lock_is_told_of_and_left_alone(fake):
    s = fake(supervisor={"workers": 1})
    s.wait_ready()
    pid_file = s.supervisor["pid_file"]
    lock = open(s.run_dir + "/new", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    with open(s.run_dir + "/pid", "w") as f:
        f.write("%d\n" % os.getpid())
    os.rename(f.name, pid_file)
    os.rename(lock.name, pid_file + ".lock")
    wait_until(lambda: "two run; stop one of them" in s.out())
    elapse(2.5)                                  # another look
    assert s.out().count("two run; stop one of them") == 1
    assert s.stop() == 0
    with open(pid_file) as f:
        assert int(f.read()) == os.getpid()
    lock.close()


def test_a_slot_without_lock_says_so_once_and_in_the_status(fake):
    s = fake()
    s.wait_ready()
    os.mkdir(s.run_dir + "/slot-demo-2.lock")    # in the way
    s.signal(signal.SIGTTIN)
    row = wait_until(lambda: [w for w in s.workers() if w["slot"] == 2 and w["note"]])[0]
    assert row["note"].startswith("no slot lock: ")
    elapse(1)                                    # four tries more
    assert s.out().count("slot lock of demo/2") == 1
    assert "earlier supervisor" not in s.out()
    assert s.credit_out() == 8
    os.rmdir(s.run_dir + "/slot-demo-2.lock")
    wait_until(lambda: s.credit_out() == 12)
    assert [w["note"] for w in s.workers()] == [None] * 3


def test_a_pause_kills_nobody_with_short_leases(fake):
    s = fake(queues=queue(lease="8s"), supervisor={"workers": 2})  # limit 2 s, looks each 0.5 s
    s.wait_ready()
    pids = s.pids()
    for _ in range(2):
        for pid in [s.pid] + pids:
            os.kill(pid, signal.SIGSTOP)
        elapse(2.1)
        os.kill(s.pid, signal.SIGCONT)           # we are the first to be woken, and look twice
        elapse(0.6)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        stays(lambda: s.pids() == pids, 0.2)
    assert "is stuck" not in s.out()


def test_short_leases_that_come_by_reload_are_watched(fake):
    s = fake(queues=queue(lease="60s"), supervisor={"workers": 1})
    s.wait_ready()
    s.queues["demo"]["lease"] = "1s"             # limit: 250 ms; two looks 2 s apart would do, late
    s.write_ini()
    s.set_knobs(hang_ms=200)
    assert s.request("reload", wait=False)["ok"]
    wait_until(lambda: len(s.starts()) >= 2)
    s.set_knobs()
    wait_until(lambda: s.workers()[0]["last_exit"])
    assert s.workers()[0]["last_exit"]["cause"] == "stuck"
    text = [x for x in s.out().splitlines() if "is stuck: no sign of its event loop for" in x][0]
    assert float(text.split(" for ")[1].split("s;")[0]) < 2.2, text


def test_start_right_after_kill_although_nobody_reads_stdout(fake):
    s = fake(knobs={"log": "x" * 4000}, supervisor={"log_to": "both"}, start=False)
    out, into = os.pipe()
    s.n_starts, s.out_path = 1, os.path.join(s.dir, "supervisor.1.out")
    with open(s.out_path, "wb") as err:
        s.proc = subprocess.Popen(s.command(), env=s.env, stdin=subprocess.DEVNULL, stdout=into,
                                  stderr=err, cwd=s.dir, start_new_session=True)
    s.wait_ready()
    for _ in range(16):                          # until the pipe is full
        assert s.request("restart", target="demo", wait=True)["ok"]
    first = s.proc
    assert s.request("kill")["ok"]
    s.start()
    s.wait_ready()
    assert s.out().count("already running") == 0
    first.wait(20)
    os.close(out)
    os.close(into)


def test_one_worker_is_one_worker(fake):
    s = fake(supervisor={"workers": 1})
    s.wait_ready()
    assert "1 worker \u00d7 4 = 4 at once on this host" in s.out()
