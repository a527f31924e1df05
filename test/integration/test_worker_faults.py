"""Faults that a worker had, by name: each of these tests has failed once."""
import os
import signal
import time

import pytest

import procs
from alone import Alone
from conftest import on_both
from links import Links, is_read, is_script, is_settling
from redisserver import MOVE
from waiting import PATIENCE, elapse, stays, wait_until


@pytest.fixture
def alone(build, tmp_path, server, journal):
    """Makes workers without a supervisor: alone(handler=..., lease=..., ...); see alone.py."""
    made = []

    def make(redis=None, supervisor=None, stdout=None, **keys):
        where = tmp_path / ("alone%d" % len(made))
        where.mkdir()
        keys.setdefault("handler", journal.handler())
        made.append(Alone(build, where, server=server, redis=redis, supervisor=supervisor,
                          stdout=stdout, keys=keys))
        return made[-1]

    yield make
    faults = []
    for w in made:
        w.show()
        try:
            w.close()
        except AssertionError as e:
            faults.append(str(e))
    assert not faults, "\n".join(faults)


@pytest.fixture
def links(server):
    """A proxy that holds, changes and slows down single answers; see links.py."""
    made = Links(server.port)
    yield made
    made.close()


def idle(server):
    """ms since the lease of the one pending entry was renewed."""
    rows = server.pending("q", 10)
    assert len(rows) == 1, rows
    return rows[0]["time_since_delivered"]


def renewed(server, n, lease):
    """Waits until the lease of the one pending entry was renewed n times, each time early enough."""
    count, before = 0, idle(server)

    def fact():
        nonlocal count, before
        now = idle(server)
        assert now < lease, "%d ms, the lease is %d" % (now, lease)
        count, before = count + (now < before), now
        return count >= n
    wait_until(fact, (n + 1) * lease / 1000, "it was renewed %d times" % n)


def done(server):
    return server.counters("q").get("done", 0)


def wait_done(server, n, timeout=15):
    wait_until(lambda: done(server) >= n, timeout, "%d tasks are done" % n)


def take_the_name(server, worker):
    """Another worker claims the name: a renewal finds that out."""
    key = server.key("q", "consumer:" + worker.name())
    assert server.r.set(key, "anothernonce host boot 1 1 1 -", px=60000, xx=True)


def switches(pid):
    """Voluntary and other context switches of the main thread."""
    return sum(int(line.split()[1]) for line in procs.read(pid, "status").decode().splitlines()
               if "ctxt_switches" in line)


def n_stat(server, section, name, field):
    value = server.r.info(section).get(name, {})
    if isinstance(value, str):                  # a single field is left as it is
        value = dict([value.split("=")])
    return int(value.get(field, 0))


# ---------------------------------------------------------------- checkpoints

@on_both
def test_a_checkpoint_of_a_lost_link_overwrites_no_newer_one(alone, server, links, gate, tmp_path):
    """The network still had it when the link was given up, and it was said again over the next."""
    script = tmp_path / "twice.sh"
    script.write_text("""#!/bin/sh
        say() { echo '{"type":"checkpoint","value":'$1'}' >&3; }
        wait_for() { until [ -e $1 ]; do sleep 0.02; done; }
        say 1; wait_for %s; say 2; wait_for %s.end
        """ % (gate.path, gate.path))
    script.chmod(0o755)
    w = alone(handler="exec %s" % script, redis={"url": links.url, "command_timeout": "1s"})
    w.wait_ready()
    links.keep(is_script("checkpoint"))
    task, = server.add("q", b"x")

    def checkpoint():
        return server.r.hget("{q}:ckpt", task)
    wait_until(lambda: checkpoint() == b"1", 20, "it was said again")
    assert links.kept, "the first one is still under way"
    gate.open()
    wait_until(lambda: checkpoint() == b"2", 20, "the newer one is there")
    links.deliver()
    assert checkpoint() == b"2"
    open(gate.path + ".end", "w").close()
    wait_done(server, 1)


# ---------------------------------------------------------------- results

