"""What a task leaves behind: a checkpoint for its next attempt, progress for people, a result for
whoever asked. The payloads here are shell programs."""
import json
import os
import signal

import pytest

from conftest import on_both
from waiting import stays, wait_until

FAST = {"retry_delay": "50ms", "retry_jitter": "0%", "kill_grace": "300ms", "breaker_failures": 0}
SAY = """say() { echo '{"type":"'$1'","value":'"$2"'}' >&3; }
first() { [ -z "$REDISQ_CHECKPOINT" ]; }
hold() { until [ -e "$GATE" ]; do sleep 0.02; done; }
"""


class Shell:
    """Queue q, whose handler notes how each run begins and then does what its payload says."""

    def __init__(self, dir, gate):
        self.gate, self.path = gate, str(dir / "runs")
        self.script = dir / "shell.sh"
        self.script.write_text(
            "#!/bin/sh\nGATE=%s\nprintf '%%s|%%s|%%s\\n' \"$REDISQ_ATTEMPT\" \"$REDISQ_DELIVERIES\" "
            "\"$REDISQ_CHECKPOINT\" >>%s\n%s\neval \"$(cat)\"\n" % (gate.path, self.path, SAY))
        self.script.chmod(0o755)
        open(self.path, "w").close()

    def queue(self, **keys):
        return {"q": dict(FAST, handler="exec %s" % self.script, **keys)}

    def runs(self):
        with open(self.path) as f:
            return [tuple(line.rstrip("\n").split("|")) for line in f]


@pytest.fixture
def shell(tmp_path, gate):
    return Shell(tmp_path, gate)


def kept(server, suffix="ckpt"):
    return {k.decode(): v.decode() for k, v in server.r.hgetall("{q}:" + suffix).items()}


def nothing_is_left(s, server):
    server.wait_empty("q")
    assert kept(server) == {} and kept(server, "progress") == {}
    s.ctl("audit", "q", check=0)


# ---------------------------------------------------------------- checkpoints

@pytest.mark.parametrize("value,variable", [
    ('\\"job 7\\"', "job 7"), ('{\\"job\\":7}', '{"job":7}'), ("7", "7")])
def test_the_next_attempt_gets_the_last_checkpoint(sup, server, shell, value, variable):
    s = sup(queues=shell.queue(), supervisor={"workers": 1})
    server.add("q", b'if first; then say checkpoint 1; say checkpoint "%s"; exit 1; fi'
               % value.encode())
    nothing_is_left(s, server)
    assert shell.runs() == [("1", "1", ""), ("2", "2", variable)]


def test_a_checkpoint_lives_through_snoozes_and_failures(sup, server, shell):
    s = sup(queues=shell.queue(), supervisor={"workers": 1})
    server.add("q", b'first && say checkpoint \'"a"\'; [ $REDISQ_DELIVERIES -gt 3 ] || '
                    b'exit $((76 - $REDISQ_DELIVERIES % 2))')
    nothing_is_left(s, server)
    assert [r[2] for r in shell.runs()] == ["", "a", "a", "a"]


@on_both
@pytest.mark.parametrize("end", ["kill -9 $$", "exit 1", "exit 65", "kill -9 $PPID; sleep 60"])
def test_the_last_words_of_a_run_are_not_lost(sup, server, shell, end):
    """Said right before the end, with no time for Redis to answer; the worker's own death apart."""
    s = sup(queues=shell.queue(max_crashes=9), supervisor={"workers": 1})
    wait = "until [ $(ls %s 2>/dev/null) ]; do sleep 0.02; done; " % (shell.path + ".go")
    task, = server.add("q", b"first || exit 0; say checkpoint 42; %s%s" % (
        wait.encode() if "PPID" in end else b"", end.encode()))
    if "PPID" in end:
        wait_until(lambda: kept(server) == {task: "42"}, 20, "Redis has it")
        open(shell.path + ".go", "w").write("x")
    if end == "exit 65":
        wait_until(lambda: server.dead("q"), 20)
        letter, fields = server.dead("q")[0]
        assert fields[b"redisq.checkpoint"] == b"42"
        s.ctl("dead", "retry", "q", letter, check=0)
    wait_until(lambda: len(shell.runs()) == 2, 20, "it runs again")
    nothing_is_left(s, server)
    assert [r[2] for r in shell.runs()] == ["", "42"]


