"""What a dead worker had runs again at once, elsewhere, and nothing else is touched."""
import collections
import os
import re
import signal
import time

import pytest

import procs
from conftest import on_both
from waiting import elapse, stays, wait_until

# The lease is long: what runs again does so because it was handed over, not because it went stale.
CALM = {"lease": "60s", "retry_delay": "50ms", "kill_grace": "500ms"}
KILLED = "signal 9 SIGKILL"
SECOND_LOOK = 6.0  # the longest BLOCK and a second


def crashes(server, queue="q"):
    return {k.decode(): v.decode() for k, v in server.r.hgetall(server.key(queue, "crash")).items()}


def tasks_of(journal, worker):
    """{id: pid of the handler} of those that run in this worker."""
    alive = journal.running()
    return {e["id"]: e["pid"] for e in journal.starts()
            if e["ppid"] == worker and e["pid"] in alive}


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    return time.monotonic_ns()


def wait_again(journal, tasks, n=2, timeout=20):
    """Until each of them has started n times; the last start of each."""
    wait_until(lambda: all(len(journal.starts(t)) >= n for t in tasks), timeout,
               "%d tasks run for the %d. time" % (len(tasks), n))
    return {t: journal.starts(t)[n - 1] for t in tasks}


def wait_swept(server, *consumers, timeout=20):
    wait_until(lambda: not set(consumers) & set(server.consumers("q")), timeout,
               "the dead consumers are gone")


def handed_over(s):
    """{consumer: (tasks, ms)} as the supervisor logged it."""
    found = re.findall(r"handed over (\d+) tasks? of (\S+), (\d+) ms after its death", s.out())
    return {name: (int(n), int(ms)) for n, name, ms in found}


def begin(sup, journal, server, gate, workers=2, redis=None, supervisor=None, n=None, **keys):
    """A supervisor, and n tasks (default: all it has places for) that run until the gate opens."""
    queue = dict(dict(CALM, handler=journal.handler(), concurrency=1), **keys)
    s = sup(queues={"q": queue}, redis=redis, supervisor=dict({"workers": workers},
                                                               **(supervisor or {})))
    s.wait_ready(workers)
    places = workers * queue["concurrency"]
    ids = server.add("q", *[b"do setsid=60000 " + str(gate).encode()] * (n or places))
    at_once = min(len(ids), places)
    journal.wait_started(at_once)
    wait_until(lambda: sum(w["running"] for w in s.ready()) == at_once)
    return s, ids


def finish(server, journal, gate, ids, again, at_most):
    """All end; those of `again` ran once more, the rest once."""
    gate.open()
    server.wait_empty("q", 30)
    assert journal.runs() == collections.Counter(ids) + collections.Counter(list(again))
    assert server.counters("q") == {"done": len(ids)}
    assert {e["attempt"] for e in journal.starts()} == {1}, "a worker's death is no attempt"
    assert journal.most_at_once() <= at_most
    assert crashes(server) == {}, "what is done is forgotten"


def worker(s, slot):
    return [w for w in s.ready() if w["slot"] == slot][0]["pid"]


def test_the_task_of_a_killed_worker_runs_again_and_no_other(sup, server, journal, gate):
    s, ids = begin(sup, journal, server, gate, workers=3)
    victim = worker(s, 1)
    (task, handler), = tasks_of(journal, victim).items()
    child, = [e["value"] for e in wait_until(lambda: len(journal.events("child")) == 3 and
                                             journal.events("child")) if e["id"] == task]
    killed = kill(victim)
    start = wait_again(journal, [task])[task]
    name = "worker_%d" % victim
    assert not procs.alive(handler) and not procs.alive(child)
    assert start["ppid"] != victim and start["t"] > killed
    assert start["beside"] <= 3, "the handler of the dead was gone when this one started"
    assert start["env"]["REDISQ_DELIVERIES"] == "2"
    wait_until(lambda: "task %s of %s runs again in worker_%d, " % (task, name, start["ppid"])
               in s.out())
    assert handed_over(s)[name][0] == 1
    assert crashes(server) == {task: "1:1:alone worker " + KILLED}
    # The supervisor's words come in the order of the deeds.
    out = s.out()
    assert out.index("worker %d of q/1 died" % victim) < out.index("handed over 1 task") < \
        out.index("runs again")

    # The second look charges nothing more, and takes the name away.
    wait_swept(server, name, timeout=15)
    assert time.monotonic_ns() - killed > (SECOND_LOOK - 0.5) * 1e9, "not before it"
    assert not server.r.exists(server.key("q", "consumer:" + name))
    assert not server.r.hexists(server.key("q", "names"), name)
    assert crashes(server) == {task: "1:1:alone worker " + KILLED}
    finish(server, journal, gate, ids, [task], 3)


