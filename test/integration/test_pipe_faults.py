"""Children of a pipe handler with bad manners, and their deaths."""
import collections
import os
import signal

import pytest

import procs
from test_pipe import FAST, children, letters, living, queue
from waiting import stays, wait_until


# ---------------------------------------------------------------- the protocol broken

@pytest.mark.parametrize("words,error", [
    (b"line=garbage", "malformed line"),
    (b'line={"type":"done"}', "without an id"),
    (b'line={"type":"done","id":7}', "malformed line"),
    (b'line={"type":"retry","id":"x","delay_ms":-1}', "malformed line"),
    (b'line={"type":"done","id":"7\\n8"}', 'answers for "7 8", which it never had'),
    (b"stranger=77-7", 'answers for "77-7", which it never had'),
    (b"close=3", "closed fd 3"),
    (b"answer=done blob=1200000", "more than 1114112 bytes"),
])
def test_a_child_that_breaks_the_protocol_is_replaced_and_its_task_has_crashed(
        sup, server, pipes, words, error):
    s = sup(queues=queue(pipes, max_crashes=2, concurrency=1), supervisor={"workers": 1})
    server.add("q", b"do answer=none " + words)
    dead, = letters(server)
    assert dead["redisq.reason"] == "crashes" and error in dead["redisq.error"]
    assert [e["attempt"] for e in pipes.starts()] == [1, 1]
    server.add("q", b"x")
    server.wait_empty("q")
    assert len(children(pipes)) == 3 and len(living(pipes)) == 1
    assert "SIGKILL" in s.log("q")


def test_ids_it_once_had_are_ignored(sup, server, pipes):
    sup(queues=queue(pipes, concurrency=1), supervisor={"workers": 1})
    first, = server.add("q", b"x")
    server.wait_empty("q")
    server.add("q", b"do stranger=" + first.encode())
    server.wait_empty("q")
    assert len(children(pipes)) == 1 and server.counters("q")["done"] == 2


def test_a_child_dies_in_the_middle_of_a_line(sup, server, pipes):
    sup(queues=queue(pipes, max_crashes=1, concurrency=1), supervisor={"workers": 1})
    server.add("q", b'do noline={"type":"done","id"')
    dead, = letters(server)
    assert dead["redisq.error"] == "exit 0 before it had answered"


def test_a_last_line_without_its_end_counts(sup, server, pipes):
    sup(queues=queue(pipes, concurrency=1), supervisor={"workers": 1})
    server.add_fields("q", ("payload", 'do noline={"type":"done","id":"me"}'), ("redisq.id", "me"))
    server.wait_empty("q")
    assert server.counters("q")["done"] == 1 and len(pipes.starts()) == 1


# ---------------------------------------------------------------- deaths

@pytest.mark.parametrize("words,error", [(b"signal=11", "signal 11 SIGSEGV"), (b"exit=3", "exit 3"),
                                         (b"exit=0", "exit 0 before it had answered")])
def test_a_task_that_kills_its_child_is_dead_after_max_crashes(sup, server, pipes, words, error):
    sup(queues=queue(pipes, max_crashes=3, max_attempts=2), supervisor={"workers": 1})
    server.add("q", b"do cry=last~words " + words)
    dead, = letters(server)
    assert dead["redisq.reason"] == "crashes" and error in dead["redisq.error"]
    assert "last words" in dead["redisq.stderr"]
    assert len(pipes.starts()) == 3 and {e["attempt"] for e in pipes.starts()} == {1}


def test_a_child_takes_only_its_own_tasks_with_it(sup, server, pipes, gate):
    """Four children of four tasks; one dies. Its four run again, each in a child of its own, and
    the guilty one alone is charged to the end."""
    s = sup(queues=queue(pipes, "slots=4", str(gate), concurrency=16, max_crashes=3),
            supervisor={"workers": 1})
    s.wait_ready(1)
    ids = server.add("q", *[b"x"] * 15)
    guilty, = server.add("q", b"do gate=/ signal=9")
    first = wait_until(lambda: pipes.starts(guilty))[0]["pid"]
    beside = {e["id"] for e in pipes.starts() if e["pid"] == first} - {guilty}
    dead, = letters(server)
    assert dead["redisq.id"] == guilty and "signal 9" in dead["redisq.error"]
    gate.open()
    server.wait_empty("q")
    runs = pipes.runs()
    assert runs[guilty] == 3 and len(beside) == 3
    assert all(runs[i] == (2 if i in beside else 1) for i in ids), runs
    again = [e for e in pipes.starts() if e["pid"] != first and (e["id"] in beside | {guilty})]
    alone = collections.Counter(e["pid"] for e in pipes.starts())
    assert all(alone[e["pid"]] == 1 for e in again if e["id"] == guilty)
    assert server.counters("q")["done"] == 15
    assert len(s.pids("q")) == 1 and s.workers("q")[0]["restarts"] == 0


