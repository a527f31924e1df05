"""Tasks that are simply done are settled by the script done; all else by settle."""
import os
import signal

import pytest

from conftest import on_both
from links import Links, is_script, is_settling
from protocol import SCRIPTS, protocol, refused, retry, source
from redisserver import version
from test_so import do, library, wait_done   # noqa: F401  (a fixture among them)
from waiting import stays, wait_until


@pytest.fixture
def links(server):
    made = Links(server.port)
    yield made
    made.close()


@pytest.fixture
def so(sup, links, library):                           # noqa: F811
    def make(redis=None, **keys):
        s = sup(queues={"q": library.keys(**keys)}, supervisor={"workers": 1},
                redis=dict({"url": links.url}, **(redis or {})))
        s.wait_ready(1)
        return s
    return make


@on_both
def test_done_goes_the_short_way(so, server, links, library):   # noqa: F811
    so()
    ids = server.add("q", *[b"x"] * 500)
    wait_done(server, 500)
    server.wait_empty("q")
    assert server.counters("q") == {"done": 500} and library.runs() == {i: 1 for i in ids}
    assert links.n_script("done") >= 125 and links.n_script("settle") == 0 == server.xlen("q")
    assert not server.r.exists("{q}:ckpt", "{q}:progress", "{q}:crash", "{q}:bodies")


def test_with_on_done_ack_the_entries_stay(so, server, links, library):     # noqa: F811
    so(on_done="ack")
    server.add("q", *[b"x"] * 50)
    wait_done(server, 50)
    wait_until(lambda: server.n_pending("q") == 0)
    assert links.n_script("done") >= 1 and server.xlen("q") == 50


@on_both
@pytest.mark.parametrize("knobs,keys", [
    ("return=1 until=2", {}),                   # it has run before
    ("checkpoint=x", {}), ("progress=x", {}),   # something of it is in Redis
    ("result=x", {"result_ttl": "1m"}),         # somebody wants to know
])
def test_what_has_more_to_it_is_settles(so, server, links, library, knobs, keys):   # noqa: F811
    so(**keys)
    server.add("q", do(knobs))
    wait_done(server, 1)
    server.wait_empty("q")
    assert links.n_script("done") == 0 and server.counters("q")["done"] == 1
    assert not server.r.exists("{q}:ckpt", "{q}:progress", "{q}:crash", "{q}:bodies")


@pytest.mark.parametrize("denied", ["-hincrby", "-xack"])
def test_what_is_not_permitted_changes_nothing_until_it_is(so, server, library, denied):  # noqa: F811
    server.r.execute_command("ACL", "SETUSER", "w", "on", ">p", "~*", "+@all", denied)
    so(redis={"username": "w", "password": "p"})
    ids = server.add("q", *[b"x"] * 4)
    library.wait_ended(4)
    stays(lambda: server.xlen("q") == 4 and server.n_pending("q") == 4, 0.3)
    server.r.execute_command("ACL", "SETUSER", "w", "+@all")
    server.wait_empty("q")
    assert library.runs() == {i: 1 for i in ids}
    wait_until(lambda: server.counters("q").get("done") == 4)


@on_both
def test_at_out_of_memory_settle_does_it(so, server, library, tmp_path):  # noqa: F811
    so()
    gate = tmp_path / "gate"
    server.add("q", *[do("gate=%s" % gate)] * 4)
    library.wait_started(4)
    server.r.config_set("maxmemory", "1mb")
    gate.write_text("")
    wait_done(server, 4)
    server.r.config_set("maxmemory", "0")
    server.wait_empty("q")
    assert server.counters("q") == {"done": 4}