def test_tasks_that_ran_in_company(sup, server, journal, gate):
    """The first is under way at once, the others run when it cannot be hurt by them."""
    s, ids = begin(sup, journal, server, gate, concurrency=2)
    victim = worker(s, 0)
    lost = tasks_of(journal, victim)
    assert len(lost) == 2
    kill(victim)
    wait_until(lambda: len(journal.starts()) == 5)
    assert crashes(server) == dict.fromkeys(lost, "1:1:company worker " + KILLED)
    assert handed_over(s)["worker_%d" % victim][0] == 2
    finish(server, journal, gate, ids, lost, 4)


def test_the_only_worker_is_killed_twice_and_its_task_has_one_attempt(sup, server, journal, gate):
    """The successor hands over itself; max_attempts counts what failed, not where it ran."""
    s, ids = begin(sup, journal, server, gate, workers=1, n=3, max_attempts=1,
                   supervisor={"restart_delay": "10ms"})
    task = ids[0]
    for n in (1, 2):
        victim = worker(s, 0)
        kill(victim)
        start = wait_again(journal, [task], n + 1)[task]
        assert start["beside"] == 1 and start["env"]["REDISQ_DELIVERIES"] == str(n + 1)
        assert crashes(server) == {task: "%d:%d:alone worker %s" % (n, n, KILLED)}
        assert handed_over(s)["worker_%d" % victim][0] == 1
        wait_until(lambda: [w for w in s.ready() if w["running"]])
    assert len(journal.starts()) == 3, "what was let go of came before what is new"
    finish(server, journal, gate, ids, [task, task], 1)


@on_both
def test_a_successor_is_not_filled_with_new_tasks_first(sup, server, journal, gate):
    s, ids = begin(sup, journal, server, gate, workers=3, n=12, concurrency=2)
    victim = worker(s, 1)
    lost = tasks_of(journal, victim)
    kill(victim)
    wait_until(lambda: len(journal.starts()) == 7)
    assert journal.starts()[6]["id"] in lost
    stays(lambda: len(journal.starts()) == 7, 0.3, "a suspect runs alone")
    finish(server, journal, gate, ids, lost, 6)


def test_a_suspect_runs_alone_until_it_has_ended(sup, server, journal, gate):
    s, ids = begin(sup, journal, server, gate, workers=1, n=1, concurrency=3)
    kill(worker(s, 0))
    wait_again(journal, ids)
    s.ctl("scale", "2", check=0)
    others = server.add("q", *[b"x"] * 20)
    wait_until(lambda: server.counters("q").get("done") == 20)
    suspect = journal.starts(ids[0])[1]
    assert suspect["ppid"] not in {e["ppid"] for t in others for e in journal.starts(t)}
    assert "no suspect is left" not in s.log("q")
    gate.open()
    server.wait_empty("q")
    wait_until(lambda: "no suspect is left" in s.log("q"))
    assert s.out().count("is set aside") == 1


@on_both
def test_two_workers_killed_at_once(sup, server, journal, gate):
    s, ids = begin(sup, journal, server, gate, workers=4)
    victims = [worker(s, n) for n in (0, 3)]
    lost = {t: w for w in victims for t in tasks_of(journal, w)}
    for w in victims:
        os.kill(w, signal.SIGSTOP)  # so that neither sees the other die
    for w in victims:
        kill(w)
    wait_until(lambda: len(handed_over(s)) == 2 and len(journal.starts()) >= 5)
    assert crashes(server) == dict.fromkeys(lost, "1:1:alone worker " + KILLED)
    finish(server, journal, gate, ids, lost, 4)