def test_innocents_of_a_dead_child_are_not_charged_in_the_end(sup, server, pipes):
    """All of them crashed in company again and again: only who crashes alone is counted."""
    s = sup(queues=queue(pipes, "slots=8", concurrency=8, max_crashes=2), supervisor={"workers": 2})
    s.wait_ready(2)
    for _ in range(5):
        server.add("q", b"do signal=9 sleep=20", *[b"do sleep=60"] * 7)
    wait_until(lambda: server.counters("q").get("done") == 35, 40)
    letters(server, 5)
    server.wait_empty("q")
    assert len(server.dead("q")) == 5
    assert not server.r.exists(server.key("q", "crash"))


def test_a_task_that_its_child_never_read_is_given_back_uncharged(sup, server, pipes):
    """PHP's way: a child that ends by itself after some tasks. What was given to it in that moment
    is not to blame."""
    sup(queues=queue(pipes, "leave_after=3", max_crashes=1, max_attempts=1, concurrency=2),
        supervisor={"workers": 2})
    ids = server.add("q", *[b"x"] * 200)
    server.wait_empty("q")
    assert server.counters("q")["done"] == 200 and not server.dead("q")
    assert pipes.runs() == collections.Counter(ids)


def test_what_it_said_before_it_died_counts(sup, server, pipes):
    sup(queues=queue(pipes, "slots=4", concurrency=4), supervisor={"workers": 1})
    ids = server.add("q", *[b"do early=1 exit=1"] * 20)
    server.wait_empty("q")
    assert server.counters("q")["done"] == 20 and pipes.runs() == collections.Counter(ids)


def test_exit_78_after_ready_is_a_broken_handler_too(sup, server, pipes):
    s = sup(queues=queue(pipes, "exit=78", breaker_delay="1h", concurrency=2),
            supervisor={"workers": 1})
    server.add("q", *[b"x"] * 10)
    s.wait_ready(1)
    wait_until(lambda: "handler is broken: exit 78" in s.log("q"))
    stays(lambda: server.xlen("q") == 10 and not server.dead("q") and not server.delayed("q"), 0.5)
    assert len(pipes.starts()) <= 3


# ---------------------------------------------------------------- starts

def broken(s, server, what):
    """The breaker is open, and no task is held."""
    wait_until(lambda: "the handler is broken: " + what in s.log("q"), 20)
    wait_until(lambda: s.workers("q")[0]["running"] == 0)
    assert server.xlen("q") == 5 and not server.dead("q") and not server.delayed("q")


@pytest.mark.parametrize("code", [78, 126, 127])
def test_exit_78_before_ready_opens_the_breaker_at_once(sup, server, pipes, code, tmp_path):
    flag = tmp_path / "broken"
    flag.write_text("")
    s = sup(queues=queue(pipes, "start_exit=%d" % code, "start_file=%s" % flag,
                         breaker_delay="1s"), supervisor={"workers": 1})
    server.add("q", *[b"x"] * 5)
    broken(s, server, "child ended with exit %d before it said ready" % code)
    opened = s.log("q").partition("handler is broken: ")[0]
    assert opened.count("before it said ready") == 0, "at the first that ended"
    n = len(children(pipes))
    assert n <= 2
    wait_until(lambda: len(children(pipes)) > n, what="the breaker tries again")
    flag.unlink()
    server.wait_empty("q")
    assert {e["attempt"] for e in pipes.starts()} == {1} and len(pipes.starts()) == 5


@pytest.mark.parametrize("knob,text", [("start_exit=1", "exit 1"), ("start_signal=11", "signal 11"),
                                       ("start_exit=0 start_signal=9", "signal 9"),
                                       ("start_say=Hello!", "a malformed line on fd 3")])
def test_children_that_die_before_ready_open_it_after_some(sup, server, pipes, knob, text):
    s = sup(queues=queue(pipes, *knob.split(), breaker_delay="1h"),
            supervisor={"workers": 1, "restart_delay": "20ms"})
    server.add("q", *[b"x"] * 5)
    wait_until(lambda: "the handler is broken: " in s.log("q"), 20)
    assert text in s.log("q")
    wait_until(lambda: s.workers("q")[0]["running"] == 0)
    assert server.xlen("q") == 5
    assert 3 <= len(children(pipes)) <= 4