def test_a_checkpoint_is_in_redis_while_the_task_still_runs(sup, server, shell, gate):
    s = sup(queues=shell.queue(), supervisor={"workers": 1})
    task, = server.add("q", b'say checkpoint \'{"job": "x"}\'; hold')
    wait_until(lambda: kept(server) == {task: '{"job": "x"}'}, 20, "Redis has it")
    assert json.loads(s.ctl("show", "q", task, "--json", check=0).out)["state"] == "running"
    gate.open()
    nothing_is_left(s, server)


@on_both
def test_a_stop_gives_the_checkpoint_on(sup, server, shell):
    s = sup(queues=shell.queue(), supervisor={"workers": 1})
    task, = server.add("q", b"trap 'say checkpoint 2; exit 1' TERM; first || exit 0; "
                            b"say checkpoint 1; sleep 60 & wait")
    wait_until(lambda: kept(server) == {task: "1"}, 20)
    s.signal(signal.SIGQUIT)
    s.wait_exit()
    assert kept(server) == {task: "2"}, "said when it was stopped, carried by the release"
    s.start()
    nothing_is_left(s, server)
    assert shell.runs() == [("1", "1", ""), ("1", "2", "2")]


@on_both
def test_a_held_task_keeps_its_checkpoint(sup, server, shell):
    s = sup(queues=shell.queue(on_crash="hold"), supervisor={"workers": 1})
    server.add("q", b"first || exit 0; say checkpoint 1; kill -9 $$")
    held = wait_until(lambda: server.letters("q", "held"), 20)[0][0]
    s.ctl("held", "release", "q", held, check=0)
    wait_until(lambda: len(shell.runs()) == 2, 20)
    nothing_is_left(s, server)
    assert shell.runs()[1][2] == "1"


def test_what_is_too_long_is_said_and_not_kept(sup, server, shell):
    s = sup(queues=shell.queue(), supervisor={"workers": 1})
    server.add("q", b"""first || exit 0; say checkpoint 1
        big=$(head -c 65600 /dev/zero | tr '\\0' x); say checkpoint '"'$big'"'; exit 1""")
    nothing_is_left(s, server)
    assert shell.runs()[1][2] == "1"
    assert "a checkpoint of 65602 bytes, 65536 are kept" in s.log("q")


@on_both
@pytest.mark.parametrize("left", [b"a\0b", b'"a\\u0000b"'])
def test_a_checkpoint_with_a_nul_is_left_out_and_said(sup, server, shell, left):
    """A handler of another kind has left it: it cannot stand in an environment."""
    s = sup(queues=shell.queue(), supervisor={"workers": 1})
    s.wait_ready(1)
    server.add_with_checkpoint("q", left, "true", **{"redisq.attempt": "2"})
    nothing_is_left(s, server)
    assert shell.runs() == [("2", "1", "")]
    assert "its checkpoint cannot be a variable" in s.log("q")


@on_both
def test_checkpoints_outlive_an_outage_of_redis(sup, server, proxy, shell, gate):
    """What is said meanwhile is sent again; what is said last is what counts."""
    s = sup(queues=shell.queue(), supervisor={"workers": 1}, redis={"url": proxy.url})
    s.wait_ready(1)
    task, = server.add("q", b"first || exit 0; say checkpoint 1; hold; say checkpoint 2; "
                            b"rm $GATE; hold; exit 1")
    wait_until(lambda: kept(server) == {task: "1"}, 20)
    proxy.cut()
    gate.open()
    wait_until(lambda: not os.path.exists(gate.path), 20, "the second was said")
    proxy.heal()
    wait_until(lambda: kept(server) == {task: "2"}, 20, "it came through")
    gate.open()
    nothing_is_left(s, server)
    assert [r[2] for r in shell.runs()] == ["", "2"]


@on_both
def test_what_cannot_be_kept_is_said_once_and_holds_up_nothing(sup, server, shell, gate):
    s = sup(queues=shell.queue(), supervisor={"workers": 1})
    s.wait_ready(1)
    server.expects_denials = True
    server.r.execute_command("ACL", "SETUSER", server.user, "-hset")
    push = server.lpush if server.backend == "list" else server.add  # without HSET
    push("q", b"say checkpoint 1; say progress 1; hold; say checkpoint 2")
    wait_until(lambda: "keeping checkpoints" in s.log("q"), 20, "it is said")
    push("q", *[b"say checkpoint 3"] * 5)
    wait_until(lambda: server.counters("q").get("done") == 5, 20, "the others go on")
    assert s.log("q").count("keeping checkpoints") == 1
    server.r.execute_command("ACL", "SETUSER", server.user, "+@all")
    wait_until(lambda: "1" in kept(server).values(), 20, "it was tried again")
    wait_until(lambda: "are kept again" in s.log("q"), 20)
    gate.open()
    nothing_is_left(s, server)
    assert len(shell.runs()) == 6


