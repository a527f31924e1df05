"""What a producer or a handler may get wrong, and must not harm anybody else by."""
import sys

import waiting
from conftest import on_both


def script(tmp_path, text):
    path = tmp_path / "handler.py"
    path.write_text("import os, sys\n" + text)
    return "exec %s %s" % (sys.executable, path)


@on_both
def test_strings_that_exec_refuses_do_not_open_the_breaker(sup, server, tmp_path):
    """An environment string of 128 KiB makes exec() fail: that is no broken handler."""
    s = sup(queues={"q": {"handler": script(tmp_path, "print('id', os.environ['REDISQ_ID'])")}})
    server.add_fields("q", ("payload", "p"), ("redisq.id", "i" * 200000),
                      ("traceparent", "t" * 200000))
    server.wait_empty("q")
    assert server.counters("q")["done"] == 1
    assert "breaker" not in s.log("q") and "broken" not in s.log("q")


def test_an_id_cannot_forge_log_lines(sup, server, tmp_path):
    s = sup(queues={"q": {"handler": script(tmp_path, "print('hello')")}})
    server.add_fields("q", ("payload", "p"), ("redisq.id", "a b\nE - forged"))
    server.wait_empty("q")
    waiting.wait_until(lambda: "hello" in s.log("q"), 10, "the task's line")
    assert "[a%20b%0AE%20-%20forged] hello" in s.log("q")
    assert not any(line.startswith("E - ") or line.endswith("[-] forged")
                   for line in s.log("q").splitlines())


@on_both
def test_garbage_in_reserved_fields_counts_as_missing(sup, server, tmp_path):
    """A number that is none must not break the script that settles the task and its neighbours."""
    sup(queues={"q": {"handler": script(tmp_path, "sys.exit(int(sys.stdin.read()))"),
                      "max_attempts": 2, "retry_delay": "20ms"}})
    for field in ("redisq.deliveries", "redisq.attempt", "redisq.snoozes", "redisq.enqueued_at"):
        server.add_fields("q", ("payload", "1"), (field, "garbage"))
    server.add("q", b"0", b"65")
    server.wait_empty("q")
    waiting.wait_until(lambda: len(server.dead("q")) == 5, 20, "five dead letters")
    reasons = sorted(f[b"redisq.reason"] for _, f in server.dead("q"))
    assert reasons == [b"attempts"] * 4 + [b"rejected"]
    counters = server.counters("q")
    assert counters["done"] == 1 and counters["retried"] == 4 and counters["died"] == 5


def test_a_line_on_fd_3_that_is_too_long_is_no_answer(sup, server, tmp_path):
    """Neither is its rest, which looks like one; and it is complained about once."""
    s = sup(queues={"q": {"handler": script(
        tmp_path, "os.write(3, b'x' * 131072 + b'{\"type\":\"dead\"}\\nnonsense\\n')\n")}})
    server.add("q", b"p")
    server.wait_empty("q")
    assert not server.dead("q") and server.counters("q")["done"] == 1
    waiting.wait_until(lambda: "fd 3" in s.log("q"), 10, "the complaint")
    assert s.log("q").count("a line on fd 3 is ignored") == 1


def test_answers_explain_exit_codes(sup, server, tmp_path):
    """exit 75 with a snooze line takes its delay, exit 65 with a dead line its error."""
    sup(queues={"q": {"retry_delay": "1h", "retry_delay_max": "1h", "handler": script(
        tmp_path, """
if sys.stdin.read() == 'dead':
    os.write(3, b'{"type":"dead","error":"no such user"}\\n')
    sys.exit(65)
if os.environ['REDISQ_DELIVERIES'] == '1':
    os.write(3, b'{"type":"snooze","delay_ms":50}\\n')
    sys.exit(75)
""")}})
    server.add("q", b"dead", b"snooze")
    server.wait_empty("q")
    (_, letter), = server.dead("q")
    assert letter[b"redisq.error"] == b"no such user" and letter[b"redisq.exit"] == b"65"
    counters = server.counters("q")
    assert counters["done"] == 1 and counters["retried"] == 1