@on_both
def test_an_entry_that_somebody_else_acknowledged_is_not_counted(
        so, server, library, tmp_path):                # noqa: F811
    s = so()
    gate = tmp_path / "gate"
    ids = server.add("q", *[do("gate=%s" % gate)] * 4)
    library.wait_started(4)
    assert server.acknowledge("q", ids[1]) == 1
    gate.write_text("")
    wait_until(lambda: "1 task that is done had been acknowledged" in s.log("q"), 20)
    wait_until(lambda: server.counters("q").get("done") == 3)
    server.add("q", b"x")
    wait_until(lambda: server.counters("q").get("done") == 4)


@on_both
def test_an_answer_that_is_lost_settles_once(so, server, links, library, tmp_path):  # noqa: F811
    so()
    gate = tmp_path / "gate"
    ids = server.add("q", *[do("gate=%s" % gate)] * 4)
    library.wait_started(4)     # or a read is lost, too
    links.hold(is_script("done"))
    gate.write_text("")
    wait_until(links.held)
    wait_until(lambda: server.counters("q").get("done", 0) >= 1)
    links.hold(None)
    links.cut("fetch")
    links.cut("cmd")
    server.wait_empty("q")
    wait_until(lambda: server.counters("q").get("done") == 4)
    assert library.runs() == {i: 1 for i in ids}


@on_both
def test_one_that_comes_late_counts_nothing_twice(so, server, links, library):  # noqa: F811
    """Its link was given up, and what it says was said again over the next, before it arrived."""
    so(redis={"command_timeout": "1s"})
    links.keep(is_settling)
    ids = server.add("q", *[b"x"] * 4)
    server.wait_empty("q")
    assert links.kept, "the first try is still under way"
    assert server.counters("q") == {"done": 4}
    links.deliver()
    assert server.counters("q") == {"done": 4} and library.runs() == {i: 1 for i in ids}


# ---------------------------------------------------------------- the script itself

@pytest.fixture
def script(server):
    p = protocol(server)
    p.caller = "w1"
    p.done = lambda *ids, keep=0: p.run("done", [p.queue, p.counters], p.group, keep, *ids)
    return p


@on_both
def test_any_number_of_copies_counts_once(script):
    script.add(b"a", b"b", b"c")
    ids = [i for i, _ in script.read("w1", 2)]
    assert script.done(*ids) == 2
    state = script.state()
    assert script.done(*ids) == 0 and script.done(*ids) == 0
    assert script.state() == state and script.counter("done") == 2 and script.server.xlen("q") == 1


@on_both
def test_a_late_one_leaves_what_became_of_a_retry(script):
    script.add(b"a")
    task, = script.read("w1", 1)
    script.make_idle("w2", 0, task[0])
    script.settle("w2", retry(task))
    body = script.body(task[0])
    assert script.done(task[0]) == 0 and script.body(task[0]) == body
    assert script.counter("done") == 0 and script.counter("retried") == 1
    assert script.places() == {"a": ["delayed"]}


@pytest.mark.parametrize("user", ["-hincrby", "-xdel"])
def test_where_a_command_is_not_permitted_nothing_is_changed(script, user):
    nothing_is_changed_without(script, user)


@pytest.mark.backends("list")
@pytest.mark.parametrize("user", ["-hincrby", "-lrem", "-zrem", "-hdel", "-hmget"])
def test_where_a_command_for_lists_is_not_permitted_nothing_is_changed(script, user):
    nothing_is_changed_without(script, user)


def nothing_is_changed_without(script, user):
    script.add(b"a")
    task, = script.read("w1", 1)
    r = script.r
    r.execute_command("ACL", "SETUSER", "w", "on", ">p", "~*", "+@all", user)
    r.execute_command("AUTH", "w", "p")
    said = refused(lambda: script.done(task[0]))
    r.execute_command("ACL", "SETUSER", "w", "+@all")
    assert said and script.counter("done") == 0 and list(script.pending()) == [task[0]]
    assert script.places() == {"a": ["running"]}


@on_both
def test_a_counter_of_another_kind_costs_no_task(script):
    script.add(b"a")
    task, = script.read("w1", 1)
    script.r.set(script.counters, "x")
    assert "WRONGTYPE " in refused(lambda: script.done(task[0]))
    assert script.places() == {"a": ["running"]}


