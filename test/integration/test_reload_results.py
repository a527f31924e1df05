"""What a reload leaves behind in the status, with fake workers."""
import os
import signal

import pytest

from conftest import on_both
from fakesup import fake, queue  # noqa: F401 (a fixture)
from waiting import wait_until


def test_a_refused_hup_during_a_reload_is_reported_at_the_end(fake, tmp_path):
    s = fake(supervisor={"workers": 2})
    s.wait_ready()
    s.set_knobs(ready_file=tmp_path / "ready")
    with open(s.ini) as f:
        good = f.read()
    assert s.request("reload", wait=False)["ok"]
    s.write_ini(good + "nosuch = 1\n")
    s.signal(signal.SIGHUP)
    wait_until(lambda: "reload failed" in s.out())
    assert s.status()["supervisor"]["state"] == "reloading"
    (tmp_path / "ready").touch()
    last = s.wait_reload(1)
    assert last["ok"] is False
    assert last["error"].startswith("generation 2 done; a later reload was refused: ")
    assert "nosuch" in last["error"]
    # The next one that succeeds is not burdened with it.
    s.write_ini(good)
    assert s.request("reload", wait=True)["ok"]
    assert s.last_reload() == {"ok": True, "error": None}


def test_a_failed_reload_shows_what_runs(fake):
    s = fake(queues=queue(concurrency=4), supervisor={"workers": 2})
    s.wait_ready()
    s.queues["demo"]["concurrency"] = 9
    s.supervisor["ready_timeout"] = "200ms"
    s.write_ini()
    s.set_knobs(ready_ms=-1)
    assert not s.request("reload", wait=True)["ok"]
    q = s.status()["queues"][0]
    assert (q["concurrency"], q["total_parallelism"]) == (4, 8)
    s.set_knobs()
    del s.supervisor["ready_timeout"]
    s.write_ini()
    assert s.request("reload", wait=True)["ok"]
    q = s.status()["queues"][0]
    assert (q["concurrency"], q["total_parallelism"]) == (9, 18)


def test_boot_keys_stay_what_they_are(fake):
    s = fake()
    s.wait_ready()
    name = s.supervisor["name"]
    for _ in range(2):                           # compared with what runs, not with the last file
        s.supervisor["name"] = "other"
        s.write_ini()
        assert s.request("reload", wait=True)["ok"]
        assert s.status()["supervisor"]["name"] == name
        snapshot = s.request("config")["result"]["snapshot"]
        assert "\nname = %s #" % name in snapshot and "other" not in snapshot
    assert s.out().count("supervisor.name differs; it needs a new supervisor") == 2
    s.supervisor["name"] = name                  # and back: nothing differs
    s.write_ini()
    assert s.request("reload", wait=True)["ok"]
    assert s.out().count("supervisor.name differs") == 2


def test_the_status_says_what_may_run_now(fake):
    s = fake(supervisor={"workers": 3})
    s.wait_ready()
    assert "3 \u00d7 4 = 12 at once" in s.ctl("status", check=0).out
    s.ctl("stop", "1", check=0)
    assert "3 \u00d7 4   8 at once now" in s.ctl("status", check=0).out


def totals(status):
    q = status["queues"][0]
    assert q["done"] >= sum(w["done"] for w in q["workers"])
    return q["done"]


@on_both
def test_counts_go_on_over_reloads_deaths_and_scaling(fake):
    s = fake(knobs={"tasks": 2, "task_ms": 30}, queues=queue(concurrency=2),
             supervisor={"workers": 2})
    s.wait_ready()
    wait_until(lambda: totals(s.status()) >= 4)
    seen = []
    for _ in range(3):
        seen.append(totals(s.status()))
        s.signal(signal.SIGHUP)
        s.wait_reload(s.status()["supervisor"]["generation"] - 1)
        seen.append(totals(s.status()))
    wait_until(lambda: len(s.workers()) == 2 and len(s.ready()) == 2)
    rows = s.workers()
    s.set_knobs()                                # the next do nothing
    before = totals(s.status())
    assert s.request("reload", wait=True)["ok"]
    wait_until(lambda: len(s.workers()) == 2)
    after = s.workers()
    assert all(a["done"] >= b["done"] > 0 for a, b in zip(after, rows))
    seen += [before, totals(s.status())]
    assert s.request("scale", queue="demo", workers="1", wait=True)["ok"]
    wait_until(lambda: len(s.workers()) == 1)
    seen.append(totals(s.status()))
    assert seen == sorted(seen)


def test_scale_survives_a_reload_and_that_is_said(fake):
    s = fake(supervisor={"workers": 2})
    s.wait_ready()
    assert s.request("scale", queue="demo", workers="3", wait=True)["ok"]
    assert s.request("reload", wait=True)["ok"]
    assert s.status()["queues"][0]["workers_wanted"] == 3
    assert "queue demo keeps 3 workers, as scaled by hand; the configuration's 2" in s.out()
    assert s.request("scale", queue="demo", workers="2", wait=True)["ok"]
    assert s.request("reload", wait=True)["ok"]
    assert s.out().count("as scaled by hand") == 1


def die(s):
    pid = s.ready()[0]["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: [w for w in s.workers()
                        if w["pid"] != pid and w["state"] in ("ready", "parked")])


@pytest.mark.parametrize("asked", ["reload", "max_memory"])
def test_deaths_are_forgotten_for_a_reload_not_for_a_fat_worker(fake, asked):
    s = fake(supervisor={"workers": 1, "crash_limit": 2, "on_crash_loop": "park",
                         "restart_delay": "1ms"})
    lean = s.wait_ready()[0]["rss_bytes"]
    s.supervisor["max_memory"] = "%dM" % ((lean >> 20) + 32)
    s.write_ini()
    assert s.request("reload", wait=True)["ok"]
    if asked == "reload":
        die(s)
        assert s.request("reload", wait=True)["ok"]
    else:
        s.set_knobs(alloc=64)
        die(s)
        s.set_knobs()
        wait_until(lambda: "max_memory is" in s.out())
        wait_until(lambda: [w["state"] for w in s.workers()] == ["ready"] and
                   [w for w in s.workers() if 0 < w["rss_bytes"] < lean + (32 << 20)])
    die(s)
    assert s.ready()
    die(s)
    assert [w["state"] for w in s.workers()] == ["ready" if asked == "reload" else "parked"]
