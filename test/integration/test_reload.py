"""SIGHUP and redisqctl reload: validate, then roll; the bound holds and no task notices."""
import collections
import os
import shutil
import signal
import time

import pytest

from conftest import on_both
from feeding import Feed
from waiting import PATIENCE, stays, wait_until


def test_a_broken_file_changes_nothing(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}})
    pids = sorted(w["pid"] for w in s.wait_ready(2))
    with open(s.ini) as f:
        text = f.read()
    s.write_ini(text + "timeout = 1800\nno_such_key = 1\n")
    line = text.count("\n") + 1
    s.signal(signal.SIGHUP)
    last = wait_until(s.last_reload)
    assert last["ok"] is False
    assert "redisq.ini:%d" % line in last["error"] and "1800s" in last["error"]
    assert sorted(s.pids()) == pids
    done = s.ctl("reload")
    assert done.returncode == 78 and "redisq.ini:%d" % line in done.err
    server.add("q", b"x")
    server.wait_empty("q")
    s.write_ini(text)
    s.ctl("reload", check=0)
    assert s.last_reload()["ok"] is True


def test_reload_rolls_every_worker_even_if_no_key_changed(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}})
    before = {w["pid"] for w in s.wait_ready(2)}
    s.ctl("reload", check=0)
    after = {w["pid"] for w in s.wait_ready(2)}
    assert not before & after
    wait_until(lambda: set(server.consumers("q")) == {"worker_%d" % p for p in after}, 15,
               "the old consumers are gone")
    assert all(w["restarts"] == 0 for w in s.workers())


@pytest.mark.timeout(240)
def test_twenty_reloads_under_load_between_concurrency_4_and_2(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 4}})
    s.wait_ready(2)
    reloads = []
    with Feed(server, "q", b"do sleep=200", waiting=20) as feed:
        journal.wait_ended(8)
        for n in range(20):
            s.queues["q"]["concurrency"] = 2 if n % 2 == 0 else 4
            s.write_ini()
            old = {w["pid"] for w in s.ready()}
            begin = time.monotonic_ns()
            s.ctl("reload", check=0)
            reloads.append((begin, time.monotonic_ns(), old))
    server.wait_empty("q", 120)
    assert journal.runs() == collections.Counter(feed.ids)
    assert journal.most_at_once() <= 8
    assert server.counters("q")["done"] == len(feed.ids)
    starts = journal.starts()
    went_on = [{e["ppid"] for e in starts if begin < e["t"] < end} & old for begin, end, old in reloads]
    assert sum(map(bool, went_on)) >= 5, "the old workers go on until there are new ones"
    assert journal.longest_gap() < 4 * PATIENCE


def test_lowered_concurrency_takes_effect(sup, server, journal, gate):
    s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 4}},
            supervisor={"workers": 1})
    s.wait_ready(1)
    server.add("q", *[b"do " + str(gate).encode()] * 10)
    journal.wait_started(4)
    s.queues["q"]["concurrency"] = 2
    s.write_ini()
    s.ctl("reload", check=0)
    stays(lambda: len(journal.running()) == 4, 0.5, "the old value holds until its tasks end")
    gate.open()
    journal.wait_ended(10)
    assert max(e["beside"] for e in journal.starts()[4:]) <= 4
    gate.shut()
    server.add("q", *[b"do " + str(gate).encode()] * 6)
    wait_until(lambda: len(journal.running()) == 2)
    stays(lambda: len(journal.running()) == 2, 0.5)
    gate.open()
    server.wait_empty("q")


def test_a_long_task_survives_five_reloads(sup, server, journal, gate):
    s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 2, "lease": "4s"}},
            supervisor={"workers": 1})
    s.wait_ready(1)
    task, = server.add("q", b"do " + str(gate).encode())
    journal.wait_started(1)
    for _ in range(5):
        s.ctl("reload", check=0)
    server.add("q", b"x")
    wait_until(lambda: len(journal.ends()) == 1, what="a new task runs beside the long one")
    assert len(journal.running()) == 1
    gate.open()
    server.wait_empty("q")
    assert journal.runs()[task] == 1 and server.counters("q")["done"] == 2
    wait_until(lambda: len(s.workers()) == 1)


@on_both
def test_queues_are_added_and_removed(sup, server, journal, gate):
    keys = {"handler": journal.handler(), "workers": 1}
    s = sup(queues={"a": dict(keys), "b": dict(keys)})
    s.wait_ready(2)
    server.add("b", b"do " + str(gate).encode())
    journal.wait_started(1)
    old, = s.pids("b")
    s.queues = {"a": dict(keys), "c": dict(keys)}
    s.write_ini()
    s.signal(signal.SIGHUP)
    s.wait_ready(1, "c")
    server.add("c", b"x")
    server.wait_empty("c")
    wait_until(lambda: not server.links_of(old, blocked=True), what="what a read brings is run")
    server.add("b", b"untouched")
    gate.open()
    wait_until(lambda: not s.workers("b"))
    assert server.xlen("b") == 1 and not server.consumers("b")
    assert {q["name"] for q in s.status()["queues"]} == {"a", "c"}