@pytest.mark.parametrize("knob", ["never_ready=1", "close_early=3"])
def test_never_ready_says_who_closes_fd_3(sup, server, pipes, knob):
    s = sup(queues=queue(pipes, knob, breaker_delay="1h"),
            supervisor={"workers": 1, "ready_timeout": "700ms"})
    server.add("q", *[b"x"] * 5)
    broken(s, server, "child never said ready on fd 3; npm, npx and sudo close it: "
                      "start node itself")
    wait_until(lambda: not living(pipes))


def test_a_missing_program_touches_no_task(sup, server, pipes, tmp_path):
    program = tmp_path / "prog"
    program.symlink_to(pipes.program)
    s = sup(queues={"q": dict(FAST, handler="pipe %s %s" % (program, pipes.path),
                              breaker_delay="200ms")}, supervisor={"workers": 1})
    s.wait_ready(1)
    wait_until(lambda: len(living(pipes)) == 4)
    program.unlink()
    for pid in living(pipes):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: "handler is broken" in s.log("q"))
    server.add("q", *[b"x"] * 5)
    stays(lambda: server.xlen("q") == 5 and not pipes.starts(), 0.5)
    program.symlink_to(pipes.program)
    server.wait_empty("q")
    assert {e["attempt"] for e in pipes.starts()} == {1} and len(pipes.starts()) == 5


def test_tasks_wait_for_a_child_that_starts_slowly(sup, server, pipes):
    s = sup(queues=queue(pipes, "ready_after=2500", "slots=4", timeout="2s"),
            supervisor={"workers": 1})
    ids = server.add("q", *[b"do sleep=100"] * 4)
    server.wait_empty("q")
    assert server.counters("q")["done"] == 4
    assert "timed out" not in s.log("q"), "the time-out counts from when a child has got it"
    assert pipes.runs() == collections.Counter(ids) and len(children(pipes)) == 1
    assert {e["attempt"] for e in pipes.starts()} == {1}


def test_one_that_dies_idle_is_started_again(sup, server, pipes):
    s = sup(queues=queue(pipes, concurrency=2), supervisor={"workers": 1})
    s.wait_ready(1)
    wait_until(lambda: len(living(pipes)) == 2)
    server.add("q", *[b"x"] * 10)
    server.wait_empty("q")
    for pid in living(pipes):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(children(pipes)) == 4 and len(living(pipes)) == 2)
    server.add("q", *[b"x"] * 10)
    server.wait_empty("q")
    assert server.counters("q")["done"] == 20


# ---------------------------------------------------------------- what it does not read, and writes

def test_nothing_deadlocks_whoever_writes_first(sup, server, pipes):
    """Children that write a megabyte before they read anything, and payloads of a megabyte."""
    sup(queues=queue(pipes, "pour=1000000", "slots=4"), supervisor={"workers": 1})
    big = b"do out=300000 err=300000 " + b"x" * 900000
    server.add("q", *[big] * 8)
    server.wait_empty("q")
    assert server.counters("q")["done"] == 8


def test_a_child_that_reads_no_more_is_stopped_by_the_time_out(sup, server, pipes):
    s = sup(queues=queue(pipes, "slots=4", timeout="500ms", max_attempts=2, concurrency=4,
                         breaker_failures=0), supervisor={"workers": 1})
    s.wait_ready(1)
    deaf, = server.add("q", b"do deaf=1 answer=none until=2")
    wait_until(lambda: pipes.starts(deaf))
    unread = server.add("q", *[b"x" * 300000] * 3)
    server.wait_empty("q")
    runs = pipes.runs()
    assert runs[deaf] == 2 and not server.dead("q")
    assert all(1 <= runs[i] <= 2 for i in unread)
    assert server.counters("q")["done"] == 4


def test_a_flood_of_logs_holds_up_no_answer(sup, server, pipes):
    s = sup(queues=queue(pipes, "slots=4"), supervisor={"workers": 1})
    server.add("q", b"do out=20000000", b"do err=20000000", *[b"x"] * 50)
    server.wait_empty("q")
    assert server.counters("q")["done"] == 52
    s.stop()


