"""What a queue refuses at the start and what it waits for."""
import pytest

from waiting import stays, wait_until


def with_other_group(server, acked=False):
    server.add("q", *[b"x"] * 5)
    server.r.xgroup_create("q", "workers", "0")
    got = server.r.xreadgroup("workers", "c", {"q": ">"}, count=3)[0][1]
    if acked:
        server.r.xack("q", "workers", *[i for i, _ in got])


@pytest.mark.parametrize("acked", [False, True])
def test_another_group_on_the_stream_is_refused(sup, server, journal, acked):
    with_other_group(server, acked)
    s = sup(queues={"q": {"handler": journal.handler()}})
    assert s.wait_exit() == 78
    out = s.out() + s.log("q")
    assert '"workers"' in out and "5 entries" in out and "on_done" in out and "group" in out
    assert server.xlen("q") == 5 and not journal.starts()
    assert [g["name"] for g in server.r.xinfo_groups("q")] == [b"workers"]


def test_one_refused_queue_is_parked_and_the_others_run(sup, server, journal):
    with_other_group(server)
    s = sup(queues={"q": {"handler": journal.handler(), "workers": 1},
                    "fine": {"handler": journal.handler(), "workers": 1}})
    s.wait_ready(1, "fine")
    wait_until(lambda: [w["state"] for w in s.workers("q")] == ["parked"])
    assert s.workers("q")[0]["restarts"] == 0
    server.add("fine", b"x")
    server.wait_empty("fine")
    # Said what to do; done; HUP tries again.
    s.queues["q"].update(start="0", on_done="ack")
    s.write_ini()
    s.ctl("reload", check=0)
    wait_until(lambda: len(journal.ends()) == 6)
    s.wait_ready(1, "q")


def test_on_done_ack_robs_the_other_group_of_nothing(sup, server, journal):
    with_other_group(server, acked=True)
    s = sup(queues={"q": {"handler": journal.handler(), "start": "0", "on_done": "ack"}})
    s.wait_ready(2)
    server.add("q", *[b"y"] * 5)
    journal.wait_ended(10)
    wait_until(lambda: server.n_pending("q") == 0)
    assert server.xlen("q") == 10
    rest = server.r.xreadgroup("workers", "c", {"q": ">"}, count=100)[0][1]
    assert len(rest) == 7


def test_start_at_the_end_takes_only_new_entries(sup, server, journal):
    with_other_group(server)
    s = sup(queues={"q": {"handler": journal.handler(), "start": "$", "on_done": "ack"}})
    s.wait_ready(2)
    new = server.add("q", b"new")
    journal.wait_ended(1)
    stays(lambda: len(journal.starts()) == 1, 0.3)
    assert list(journal.runs()) == new


def test_start_with_several_groups_needs_on_done_ack(sup, server, journal):
    with_other_group(server)
    s = sup(queues={"q": {"handler": journal.handler(), "start": "0"}})
    assert s.wait_exit() == 78
    assert "on_done" in s.out() + s.log("q")


def test_group_key_continues_the_other_group(sup, server, journal):
    with_other_group(server)
    s = sup(queues={"q": {"handler": journal.handler(), "group": "workers"}})
    s.wait_ready(2)
    wait_until(lambda: len(journal.ends()) == 2, what="the two that nobody had read")
    stays(lambda: len(journal.starts()) == 2, 0.3,
          "the three of a foreign consumer wait for foreign_idle")


def test_foreign_entries_are_taken_after_foreign_idle(sup, server, journal):
    with_other_group(server)
    s = sup(queues={"q": {"handler": journal.handler(), "group": "workers", "lease": "2s",
                          "foreign_idle": "3s"}})
    s.wait_ready(2)
    wait_until(lambda: len(journal.ends()) == 5, 30)
    assert set(journal.runs().values()) == {1}


def test_wrong_type_is_refused(sup, server, journal):
    server.r.set("q", "a string")
    s = sup(queues={"q": {"handler": journal.handler()}})
    assert s.wait_exit() == 78
    out = s.out() + s.log("q")
    assert "q" in out and ("string" in out or "WRONGTYPE" in out)
    assert server.r.get("q") == b"a string"