@pytest.mark.parametrize("kind", ["stream", "list"])
def test_every_script_has_its_effects_replicated(kind):
    for name in os.listdir(SCRIPTS):
        if name.endswith(".lua") and not name.startswith("_"):
            assert "redis.replicate_commands()" in source(name[:-4], kind), name


def test_where_effects_are_not_replicated_unless_asked_for_no_task_is_left_half_done(script):
    script.add(b"a")
    task, = script.read("w1", 1)
    if version() < (7,):
        script.r.config_set("lua-replicate-commands", "no")
    assert script.done(task[0]) == 1 and script.counter("done") == 1
    assert script.places() == {}


# ---------------------------------------------------------------- late ones

@pytest.fixture
def stalled_with_a_settlement_under_way(sup, server, links, journal, gate):
    """A worker that stands still, its task done and still pending; another runs it by now."""
    s = sup(queues={"q": {"lease": "2s", "concurrency": 1, "kill_grace": "300ms",
                          "handler": journal.handler()}},
            supervisor={"workers": 2, "heartbeat_timeout": "0"},
            redis={"url": links.url, "command_timeout": "60s"})
    s.wait_ready(2)
    links.keep(is_script("done"))
    task, = server.add("q", b"do %s" % str(gate).encode())
    journal.wait_started(1)
    owner = int(journal.starts()[0]["env"]["REDISQ_WORKER"].rpartition("_")[2])
    gate.open()
    wait_until(lambda: links.kept, 20, "it is done, and nobody has heard of it")
    os.kill(owner, signal.SIGSTOP)
    os.unlink(gate.path)
    journal.wait_started(2)
    yield s, task, owner
    os.kill(owner, signal.SIGCONT)


@pytest.mark.backends("list")
def test_a_late_one_leaves_a_task_of_a_list_to_who_has_it_now(
        stalled_with_a_settlement_under_way, server, links, journal, gate):
    _, task, owner = stalled_with_a_settlement_under_way
    links.deliver()
    assert server.n_pending("q") == 1 and not server.counters("q").get("done")
    gate.open()
    wait_until(lambda: server.counters("q") == {"done": 1}, 20, "it counts for the other")
    os.kill(owner, signal.SIGCONT)
    another, = server.add("q", b"x")
    wait_until(lambda: server.counters("q") == {"done": 2}, 20, "each counts once")
    server.wait_empty("q")
    assert journal.runs() == {task: 2, another: 1}


def test_a_late_one_ends_the_task_for_who_has_it_now(
        stalled_with_a_settlement_under_way, server, links, journal, gate):
    s, task, owner = stalled_with_a_settlement_under_way
    links.deliver()
    assert server.n_pending("q") == 0 and server.xlen("q") == 0
    wait_until(lambda: "its entry is gone; its result will not count" in s.log("q"), 20, "the other hears of it")
    os.kill(owner, signal.SIGCONT)
    gate.open()
    another, = server.add("q", b"x")
    wait_until(lambda: server.counters("q") == {"done": 2}, 20, "each counts once")
    server.wait_empty("q")
    assert journal.runs() == {task: 2, another: 1}
    assert not server.r.exists("{q}:crash", "{q}:ckpt", "{q}:progress", "{q}:dead", "{q}:delayed")


def test_a_late_one_counts_nothing_where_another_has_settled(
        stalled_with_a_settlement_under_way, server, links, journal, gate):
    _, task, owner = stalled_with_a_settlement_under_way
    gate.open()
    wait_until(lambda: server.counters("q") == {"done": 1}, 20, "the other has settled")
    links.deliver()
    os.kill(owner, signal.SIGCONT)
    another, = server.add("q", b"x")
    wait_until(lambda: server.counters("q") == {"done": 2}, 20, "each counts once")
    server.wait_empty("q")
    assert journal.runs() == {task: 2, another: 1}