def test_lines_carry_the_id_of_a_task_that_is_alone(sup, server, pipes, gate):
    s = sup(queues=queue(pipes, "slots=2", concurrency=2), supervisor={"workers": 1})
    task, = server.add("q", b"do say=mine~alone cry=so~this")
    server.wait_empty("q")
    wait_until(lambda: "O [%s] mine alone" % task in s.log("q"))
    assert "E [%s] so this" % task in s.log("q")
    first, = server.add("q", b"do " + str(gate).encode())
    wait_until(lambda: pipes.starts(first))
    server.add("q", b"do say=one~of~two")
    wait_until(lambda: "one of two" in s.log("q"))
    assert "O [-] one of two" in s.log("q")
    gate.open()
    server.wait_empty("q")


# ---------------------------------------------------------------- the end of the worker

def test_a_dead_worker_leaves_no_child_behind(sup, server, pipes):
    """Idle children too; and they are gone before its tasks run again."""
    s = sup(queues=queue(pipes, "slots=1", "ignore_eof=1", concurrency=4), supervisor={"workers": 2})
    rows = s.wait_ready(2)
    wait_until(lambda: len(living(pipes)) == 8)
    task, = server.add("q", b"do sleep=60000 until_run=2 answer=none")
    victim = wait_until(lambda: pipes.starts(task))[0]["ppid"]
    own = [e["pid"] for e in pipes.events("child") if e["ppid"] == victim]
    assert len(own) == 4
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: len(pipes.starts(task)) == 2)
    assert not [pid for pid in own if procs.alive(pid)]
    assert victim in [r["pid"] for r in rows]


def test_children_are_on_the_scoreboard(sup, server, pipes, tmp_path):
    """One that outlives its worker's PDEATHSIG (it changed its credentials, say) is killed all the
    same: here by the supervisor, which sees the groups of idle children."""
    wrap = tmp_path / "wrap.py"
    wrap.write_text("import ctypes, os, sys\nctypes.CDLL(None).prctl(1, 0)\n"
                    "os.execv(sys.argv[1], sys.argv[1:])\n")
    s = sup(queues={"q": dict(FAST, concurrency=2, handler="pipe /usr/bin/python3 %s %s %s "
                              "ignore_eof=1" % (wrap, pipes.program, pipes.path))},
            supervisor={"workers": 1})
    s.wait_ready(1)
    wait_until(lambda: len(living(pipes)) == 2)
    was = living(pipes)
    os.kill(s.pids("q")[0], signal.SIGKILL)
    wait_until(lambda: not [pid for pid in was if procs.alive(pid)])
    s.wait_ready(1)


def test_drain_finishes_what_runs(sup, server, pipes, gate):
    s = sup(queues=queue(pipes, "slots=2", str(gate), concurrency=4), supervisor={"workers": 1})
    server.add("q", *[b"x"] * 4)
    wait_until(lambda: len(pipes.starts()) == 4)
    s.signal(signal.SIGTERM)
    wait_until(lambda: "draining" in s.log("q"))
    gate.open()
    assert s.wait_exit() == 0
    assert server.counters("q")["done"] == 4 and not living(pipes)


@pytest.mark.parametrize("knobs", [["ignore_drain=1", "ignore_eof=1"],
                                   ["ignore_drain=1", "ignore_eof=1", "ignore_term=1"]])
def test_children_that_do_not_leave_are_made_to(sup, server, pipes, knobs):
    s = sup(queues=queue(pipes, *knobs), supervisor={"workers": 1})
    server.add("q", *[b"x"] * 4)
    server.wait_empty("q")
    assert s.stop() == 1
    assert not living(pipes)


def test_limit_of_a_drain_gives_tasks_back(sup, server, pipes):
    s = sup(queues=queue(pipes, "slots=2", kill_grace="5s"),
            supervisor={"workers": 1, "drain_timeout": "200ms"})
    tasks = server.add("q", *[b"do sleep=60000"] * 3)
    wait_until(lambda: len(pipes.starts()) == 3)
    assert s.stop() == 1
    assert {e["id"] for e in pipes.events("stop")} == set(tasks), "each was told to stop, by a line"
    assert server.xlen("q") == 3 and not server.delayed("q")
    assert server.counters("q").get("done", 0) == 0


