"""The helper modules for handler authors: the same conduct in every language. Languages whose
interpreter or compiler is not installed are left out; Python and Node are."""
import base64
import json
import os
import shutil
import signal
import subprocess

import pytest

from conftest import HERE, ROOT
from pipechild import PipeChild
from waiting import wait_until

HANDLERS = os.path.join(ROOT, "etc", "handlers")
LANGS = os.path.join(HERE, "langs")
SUFFIX = {"python": "py", "node": "mjs", "php": "php", "ruby": "rb", "go": "go"}
COMMAND = {"python": "python3"}
CONCURRENT = {"python", "node", "ruby", "go"}


@pytest.fixture(scope="session")
def go_program(tmp_path_factory):
    """conform.go, built; once per session."""
    where = tmp_path_factory.mktemp("go")
    shutil.copytree(os.path.join(LANGS, "go"), where, dirs_exist_ok=True)
    shutil.copytree(os.path.join(HANDLERS, "go", "redisq"), where / "redisq")
    env = dict(os.environ, GOFLAGS="-mod=mod", GOPATH=str(where / "path"), GOPROXY="off",
               GOCACHE=os.environ.get("GOCACHE", "/tmp/redisq-go-cache"))
    subprocess.run(["go", "build", "-o", "conform", "."], cwd=where, env=env, check=True)
    return str(where / "conform")


@pytest.fixture(params=sorted(SUFFIX))
def language(request):
    program = COMMAND.get(request.param, request.param)
    if not shutil.which(program):
        pytest.skip("%s is not installed" % program)
    return request.param


@pytest.fixture
def command(language, request):
    """Words that start the handler of test/integration/langs in this language."""
    if language == "go":
        return [request.getfixturevalue("go_program")]
    return [shutil.which(COMMAND.get(language, language)),
            os.path.join(LANGS, "conform." + SUFFIX[language])]


@pytest.fixture
def child(command):
    made = PipeChild(command, {"HANDLERS": HANDLERS})
    yield made
    made.close()


@pytest.fixture
def ready(child, language):
    assert child.line() == {"type": "ready", "slots": 4 if language in CONCURRENT else 1}
    return child


def test_a_task_arrives_whole_and_its_result_goes_back(ready):
    ready.task("1-0", {"do": "echo", "text": "caf\u00e9 \\ \" \u0001 \U0001f600"}, checkpoint={"n": 3})
    assert ready.line() == {"type": "done", "id": "1-0", "result": {
        "id": "1-0", "queue": "q", "attempt": 2, "saved": {"n": 3}, "field": "red",
        "text": "caf\u00e9 \\ \" \u0001 \U0001f600"}}
    ready.task("2-0", {"do": "nothing"})
    assert ready.line() == {"type": "done", "id": "2-0"}


def test_a_binary_payload_arrives_byte_for_byte(ready):
    payload = bytes(range(256)) * 400
    ready.task("1-0", payload_b64=base64.b64encode(payload).decode())
    assert ready.line()["result"] == {"bytes": 102400, "last": 255}


def test_what_is_thrown_says_how_the_task_ends(ready):
    def end_of(payload):
        ready.task("1-0", payload)
        return ready.line()

    failed = end_of({"do": "fail"})
    assert failed["type"] == "retry" and "it failed" in failed["error"] and "delay_ms" not in failed
    assert end_of({"do": "dead"}) == {"type": "dead", "id": "1-0", "error": "no such user"}
    assert end_of({"do": "retry"}) == {"type": "retry", "id": "1-0", "error": "busy",
                                       "delay_ms": 5000}
    assert end_of({"do": "snooze"}) == {"type": "snooze", "id": "1-0", "delay_ms": 60000}
    assert end_of("no json")["type"] == "dead"
    ready.task("2-0", {"do": "nothing"})
    assert ready.line()["type"] == "done"


def test_checkpoint_and_progress_are_said_before_the_end(ready):
    ready.task("1-0", {"do": "note"})
    assert ready.line() == {"type": "checkpoint", "id": "1-0", "value": {"job": 7}}
    assert ready.line() == {"type": "progress", "id": "1-0", "value": "half"}
    assert ready.line() == {"type": "done", "id": "1-0", "result": {"saved": {"job": 7}}}


def test_a_cancelled_task_ends_and_the_others_go_on(ready, language):
    ready.task("1-0", {"do": "wait"})
    if language in CONCURRENT:  # several at once in one child
        for n in range(2, 5):
            ready.task("%d-0" % n, {"do": "nothing"})
            assert ready.line() == {"type": "done", "id": "%d-0" % n}
    ready.send(type="cancel", id="9-9", reason="never heard of")
    ready.send(type="cancel", id="1-0", reason="timed out after 30m")
    last = ready.line()
    assert (last["type"], last["id"]) == ("retry", "1-0") and "cancel" in last["error"].lower()


def test_what_a_handler_prints_is_no_answer(ready):
    ready.task("1-0", {"do": "print"})
    assert len(ready.proc.stdout.read(100 + 160000)) == 160100
    assert ready.line() == {"type": "done", "id": "1-0", "result": "printed"}