def test_the_heir_dies_with_the_order(sup, server, journal, gate):
    s, ids = begin(sup, journal, server, gate, workers=3, supervisor={"heartbeat_timeout": 0})
    heir, victim = worker(s, 0), worker(s, 1)
    lost = dict(tasks_of(journal, victim), **tasks_of(journal, heir))
    os.kill(heir, signal.SIGSTOP)
    kill(victim)
    wait_until(lambda: "worker %d of q/1 died" % victim in s.out())
    kill(heir)
    wait_until(lambda: len(handed_over(s)) == 2 and len(journal.starts()) >= 4)
    assert set(handed_over(s)) == {"worker_%d" % p for p in (heir, victim)}
    assert crashes(server) == dict.fromkeys(lost, "1:1:alone worker " + KILLED)
    finish(server, journal, gate, ids, lost, 3)


def test_a_silent_heir_loses_the_order_after_a_second(sup, server, journal, gate):
    s, ids = begin(sup, journal, server, gate, workers=3, supervisor={"heartbeat_timeout": 0})
    heir, victim = worker(s, 0), worker(s, 1)
    (task, _), = tasks_of(journal, victim).items()
    kept = tasks_of(journal, heir)
    os.kill(heir, signal.SIGSTOP)
    killed = kill(victim)
    start = wait_again(journal, [task])[task]
    assert (start["t"] - killed) / 1e9 < 10  # the lease is a minute
    assert 1000 <= handed_over(s)["worker_%d" % victim][1] < 10000
    os.kill(heir, signal.SIGCONT)  # does it, too, and changes nothing
    wait_swept(server, "worker_%d" % victim)
    assert "(crashes charged: 1)" not in s.log_files("q")[0]
    assert crashes(server) == {task: "1:1:alone worker " + KILLED}
    assert tasks_of(journal, heir) == kept
    finish(server, journal, gate, ids, [task], 3)


@pytest.mark.parametrize("loss", ["cut", "freeze"])
def test_redis_away_during_a_handover(sup, server, proxy, journal, gate, loss):
    s, ids = begin(sup, journal, server, gate, redis={"url": proxy.url, "command_timeout": "2s"})
    victim = worker(s, 1)
    (task, _), = tasks_of(journal, victim).items()
    getattr(proxy, loss)()
    kill(victim)
    wait_until(lambda: "worker %d of q/1 died" % victim in s.out())
    elapse(2.5)  # the order has been given to the same one twice, and its request has timed out
    assert len(journal.starts()) == 2
    proxy.heal()
    wait_again(journal, [task], timeout=30)
    assert crashes(server) == {task: "1:1:alone worker " + KILLED}
    finish(server, journal, gate, ids, [task], 2)
    wait_swept(server, "worker_%d" % victim)
    assert len(re.findall(r"handed over \d+ tasks? of worker_%d " % victim, s.log("q"))) <= 2


@pytest.mark.parametrize("client", ["", "without CLIENT"])
def test_nothing_is_left_with_the_dead_over_a_slow_path(sup, server, proxy, journal, client):
    """What the dying worker had asked for arrives at Redis when it is dead, and is answered. Without
    CLIENT KILL it is found by the second look, and the consumer goes after a third."""
    user = {}
    if client:
        server.r.execute_command("ACL", "SETUSER", "w", "on", ">pw", "~*", "+@all", "-client")
        user = {"username": "w", "password": "pw"}
    s = sup(queues={"q": dict(CALM, handler=journal.handler(), concurrency=2)},
            redis=dict(user, url=proxy.url),
            supervisor={"workers": 1, "restart_delay": "10ms", "restart_delay_max": "50ms",
                        "crash_limit": 100})
    s.wait_ready(1)
    proxy.delay_of_new = 0.1
    s.ctl("scale", "5", check=0)
    s.wait_ready(5)
    ids, dead = [], []
    for n in range(10):
        row = wait_until(lambda: [w for w in s.ready() if w["slot"] and w["consuming"] and
                                  w["pid"] not in dead])[0]
        ids += server.add("q", *[b"do sleep=%d" % (20 * n)] * 6)
        elapse(n * 0.02)  # its replies, or its next read, are on their way
        ids += server.add("q", *[b"do sleep=20"] * 5)
        kill(row["pid"])
        ids += server.add("q", *[b"do sleep=20"] * 5)
        dead.append(row["pid"])
    wait_until(lambda: {e["id"] for e in journal.ends()} == set(ids), 30, "each task has ended")
    server.wait_empty("q")
    assert journal.most_at_once() <= 10
    wait_swept(server, *["worker_%d" % p for p in dead])
    assert server.counters("q") == {"done": len(ids)}
    # None ran while another run of it was alive: an earlier one has ended, or was its worker's.
    for task, n in journal.runs().items():
        workers = [e["ppid"] for e in journal.starts(task)]
        assert n == len(set(workers)) and set(workers[:-1]) <= set(dead), (task, workers)