def test_without_a_time_out_nothing_times_out(sup, server, pipes, gate, tmp_path):
    """The timer also waits for the next start of a child that could not be started."""
    broken = tmp_path / "broken"
    s = sup(queues=queue(pipes, "start_exit=3", "start_file=%s" % broken, timeout="0",
                         concurrency=2), supervisor={"workers": 1, "restart_delay": "50ms"})
    s.wait_ready(1)
    wait_until(lambda: len(living(pipes)) == 2)
    task, = server.add("q", b"do " + str(gate).encode())
    busy = wait_until(lambda: pipes.starts(task))[0]["pid"]
    broken.touch()
    os.kill([pid for pid in living(pipes) if pid != busy][0], signal.SIGKILL)
    wait_until(lambda: s.log("q").count("before it said ready") >= 3)
    assert "timed out" not in s.log("q") and procs.alive(busy)
    gate.open()
    server.wait_empty("q")
    assert pipes.runs()[task] == 1 and server.counters("q")["done"] == 1


def test_one_that_ignores_cancel_is_killed_and_its_innocents_go_free(sup, server, pipes, gate):
    """They come between the line and SIGKILL, and are kept until that is over."""
    s = sup(queues=queue(pipes, "slots=4", "ignore_term=1", timeout="3s", on_timeout="dead",
                         kill_grace="1500ms", concurrency=8), supervisor={"workers": 1})
    s.wait_ready(1)
    stuck, = server.add("q", b"do sleep=60000 ignore_cancel=1 until_run=5")
    pid = wait_until(lambda: pipes.starts(stuck))[0]["pid"]
    wait_until(lambda: pipes.events("timeout"), what="told by a line first")
    others = server.add("q", *[b"do " + str(gate).encode()] * 7)
    dead, = letters(server)
    gate.open()
    assert dead["redisq.id"] == stuck and dead["redisq.error"] == "timed out after 3s"
    server.wait_empty("q")
    assert server.counters("q")["done"] == 7 and not procs.alive(pid)
    beside = [e["id"] for e in pipes.starts() if e["pid"] == pid and e["id"] != stuck]
    assert beside, "some had got there"
    assert all(e["attempt"] == 1 for i in others for e in pipes.starts(i))


def test_cancelled_at_its_time_out_by_a_line_the_child_lives_on(sup, server, pipes):
    sup(queues=queue(pipes, "slots=4", timeout="1s", kill_grace="10s", max_attempts=1,
                     concurrency=4), supervisor={"workers": 1})
    server.add("q", b"do sleep=60000")
    dead, = letters(server)
    assert dead["redisq.error"] == "timed out after 1s"
    server.add("q", b"x")
    server.wait_empty("q")
    assert len(children(pipes)) == 1


def test_a_fast_stop_waits_for_nobody(sup, server, pipes):
    s = sup(queues=queue(pipes, "slots=2", "ignore_eof=1", "ignore_drain=1", "ignore_term=1",
                         "ignore_cancel=1", kill_grace="1h"), supervisor={"workers": 1})
    server.add("q", b"do sleep=60000")
    wait_until(lambda: pipes.starts() and len(living(pipes)) == 2)
    s.signal(signal.SIGQUIT)
    assert s.wait_exit(10) == 1
    assert not living(pipes) and server.xlen("q") == 1


def test_a_reload_to_children_that_never_get_ready_goes_back(sup, server, pipes):
    s = sup(queues=queue(pipes, "sleep=100", breaker_delay="1h"),
            supervisor={"workers": 3, "ready_timeout": "1s"})
    s.wait_ready(3)
    server.add("q", *[b"x"] * 400)
    wait_until(lambda: len(pipes.ends()) > 8)
    s.queues = queue(pipes, "sleep=100", "never_ready=1", breaker_delay="1h")
    s.write_ini()
    done = s.ctl("reload")
    assert done.returncode == 1 and "never said ready on fd 3" in done.err
    server.wait_empty("q", 60)
    assert server.counters("q")["done"] == 400 and not server.dead("q")


def test_killing_workers_and_children_at_random_loses_nothing(sup, server, pipes):
    import random
    dice = random.Random(2027)
    s = sup(queues=queue(pipes, "slots=3", "sleep=20", concurrency=6, max_crashes=1000,
                         breaker_failures=0), supervisor={"workers": 2, "crash_limit": 1000})
    s.wait_ready(2)
    ids = server.add("q", *[b"x"] * 1000)
    for n in range(25):
        wait_until(lambda: len(pipes.ends()) > 20 * n, 60)
        victims = s.pids("q") if n % 5 == 0 else living(pipes)
        for pid in dice.sample(victims, min(1, len(victims))):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    server.wait_empty("q", 90)
    assert set(pipes.runs()) == set(ids) and not server.dead("q")
    assert server.counters("q")["done"] == 1000
    s.wait_ready(2)
    wait_until(lambda: len(living(pipes)) == 4)


