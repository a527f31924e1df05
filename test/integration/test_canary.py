"""A reload tries its new generation in one slot first, and goes back when its handler is broken."""
import os
import signal

import pytest

import procs
from conftest import on_both
from fakesup import fake, queue  # noqa: F401 (a fixture)
from feeding import Feed
from waiting import wait_until

# Where a handler is tried with tasks they are fed until the verdict: on an idle queue it would pass.
FAST = {"retry_delay": "50ms", "retry_jitter": "0%", "concurrency": 4, "breaker_delay": "1h"}


def roll(s, name=None):
    """The roll of the only queue (or that one) as the status shows it; None = none."""
    status = s.status()
    return [q for q in status["queues"] if name in (None, q["name"])][0]["roll"] if status else None


def wait_canary(s):
    """Until the first new worker is in charge and on trial; its row."""
    def fact():
        r = roll(s)
        if not r or r["phase"] != "canary" or r["canary"] is None:
            return None
        rows = [w for w in s.workers() if w["slot"] == r["canary"] and w["state"] == "ready" and
                w["generation"] == r["generation"]]
        # While it is only "next", the worker before it is ready beside it.
        return rows[0] if rows and len([w for w in s.ready() if w["slot"] == r["canary"]]) == 1 \
            else None
    return wait_until(fact, 20, "a canary is on trial")


def generations(s):
    return [w["generation"] for w in s.ready()]


# ---------------------------------------------------------------- with real workers and tasks

@on_both
@pytest.mark.parametrize("code,text", [(1, "10 tasks in a row failed at once, the last with: "
                                        "exit 1"), (127, "the handler is broken: exit 127")])
def test_a_reload_to_a_broken_handler_goes_back(sup, server, journal, code, text):
    s = sup(queues={"q": dict(FAST, handler=journal.handler("sleep=150"))},
            supervisor={"workers": 4})
    old = {w["slot"]: w["pid"] for w in s.wait_ready(4)}
    s.queues["q"]["handler"] = journal.handler("exit=%d" % code, "until=99", "say=new")
    s.write_ini()
    with Feed(server, "q") as feed:
        journal.wait_ended(8)
        done = s.ctl("reload")
    ids = feed.ids
    assert done.returncode == 1 and text in done.err and "rolled back to generation 1" in done.err
    assert s.last_reload()["ok"] is False and text in s.last_reload()["error"]
    assert s.last_reload()["error"].startswith("q/")
    assert generations(s) == [1] * 4 and s.status()["queues"][0]["generation"] == 1
    kept = [w for w in s.ready() if old[w["slot"]] == w["pid"]]
    assert len(kept) == 3, "the other slots never changed their worker"
    server.wait_empty("q", 90)
    assert server.counters("q")["done"] == len(ids) and not server.dead("q")
    touched = [i for i, n in journal.runs().items() if n > 1]
    assert len(touched) <= 20
    assert sum(journal.runs().values()) <= len(ids) + 20 and set(journal.runs()) == set(ids)
    assert journal.most_at_once() <= 16


def test_a_queue_with_one_worker_goes_back_too(sup, server, journal):
    s = sup(queues={"q": dict(FAST, handler=journal.handler("sleep=50"))},
            supervisor={"workers": 1})
    s.wait_ready(1)
    s.queues["q"]["handler"] = journal.handler("exit=78", "until=99")
    s.write_ini()
    with Feed(server, "q") as feed:
        journal.wait_ended(4)
        assert s.ctl("reload").returncode == 1
    server.wait_empty("q", 60)
    assert server.counters("q")["done"] == len(feed.ids) and not server.dead("q")
    assert sum(journal.runs().values()) <= len(feed.ids) + 20
    # The old configuration again, and a good new one: both are taken.
    for knob in ("sleep=20", "sleep=1"):
        s.queues["q"]["handler"] = journal.handler(knob)
        s.write_ini()
        s.ctl("reload", check=0)
        assert s.last_reload() == {"ok": True, "error": None}