@on_both
def test_killed_before_it_was_ready(sup, server, proxy, journal):
    proxy.cut()
    s = sup(queues={"q": dict(CALM, handler=journal.handler())}, redis={"url": proxy.url},
            supervisor={"workers": 1, "restart_delay": "10ms"})
    for _ in range(2):
        pid = wait_until(s.pids)[0]
        wait_until(lambda: "waits for Redis" in s.out())
        kill(pid)
        wait_until(lambda: s.pids() and s.pids() != [pid])
    proxy.heal()
    row, = s.wait_ready(1)
    ids = server.add("q", *[b"x"] * 5)
    server.wait_empty("q")
    assert journal.runs() == collections.Counter(ids)
    assert set(server.consumers("q")) == {"worker_%d" % row["pid"]}
    assert not handed_over(s) and "cannot happen" not in s.out()


def test_a_worker_of_a_queue_that_is_removed_dies(sup, server, journal, gate):
    """Nobody is there to hand over to; when the queue comes back, nothing is lost."""
    s, ids = begin(sup, journal, server, gate, lease="2s")
    queue = s.queues.pop("q")
    s.queues["other"] = {"handler": journal.handler()}
    s.write_ini()
    s.signal(signal.SIGHUP)
    wait_until(lambda: len(s.ready("other")) == 2)
    victims = wait_until(lambda: [w["pid"] for w in s.workers("q") if w["state"] == "draining"])
    assert len(victims) == 2
    for pid in victims:
        kill(pid)
    wait_until(lambda: not s.workers("q"), 10)
    assert "cannot happen" not in s.out()
    s.queues["q"] = queue
    s.write_ini()
    s.signal(signal.SIGHUP)
    wait_again(journal, ids)
    gate.open()
    server.wait_empty("q", 30)
    assert set(journal.runs()) == set(ids) and server.counters("q") == {"done": 2}
    assert journal.most_at_once() <= 2


@on_both
def test_a_worker_dies_while_all_drain(sup, server, journal, gate):
    """Another one that drains hands over; the next start need not wait for the lease."""
    s, ids = begin(sup, journal, server, gate)
    victim = worker(s, 1)
    (task, _), = tasks_of(journal, victim).items()
    s.signal(signal.SIGTERM)
    wait_until(lambda: [w["state"] for w in s.workers()] == ["draining"] * 2)
    kill(victim)
    wait_until(lambda: "worker_%d" % victim in handed_over(s))
    assert crashes(server) == {task: "1:1:alone worker " + KILLED}
    gate.open()
    assert s.wait_exit() == 0
    assert len(journal.starts()) == 2
    s.start()
    finish(server, journal, gate, ids, [task], 2)


# ---- what is no crash

def scale_down(s, *_):
    s.ctl("scale", "1", check=1)  # 1: a handler was signalled at the limit


def restart(s, *_):
    s.ctl("restart", "1", check=0)


def reload(s, *_):
    s.ctl("reload", check=0)


def stop_now(s, *_):
    """A fast stop of all, and a new supervisor."""
    s.signal(signal.SIGQUIT)
    s.wait_exit()
    s.start()


def stuck_in_its_drain(s, *_):
    """The supervisor kills it at the limit."""
    pid = [w["pid"] for w in s.ready() if w["slot"] == 1][0]
    os.kill(pid, signal.SIGSTOP)
    s.ctl("scale", "1", "--no-wait", check=0)
    wait_until(lambda: "did not leave within its drain limit" in s.out())
    wait_until(lambda: not procs.alive(pid))


@on_both
@pytest.mark.parametrize("how", [scale_down, restart, reload, stop_now, stuck_in_its_drain],
                         ids=lambda f: f.__name__)
