"""What becomes of a task, by how its handler ended."""
import re

import pytest

import procs
from waiting import stays, wait_until

BACKENDS = ("stream", "list")

FAST = {"retry_delay": "50ms", "retry_jitter": "0%", "kill_grace": "300ms"}


def fields(server, queue, n=1):
    wait_until(lambda: len(server.dead(queue)) >= n, 30, "%d dead letters" % n)
    return [{k.decode(): v.decode(errors="replace") for k, v in f.items()}
            for _, f in server.dead(queue)]


def queue(journal, *knobs, **keys):
    return {"q": dict(FAST, handler=journal.handler(*knobs), **keys)}


def test_exit_1_is_retried_after_the_back_off_and_then_dead(sup, server, journal):
    s = sup(queues=queue(journal, max_attempts=3, retry_delay="200ms"),
            supervisor={"workers": 1})
    task, = server.add("q", b"do exit=1 cry=it~broke")
    dead, = fields(server, "q")
    assert dead["redisq.reason"] == "attempts"
    assert dead["redisq.error"] == "exit 1" and dead["redisq.exit"] == "1"
    assert "it~broke" in dead["redisq.stderr"]
    assert dead["redisq.id"] == task
    assert dead["redisq.worker"] == "worker_%d" % s.workers("q")[0]["pid"]
    assert re.fullmatch(r"cpu \d+ ms, memory [0-9.]+ MB", dead["redisq.usage"])
    assert dead["redisq.host"] and int(dead["redisq.died_at"]) > 0
    assert dead["payload"] == "do exit=1 cry=it~broke"
    starts, ends = journal.starts(), journal.ends()
    assert [e["attempt"] for e in starts] == [1, 2, 3]
    assert [e["env"]["REDISQ_DELIVERIES"] for e in starts] == ["1", "2", "3"]
    waits = [(b["t"] - a["t"]) / 1e6 for a, b in zip(ends, starts[1:])]
    assert waits[0] >= 190 and waits[1] >= 390, waits
    assert server.is_empty("q")
    counters = server.counters("q")
    assert counters["died"] == 1 and counters["retried"] == 2 and not counters.get("done")


def test_retry_then_success(sup, server, journal):
    sup(queues=queue(journal, breaker_failures=0))
    server.add("q", *[b"do exit=1 until=3"] * 10)
    server.wait_empty("q")
    assert server.counters("q")["done"] == 10 and not server.dead("q")
    assert len(journal.starts()) == 30


def test_exit_75_snoozes_without_charging_an_attempt(sup, server, journal):
    sup(queues=queue(journal, max_attempts=2, max_snoozes=4))
    server.add("q", b"do exit=75")
    dead, = fields(server, "q")
    attempts = [e["attempt"] for e in journal.starts()]
    assert attempts[:5] == [1] * 5, "four snoozes are free, the fifth counts"
    assert attempts[-1] == 2
    assert dead["redisq.reason"] == "attempts"


@pytest.mark.parametrize("code", [65, 100])
def test_rejected_at_once(sup, server, journal, code):
    sup(queues=queue(journal))
    server.add("q", b"do exit=%d" % code)
    dead, = fields(server, "q")
    assert dead["redisq.reason"] == "rejected" and dead["redisq.exit"] == str(code)
    assert len(journal.starts()) == 1


@pytest.mark.parametrize("code", [78, 126, 127])
def test_broken_handler_charges_nothing_and_stops_the_fetching(sup, server, journal, code):
    s = sup(queues=queue(journal, "exit=%d" % code, breaker_delay="1h"),
            supervisor={"workers": 1})
    s.wait_ready(1)
    ids = server.add("q", *[b"x"] * 30)
    wait_until(lambda: "handler is broken" in s.log("q"), what="the breaker is spoken of")
    stays(lambda: len(journal.starts()) <= 8, 0.7, "a handful is tried, the rest not touched")
    assert server.xlen("q") == len(ids) and not server.dead("q") and not server.delayed("q")
    # Mended, and the breaker's next try: everything runs as a first attempt.
    s.queues = queue(journal)
    s.write_ini()
    s.ctl("reload", check=0)
    server.wait_empty("q")
    assert {e["attempt"] for e in journal.starts()} == {1}
    assert server.counters("q")["done"] == 30


