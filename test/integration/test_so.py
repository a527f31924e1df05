"""Shared libraries as handlers: tasks run in threads of the worker (worker/redisq_handler.h)."""
import os
import re
import shutil
import signal
import subprocess

import pytest

from alone import Alone
from conftest import ROOT, on_both
from journal import Gate, Journal
from waiting import stays, wait_until

FAST = {"retry_delay": "50ms", "retry_jitter": "0%", "kill_grace": "300ms", "concurrency": 4}
SUPERVISOR = {"restart_delay": "10ms", "restart_delay_max": "10ms"}


@pytest.fixture
def library(tmp_path, build):
    """The journal that fake_library.c keeps; .keys() are those of a queue that it handles."""
    class Library(Journal):
        def keys(self, name="fake-library.so", env="", **keys):
            return dict(FAST, handler="so " + os.path.join(build, name),
                        env="SO_JOURNAL=%s %s" % (self.path, env), **keys)
    return Library(tmp_path / "so-journal", "")


@pytest.fixture
def so(sup, library):
    """Makes supervisors of one queue, q, with the fake library."""
    def make(name="fake-library.so", env="", supervisor=None, **keys):
        return sup(queues={"q": library.keys(name, env, **keys)},
                   supervisor=dict(dict(SUPERVISOR, workers=1), **(supervisor or {})))
    return make


@pytest.fixture
def gates(tmp_path):
    return [Gate(tmp_path / ("gate%d" % i)) for i in range(4)]


def letters(server, kind="dead"):
    return [{k.decode(): v.decode() for k, v in f.items()}
            for _, f in server.letters("q", kind)]


def wait_done(server, n, timeout=20):
    wait_until(lambda: server.counters("q").get("done", 0) >= n, timeout, "%d are done" % n)


def do(text):
    return ("do " + text).encode()


@on_both
def test_the_main_job(so, server, library):
    """400 tasks on 4 workers of 4: each once, never more than 16, init and fini once a worker."""
    s = so(supervisor={"workers": 4})
    s.wait_ready(4)
    ids = server.add("q", *[do("sleep=5")] * 400)
    wait_done(server, 400)
    assert server.counters("q") == {"done": 400}
    assert library.runs() == {i: 1 for i in ids}
    assert library.most_at_once() <= 4
    assert s.stop() == 0
    assert len(library.events("init")) == len(library.events("fini")) == 4
    assert {e["slot"] for e in library.events("init")} == {0, 1, 2, 3}
    assert {e["concurrency"] for e in library.events("init")} == {4}
    assert {e["place"] for e in library.starts()} <= {0, 1, 2, 3}


def test_as_many_run_at_once_as_there_are_threads(so, server, library, gates):
    so(concurrency=8)
    server.add("q", *[do("gate=%s" % gates[0].path)] * 20)
    library.wait_started(8)
    stays(lambda: len(library.starts()) == 8, 0.3)
    gates[0].open()
    wait_done(server, 20)
    assert library.most_at_once() == 8


def test_a_quick_task_does_not_wait_behind_slow_ones(so, server, library, gates):
    so()
    for n in range(10):
        server.add("q", *[b"x"] * 30)
        wait_done(server, 30 * (n + 1))
    slow = server.add("q", *[do("gate=%s" % gates[0].path)] * 3)
    server.add("q", *[b"x"] * 50)
    wait_done(server, 350)
    assert {e["id"] for e in library.ends()}.isdisjoint(slow)
    gates[0].open()
    wait_done(server, 353)


@on_both
def test_what_a_task_is_shown(so, server, library):
    so(timeout="1m", max_attempts=7)
    entry = server.add_fields("q", ("payload", "do say=hello"), ("other", "x"), ("third", ""))
    wait_done(server, 1)
    start, = library.starts()
    assert start["id"] == entry and start["queue"] == "q"
    assert (start["attempt"], start["max_attempts"], start["deliveries"]) == (1, 7, 1)
    assert start["len"] == 12 and start["n_fields"] == 3
    assert start["enqueued_at"] == int(entry.split("-")[0])
    assert 0 < start["deadline"] - start["enqueued_at"] <= 65000


