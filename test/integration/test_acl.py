"""What Redis must let a worker do: the documented permissions are all it needs, what is missing is
named, and whatever a managed service refuses is done without."""
import os
import re
import signal

import pytest

from redisserver import ROOT, RedisServer, documented, optional
from waiting import wait_until

FAST = {"retry_delay": "50ms", "retry_jitter": "0%", "breaker_failures": 0, "max_attempts": 2,
        "max_snoozes": 2, "concurrency": 2, "result_ttl": "1h", "max_crashes": 2, "timeout": "4s",
        "on_timeout": "hold", "lease": "2s"}


def rows():
    """(acl, who, key) of common/needs.def."""
    with open(os.path.join(ROOT, "common", "needs.def"), encoding="ascii") as f:
        return re.findall(r'(?m)^NEED\("([a-z|]+)", ([A-Z]+), ([A-Z]+),', f.read())


def allow(server, *words):
    server.r.execute_command("ACL", "SETUSER", "w", *words)


def a_worker(server, *more):
    """A user "w" with the documented permissions of a worker."""
    allow(server, "reset", "on", ">p", "~q", "~{q}:*", "-@all", *documented("worker"), *more)
    return {"username": "w", "password": "p"}


def a_whole_life(s, server, journal, gate):
    """Everything that can become of a task, a death, a reload and a drain."""
    s.wait_ready(2)
    server.add("q", *[b"x"] * 20)
    server.add("q", b"do sleep=60000", b"do exit=1", b"do exit=1 until=2", b"do exit=75 until=2", b"do exit=65",
               b"do signal=11", b"do ckpt=1 exit=1 until=2", b'do fd3={"type":"progress","value":1}',
               b'do fd3={"type":"done","result":1}')
    wait_until(lambda: len(server.dead("q")) == 3 and server.xlen("{q}:held") == 1 and
               server.is_empty("q"), 30, lambda: "all have ended: " + s.log("q")[-2000:])
    long = server.add("q", b"do gate=%s" % gate.path.encode())[0]
    start = wait_until(lambda: journal.starts(long), 10, "it runs")[0]
    owner = start["env"]["REDISQ_WORKER"]
    os.kill(int(owner.partition("_")[2]), signal.SIGKILL)
    wait_until(lambda: len(journal.starts(long)) == 2, 20, "it runs again")
    gate.open()
    server.wait_empty("q")
    s.reload()
    server.add("q", b"x")
    server.wait_empty("q")
    wait_until(lambda: owner not in server.consumers("q"), what="the dead one is removed")
    assert s.stop() == 0
    wait_until(lambda: not server.consumers("q"), what="no consumer is left")
    assert server.r.hgetall("{q}:names") == {}
    assert server.counters("q")["done"] == 20 + 6 - 1 + 2


def denied(server, user="w"):
    return {i["object"] for i in server.r.acl_log(1000) if i["username"] == user}


def test_the_documented_permissions_are_those_that_are_tried(server):
    for who, part in (("WORKER", "worker"), ("OPTION", "option"), ("CTL", "ctl")):
        said = documented(part)
        assert len(set(said)) == len(said)
        rest = {"+" + acl for acl, w, _ in rows() if w == who}
        for lower in ("worker", "option")[:("worker", "option", "ctl").index(part)]:
            rest -= set(documented(lower))
        assert set(said) == rest, who


def test_a_worker_lives_on_the_documented_permissions(sup, server, journal, gate):
    s = sup(queues={"q": dict(FAST, handler=journal.handler())},
            redis=a_worker(server, *optional()))
    a_whole_life(s, server, journal, gate)
    assert denied(server) == set(), "they are not enough"


@pytest.mark.parametrize("which", [0, 1])
def test_the_documented_keys_of_partitions_are_all_that_is_needed(sup, server, journal, which):
    """By a pattern, or each by its own name."""
    with open(os.path.join(ROOT, "worker", "protocol.txt"), encoding="utf-8") as f:
        said = re.search(r"has the keys ((?:~\S+ ?)+), or for three alone ((?:~\S+ ?)+)and so", f.read())
    words = said.group(1 + which).replace("video", "q").split()
    if which:
        words += [w.replace("q:0", "q:%d" % i) for w in words for i in (1, 2)]
    a_worker(server, *optional(), "resetkeys", *words)
    s = sup(queues={"q": dict(FAST, handler=journal.handler(), partitions=3)},
            redis={"username": "w", "password": "p"})
    s.wait_ready(2)
    for i in range(3):
        server.add("q:%d" % i, b"x", b"do exit=1 until=2", b"do exit=65")
    wait_until(lambda: all(server.counters("q:%d" % i).get("done") == 2 and
                           len(server.dead("q:%d" % i)) == 1 for i in range(3)), 30,
               lambda: "all have ended: " + s.log("q")[-2000:])
    assert s.stop() == 0
    assert denied(server) == set(), "they are not enough"