@on_both
def test_a_full_redis_keeps_the_checkpoints_of_what_runs(sup, server, shell, gate):
    s = sup(queues=shell.queue(), supervisor={"workers": 1})
    task, = server.add("q", b"first || exit 0; hold; say checkpoint 1; GATE=%s.end; hold; "
                            b"kill -9 $PPID; sleep 60" % gate.path.encode())
    wait_until(lambda: len(shell.runs()) == 1, 20)
    server.r.config_set("maxmemory-policy", "noeviction")
    server.r.config_set("maxmemory", 1)
    gate.open()
    wait_until(lambda: kept(server) == {task: "1"}, 20, "Redis has it")
    open(gate.path + ".end", "w").close()
    wait_until(lambda: len(shell.runs()) == 2, 20, "it runs again")
    server.r.config_set("maxmemory", 0)
    nothing_is_left(s, server)
    assert [r[2] for r in shell.runs()] == ["", "1"]


def test_a_stop_does_not_wait_for_a_checkpoint_that_does_not_come(sup, server, shell):
    s = sup(queues=shell.queue(), supervisor={"workers": 1})
    s.wait_ready(1)
    server.expects_denials = True
    server.r.execute_command("ACL", "SETUSER", server.user, "-hget")
    server.add("q", "true", **{"redisq.attempt": "2"})
    wait_until(lambda: "reading a checkpoint" in s.log("q"), 20)
    s.signal(signal.SIGQUIT)
    s.wait_exit(15)
    server.r.execute_command("ACL", "SETUSER", server.user, "+@all")
    s.start()
    nothing_is_left(s, server)
    assert [r[0] for r in shell.runs()] == ["2"]


def test_who_has_no_history_pays_nothing(sup, server, shell):
    s = sup(queues=shell.queue(), supervisor={"workers": 1})
    s.wait_ready(1)
    server.r.config_resetstat()
    server.add("q", *[b"true"] * 50)
    server.wait_empty("q")
    stats = server.r.info("commandstats")
    assert "cmdstat_hget" not in stats, "asked for a checkpoint"


def test_a_task_waits_for_its_checkpoint_rather_than_start_without(sup, server, shell):
    """It might buy again what the attempt before has paid for."""
    s = sup(queues=shell.queue(), supervisor={"workers": 1})
    s.wait_ready(1)
    server.expects_denials = True
    server.r.execute_command("ACL", "SETUSER", server.user, "-hget")
    server.add_with_checkpoint("q", "1", "first && exit 1; exit 0", **{"redisq.attempt": "2"})
    wait_until(lambda: "reading a checkpoint" in s.log("q"), 20, "it is refused, and says so")
    assert shell.runs() == []
    server.r.execute_command("ACL", "SETUSER", server.user, "+@all")
    nothing_is_left(s, server)
    assert shell.runs() == [("2", "1", "1")]


# ---------------------------------------------------------------- progress

def test_progress_is_shown_and_goes_with_the_run(sup, server, shell, gate):
    s = sup(queues=shell.queue(), supervisor={"workers": 1})
    task, = server.add("q", b'say progress \'"40 %"\'; hold')
    wait_until(lambda: kept(server, "progress") == {task: '"40 %"'}, 20)
    gate.open()
    nothing_is_left(s, server)


@on_both
def test_the_progress_of_a_run_ends_with_its_worker(sup, server, shell, gate):
    s = sup(queues=shell.queue(), supervisor={"workers": 2})
    s.wait_ready(2)
    task, = server.add("q", b"[ $REDISQ_DELIVERIES = 1 ] && say progress 1; hold")
    wait_until(lambda: kept(server, "progress") == {task: "1"}, 20)
    worker, = [w for w in s.workers() if w["running"]]
    os.kill(worker["pid"], signal.SIGKILL)
    wait_until(lambda: len(shell.runs()) == 2, 20, "it runs again")
    assert kept(server, "progress") == {}
    gate.open()
    nothing_is_left(s, server)