def test_more_results_at_once_than_a_link_may_hold_unsent_are_settled(alone, server, gate, tmp_path):
    """They have piled up when Redis is back: all at once they would end the link again and again."""
    script = tmp_path / "large.sh"
    script.write_text("""#!/bin/sh
        echo x >>%s/begun; until [ -e %s ]; do sleep 0.2; done
        { printf '{"type":"done","result":"'; head -c 1000000 /dev/zero | tr '\\0' x; echo '"}'; } >&3
        echo x >>%s/ended
        """ % (tmp_path, gate.path, tmp_path))
    script.chmod(0o755)
    n = 150

    def wait_all(what):
        (tmp_path / what).touch()
        wait_until(lambda: len((tmp_path / what).read_text().split()) == n, 60, "all have " + what)
    w = alone(handler="exec %s" % script, concurrency=n, result_ttl="1h",
              redis={"command_timeout": "1s"})
    w.wait_ready()
    ids = server.add("q", *[b"x"] * n)
    wait_all("begun")
    server.pause()
    gate.open()
    wait_all("ended")
    for link in ("fetch", "cmd"):
        wait_until(lambda: ":%s: ready -> waiting" % link in w.out(), 20, link + " is given up")
    server.go_on()
    wait_done(server, n, 30)
    assert "takes no more" not in w.out()
    assert [server.r.strlen("{q}:result:" + i) for i in ids] == [1000002] * n


# ---------------------------------------------------------------- the breaker

def test_one_task_that_always_exits_127_holds_up_no_other(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler(), "retry_delay": "50ms",
                          "retry_jitter": "0%", "max_attempts": 2, "concurrency": 4,
                          "lease": "2s"}},
            supervisor={"workers": 4})
    s.wait_ready()
    server.add("q", *[b"x"] * 40)
    bad, = server.add("q", b"do exit=127")
    server.add("q", *[b"x"] * 360)
    wait_done(server, 400, 15)

    def is_dead():
        if server.xlen("q") <= 1:               # it is seen that the handler works
            server.add("q", *[b"x"] * 8)
        return server.dead("q")
    (_, letter), = wait_until(is_dead, 15, "the bad one is a dead letter")
    assert letter[b"redisq.id"].decode() == bad and letter[b"redisq.reason"] == b"attempts"
    assert b"exit 127 again" in letter[b"redisq.error"]
    server.wait_empty("q")
    assert len(journal.runs()) - 1 == done(server)


def test_a_wholly_broken_handler_charges_nothing_and_touches_few_tasks(sup, server, journal):
    s = sup(queues={"q": {"handler": journal.handler("exit=127"), "concurrency": 2,
                          "breaker_delay": "200ms"}}, supervisor={"workers": 2})
    s.wait_ready()
    server.add("q", *[b"x"] * 100)
    # Five tries of each worker, one task each, after the first ones.
    wait_until(lambda: len(journal.starts()) >= 2 * (2 + 5), 10, "it is tried again")
    assert not server.dead("q") and not server.delayed("q") and server.xlen("q") == 100
    assert not server.counters("q").get("retried")
    assert len(journal.runs()) <= 20
    before, begun = len(journal.starts()), time.monotonic()
    elapse(1)
    more, took = len(journal.starts()) - before, time.monotonic() - begun
    assert more <= 2 * (1 + took / 0.2), "one a delay and worker"


def test_a_broken_handler_is_tried_again_while_old_tasks_run(alone, server, journal, gate):
    alone(concurrency=4, lease="2s", breaker_delay="300ms", max_attempts=3).wait_ready()
    server.add("q", b"do %s" % str(gate).encode())
    journal.wait_started(1)
    server.add("q", b"do exit=127", *[b"x"] * 5)
    wait_done(server, 5, 10)
    wait_until(lambda: server.dead("q"), 15, "the bad one is a dead letter")
    assert len(journal.running()) == 1
    gate.open()
    server.wait_empty("q")


@on_both
@pytest.mark.parametrize("how", ["absolute", "relative"])
def test_a_missing_handler_touches_no_task(alone, server, journal, tmp_path, how):
    program = tmp_path / "prog"
    server.add("q", *[b"x"] * 20)
    w = alone(handler="exec %s %s" % (program if how == "absolute" else "./prog", journal.path),
              cwd=tmp_path, breaker_delay="100ms")
    w.wait_said("handler is broken")
    w.wait_ready()
    stays(lambda: server.n_pending("q") == 0, 0.5, "no task is touched")
    assert server.backend == "list" or \
        server.r.xinfo_groups("q")[0]["last-delivered-id"] == b"0-0"
    program.symlink_to(journal.program)
    server.wait_empty("q")
    assert len(journal.starts()) == 20 and w.out().count("handler is broken") == 1