def test_a_crash_after_going_back_starts_the_old_generation(sup, server, journal):
    s = sup(queues={"q": dict(FAST, handler=journal.handler("sleep=50"))},
            supervisor={"workers": 2})
    s.wait_ready(2)
    s.queues["q"]["handler"] = journal.handler("exit=78", "until=99")
    s.write_ini()
    with Feed(server, "q") as feed:
        assert s.ctl("reload").returncode == 1
    for w in s.wait_ready(2):
        os.kill(w["pid"], signal.SIGKILL)
        wait_until(lambda: w["pid"] not in s.pids() and len(s.ready()) == 2)
    assert generations(s) == [1, 1]
    server.wait_empty("q", 60)
    assert server.counters("q")["done"] == len(feed.ids)


def test_a_handler_that_was_broken_before_is_nothing_to_go_back_to(sup, server, journal):
    s = sup(queues={"q": dict(FAST, handler=journal.handler("exit=78", "until=99"))},
            supervisor={"workers": 2})
    s.wait_ready(2)
    server.add("q", *[b"x"] * 40)
    wait_until(lambda: all(w["breaker"] for w in s.workers()), 20, "both breakers are open")
    s.queues["q"]["handler"] = journal.handler("exit=127", "until=99")
    s.write_ini()
    s.ctl("reload", check=0)                     # no better, but what the file says
    assert generations(s) == [2, 2]
    assert "broken, as the one before was" in s.out()
    s.queues["q"]["handler"] = journal.handler()
    s.write_ini()
    s.ctl("reload", check=0)                     # the repair
    server.wait_empty("q")
    assert server.counters("q")["done"] == 40


@on_both
def test_a_suspect_set_aside_in_the_canary_does_not_end_the_reload(sup, server, journal, gate):
    s = sup(queues={"q": dict(FAST, handler=journal.handler(), concurrency=2)},
            supervisor={"workers": 2, "crash_limit": 1000, "restart_delay": "10ms"})
    s.wait_ready(2)
    server.add("q", *[b"do " + str(gate).encode()] * 2)
    journal.wait_started(2)
    for w in s.workers():
        if w["running"]:
            os.kill(w["pid"], signal.SIGKILL)
    wait_until(lambda: len(journal.running()) >= 1 and
               [w for w in s.workers() if w["quarantine"]], 20, "one is set aside")
    s.signal(signal.SIGHUP)
    wait_until(lambda: s.status()["supervisor"]["generation"] == 2)
    gate.open()
    assert s.wait_reload(1)["ok"]
    server.wait_empty("q")
    assert server.counters("q")["done"] == 2 and generations(s) == [2, 2]


def test_a_full_queue_tries_the_new_handler_in_one_worker_first(sup, server, journal, gate):
    """Nothing can be tried while old tasks have all the places: the first that come free decide."""
    s = sup(queues={"q": dict(FAST, handler=journal.handler())}, supervisor={"workers": 4})
    s.wait_ready(4)
    server.add("q", *[b"do " + str(gate).encode()] * 16)
    wait_until(lambda: len(journal.running()) == 16, 20, "all places are taken")
    server.add("q", *[b"x"] * 150)
    s.queues["q"]["handler"] = journal.handler("exit=1", "until=99")
    s.write_ini()
    s.ctl("reload", check=0)                     # it waits for no task of an old worker
    assert generations(s) == [2] * 4 and roll(s)["phase"] == "watch"
    gate.open()
    wait_until(lambda: not s.last_reload()["ok"], 20, "it went back")
    assert "the last with: exit 1; rolled back to generation 1" in s.last_reload()["error"]
    server.wait_empty("q", 60)
    assert server.counters("q")["done"] == 166 and not server.dead("q")
    assert len([i for i, n in journal.runs().items() if n > 1]) <= 20
    assert generations(s) == [1] * 4 and journal.most_at_once() <= 16


def test_a_full_queue_gets_all_its_places_back_after_a_good_reload(sup, server, journal, gate):
    s = sup(queues={"q": dict(FAST, handler=journal.handler())}, supervisor={"workers": 4})
    s.wait_ready(4)
    server.add("q", *[b"do " + str(gate).encode()] * 16)
    wait_until(lambda: len(journal.running()) == 16, 20, "all places are taken")
    s.ctl("reload", check=0)
    assert roll(s)["phase"] == "watch"
    gate.open()
    wait_until(lambda: [w["credit"] for w in s.workers()] == [4] * 4, 20, "all have their credit")
    assert roll(s) is None and s.last_reload()["ok"]