def test_breaker_tries_again_after_breaker_delay(sup, server, journal, tmp_path):
    flag = tmp_path / "mended"
    script = tmp_path / "handler.sh"
    script.write_text("#!/bin/sh\n[ -e %s ] || exit 78\nexec %s\n"
                      % (flag, " ".join(journal.argv())))
    script.chmod(0o755)
    s = sup(queues={"q": dict(FAST, handler="exec %s" % script, breaker_delay="300ms")},
            supervisor={"workers": 1})
    server.add("q", *[b"x"] * 10)
    wait_until(lambda: "handler is broken" in s.log("q"))
    flag.write_text("")
    server.wait_empty("q")
    assert len(journal.starts()) == 10 and not server.dead("q")


def test_missing_binary_after_a_deploy_touches_no_task(sup, server, journal, tmp_path):
    program = tmp_path / "prog"
    program.symlink_to(journal.program)
    s = sup(queues={"q": dict(FAST, handler="exec %s %s" % (program, journal.path),
                              breaker_delay="200ms")}, supervisor={"workers": 1})
    s.wait_ready(1)
    program.unlink()
    server.add("q", *[b"x"] * 20)
    wait_until(lambda: "handler is broken" in s.log("q"))
    stays(lambda: not server.dead("q") and not server.delayed("q") and server.xlen("q") == 20, 0.5)
    program.symlink_to(journal.program)
    server.wait_empty("q")
    assert {e["attempt"] for e in journal.starts()} == {1} and len(journal.starts()) == 20


@pytest.mark.parametrize("knob,signo,text", [
    ("exit=137", None, "exit 137"), ("exit=134", None, "exit 134"), ("exit=139", None, "exit 139"),
    ("signal=9", "9", "signal 9 SIGKILL"), ("signal=11", "11", "signal 11 SIGSEGV")])
def test_a_crash_is_retried_until_max_crashes(sup, server, journal, knob, signo, text):
    sup(queues=queue(journal, max_crashes=3, max_attempts=2))
    server.add("q", b"do " + knob.encode())
    dead, = fields(server, "q")
    assert dead["redisq.reason"] == "crashes"
    assert text in dead["redisq.error"]
    assert dead.get("redisq.signal") in (signo, "" if signo is None else signo)
    assert len(journal.starts()) == 3
    assert {e["attempt"] for e in journal.starts()} == {1}, "crashes charge no attempt"


def test_on_crash_dead(sup, server, journal):
    sup(queues=queue(journal, on_crash="dead"))
    server.add("q", b"do signal=9")
    dead, = fields(server, "q")
    assert dead["redisq.reason"] == "crashes" and len(journal.starts()) == 1


def test_timeout_terminates_the_group(sup, server, journal):
    sup(queues=queue(journal, timeout="300ms", max_attempts=1))
    server.add("q", b"do sleep=60000 group=60000")
    dead, = fields(server, "q")
    assert dead["redisq.reason"] in ("timeout", "attempts")
    assert dead["redisq.error"].startswith("timed out after")
    child = journal.events("child")[0]["value"]
    wait_until(lambda: not procs.alive(child) and not journal.running())


def test_timeout_kills_after_kill_grace(sup, server, journal):
    sup(queues=queue(journal, timeout="300ms", max_attempts=1, kill_grace="500ms"))
    server.add("q", b"do sleep=60000 ignore_term=1")
    fields(server, "q")
    term = journal.events("term")[0]
    start = journal.starts()[0]
    assert (term["t"] - start["t"]) / 1e6 >= 250
    assert not journal.running() and not journal.ends()


def test_timeout_is_a_failed_attempt_by_default(sup, server, journal):
    sup(queues=queue(journal, timeout="200ms", max_attempts=2))
    server.add("q", b"do sleep=60000")
    fields(server, "q")
    assert [e["attempt"] for e in journal.starts()] == [1, 2]


def test_on_timeout_dead(sup, server, journal):
    sup(queues=queue(journal, timeout="200ms", on_timeout="dead"))
    server.add("q", b"do sleep=60000")
    dead, = fields(server, "q")
    assert dead["redisq.reason"] == "timeout" and len(journal.starts()) == 1