# ---------------------------------------------------------------- replacing

def test_children_are_replaced_after_child_max_tasks(sup, server, pipes):
    s = sup(queues=queue(pipes, "slots=2", child_max_tasks=20, concurrency=4),
            supervisor={"workers": 1})
    s.wait_ready(1)
    ids = server.add("q", *[b"do sleep=2"] * 300)
    server.wait_empty("q")
    had = collections.Counter(e["pid"] for e in pipes.starts())
    assert pipes.runs() == collections.Counter(ids)
    assert max(had.values()) <= 20 and len(had) >= 15
    wait_until(lambda: len(pipes.events("drain")) >= 13)
    # Two are wanted; one more may be there while it replaces another.
    wait_until(lambda: s.log("q").count("is ready: 2 tasks") == len(children(pipes)),
               what="all get ready")


def test_one_that_leaves_may_close_fd_3_and_still_has_its_time(sup, server, tmp_path):
    program, flushed = tmp_path / "slow.py", tmp_path / "flushed"
    program.write_text("import os, select, sys\nos.write(3, b'{\"type\":\"ready\"}\\n')\n"
                       "sys.stdin.read()\nos.close(3)\nselect.select([], [], [], 1.5)\n"
                       "open(%r, 'w').close()\n" % str(flushed))
    s = sup(queues={"q": dict(FAST, handler="pipe /usr/bin/python3 %s" % program, concurrency=1,
                              kill_grace="20s")}, supervisor={"workers": 1})
    s.wait_ready(1)
    wait_until(lambda: "is ready: 1 task at once" in s.log("q"))
    assert s.stop() == 0 and flushed.exists() and "SIGKILL" not in s.log("q")


@pytest.mark.parametrize("slots", [1, 4])
def test_one_task_a_child_keeps_all_places_in_use(sup, server, pipes, slots):
    s = sup(queues=queue(pipes, "slots=%d" % slots, "sleep=100", child_max_tasks=1, concurrency=4),
            supervisor={"workers": 1})
    s.wait_ready(1)
    ids = server.add("q", *[b"x"] * 40)
    server.wait_empty("q")
    assert pipes.runs() == collections.Counter(ids) and len(children(pipes)) >= 40
    assert pipes.most_at_once() == 4


def test_long_tasks_in_worn_children_leave_the_other_places_in_use(sup, server, pipes, gate):
    """Each child of ten tasks keeps one that takes long; what has room goes on all the same."""
    s = sup(queues=queue(pipes, "slots=8", child_max_tasks=10, concurrency=8),
            supervisor={"workers": 1})
    s.wait_ready(1)
    for _ in range(4):
        server.add("q", b"do " + str(gate).encode(), *[b"x"] * 20)
    pipes.wait_ended(80)
    gate.open()
    server.wait_empty("q")
    assert server.counters("q")["done"] == 84


def test_children_that_differ_in_slots_fill_all_places(sup, server, pipes, tmp_path):
    """The first takes one task at once, those after it four: as when a deploy changes a file that
    they read."""
    count = tmp_path / "first"
    wrap = tmp_path / "wrap.sh"
    wrap.write_text('mkdir %s 2>/dev/null && exec "$@" slots=1; exec "$@" slots=4\n' % count)
    s = sup(queues={"q": dict(FAST, concurrency=4, handler="pipe sh %s %s %s sleep=200"
                              % (wrap, pipes.program, pipes.path))}, supervisor={"workers": 1})
    s.wait_ready(1)
    wait_until(lambda: s.log("q").count("is ready: 4 tasks") == 3)
    wait_until(lambda: len(living(pipes)) == 4, what="all of them stay")
    server.add("q", *[b"x"] * 40)
    server.wait_empty("q")
    assert pipes.most_at_once() == 4


def test_children_are_replaced_when_their_memory_has_grown(sup, server, pipes):
    s = sup(queues=queue(pipes, "keep=30000000", child_max_memory="100M", concurrency=1),
            supervisor={"workers": 1})
    s.wait_ready(1)
    first = wait_until(lambda: children(pipes))[0]
    for _ in range(100):
        server.add("q", b"do sleep=100")
        server.wait_empty("q")
        if not procs.alive(first):
            break
    assert not procs.alive(first) and not server.dead("q")
    assert len(pipes.events("drain")) >= 1