def test_places_that_come_free_at_once_do_not_wait_for_the_next_event(sup, server, tmp_path):
    """The canary takes its fill, and what is left is held back until its tasks have shown
    something: nobody else says a word by then."""
    def gate(name):
        return tmp_path / ("gate-" + name)

    script = tmp_path / "two.sh"
    script.write_text("""#!/bin/sh
        wait_for() { until [ -e %s/gate-$1 ]; do sleep 0.02; done; }
        echo "$1" >>%s/begun
        if [ $1 = new ]; then wait_for new; elif mkdir %s/$REDISQ_SLOT; then wait_for one
        else wait_for other; fi 2>/dev/null
        """ % (tmp_path, tmp_path, tmp_path))
    script.chmod(0o755)

    def n_begun(which):
        return (tmp_path / "begun").read_text().split().count(which)
    (tmp_path / "begun").touch()
    s = sup(queues={"q": dict(FAST, handler="exec %s old" % script, concurrency=2)},
            supervisor={"workers": 3})
    s.wait_ready(3)
    server.add("q", *[b"x"] * 12)
    wait_until(lambda: n_begun("old") == 6)
    s.queues["q"]["handler"] = "exec %s new" % script
    s.write_ini()
    s.ctl("reload", check=0)
    assert roll(s)["phase"] == "watch"
    # One task of each old worker ends, and the supervisor hears of all three in one turn.
    s.signal(signal.SIGSTOP)
    gate("one").touch()
    wait_until(lambda: server.counters("q").get("done") == 3)
    s.signal(signal.SIGCONT)
    wait_until(lambda: n_begun("new") == 3, what="the third place is used, too")
    gate("other").touch()
    gate("new").touch()
    server.wait_empty("q")


def test_a_pipe_handler_that_cannot_start_goes_back_on_an_idle_queue_too(sup, tmp_path):
    good, bad = tmp_path / "good.sh", tmp_path / "bad.sh"
    good.write_text("echo '{\"type\":\"ready\"}' >&3; cat\n")
    bad.write_text("exit 1\n")
    s = sup(queues={"q": {"handler": "pipe sh %s" % good}}, supervisor={"workers": 2})
    s.wait_ready(2)
    assert s.ctl("reload").returncode == 0, "no task came, and its child was ready"
    s.queues["q"]["handler"] = "pipe sh %s" % bad
    s.write_ini()
    done = s.ctl("reload")
    assert done.returncode == 1 and "rolled back" in done.err
    assert "exit 1 before it said ready on fd 3" in s.last_reload()["error"]


def test_one_queue_goes_back_and_another_goes_on(sup, server, journal):
    good = dict(FAST, handler=journal.handler("sleep=50"), workers=2)
    s = sup(queues={"a": dict(good), "b": dict(good)})
    s.wait_ready(4)
    s.queues["a"]["handler"] = journal.handler("exit=78", "until=99")
    s.write_ini()
    with Feed(server, "a") as a, Feed(server, "b") as b:
        done = s.ctl("reload")
    assert done.returncode == 1 and "a/" in done.err and "b/" not in done.err
    assert {q["name"]: q["generation"] for q in s.status()["queues"]} == {"a": 1, "b": 2}
    for feed in (a, b):
        server.wait_empty(feed.queue, 60)
        assert server.counters(feed.queue)["done"] == len(feed.ids)


# --------------------------------------------------------------------------- with fake workers

LONG = {"tasks": 1, "task_ms": 600000}
BRIEF = {"tasks": 1, "task_ms": 30}


# A new worker that takes no task is not taken for idle: its trial lasts until the file is there (or
# for CANARY_PATIENCE_MS).
@pytest.fixture
def verdict(tmp_path):
    return tmp_path / "verdict"


def start(fake, knobs, workers=3, **keys):
    s = fake(knobs=knobs, queues=queue(concurrency=2, **keys),
             supervisor={"workers": workers, "restart_delay": "10ms"})
    s.wait_ready(workers)
    return s