def test_on_timeout_hold(sup, server, journal):
    sup(queues=queue(journal, timeout="200ms", on_timeout="hold"))
    server.add("q", b"do sleep=60000")
    wait_until(lambda: len(server.letters("q", "held")) == 1)
    assert not server.dead("q")


@pytest.mark.parametrize("how", ["exit=0", "exit=1", "signal=9"])
def test_grandchildren_in_an_own_session_are_not_left_behind(sup, server, journal, how):
    sup(queues=queue(journal, max_attempts=1, max_crashes=1))
    server.add("q", *[b"do setsid=60000 sleep=50 " + how.encode()] * 4)
    server.wait_empty("q")
    children = wait_until(lambda: len(journal.events("child")) == 4 and journal.events("child"))
    wait_until(lambda: not [c for c in children if procs.alive(c["value"])], 5,
               "the grandchildren are dead")


def test_children_in_the_group_die_with_success_too(sup, server, journal):
    sup(queues=queue(journal))
    server.add("q", b"do group=60000 sleep=50")
    server.wait_empty("q")
    child = wait_until(lambda: journal.events("child"))[0]["value"]
    wait_until(lambda: not procs.alive(child), 5)


def test_retry_line_on_fd_3_beats_exit_0(sup, server, journal):
    sup(queues=queue(journal, max_attempts=2))
    server.add("q", b'do fd3={"type":"retry","error":"the~provider~is~busy","delay_ms":300}')
    dead, = fields(server, "q")
    starts, ends = journal.starts(), journal.ends()
    assert [e["attempt"] for e in starts] == [1, 2]
    assert (starts[1]["t"] - ends[0]["t"]) / 1e6 >= 280
    assert "the provider is busy" in dead["redisq.error"]


def test_dead_line_on_fd_3(sup, server, journal):
    sup(queues=queue(journal))
    server.add("q", b'do fd3={"type":"dead","error":"no~such~user"}')
    dead, = fields(server, "q")
    assert dead["redisq.reason"] == "rejected" and "no such user" in dead["redisq.error"]
    assert len(journal.starts()) == 1


def test_a_failing_exit_beats_done_on_fd_3(sup, server, journal):
    sup(queues=queue(journal, max_attempts=1))
    server.add("q", b'do exit=1 fd3={"type":"done","result":1}')
    dead, = fields(server, "q")
    assert dead["redisq.error"] == "exit 1"


def test_garbage_on_fd_3_and_unknown_types_are_ignored(sup, server, journal):
    sup(queues=queue(journal))
    server.add("q", b"do fd3=garbage", b'do fd3={"type":"whatever"}')
    server.wait_empty("q")
    assert server.counters("q")["done"] == 2


def test_oversized_payload_is_dead_unrun(sup, server, journal):
    sup(queues=queue(journal, payload_max="64K"))
    server.add("q", b"x" * 70000, b"small")
    dead, = fields(server, "q")
    assert dead["redisq.reason"] == "payload"
    server.wait_empty("q")
    assert len(journal.starts()) == 1


def test_handler_that_does_not_read_its_stdin(sup, server, journal):
    sup(queues=queue(journal, "eof=no", payload_max="2M"))
    server.add("q", b"x" * 1000000, b"", b"y" * 70000)
    server.wait_empty("q")
    assert server.counters("q")["done"] == 3


def test_dead_max_trims_and_counts(sup, server, journal):
    sup(queues=queue(journal, dead_max=5))
    server.add("q", *[b"do exit=65"] * 12)
    server.wait_empty("q")
    wait_until(lambda: server.counters("q").get("died") == 12)
    assert len(server.dead("q")) == 5
    assert server.counters("q")["dropped"] == 7


def test_many_delayed_at_once_come_back_in_time(sup, server, journal):
    sup(queues=queue(journal, retry_delay="500ms", concurrency=8, breaker_failures=0))
    server.add("q", *[b"do exit=1 until=2"] * 100)
    server.wait_empty("q")
    assert len(journal.starts()) == 200
    assert server.counters("q")["readded"] == 100