@pytest.mark.parametrize("knobs,reason,error", [
    ("return=65", "rejected", "returned 65"),
    ("return=100 error=bad~picture", "rejected", "bad picture"),
    ("code=4 error=never", "rejected", "never"),
    ("code=4", "rejected", "asked for by the handler"),
    ("return=3", "attempts", "returned 3"),
    ("return=-1", "attempts", "returned -1"),
    ("code=2 error=busy", "attempts", "busy"),
    ("return=3 code=1", "attempts", "returned 3"),
    ("return=3 code=4 error=no", "rejected", "no"),
])
def test_outcomes(so, server, library, knobs, reason, error):
    so(max_attempts=2)
    server.add("q", do(knobs))
    letter = wait_until(lambda: letters(server), 20)[0]
    assert (letter["redisq.reason"], letter["redisq.error"]) == (reason, error)
    assert len(library.starts()) == (1 if reason == "rejected" else 2)


def test_snooze_charges_no_attempt_and_takes_its_delay(so, server, library):
    so(max_attempts=1)
    server.add("q", do("code=3 delay=1 until=99"))
    library.wait_started(3)
    assert {e["attempt"] for e in library.starts()} == {1}
    second, = server.add("q", do("return=75"))
    wait_until(lambda: library.runs()[second] >= 2, 20)
    assert {e["attempt"] for e in library.starts()} == {1}


def test_a_failed_attempt_is_retried_and_done(so, server, library):
    so()
    server.add("q", do("return=1 until=3"))
    wait_done(server, 1)
    assert [e["attempt"] for e in library.starts()] == [1, 2, 3]


def test_checkpoint_progress_and_result(so, server, library):
    s = so(result_ttl="1m")
    server.add("q", do("checkpoint=bought~7 progress=half result=fine return=1 until=2"))
    wait_done(server, 1)
    assert [e["checkpoint"] for e in library.starts()] == ["", "bought 7"]
    keys = [k for k in server.r.keys("*") if b":result:" in k]
    assert len(keys) == 1 and server.r.get(keys[0]) is not None
    server.add("q", do("long=70000"))
    wait_until(lambda: "long: -1 Message too long" in s.log("q"), 20)


def test_progress_is_seen_while_it_runs(so, server, library, gates):
    so()
    entry, = server.add("q", do("progress=half gate=%s" % gates[0].path))
    wait_until(lambda: server.r.hget("{q}:progress", entry) == b"half", 20)
    gates[0].open()
    wait_done(server, 1)