# ---------------------------------------------------------------- stopping

def hold_a_delivery(server, links):
    """An entry is the worker's, and the worker does not know it yet; until links.free()."""
    wait_until(lambda: server.r.info("clients")["blocked_clients"] == 1)
    n = server.n_pending("q")
    links.hold(is_read)
    server.add("q", b"x")
    wait_until(lambda: links.held() and server.n_pending("q") == n + 1)


def given_back(server, n):
    """n entries wait for anybody, and nothing is charged."""
    rows = server.pending("q", 10)
    return (len(rows) == n and all(row["time_since_delivered"] > 10 ** 11 for row in rows) and
            not server.r.exists(server.key("q", "crash")) and not server.delayed("q"))


@on_both
def test_what_a_read_brings_after_sigquit_is_given_back_unstarted(alone, links, server, journal):
    w = alone(redis={"url": links.url}, handler=journal.handler("sleep=60000")).wait_ready()
    hold_a_delivery(server, links)
    w.signal(signal.SIGQUIT)
    w.wait_said("stopping (SIGQUIT)")
    links.free()
    assert w.wait_exit() == 0
    assert given_back(server, 1) and not journal.starts()


@on_both
def test_what_a_read_brings_after_the_drain_limit_is_given_back_unstarted(
        alone, links, server, journal):
    w = alone(redis={"url": links.url}, supervisor={"drain_timeout": "200ms"}, concurrency=2,
              handler=journal.handler("sleep=60000")).wait_ready()
    server.add("q", b"x")
    journal.wait_started(1)
    hold_a_delivery(server, links)
    w.signal(signal.SIGTERM)
    w.wait_said("still run")
    links.free()
    assert w.wait_exit() == 1
    assert given_back(server, 2) and len(journal.starts()) == 1
    assert "unsettled" not in w.out()


# ---------------------------------------------------------------- the name is another's

@on_both
def test_fenced_with_a_settlement_under_way_and_its_link_cut(alone, links, server, journal, gate):
    w = alone(redis={"url": links.url}, concurrency=1, lease="2s").wait_ready()
    server.add("q", b"do %s" % str(gate).encode())
    journal.wait_started(1)
    links.hold(is_settling)
    gate.open()
    wait_until(links.held)
    take_the_name(server, w)
    w.wait_said("now belongs to another worker")
    links.cut("fetch")
    links.free()
    w.wait_ready(2, 10)
    server.add("q", b"x")
    wait_done(server, 2, 5)
    assert len(journal.starts()) == 2


@on_both
def test_fenced_stops_its_handlers_also_where_a_lost_lease_lets_them_finish(
        alone, server, journal, gate):
    w = alone(concurrency=2, lease="2s", on_lost_lease="finish").wait_ready()
    server.add("q", b"do %s" % str(gate).encode())
    journal.wait_started(1)
    take_the_name(server, w)
    w.wait_ready(2, 6)
    assert not journal.running()
    server.add("q", b"x")
    wait_done(server, 1, 3)


def test_a_task_that_was_lost_and_comes_back_is_settled(alone, server, journal, gate):
    w = alone(concurrency=2, lease="1s", on_lost_lease="finish").wait_ready()
    entry, = server.add("q", b"do %s" % str(gate).encode())
    journal.wait_started(1)
    server.take_as("other", "q", entry)
    w.wait_said("is another's now")
    server.r.xgroup_destroy("q", "redisq")
    wait_until(lambda: server.n_pending("q") == 1, 10, "it is delivered again")
    assert list(server.consumers("q")) == [w.name()]
    gate.open()
    wait_done(server, 1, 5)
    assert len(journal.starts()) == 1 and server.is_empty("q")


@on_both
def test_a_task_whose_entry_was_deleted_runs_on(alone, server, journal, gate):
    w = alone(lease="1s").wait_ready()
    entry, = server.add("q", b"do ignore_term=1 %s" % str(gate).encode())
    journal.wait_started(1)
    server.delete_entry("q", entry)
    w.wait_said("it runs on")
    assert journal.running()
    gate.open()
    journal.wait_ended(1)
    wait_until(lambda: server.n_pending("q") == 0)
    assert not journal.events("term") and not server.dead("q") and not server.delayed("q")
    assert "late result" not in w.out()