def test_own_stops_charge_nothing(sup, server, journal, gate, how):
    s, ids = begin(sup, journal, server, gate,
                   supervisor={"drain_timeout": "200ms", "reload_timeout": "200ms",
                               "kill_timeout": "300ms", "heartbeat_timeout": 0})
    mine = tasks_of(journal, worker(s, 1))
    how(s)
    if how in (scale_down, stuck_in_its_drain):
        # Its place is gone: it waits, released, until the other one has room.
        wait_until(lambda: len(journal.running()) == 1)
    elif how is restart:
        wait_again(journal, mine)
    else:
        wait_again(journal, ids)
        mine = ids
    assert crashes(server) == {}
    finish(server, journal, gate, ids, mine, 2)


def test_a_worker_that_dies_idle_charges_nothing(sup, server, journal):
    s = sup(queues={"q": dict(CALM, handler=journal.handler())})
    rows = s.wait_ready(2)
    ids = server.add("q", *[b"x"] * 6)
    server.wait_empty("q")
    kill(rows[0]["pid"])
    wait_until(lambda: len(s.ready()) == 2 and rows[0]["pid"] not in s.pids())
    wait_swept(server, "worker_%d" % rows[0]["pid"])
    assert crashes(server) == {} and not handed_over(s)
    assert journal.runs() == collections.Counter(ids)


def test_a_stuck_workers_task_is_charged_to_it(sup, server, journal, gate):
    s, ids = begin(sup, journal, server, gate,
                   supervisor={"heartbeat_timeout": "2500ms", "kill_timeout": "300ms"})
    victim = worker(s, 1)
    mine = tasks_of(journal, victim)
    os.kill(victim, signal.SIGSTOP)
    wait_again(journal, mine)
    (cause,) = crashes(server).values()
    assert re.match(r"1:1:alone worker signal \d+ SIG\w+ \(it was stuck\)$", cause), cause
    finish(server, journal, gate, ids, mine, 2)


@on_both
def test_an_order_of_ten_thousand_tasks_reaches_its_heir(sup, server, journal, build, tmp_path):
    """More lines at once than a channel holds back looked like an heir that reads nothing: it was
    ended, and the next one after it."""
    real, places = tmp_path / "real", 10000
    program = tmp_path / "worker"
    program.write_text("#!/bin/sh\n[ -e %s ] && exec %s/redisq-worker \"$@\"\n"
                       "exec %s/fake-worker \"$@\"\n" % (real, build, build))
    program.chmod(0o755)
    knobs = tmp_path / "knobs"
    knobs.write_text("tasks=%d\nnamed=1\n" % places)
    s = sup(queues={"q": dict(CALM, handler=journal.handler(), concurrency=places)},
            supervisor={"workers": 2, "crash_limit": 1000},
            env={"REDISQ_WORKER_PROGRAM": str(program), "FAKE_WORKER_KNOBS": str(knobs)})
    s.wait_ready(2)
    wait_until(lambda: sum(w["running"] for w in s.workers("q")) == 2 * places, 60, "all run")
    ids = []
    dead = {"worker_%d" % pid: pid for pid in s.pids("q")}
    for name in dead:
        ids.append(server.deliver("q", b"x", name))
    real.touch()
    for pid in dead.values():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: {n for n, (tasks, _) in handed_over(s).items() if tasks == 1} == set(dead),
               30, "both are handed over")
    server.wait_empty("q", 30)
    assert journal.runs() == collections.Counter(ids)
    wait_swept(server, *dead)
    assert "reads nothing" not in s.out() and s.out().count(" died: ") == 2


def test_a_queue_that_ends_says_what_it_leaves_to_the_lease(sup, journal, build, tmp_path):
    knobs = tmp_path / "knobs"
    knobs.write_text("named=1\n")
    conf = dict(CALM, handler=journal.handler(), concurrency=1)
    s = sup(queues={"q": conf, "other": conf}, supervisor={"workers": 1},
            env={"REDISQ_WORKER_PROGRAM": os.path.join(build, "fake-worker"),
                 "FAKE_WORKER_KNOBS": str(knobs)})
    s.wait_ready(2)
    kill(s.pids("q")[0])  # its heir answers no order
    s.wait_ready(2)
    wait_until(lambda: " died: " in s.out(), 20, "its death is seen")
    del s.queues["q"]
    s.write_ini()
    s.ctl("reload", check=0)
    wait_until(lambda: "q ends before everybody has what 1 dead worker of it had pending; what "
               "was given back runs as soon as a worker is there" in s.out(), 20, "it says so")