def test_the_others_wait_for_the_canary(fake, verdict):
    s = start(fake, LONG)
    old = s.pids()
    s.set_knobs(consuming_file=verdict)
    s.signal(signal.SIGHUP)
    canary = wait_canary(s)
    left = [w["pid"] for w in s.ready() if w["slot"] != canary["slot"]]
    assert left == [p for i, p in enumerate(old) if i != canary["slot"]]
    assert s.status()["supervisor"]["state"] == "reloading"
    verdict.touch()
    assert s.wait_reload(1)["ok"]
    assert "passes: no task came to try it with" in s.out() and roll(s) is None


def test_an_old_worker_that_dies_on_trial_has_a_successor_at_once(fake, verdict):
    """Of its own generation, and not only when the roll comes to its slot."""
    s = start(fake, LONG, workers=2)
    s.set_knobs(consuming_file=verdict)
    s.signal(signal.SIGHUP)
    canary = wait_canary(s)
    s.set_knobs(**LONG)
    victim, = [w for w in s.ready() if w["slot"] != canary["slot"]]
    os.kill(victim["pid"], signal.SIGKILL)
    again = wait_until(lambda: [w for w in s.ready() if w["slot"] == victim["slot"] and
                                w["pid"] != victim["pid"]], what="it has a successor")[0]
    assert again["generation"] == 1 and roll(s)["phase"] == "canary"
    wait_until(lambda: [w for w in s.workers() if w["pid"] == again["pid"] and w["running"]],
               what="which takes tasks")
    verdict.touch()
    assert s.wait_reload(1)["ok"]


@pytest.mark.parametrize("works", [True, False])
def test_one_without_room_is_watched_until_its_first_task(fake, works):
    """All places are held by old tasks: the reload does not wait for them, its trial does."""
    full = {"tasks": 2, "task_ms": 600000}
    s = start(fake, full, workers=2)
    wait_until(lambda: sum(w["running"] for w in s.workers()) == 4)
    old = s.pids()
    s.set_knobs(**dict({"tasks": 2, "task_ms": 10}, **({} if works else {"fail": "exit 3"})))
    assert s.request("reload", wait=True)["ok"]
    assert generations(s) == [2, 2] and roll(s)["phase"] == "watch"
    assert "passes: no task could tell so far" in s.out()
    if works:
        os.kill(old[0], signal.SIGKILL)          # its places come free
        wait_until(lambda: roll(s) is None)
        assert s.last_reload()["ok"] and generations(s) == [2, 2]
        return
    os.kill(old[0], signal.SIGKILL)
    wait_until(lambda: not s.last_reload()["ok"])
    assert "exit 3; rolled back to generation 1" in s.last_reload()["error"]
    assert generations(s) == [1, 1] and s.status()["supervisor"]["state"] == "running"


@pytest.mark.parametrize("knobs,why", [(BRIEF, "it finished a task"), (LONG, "a task runs")])
def test_a_task_lets_it_pass(fake, knobs, why):
    s = start(fake, knobs)
    assert s.request("reload", wait=True)["ok"]
    assert "of generation 2, passes: " + why in s.out()
    assert generations(s) == [2] * 3


def test_a_breaker_open_before_any_task_replaces_nobody(fake):
    s = start(fake, {})
    pids = s.pids()
    s.set_knobs(broken="the handler is broken: it is not there")
    answer = s.request("reload", wait=True)
    assert not answer["ok"] and "it is not there; its old worker goes on" in answer["error"]
    wait_until(lambda: s.pids() == pids)
    assert s.status()["queues"][0]["generation"] == 1


def test_a_later_worker_that_breaks_takes_all_back(fake, tmp_path):
    s = start(fake, dict(LONG, **{"tasks@0": 0}))
    wait_until(lambda: [w["running"] for w in s.ready()] == [0, 1, 1])  # slot 0 is the canary
    s.set_knobs(**dict(BRIEF, **{"fail@1": "exit 3", "ready_file@2": tmp_path / "never"}))
    answer = s.request("reload", wait=True)
    assert not answer["ok"] and answer["error"].startswith("demo/1: exit 3; rolled back to")
    s.set_knobs(**BRIEF)
    wait_until(lambda: generations(s) == [1] * 3)
    assert s.request("reload", wait=True)["ok"]
    assert generations(s) == [3] * 3