def test_environment_is_rebuilt_from_zero(sup, server, journal, tmp_path):
    env_file = tmp_path / "env"
    env_file.write_text("TEST_FILE=1\nTEST_BOTH=file\n")
    queue = {"handler": journal.handler(), "env_file": env_file,
             "env": "TEST_OLD=1 TEST_CHANGED=old TEST_BOTH=key TEST_SPACED='two words'"}
    s = sup(queues={"q": queue}, supervisor={"workers": 1}, env={"TEST_BASE": "base"})
    s.wait_ready(1)
    server.add("q", b"x")
    journal.wait_ended(1)
    queue["env"] = "TEST_CHANGED=new TEST_ADDED=1"
    s.write_ini()
    env_file.write_text("TEST_OTHER=1\n")
    s.reload()
    server.add("q", b"x")
    journal.wait_ended(2)
    first, second = [{k: v for k, v in e["env"].items() if k.startswith("TEST_") and
                      k != "TEST_MARK"} for e in journal.starts()]
    assert first == {"TEST_BASE": "base", "TEST_FILE": "1", "TEST_BOTH": "key", "TEST_OLD": "1",
                     "TEST_CHANGED": "old", "TEST_SPACED": "two words"}
    assert second == {"TEST_BASE": "base", "TEST_OTHER": "1", "TEST_CHANGED": "new",
                      "TEST_ADDED": "1"}


def test_changed_program_and_cwd_take_effect(sup, server, journal, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    queue = {"handler": journal.handler()}
    s = sup(queues={"q": queue}, supervisor={"workers": 1})
    s.wait_ready(1)
    queue.update(handler=journal.handler("say=changed"), cwd=other)
    s.write_ini()
    s.reload()
    server.add("q", b"x")
    server.wait_empty("q")
    assert journal.starts()[0]["cwd"] == str(other)
    wait_until(lambda: "] changed" in s.log("q"))


def test_changed_number_of_workers_takes_effect(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler(), "workers": 1}})
    s.wait_ready(1)
    for n in (3, 1, 2):
        s.queues["q"]["workers"] = n
        s.write_ini()
        s.ctl("reload", check=0)
        s.wait_ready(n)
        wait_until(lambda: len(s.workers()) == n)


@pytest.fixture
def own_build(build, tmp_path):
    """A private copy of the programs, so that a test can deploy."""
    path = tmp_path / "bin"
    path.mkdir()
    for name in ("redisq-supervisor", "redisq-worker", "redisqctl"):
        shutil.copy(os.path.join(build, name), path / name)
    return path


def deploy(path, name, source=None, text=None):
    new = path / (name + ".new")
    if source:
        shutil.copy(source, new)
    else:
        new.write_text(text)
        new.chmod(0o755)
    os.rename(new, path / name)


def test_a_new_worker_binary_is_taken(sup, server, journal, own_build, build, tmp_path):
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1}, start=False)
    s.build = str(own_build)
    s.start()
    s.wait_ready(1)
    deploy(own_build, "redisq-worker", os.path.join(build, "redisq-worker"))
    s.ctl("reload", check=0)
    pid = s.wait_ready(1)[0]["pid"]
    assert os.stat("/proc/%d/exe" % pid).st_ino == os.stat(own_build / "redisq-worker").st_ino


@pytest.mark.parametrize("script", ["#!/bin/sh\nexec tail -f /dev/null\n", "#!/bin/sh\nexit 3\n",
                                    "#!/nonexistent/interpreter\n"])
def test_a_new_worker_that_does_not_become_ready_keeps_the_old(
        sup, server, journal, own_build, build, script):
    s = sup(queues={"q": {"handler": journal.handler()}}, start=False,
            supervisor={"kill_timeout": "500ms"})
    s.build = str(own_build)
    s.start()
    pids = sorted(w["pid"] for w in s.wait_ready(2))
    deploy(own_build, "redisq-worker", text=script)
    if "tail" in script:
        s.supervisor["ready_timeout"] = "1s"
        s.write_ini()
    done = s.ctl("reload")
    assert done.returncode != 0 and done.err
    assert s.last_reload()["ok"] is False and s.last_reload()["error"]
    assert sorted(w["pid"] for w in s.ready()) == pids
    server.add("q", *[b"x"] * 4)
    server.wait_empty("q")
    deploy(own_build, "redisq-worker", os.path.join(build, "redisq-worker"))
    s.supervisor.pop("ready_timeout", None)
    s.write_ini()
    s.ctl("reload", check=0)
    assert not set(pids) & {w["pid"] for w in s.wait_ready(2)}


def test_reload_while_redis_is_away_fails_and_keeps_the_old(sup, server, proxy, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, redis={"url": proxy.url})
    pids = sorted(w["pid"] for w in s.wait_ready(2))
    proxy.cut()
    wait_until(lambda: not any(w["consuming"] for w in s.workers()), 20)
    s.supervisor["ready_timeout"] = "1s"
    s.write_ini()
    assert s.ctl("reload").returncode != 0
    assert set(pids) <= set(s.pids())
    proxy.heal()
    server.add("q", b"x")
    server.wait_empty("q", 30)


def test_thirty_hups_in_a_row_end_in_one_good_generation(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}})
    s.wait_ready(2)
    ids = server.add("q", *[b"do sleep=50"] * 60)
    for _ in range(30):
        s.signal(signal.SIGHUP)
    wait_until(lambda: (s.last_reload() or {}).get("ok"), 40)
    server.wait_empty("q", 60)
    s.wait_ready(2)
    wait_until(lambda: len(s.workers()) == 2, 20)
    assert journal.runs() == collections.Counter(ids) and journal.most_at_once() <= 8


def test_boot_keys_say_that_they_need_a_new_supervisor(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler()}})
    s.wait_ready(2)
    s.supervisor["name"] = "other"
    s.write_ini()
    s.ctl("reload", check=0)
    wait_until(lambda: "supervisor.name" in s.out() or "supervisor.name" in s.log("supervisor"))