def test_what_it_prints_is_logged_and_breaks_no_frame(so, server, library):
    s = so()
    server.add("q", *[do("say=hello~out cry=hello~err")] * 50)
    wait_done(server, 50)
    wait_until(lambda: s.log("q").count("hello out") == 50 and s.log("q").count("hello err") == 50,
               20, "all lines are in the log")
    for line in s.log("q").splitlines():
        assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z 0 \d+ [OE] \[", line), line


# ---------------------------------------------------------------------------- what cannot work

@on_both
@pytest.mark.parametrize("name,words", [
    ("fake-library-99.so", "built for version 99 of redisq_handler.h, this worker has 1"),
    ("clock-shim.so", "exports no redisq_handler"),
    ("fake-handler", "cannot dynamically load position-independent executable"),
])
def test_a_library_that_cannot_be_used_opens_the_breaker(so, server, name, words):
    server.add("q", b"x")
    s = so(name=name)
    s.wait_ready(1)
    wait_until(lambda: words in s.log("q"), 20, lambda: s.log("q")[-2000:])
    assert "the handler is broken" in s.log("q")
    assert s.stop() == 0
    assert server.xlen("q") == 1 and not server.pending("q", 1)


def test_a_library_that_is_removed_opens_the_breaker_until_it_is_back(
        sup, server, library, build, tmp_path):
    own, away = tmp_path / "own.so", tmp_path / "away.so"
    shutil.copy(os.path.join(build, "fake-library.so"), own)
    s = sup(queues={"q": dict(library.keys(str(own)), breaker_delay="200ms")},
            supervisor=dict(SUPERVISOR, workers=1))
    s.wait_ready(1)
    own.rename(away)
    os.kill(s.pids()[0], signal.SIGKILL)
    wait_until(lambda: "cannot open shared object file" in s.log("q"))
    server.add("q", b"x")
    assert "No such file or directory" in s.ctl("reload", check=78).err
    away.rename(own)
    wait_done(server, 1)


def test_an_init_that_fails_is_tried_again(so, server, library, tmp_path):
    mended = tmp_path / "mended"
    s = so(env="SO_INIT=fail SO_MENDED=%s" % mended, breaker_delay="200ms")
    server.add("q", b"x")
    wait_until(lambda: "its init() says 7: no model at q" in s.log("q"), 20)
    assert library.starts() == []
    mended.write_text("")
    wait_done(server, 1)


# ---------------------------------------------------------------------------- stopping

def test_a_timeout_asks_and_counts_as_one(so, server, library, gates):
    so(timeout="100ms", max_attempts=1)
    server.add("q", do("gate=%s" % gates[0].path))
    letter = wait_until(lambda: letters(server), 20)[0]
    assert letter["redisq.reason"] == "timeout"
    assert letter["redisq.error"] == "timed out after 100ms"
    assert library.ends()[0]["cancelled"] == 1


@on_both
def test_a_drain_limit_gives_tasks_back_uncharged(so, server, library, gates):
    s = so(supervisor={"drain_timeout": "100ms"}, kill_grace="10s")
    server.add("q", *[do("gate=%s" % gates[0].path)] * 3)
    library.wait_started(3)
    assert s.stop() == 1
    assert {e["cancelled"] for e in library.ends()} == {1} and len(library.ends()) == 3
    assert len(library.events("fini")) == 1
    assert server.counters("q") == {}
    gates[0].open()
    s.start()
    wait_done(server, 3)
    assert {e["attempt"] for e in library.starts()} == {1}


@on_both
def test_a_task_that_does_not_stop_has_its_worker_replaced(so, server, library, gates):
    """The others finish, the new worker takes what comes, the stuck one is charged a timeout and
    keeps its place until its process has ended."""
    s = so(timeout="500ms", max_attempts=1)
    old, = s.wait_ready(1)
    deaf, = server.add("q", do("deaf=%s" % gates[0].path))
    library.wait_started(1)
    wait_until(lambda: [w["pid"] for w in s.ready()] not in ([], [old["pid"]]), 20,
               "another worker is ready")
    assert "has to be replaced" in s.out()
    server.add("q", *[do("sleep=1")] * 40)
    wait_done(server, 40)
    letter = wait_until(lambda: letters(server), 20)[0]
    assert letter["redisq.id"] == deaf and letter["redisq.reason"] == "timeout"
    wait_until(lambda: len(s.workers()) == 1, 20, "the old worker is gone")
    assert library.runs()[deaf] == 1 and library.ends(deaf) == []
    assert s.workers()[0]["restarts"] == 0 and "crash" not in str(server.counters("q"))
    assert server.counters("q") == {"done": 40, "died": 1}


def test_a_worn_out_worker_waits_for_its_other_tasks(so, server, library, gates):
    s = so(timeout="0", lease="2s")
    server.add("q", *[do("gate=%s" % gates[1].path)] * 2)
    deaf, = server.add("q", do("deaf=%s" % gates[0].path))
    library.wait_started(3)
    row, = s.wait_ready(1)
    # A lost lease is the shortest way to a cancelled task.
    server.take_as("somebody", "q", deaf)
    wait_until(lambda: "does not stop" in s.log("q"), 40)
    stays(lambda: any(w["pid"] == row["pid"] for w in s.workers()), 0.5)
    assert len(library.ends()) == 0
    gates[1].open()
    wait_done(server, 2)
    wait_until(lambda: all(w["pid"] != row["pid"] for w in s.workers()), 20)
    assert library.ends(deaf) == []


def test_a_stuck_task_does_not_hold_up_a_stop(so, server, library, gates):
    s = so(supervisor={"drain_timeout": "100ms"})
    deaf, = server.add("q", do("deaf=%s" % gates[0].path))
    library.wait_started(1)
    assert s.stop() == 1
    assert server.xlen("q") == 1 and server.counters("q") == {}
    gates[0].open()
    s.start()
    wait_done(server, 1)
    assert [e["attempt"] for e in library.starts(deaf)] == [1, 1]


@pytest.fixture
def alone(build, tmp_path, server, library):
    """A worker of the fake library without a supervisor: alone(timeout=..., ...)."""
    made = []

    def make(**keys):
        made.append(Alone(build, tmp_path, server=server, keys=library.keys(**keys)))
        return made[-1]

    yield make
    for w in made:
        w.show()
        w.close()


def test_alone_a_stuck_task_ends_the_worker(alone, server, gates):
    w = alone(timeout="100ms", max_attempts=1)
    w.wait_ready()
    server.add("q", do("deaf=%s" % gates[0].path))
    assert w.wait_exit() == 1
    assert letters(server)[0]["redisq.reason"] == "timeout"


def test_alone_stdout_is_the_librarys_too(alone, server):
    w = alone()
    w.wait_ready()
    server.add("q", do("say=hello"))
    w.wait_said("hello")
    wait_done(server, 1)
    assert w.stop() == 0


# ---------------------------------------------------------------------------- crashes

@on_both
def test_a_crash_costs_the_guilty_task_its_attempts_and_no_other(so, server, library):
    s = so(supervisor={"workers": 2})
    good = server.add("q", *[do("sleep=3")] * 40)
    poison, = server.add("q", do("segv=1"))
    good += server.add("q", *[do("sleep=3")] * 60)
    wait_until(lambda: letters(server), 60)
    wait_done(server, 100, 60)
    letter, = letters(server)
    assert letter["redisq.id"] == poison and letter["redisq.reason"] == "crashes"
    assert letter["redisq.error"] == "worker signal 11 SIGSEGV, crash 3"
    assert set(library.runs()) == set(good) | {poison}
    assert library.runs()[poison] == 3
    assert max(n for i, n in library.runs().items() if i != poison) <= 2
    s.wait_ready(2)


@pytest.mark.parametrize("knob,cause,says", [
    ("exit=0", "signal 6 SIGABRT", "the library has called exit(): SIGABRT"),
    ("exit=78", "signal 6 SIGABRT", "the library has called exit(): SIGABRT"),
    ("_exit=0", "exit 0", "died: exit 0"),
    ("_exit=78", "exit 78", "died: exit 78"),
    ("leave=1", "signal 6 SIGABRT", "a task has ended its thread (pthread_exit): SIGABRT"),
])
def test_a_library_that_ends_the_worker_has_crashed(so, server, library, knob, cause, says):
    """Whatever the status: nobody takes it for a worker that has drained, or whose queue is refused
    (which would park the slots one after the other), and its tasks run again at once."""
    s = so(supervisor={"workers": 2})
    s.wait_ready(2)
    server.add("q", *[do("sleep=3")] * 10)
    poison, = server.add("q", do(knob))
    server.add("q", *[do("sleep=3")] * 10)
    wait_done(server, 20, 25)                    # a lease is longer
    letter, = wait_until(lambda: letters(server))
    assert letter["redisq.id"] == poison and letter["redisq.reason"] == "crashes"
    assert letter["redisq.error"] == "worker %s, crash 3" % cause
    assert says in s.log("q")
    s.wait_ready(2)


@on_both
def test_a_killed_worker_takes_its_threads_along(so, server, library, gates):
    s = so()
    server.add("q", *[do("deaf=%s" % gates[0].path)] * 4)
    library.wait_started(4)
    os.kill(s.pids()[0], signal.SIGKILL)
    library.wait_started(5)
    gates[0].open()
    wait_done(server, 4, 60)
    assert server.counters("q") == {"done": 4}


# ---------------------------------------------------------------------------- reload, examples

def test_a_reload_loses_nothing_and_runs_nothing_twice(so, server, library):
    s = so(supervisor={"workers": 2})
    s.wait_ready(2)
    ids = []
    for _ in range(5):
        ids += server.add("q", *[do("sleep=2")] * 40)
        s.ctl("reload", check=0)
    wait_done(server, 200, 40)
    assert library.runs() == {i: 1 for i in ids}


@pytest.mark.parametrize("name", ["noop", "resize"])
def test_the_examples_build_and_run(sup, server, tmp_path, name):
    """With the very command that stands in their heads."""
    source = os.path.join(ROOT, "etc", "handlers", name + ".c")
    head = open(source).read().split("*/")[0]
    command = [line.strip(" *\t") for line in head.splitlines() if " cc " in line.replace("\t", " ")][0]
    command = command.replace(name + ".so", str(tmp_path / (name + ".so")))
    subprocess.run(command, shell=True, check=True, cwd=ROOT)
    sup(queues={"q": dict(FAST, handler="so %s" % (tmp_path / (name + ".so")))},
        supervisor={"workers": 1})
    server.add("q", *[b"P5 4 4 255\n" + bytes(16)] * 10)
    wait_done(server, 10)


def test_the_header_is_fit_for_cplusplus(tmp_path):
    source = tmp_path / "h.cpp"
    source.write_text("""
#include <redisq_handler.h>
static int handle(const redisq_task *t, redisq_result *r)
{
	r->code = redisq_cancelled(t) ? REDISQ_RETRY : REDISQ_DONE;
	return redisq_progress(t, "x", 1) + redisq_checkpoint(t, "x", 1) + redisq_set_result(t, "x", 1);
}
REDISQ_EXPORT const redisq_handler redisq_handler = {
	REDISQ_ABI, sizeof(struct redisq_handler), "cpp", nullptr, nullptr, handle };
""".replace("const redisq_handler redisq_handler", "const struct redisq_handler redisq_handler"))
    subprocess.run(["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-I",
                    os.path.join(ROOT, "worker"), "-o", str(tmp_path / "h.so"), str(source)],
                   check=True)
    names = subprocess.run(["nm", "-D", str(tmp_path / "h.so")], capture_output=True, check=True)
    assert b" redisq_handler\n" in names.stdout


def test_after_quick_tasks_a_slow_one_holds_up_neither_heartbeat_nor_lease(
        so, server, library, gates):
    """The thread of the loop runs quick tasks itself: it must not go down with a slow one."""
    s = so(lease="3s", supervisor={"heartbeat_timeout": "2500ms"})
    server.add("q", *[b"x"] * 3000)
    wait_done(server, 3000, 60)
    slow = server.add("q", *[do("gate=%s" % gates[0].path)] * 2)
    library.wait_started(3002)
    server.add("q", *[b"x"] * 200)
    wait_done(server, 3200)
    stays(lambda: len(library.ends()) == 3200, 4, "longer than lease and heartbeat", every=0.2)
    assert not {e["id"] for e in library.ends()} & set(slow)
    gates[0].open()
    wait_done(server, 3202)
    assert set(library.runs().values()) == {1} and s.workers()[0]["restarts"] == 0
    assert s.stop() == 0