def test_a_second_hup_on_trial_goes_back_to_what_worked(fake, verdict):
    s = start(fake, LONG)
    old = s.pids()
    s.set_knobs(consuming_file=verdict)
    s.signal(signal.SIGHUP)
    first = wait_canary(s)
    s.set_knobs(tasks=1, task_ms=10, fail="exit 3")
    s.signal(signal.SIGHUP)
    last = s.wait_reload(2)
    assert not last["ok"] and "demo/%d: exit 3; rolled back to generation 1" % first["slot"] in \
        last["error"]
    wait_until(lambda: generations(s) == [1] * 3)
    assert [p for p in s.pids() if p in old], "two slots were never touched"
    assert s.status()["supervisor"]["generation"] == 3


def test_another_hup_during_the_way_back_is_carried_out(fake):
    s = start(fake, LONG)
    s.set_knobs(tasks=1, task_ms=10, fail="exit 3")
    s.signal(signal.SIGHUP)
    wait_until(lambda: "exit 3; rolled back" in s.out())
    s.set_knobs(**BRIEF)
    s.signal(signal.SIGHUP)
    assert s.wait_reload(2)["ok"] and generations(s) == [3] * 3


def test_the_canary_killed_is_tried_again(fake, verdict):
    s = start(fake, LONG)
    s.set_knobs(consuming_file=verdict)
    s.signal(signal.SIGHUP)
    canary = wait_canary(s)
    s.set_knobs(tasks=1, task_ms=10, fail="exit 3")
    os.kill(canary["pid"], signal.SIGKILL)
    last = s.wait_reload(1)
    assert not last["ok"] and "demo/%d: exit 3; rolled back" % canary["slot"] in last["error"]
    wait_until(lambda: generations(s) == [1] * 3)


def test_a_canary_that_dies_again_and_again_takes_it_back(fake):
    s = fake(knobs={}, supervisor={"workers": 2, "crash_limit": 2, "on_crash_loop": "park",
                                   "restart_delay": "10ms"})
    s.wait_ready(2)
    s.set_knobs(die_credit=1)
    answer = s.request("reload", wait=True)
    s.set_knobs()
    assert not answer["ok"] and "died after it had been ready; rolled back" in answer["error"]
    wait_until(lambda: generations(s) == [1, 1])


def test_a_dead_canary_without_a_way_back_has_no_old_worker_that_goes_on(fake):
    s = fake(knobs={"broken": "exit 127"}, supervisor={"workers": 2, "crash_limit": 2,
                                                       "on_crash_loop": "park",
                                                       "restart_delay": "10ms"})
    wait_until(lambda: all(w["breaker"] for w in s.wait_ready(2)))
    old = s.pids()
    s.set_knobs(die_credit=1)
    answer = s.request("reload", wait=True)
    assert not answer["ok"] and answer["error"].endswith(
        "died after it had been ready; the other slots keep theirs")
    assert [p for p in s.pids() if p in old], "the other slot was not touched"


def test_a_new_worker_that_dies_with_the_word_ready_was_ready(fake, tmp_path):
    """Both are heard in one turn of the supervisor's loop."""
    s = fake(knobs={}, supervisor={"workers": 1})
    s.wait_ready(1)
    s.set_knobs(ready_file=tmp_path / "ready", die_ready=1)
    s.signal(signal.SIGHUP)
    _, new = wait_until(lambda: len(s.starts()) == 2 and s.starts())
    s.signal(signal.SIGSTOP)
    (tmp_path / "ready").touch()
    wait_until(lambda: procs.state(new) == "Z", what="it has said ready, and died")
    s.signal(signal.SIGCONT)
    last = s.wait_reload(1)
    assert not last["ok"] and last["error"].endswith(
        "the new worker ended with exit 1 as soon as it was ready; its old worker goes on")


def test_the_number_of_workers_follows_the_trial(fake):
    s = start(fake, LONG, workers=2)
    s.supervisor["workers"] = 4
    s.write_ini()
    s.set_knobs(tasks=1, task_ms=10, fail="exit 3")
    answer = s.request("reload", wait=True)
    assert not answer["ok"] and "rolled back" in answer["error"]
    assert len(s.starts()) == 4 and s.status()["queues"][0]["workers_wanted"] == 2
    s.set_knobs(**BRIEF)
    assert s.request("reload", wait=True)["ok"]
    assert s.wait_ready(4)