@pytest.mark.parametrize("name", ["a}b", "x}"])
def test_names_whose_keys_cannot_share_a_slot_are_refused(sup, server, journal, name):
    s = sup(queues={name: {"handler": journal.handler()}})
    assert s.wait_exit() == 78
    assert "redisq.ini:" in s.out() and name in s.out()


@pytest.mark.parametrize("name", ["plain", "with:colon", "{tag}:x", "ümlaut", "a b", "per%cent"])
def test_printable_names_work(sup, server, journal, name):
    s = sup(queues={name: {"handler": journal.handler()}}, supervisor={"workers": 1})
    s.wait_ready(1)
    server.add(name, b"do exit=1 until=2", b"x")
    wait_until(lambda: server.delayed(name) or len(journal.ends()) == 3)
    server.wait_empty(name)
    assert server.counters(name)["done"] == 2


def test_redis_down_at_the_start_is_waited_for(sup, server, journal):
    server.stop()
    s = sup(queues={"q": {"handler": journal.handler()}},
            supervisor={"ready_timeout": "2500ms"})
    pids = wait_until(lambda: len(s.pids()) == 2 and sorted(s.pids()))
    wait_until(lambda: "127.0.0.1:%d" % server.port in s.out() + s.log("q"),
               what="it is said which Redis does not answer")
    stays(lambda: sorted(s.pids()) == pids and not s.ready(), 3, "no one is killed for it")
    server.start()
    s.wait_ready(2, timeout=30)
    assert sorted(s.pids()) == pids
    server.add("q", *[b"x"] * 5)
    server.wait_empty("q")


def test_stop_while_redis_is_down(sup, server, journal):
    server.stop()
    s = sup(queues={"q": {"handler": journal.handler()}})
    wait_until(lambda: len(s.pids()) == 2)
    assert s.stop(10) == 0


def test_a_missing_password_is_waited_for(sup, server, journal):
    server.r.config_set("requirepass", "right")
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1})
    wait_until(lambda: "NOAUTH" in s.out() + s.log("q") or "password" in s.out() + s.log("q"))
    assert not s.ready()
    server.r.config_set("requirepass", "")
    s.wait_ready(1, timeout=40)


def test_an_eviction_policy_is_warned_about(sup, server, journal):
    server.r.config_set("maxmemory", "100mb")
    server.r.config_set("maxmemory-policy", "volatile-lru")
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1})
    said = "maxmemory-policy is volatile-lru; set it to noeviction"
    wait_until(lambda: s.log("q").count(said) == 1)
    # Looked at again with each new link.
    server.r.config_set("maxmemory-policy", "noeviction")
    server.r.client_kill_filter(_type="normal", skipme=True)
    wait_until(lambda: "throws no tasks away any more" in s.log("q"))
    server.r.config_set("maxmemory-policy", "volatile-lru")
    server.r.client_kill_filter(_type="normal", skipme=True)
    wait_until(lambda: s.log("q").count(said) == 2)


def test_a_redis_that_loads_its_data_is_waited_for_at_the_start(sup, server, journal):
    server.add("q", *[b"x"] * 3)
    server.start_loading()
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"ready_timeout": "1500ms"})
    pids = wait_until(lambda: len(s.pids()) == 2 and sorted(s.pids()))
    wait_until(lambda: "LOADING" in s.log("q"))
    assert not s.ready()
    s.wait_ready(2)
    server.wait_empty("q")
    assert sorted(s.pids()) == pids and not any(w["restarts"] for w in s.workers())


def test_password_from_a_file_is_used_and_never_shown(sup, server, journal, tmp_path):
    server.r.config_set("requirepass", "s3cret;x #y")
    server.r = __import__("redis").Redis(unix_socket_path=server.socket, password="s3cret;x #y")
    secret = tmp_path / "secret"
    secret.write_text("s3cret;x #y\n")
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1},
            redis={"password_file": secret})
    s.wait_ready(1)
    server.add("q", b"x")
    server.wait_empty("q")
    assert "s3cret" not in s.out() + s.log("q")
    for pid in s.marked():
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            assert b"s3cret" not in f.read()


def test_first_lines_say_the_product_and_where_the_logs_are(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 3}},
            supervisor={"log_to": "both"})
    s.wait_ready(2)
    assert "2 workers × 3 = 6 at once on this host" in s.out()
    assert s.log_dir in s.out()