def test_progress_is_kept_once_a_second_the_newest(sup, server, shell, gate):
    s = sup(queues=shell.queue(), supervisor={"workers": 1})
    s.wait_ready(1)
    server.r.config_resetstat()
    task, = server.add("q", b"i=0; while [ $i -lt 2000 ]; do i=$((i+1)); say progress $i; done; hold")
    wait_until(lambda: kept(server, "progress") == {task: "2000"}, 20, "the last one")
    assert server.r.info("commandstats")["cmdstat_hset"]["calls"] < 100
    gate.open()
    nothing_is_left(s, server)


# ---------------------------------------------------------------- results

def end(server, task):
    """(result, failed) as a client finds them."""
    return [v.decode() if v is not None else None
            for v in server.r.mget("{q}:result:" + task, "{q}:failed:" + task)]


DONE = b"""echo '{"type":"done","result":{"url":"x"}}' >&3"""


@on_both
def test_a_result_is_kept_for_result_ttl(sup, server, shell):
    s = sup(queues=shell.queue(result_ttl="1h"), supervisor={"workers": 1})
    with_result, without = server.add("q", DONE, b"true")
    nothing_is_left(s, server)
    assert end(server, with_result) == ['{"url":"x"}', None]
    assert 3500_000 < server.r.pttl("{q}:result:" + with_result) <= 3600_000
    assert end(server, without) == [None, None], "nobody asked, and it has none"


def test_no_result_is_kept_unless_somebody_wants_it(sup, server, shell):
    s = sup(queues=shell.queue(), supervisor={"workers": 1})
    task, = server.add("q", DONE)
    nothing_is_left(s, server)
    assert end(server, task) == [None, None]


@on_both
def test_a_producer_asks_for_its_result(sup, server, shell):
    """redisq.result_ttl is a reserved field: it travels, and is not the handler's."""
    s = sup(queues=shell.queue(), supervisor={"workers": 1})
    asked = [server.add("q", p, **{"redisq.result_ttl": "60000"})[0] for p in (
        DONE, b"true", b"[ $REDISQ_ATTEMPT = 3 ] || exit 1; " + DONE,
        b"case $REDISQ_FIELDS in *6[0]000*) exit 1;; esac; " + DONE)]
    nothing_is_left(s, server)
    assert [end(server, t) for t in asked] == [
        ['{"url":"x"}', None], ["", None], ['{"url":"x"}', None], ['{"url":"x"}', None]]
    assert 0 < server.r.pttl("{q}:result:" + asked[0]) <= 60000


@on_both
def test_the_result_is_kept_under_the_id_that_the_handler_sees(sup, server, shell):
    s = sup(queues=shell.queue(), supervisor={"workers": 1})
    server.add_fields("q", ("payload", DONE), ("redisq.id", "order 7"),
                      ("redisq.result_ttl", "60000"))
    nothing_is_left(s, server)
    assert end(server, "order%207") == ['{"url":"x"}', None]


def test_an_exit_that_fails_leaves_no_result(sup, server, shell):
    s = sup(queues=shell.queue(result_ttl="1h", max_attempts=1), supervisor={"workers": 1})
    task, = server.add("q", DONE + b"; exit 1")
    wait_until(lambda: server.dead("q"), 20)
    letter = server.dead("q")[0][0]
    assert end(server, task) == [None, "dead %s attempts exit 1" % letter]


@on_both
@pytest.mark.parametrize("payload,place,why", [
    (b"exit 65", "dead", "rejected exit 65"),
    (b"""echo '{"type":"dead","error":"no such user"}' >&3""", "dead", "rejected no such user"),
    (b"kill -9 $$", "held", "crashes signal 9 SIGKILL")])
def test_whoever_asked_learns_that_there_will_be_no_result(sup, server, shell, payload, place, why):
    s = sup(queues=shell.queue(on_crash="hold"), supervisor={"workers": 1})
    task, = server.add("q", payload, **{"redisq.result_ttl": "60000"})
    wait_until(lambda: server.is_empty("q"), 20)
    letter = server.letters("q", place)[0][0]
    assert end(server, task) == [None, "%s %s %s" % (place, letter, why)]
    s.ctl("audit", "q", check=0)