def test_scaling_up_on_trial_starts_the_old_generation_first(fake, verdict):
    s = start(fake, LONG, workers=2)
    s.set_knobs(consuming_file=verdict)
    s.signal(signal.SIGHUP)
    wait_canary(s)
    assert s.request("scale", queue="demo", workers="4", wait=False)["ok"]
    rows = wait_until(lambda: [w for w in s.ready() if w["slot"] == 3], what="slot 3 is there")
    assert rows[0]["generation"] == 1
    verdict.touch()
    assert s.wait_reload(1)["ok"]
    wait_until(lambda: generations(s) == [2] * 4)


def test_scaling_the_canary_away_tries_another(fake, verdict):
    s = start(fake, {}, workers=3)
    s.set_knobs(consuming_file=verdict)
    s.signal(signal.SIGHUP)
    canary = wait_canary(s)
    assert s.request("stop", target="demo/%d" % canary["slot"], wait=False)["ok"]
    verdict.touch()
    assert s.wait_reload(1)["ok"]
    assert generations(s) == [2] * 2
    assert s.out().count("of generation 2, passes") == 1


def test_a_quiet_queue_has_nothing_to_try_it_with(fake):
    s = start(fake, LONG)
    assert s.request("quiet", wait=True)["ok"]
    s.set_knobs()
    assert s.request("reload", wait=True)["ok"]
    assert "passes: no task came to try it with" in s.out()
    assert generations(s) == [2] * 3


def test_a_restart_on_trial_is_carried_out_after_it(fake, verdict):
    s = start(fake, LONG)
    s.set_knobs(consuming_file=verdict)
    s.signal(signal.SIGHUP)
    canary = wait_canary(s)
    restart = {"verb": "restart", "target": "demo/%d" % canary["slot"]}
    assert s.request(**restart, wait=False)["ok"] and roll(s)["phase"] == "canary"
    verdict.touch()
    assert s.request(**restart, wait=True)["ok"]
    assert s.last_reload()["ok"] and generations(s) == [2] * 3
    assert canary["pid"] not in [w["pid"] for w in s.ready()]


def test_a_stopped_worker_keeps_its_limit_when_the_queue_goes_back(fake, tmp_path):
    ready = tmp_path / "ready"
    s = start(fake, dict(LONG, **{"tasks@0": 0}), workers=3)
    wait_until(lambda: [w["running"] for w in s.ready()] == [0, 1, 1])  # slot 0 is the canary
    s.set_knobs(**dict(BRIEF, **{"ignore_drain@0": 1, "ready_file@1": ready, "broken@1": "exit 3"}))
    s.signal(signal.SIGHUP)
    first = wait_until(lambda: [w for w in s.ready() if w["generation"] == 2])[0]
    assert first["slot"] == 0
    wait_until(lambda: roll(s)["phase"] == "rest")
    assert s.request("stop", target="demo/0", wait=False)["ok"]
    ready.touch()
    wait_until(lambda: "exit 3; rolled back" in s.out())
    assert [w for p, _, w in s.heard() if p == first["pid"] and w.startswith("drain")] == \
        ["drain 25000"]
    assert not s.wait_reload(1)["ok"]
    os.kill(first["pid"], signal.SIGKILL)


def test_term_on_trial_ends_all(fake, verdict):
    s = start(fake, LONG)
    s.set_knobs(consuming_file=verdict)
    s.signal(signal.SIGHUP)
    wait_canary(s)
    s.signal(signal.SIGTERM)
    wait_until(lambda: s.status()["supervisor"]["state"] == "draining")
    s.signal(signal.SIGTERM)
    assert s.wait_exit(20) == 0


def test_a_restart_of_a_slot_is_no_trial(fake):
    s = start(fake, {}, workers=2)
    s.set_knobs(broken="exit 127")
    assert s.request("restart", target="1", wait=True)["ok"]
    assert [bool(w["breaker"]) for w in s.ready()] == [False, True] and "passes" not in s.out()