# ---------------------------------------------------------------- time that was lost

@on_both
def test_no_script_is_unknown_when_a_settlement_needs_it(alone, server, journal):
    w = alone(concurrency=4)
    for n in (1, 2):
        w.wait_ready(1)
        server.add("q", b"do sleep=100", b"do sleep=150", b"do exit=1 until=2")
        wait_done(server, 3, 5)
        assert n_stat(server, "errorstats", "errorstat_NOSCRIPT", "count") == 0
        if server.backend == "stream":  # of a list our own questions are scripts, too
            assert n_stat(server, "commandstats", "cmdstat_eval", "calls") == 0
        # Redis knows nothing any more; the group is made again.
        if n == 1:
            server.stop()
            assert server.start()
            wait_until(lambda: server.r.exists(server.key("q", "names")), 10,
                       "the worker is back")


@on_both
def test_a_script_that_was_flushed_is_not_sent_again_behind_a_read(
        alone, server, links, journal, gate):
    """Its task waited for 2 to 5 s, until the read had ended."""
    server.give_back("q", "do %s" % gate)
    # Taken, not read: the settlement goes out together with a read that blocks.
    alone(concurrency=1, redis={"url": links.url}).wait_ready()
    journal.wait_started(1)
    links.said = []
    server.r.script_flush()
    gate.open()
    journal.wait_ended(1)
    wait_done(server, 1)
    wait_until(lambda: server.r.info("clients")["blocked_clients"] == 1)
    assert server.is_empty("q")
    (first, asked), (second, again) = [(link, words[0]) for link, words in links.said
                                       if is_settling(words)]
    assert (asked, again) == (b"EVALSHA", b"EVAL") and second is not first
    blocks = [link for link, words in links.said if b"BLOCK" in words or words[0] == MOVE.encode()]
    assert first in blocks and second not in blocks


@on_both
def test_a_lost_order_to_move_delayed_tasks_is_given_again(alone, links, server, journal):
    alone(redis={"url": links.url}, retry_delay="2500ms").wait_ready()
    server.add("q", b"do exit=1 until=2")
    wait_until(lambda: server.delayed("q"))
    links.refuse = is_script("promote")
    wait_until(lambda: links.n_refused)
    links.refuse = None
    wait_done(server, 1)
    first, second = journal.starts()
    assert (second["t"] - first["t"]) / 1e9 < 2.5 + 3


def test_a_stall_of_the_worker_is_no_timeout_of_its_task(alone, server, journal, gate):
    w = alone(timeout="2500ms", max_attempts=1).wait_ready()
    server.add("q", b"do %s" % str(gate).encode())
    journal.wait_started(1)
    w.signal(signal.SIGSTOP)
    try:
        gate.open()
        journal.wait_ended(1)
        elapse(2.6)
    finally:
        w.signal(signal.SIGCONT)
    wait_done(server, 1, 5)
    assert not server.dead("q") and "timed out" not in w.out()


def test_a_stall_of_the_worker_is_no_end_of_the_grace(alone, server, journal, gate):
    w = alone(timeout="800ms", kill_grace="1800ms", on_timeout="dead").wait_ready()
    server.add("q", b"do ignore_term=1 %s" % str(gate).encode())
    wait_until(lambda: journal.events("term"))
    w.signal(signal.SIGSTOP)
    try:
        gate.open()
        journal.wait_ended(1)
        elapse(1.9)
    finally:
        w.signal(signal.SIGCONT)
    wait_until(lambda: server.dead("q"))
    assert server.dead("q")[0][1][b"redisq.exit"] == b"0"
    assert "SIGKILL" not in w.out()


# ---------------------------------------------------------------- Redis in trouble

@on_both
def test_results_wait_for_redis_within_the_credit(alone, links, server, journal, gate):
    alone(redis={"url": links.url}, concurrency=3, lease="20s").wait_ready()
    server.add("q", *[b"do %s" % str(gate).encode()] * 3)
    server.add("q", *[b"x"] * 47)
    journal.wait_started(3)
    links.refuse = lambda words: True
    links.cut_older(0)
    gate.open()
    journal.wait_ended(3)
    stays(lambda: len(journal.starts()) == 3, 1.5, "nothing starts beyond the credit")
    links.refuse = None
    wait_done(server, 50)
    assert set(journal.runs().values()) == {1} and journal.most_at_once() <= 3