def test_it_finishes_what_it_has_at_a_drain_and_leaves(ready):
    ready.task("1-0", {"do": "wait"})
    ready.send(type="drain")
    ready.send(type="cancel", id="1-0", reason="drain limit")  # still heard
    assert ready.line()["id"] == "1-0"
    assert ready.line() is None
    assert ready.finish()[0] == 0


def test_the_end_of_stdin_is_a_drain(ready):
    ready.task("1-0", {"do": "note"})
    ready.proc.stdin.close()
    ready.proc.stdin = None
    assert [ready.line()["type"] for _ in range(3)] == ["checkpoint", "progress", "done"]
    assert ready.line() is None
    status, _, err = ready.finish()
    assert (status, err) == (0, b"")


def test_without_fd_3_it_says_who_closes_it(command):
    p = subprocess.run(["sh", "-c", 'exec "$@" 3>&-', "sh"] + command, stdin=subprocess.DEVNULL,
                       capture_output=True, env=dict(os.environ, HANDLERS=HANDLERS), timeout=20)
    assert p.returncode == 1 and b"redisq: fd 3 is closed" in p.stderr


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("words, line", [
    ("done", {"type": "done"}),
    ('done \'{"n": 1}\'', {"type": "done", "result": {"n": 1}}),
    ('retry "busy \\"now\\" \\\\ \'" 5000', {"type": "retry", "error": 'busy "now" \\ \'', "delay_ms": 5000}),
    ('retry "$(printf \'a\\nb\\377\\303\\244\')"', {"type": "retry", "error": "a b\u00e4"}),
    ('retry ""', {"type": "retry", "error": ""}),
    ("snooze", {"type": "snooze"}),
    ("snooze 60000", {"type": "snooze", "delay_ms": 60000}),
    ('dead "no such user"', {"type": "dead", "error": "no such user"}),
    ('checkpoint "$(redisq_text x)"', {"type": "checkpoint", "value": "x"}),
    ("progress 40", {"type": "progress", "value": 40}),
], ids=range(10))
def test_what_a_shell_script_says(shell, words, line):
    script = ". %s/bash/redisq.sh; redisq_%s" % (HANDLERS, words)
    child = PipeChild([shell, "-c", script])
    assert child.line() == line
    assert child.line() is None
    assert child.finish() == (0, b"", b"")
    child.close()


@pytest.mark.parametrize("kind", ["pipe", "exec"])
def test_the_same_file_serves_both_kinds_of_a_real_worker(kind, sup, server, command):
    s = sup(queues={"q": {"handler": "%s %s" % (kind, " ".join(command)),
                          "env": "HANDLERS=" + HANDLERS, "concurrency": 4, "max_attempts": 1,
                          "result_ttl": "1m"}},
            supervisor={"workers": 1})

    def add(payload):
        fields = {"payload": payload, "colour": "red", "raw": b"\xfe\xff"}
        return server.r.xadd("q", fields).decode()

    done = [add(json.dumps({"do": "echo", "text": "n%d" % n})) for n in range(6)]
    binary, dead, failed = add(b"\xff\x00\n\xfe"), add('{"do": "dead"}'), add('{"do": "fail"}')
    wait_until(lambda: len(server.dead("q")) == 2 and server.counters("q").get("done") == 7, 60,
               lambda: s.log("q"))
    for n, task in enumerate(done):
        got = json.loads(server.r.get("{q}:result:" + task))
        assert got == {"id": task, "queue": "q", "attempt": 1, "saved": None, "field": "red",
                       "text": "n%d" % n}
    assert json.loads(server.r.get("{q}:result:" + binary)) == {"bytes": 4, "last": 254}
    letters = {f[b"redisq.id"].decode(): f for _, f in server.dead("q")}
    assert letters[dead][b"redisq.reason"] == b"rejected"
    assert letters[dead][b"redisq.error"] == b"no such user"
    assert letters[failed][b"redisq.reason"] == b"attempts"
    assert b"it failed" in letters[failed][b"redisq.error"]


@pytest.mark.parametrize("example", ["pipe node %s/node/count.mjs", "pipe python3 %s/python/count.py",
                                     "pipe php %s/php/count.php", "pipe ruby %s/ruby/count.rb",
                                     "exec bash %s/bash/count.sh"])
def test_the_examples_go_on_where_they_were_killed(example, sup, server):
    if not shutil.which(example.split()[1]):
        pytest.skip("not installed")
    s = sup(queues={"q": {"handler": example % HANDLERS, "result_ttl": "1m", "concurrency": 1,
                          "retry_delay": "50ms"}},
            supervisor={"workers": 1}, env={"PATH": os.environ["PATH"]})
    task = server.r.xadd("q", {"payload": "5" if "bash" in example else '{"to": 5}'}).decode()
    wait_until(lambda: int(server.r.hget("{q}:ckpt", task) or 0) >= 2, 30, lambda: s.log("q"))
    os.kill(s.pids("q")[0], signal.SIGKILL)
    got = wait_until(lambda: server.r.get("{q}:result:" + task), 30, lambda: s.log("q"))
    assert json.loads(got) == {"counted": 5}
    assert server.counters("q")["done"] == 1
    said = server.add("q", b"no json")[0]
    wait_until(lambda: server.dead("q"), 30)
    assert server.dead("q")[0][1][b"redisq.id"].decode() == said
    assert s.stop() == 0, "it leaves when it is drained"
