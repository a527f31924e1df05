"""Tasks that are simply done are settled by the script done; all else by settle."""
import pytest

from links import Links, is_script, is_settling
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
    server.r.execute_command("ACL", "SETUSER", "w", "on", ">p", "~*", "&*", "+@all", denied)
    so(redis={"username": "w", "password": "p"})
    ids = server.add("q", *[b"x"] * 4)
    library.wait_ended(4)
    stays(lambda: server.xlen("q") == 4 and server.n_pending("q") == 4, 0.3)
    server.r.execute_command("ACL", "SETUSER", "w", "+@all")
    server.wait_empty("q")
    assert library.runs() == {i: 1 for i in ids}
    wait_until(lambda: server.counters("q").get("done") == 4)


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


def test_an_entry_that_somebody_else_acknowledged_is_not_counted(
        so, server, library, tmp_path):                # noqa: F811
    s = so()
    gate = tmp_path / "gate"
    ids = server.add("q", *[do("gate=%s" % gate)] * 4)
    library.wait_started(4)
    assert server.r.xack("q", "redisq", ids[1]) == 1
    gate.write_text("")
    wait_until(lambda: "1 tasks that are done had been acknowledged" in s.log("q"), 20)
    wait_until(lambda: server.counters("q").get("done") == 3)
    server.add("q", b"x")
    wait_until(lambda: server.counters("q").get("done") == 4)


def test_an_answer_that_is_lost_settles_once(so, server, links, library):  # noqa: F811
    so()
    links.hold(is_script("done"))
    ids = server.add("q", *[b"x"] * 4)
    wait_until(links.held)
    wait_until(lambda: server.counters("q").get("done", 0) >= 1)
    links.hold(None)
    links.cut("fetch")
    links.cut("cmd")
    server.wait_empty("q")
    wait_until(lambda: server.counters("q").get("done") == 4)
    assert library.runs() == {i: 1 for i in ids}


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