def test_a_slow_answer_is_no_dead_link(alone, links, server, journal):
    links.rate = 400000
    # A read may take as long as it blocks, a quarter of the lease, and command_timeout.
    w = alone(redis={"url": links.url, "command_timeout": "500ms"}, lease="4s").wait_ready()
    server.add("q", b"x" * 900000)
    wait_done(server, 1, 10)
    assert len(journal.starts()) == 1
    assert "no answer" not in w.out() and links.accepted == 2


@on_both
def test_one_link_is_enough_to_keep_and_settle_what_runs(alone, server, journal, gate):
    w = alone(concurrency=2, lease="6s").wait_ready()
    other = alone(concurrency=2, lease="6s").wait_ready()
    other.signal(signal.SIGTSTP)
    other.wait_said("quiet")
    server.add("q", b"do %s" % str(gate).encode())
    journal.wait_started(1)
    other.signal(signal.SIGCONT)
    other.wait_said("fetching again")
    cmd, = wait_until(lambda: len(server.links_of(w.pid, blocked=True)) == 1 and
                      server.links_of(w.pid, blocked=False))
    server.r.config_set("maxclients", len(server.r.client_list()) - 1)
    server.r.client_kill_filter(_id=cmd["id"])
    renewed(server, 3, 6000)
    assert "cmd link" in w.out()
    gate.open()
    wait_done(server, 1, 5)
    server.r.config_set("maxclients", 1000)
    assert len(journal.starts()) == 1


def test_a_stdout_that_nobody_reads_stops_no_task(alone, server, journal, gate):
    unread, stdout = os.pipe()
    try:
        alone(stdout=stdout, lease="6s", concurrency=1)
        wait_until(lambda: server.consumers("q"))
        server.add("q", b"do out=1000000 %s" % str(gate).encode())
        journal.wait_started(1)
        renewed(server, 2, 6000)
        gate.open()
        wait_done(server, 1, 10)
        server.add("q", b"do out=100000")
        wait_done(server, 2, 5)
    finally:
        os.close(stdout)
        os.close(unread)


def test_no_spin_while_redis_stands_still(alone, server, journal):
    w = alone(lease="1s", redis={"command_timeout": "20s"}).wait_ready()
    server.add("q", b"do sleep=100")
    wait_done(server, 1)
    server.pause()
    try:
        elapse(1.5)     # by then the worker cannot be sure of its name any more
        n, ticks = switches(w.pid), procs.cpu_ticks(w.pid)
        elapse(1.5)
        assert switches(w.pid) - n < 100
        assert procs.cpu_ticks(w.pid) - ticks < 30
    finally:
        server.go_on()
    server.add("q", b"x")
    wait_done(server, 2)


ODD = [b"*0\r\n", b":7\r\n", b"*2\r\n:1\r\n:1\r\n", b"$3\r\nabc\r\n", b"$-1\r\n", b"*-1\r\n",
       b"+OK\r\n", b"*1\r\n*0\r\n", b"*4\r\n:1\r\n$1\r\nx\r\n*0\r\n$1\r\nx\r\n",
       b"*4\r\n:1\r\n:5\r\n*3\r\n:-1\r\n:-1\r\n:-1\r\n*3\r\n*0\r\n:1\r\n:1\r\n",
       b"*3\r\n:1\r\n$1\r\n5\r\n*4\r\n:1\r\n*0\r\n$3\r\nabc\r\n:3\r\n"]
# Nine entries, where at most two were asked for.
MANY = b"*1\r\n*2\r\n$1\r\nq\r\n*9\r\n" + b"".join(
    b"*2\r\n$3\r\n9-%d\r\n*2\r\n$7\r\npayload\r\n$1\r\nx\r\n" % i for i in range(9))