def test_a_worker_lives_without_what_it_can_do_without(sup, server, journal, gate):
    s = sup(queues={"q": dict(FAST, handler=journal.handler())}, redis=a_worker(server))
    a_whole_life(s, server, journal, gate)
    plain = {o.split("|")[0] for o in denied(server)}
    assert plain <= {o[1:].split("|")[0] for o in optional()}
    said = [line for line in s.log("q").splitlines() if "does not let us use" in line]
    pids = [line.split()[2] for line in said]
    assert len(pids) == len(set(pids)) == 5, "once for each process: 2, the replacement, 2 new"
    for option in documented("option"):
        assert option[1:] + " (" in said[0]


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_client_unblock_that_is_refused_is_not_asked_for_in_a_spin(sup, server, journal, gate, when):
    """A backlog in one partition needs the slots that wait at the others, until their waits end."""
    def n_refused():
        return sum(int(e["count"]) for e in server.r.acl_log(1000)
                   if e["object"].startswith("client"))

    rights = set(optional()) - {"+client|unblock"}
    client = [o for o in rights if o.startswith("+client|")]
    if when == "meanwhile":
        rights = optional()
    who = a_worker(server, *rights, "resetkeys", "~q:*", "~{q:*")
    s = sup(queues={"q": dict(FAST, handler=journal.handler(), partitions=3, concurrency=4)},
            redis=who, args=["-n", 1])
    s.wait_ready(1)
    wait_until(lambda: server.r.info("clients")["blocked_clients"] == 3)
    if when == "meanwhile":
        allow(server, "-client", *client)   # before 7.0 no subcommand can be taken away
    before = n_refused()
    server.add("q:0", *[b"do " + str(gate).encode()] * 8)
    journal.wait_started(4)
    gate.open()
    server.wait_empty("q:0")
    assert n_refused() <= before + (2 if when == "meanwhile" else 0)


def test_no_documented_permission_is_idle(server):
    """Every command that is asked for is one that a script, the worker or redisqctl names."""
    texts = ""
    for top in ("common", "worker", "supervisor/ctl"):
        for where, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if name.endswith((".c", ".lua")) and not name.startswith("needs"):
                    with open(os.path.join(where, name), encoding="utf-8") as f:
                        texts += f.read()
    for acl, _, _ in rows():
        for word in acl.upper().split("|"):
            assert re.search(r"""["']%s["']""" % word, texts), acl


MISSING = [
    (("-xreadgroup",), "may not use xreadgroup on q; grant it: ACL SETUSER ... +xreadgroup"),
    (("-xack",), "may not use xack on q; grant it: ACL SETUSER ... +xack"),
    (("-zadd", "-hincrby"), "may not use zadd on {q}:delayed, hincrby on {q}:counters; grant it: "
     "ACL SETUSER ... +zadd +hincrby"),
    (("resetkeys", "~q"), "has no access to {q}:delayed, {q}:bodies, {q}:dead, {q}:held"),
    (("resetkeys", "~q", "~{q}:[^n]*"), "has no access to {q}:names; grant it: "
     "ACL SETUSER ... ~{q}:*"),
]


@pytest.mark.parametrize("n", range(len(MISSING)))
def test_a_missing_permission_is_named_in_the_log(sup, server, journal, n):
    words, says = MISSING[n]
    s = sup(queues={"q": dict(FAST, handler=journal.handler())}, supervisor={"workers": 1},
            redis=a_worker(server, *words))
    server.add("q", b"do exit=1 until=2")
    wait_until(lambda: "the user of Redis " + says in s.log("q"), 20,
               lambda: "it is named: " + s.log("q"))
    assert server.counters("q").get("done", 0) == 0
    allow(server, "~q", "~{q}:*", *documented("worker"))
    wait_until(lambda: server.counters("q").get("done") == 1, 30, "it goes on")
    server.wait_empty("q")
    assert s.log("q").count("the user of Redis") == 1, "once a minute at most"


# As a managed service does it. (5.0 and later know the option; COMMAND, CONFIG, INFO go, too.)
REFUSED = ("CLIENT", "CONFIG", "COMMAND", "INFO", "ACL", "SCRIPT", "PING")


def test_commands_that_are_not_there_are_done_without(sup, tmp_path, journal, gate):
    options = [word for name in REFUSED[:-1] for word in ("--rename-command", name, "")]
    server = RedisServer(tmp_path, *options)
    try:
        s = sup(queues={"q": dict(FAST, handler=journal.handler())}, server=server)
        a_whole_life(s, server, journal, gate)
        assert "client|unblock (" in s.log("q") and "info (" in s.log("q")
    finally:
        server.close()