ODD_READS = [MANY] + ODD + [
    b"*1\r\n*2\r\n$1\r\nq\r\n*1\r\n$3\r\nabc\r\n", b"*1\r\n*2\r\n$1\r\nq\r\n$3\r\nabc\r\n",
    b"*1\r\n*2\r\n$1\r\nq\r\n*1\r\n*2\r\n:1\r\n*0\r\n",
    b"*2\r\n*2\r\n$1\r\nq\r\n*0\r\n*2\r\n$1\r\nq\r\n*0\r\n"]
# What is answered oddly: which answers in turn (None = the true one), and how many at least.
LIES = {"renew": (ODD[:3] + [x for odd in ODD[3:] for x in (None, odd)], len(ODD)),
        "settle": (ODD, 4),
        "done": (ODD, 1),
        "scan": (ODD, 5),
        "take": (ODD, 4),
        "promote": (ODD, 1),
        "XREADGROUP": (ODD_READS, len(ODD_READS))}


def fetched(*entries):
    """As list_fetch answers."""
    return b"*2\r\n:1\r\n*%d\r\n" % len(entries) + b"".join(
        b"*5\r\n$%d\r\n%s\r\n:1\r\n%s$0\r\n\r\n$0\r\n\r\n" % (len(i), i, fields)
        for i, fields in entries)


FETCHED = [fetched(*[(b"9-%d" % i, b"*2\r\n$7\r\npayload\r\n$1\r\nx\r\n") for i in range(9)])]
LIES_ABOUT_LISTS = {
    "list_fetch": (FETCHED + ODD + [fetched((b"abc", b"$3\r\nabc\r\n")), fetched((b"", b"*0\r\n")),
                                    b"*2\r\n:1\r\n*1\r\n$3\r\nabc\r\n"], 6),
    MOVE: (ODD, 4)}


@on_both
def test_a_take_that_another_was_quicker_with_keeps_the_rest_from_nobody(alone, links, server,
                                                                         journal):
    """They waited for the next pass, 5 seconds later."""
    w = alone(redis={"url": links.url}, lease="60s", read_count=1, concurrency=1)
    for _ in range(3):
        server.give_back("q", "x")
    nothing = iter([b"*2\r\n:1\r\n*0\r\n"])
    links.instead = lambda words: next(nothing, None) if is_script("take")(words) else None
    wait_until(lambda: links.n_instead == 1, 20)
    begun = time.monotonic()
    server.wait_empty("q")
    assert time.monotonic() - begun < 2.5 * PATIENCE
    assert len(journal.runs()) == 3 and w.proc.poll() is None


@pytest.mark.parametrize("what", LIES)
def test_an_odd_answer_is_no_verdict(alone, links, server, journal, gate, what):
    answer_oddly(alone, links, server, journal, gate, what)


@pytest.mark.backends("list")
@pytest.mark.parametrize("what", LIES_ABOUT_LISTS)
def test_an_odd_answer_to_a_read_of_a_list_is_no_verdict(alone, links, server, journal, gate, what):
    """What was moved, or fetched, is where Redis has it, and is found there."""
    answer_oddly(alone, links, server, journal, gate, what)


def answer_oddly(alone, links, server, journal, gate, what):
    w = alone(redis={"url": links.url}, lease="1s", concurrency=2).wait_ready()
    server.add("q", b"do ignore_term=1 %s" % str(gate).encode())
    journal.wait_started(1)
    asked = sum(links.seen.values())
    answers, n = dict(LIES, **LIES_ABOUT_LISTS)[what]
    links.lies = [(lambda words: words[0] == what.encode()) if what.isupper() else
                  is_script(what), answers]
    if what == "settle":
        server.add("q", *[b"do exit=1 until=2"] * 3)
    if what in ("done", MOVE, "list_fetch"):
        server.add("q", *[b"x"] * (12 if what == "list_fetch" else 3))
    if what == "promote":
        server.add("q", b"do exit=1 until=2")
    if what == "take":
        server.give_back("q", "x")
    wait_until(lambda: links.n_lies >= n, 20, "lies are told")
    elapse(0.3)
    assert sum(links.seen.values()) - asked < 150, "no spin"
    links.lies = None
    assert w.proc.poll() is None
    assert len(journal.running()) == 1 and not journal.events("term")
    gate.open()
    server.wait_empty("q", 15)
    assert journal.runs()[journal.starts()[0]["id"]] == 1 and journal.most_at_once() <= 2
    assert "late result" not in w.out() and "another's" not in w.out()
