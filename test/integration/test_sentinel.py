"""The master by its name: workers, redisqctl and a url that names Sentinels. See sentinels.py."""
import json
import time

import pytest

from redisserver import RedisServer
from sentinels import FakeSentinel, Fleet, Producer
from waiting import wait_until


@pytest.fixture
def fleet(tmp_path):
    made = Fleet(tmp_path)
    yield made
    made.close()


@pytest.fixture
def small(tmp_path):
    """One server, one Sentinel: nothing can fail over."""
    made = Fleet(tmp_path, 1, 1)
    yield made
    made.close()


@pytest.fixture
def replica(tmp_path, server):
    (tmp_path / "replica").mkdir()
    made = RedisServer(tmp_path / "replica", "--replicaof", "127.0.0.1", server.port)
    yield made
    made.close()


@pytest.fixture
def fakes():
    made = []

    def make(answer):
        made.append(FakeSentinel(answer))
        return made[-1]
    yield make
    for f in made:
        f.close()


def start(sup, journal, url, workers=2, redis=None, **keys):
    return sup(server=None, supervisor={"workers": workers, "log_level": "info"},
               redis=dict({"url": url}, **(redis or {})),
               queues={"q": dict({"handler": journal.handler(), "concurrency": 2, "lease": "6s",
                                  "retry_delay": "100ms", "kill_grace": "300ms"}, **keys)})


def at(server, sentinel):
    return 'master "mymaster" is at 127.0.0.1:%d (from sentinel 127.0.0.1:%d)' % (
        server.port, sentinel.port)


def places(sup):
    """Where each worker has said that the master is, in order."""
    return [[line.split(" is at ")[1].split()[0] for line in text.splitlines()
             if 'master "mymaster" is at' in line] for text in sup.log_files("q").values()]


def test_kill_9_of_the_master_under_load(fleet, sup, journal):
    s = start(sup, journal, fleet.url)
    s.wait_ready(2)
    old = fleet.servers[0]
    load = Producer(fleet, "q")
    journal.wait_ended(50)
    pids = sorted(s.pids())
    old.stop()
    new = fleet.wait_failed_over(old)
    promoted = time.monotonic()
    wait_until(lambda: all(w["consuming"] for w in s.workers()), 3, "all consume again")
    took = time.monotonic() - promoted
    n = len(load.replicated)
    wait_until(lambda: len(load.replicated) > n + 50)
    replicated = load.end()
    new.wait_empty("q", 60)
    ended = {e["id"] for e in journal.ends()}
    twice = {i: n for i, n in journal.runs().items() if n > 1}
    print("sentinel: consuming %.1f s after the promotion; %d replicated, %d ran twice or more, "
          "the producer failed %d times" % (took, len(replicated), len(twice), load.n_failed))
    assert not set(replicated) - ended, "what was replicated is done"
    assert max(twice.values(), default=1) <= 2
    assert sorted(s.pids()) == pids, "no worker has ended"
    for said in places(s):
        assert said == ["127.0.0.1:%d" % old.port, "127.0.0.1:%d" % new.port]
    assert {w["redis"] for w in s.workers()} == {"redis://127.0.0.1:%d/0" % new.port}
    assert "redis        redis://127.0.0.1:%d/0" % new.port in s.ctl("describe", "q/0", check=0).out
    # The old one comes back, as a master, and is made a replica: nobody goes there.
    old.start()
    wait_until(lambda: old.is_replica(), 30, "the old master is a replica")
    n = len(journal.ends())
    fleet.add("q", *["do"] * 20)
    journal.wait_ended(n + 20)
    at = "127.0.0.1:%d" % fleet.master().port
    wait_until(lambda: all(said[-1] == at for said in places(s)), 20, "they are at the master")


def test_a_master_that_hangs(fleet, sup, journal):
    """Its host says nothing any more, not even goodbye: a try to connect there is given up as soon as
    a Sentinel knows better."""
    s = start(sup, journal, fleet.url, redis={"command_timeout": "1s", "connect_timeout": "60s"})
    s.wait_ready(2)
    old = fleet.servers[0]
    old.pause()
    new = fleet.wait_failed_over(old)
    promoted = time.monotonic()
    wait_until(lambda: all(w["redis"].endswith(":%d/0" % new.port) for w in s.workers()), 30,
               lambda: "all are at the new master: %r" % s.workers())
    print("sentinel: all at the new master %.1f s after the promotion of one whose master hung"
          % (time.monotonic() - promoted))
    new.add("q", *["do"] * 20)
    journal.wait_ended(20)
    new.wait_empty("q")
    old.go_on()
    wait_until(lambda: old.is_replica(), 30, "the old master is a replica")


def test_a_promotion_by_hand(fleet, sup, journal):
    s = start(sup, journal, fleet.url)
    s.wait_ready(2)
    old = fleet.servers[0]
    fleet.sentinels[0].r.execute_command("SENTINEL", "failover", "mymaster")
    new = fleet.wait_failed_over(old)
    wait_until(lambda: all(p[-1] == "127.0.0.1:%d" % new.port for p in places(s)), 20,
               lambda: "all are at the new master: %r" % places(s))
    new.add("q", *["do"] * 20)
    journal.wait_ended(20)
    new.wait_empty("q")


def test_sentinels_die_one_by_one(fleet, sup, journal):
    """The last one is enough for a worker that comes new; without any, work goes on where it is."""
    s = start(sup, journal, fleet.url)
    s.wait_ready(2)
    master = fleet.servers[0]
    for n, sentinel in enumerate(fleet.sentinels[:2]):
        sentinel.kill()
        s.ctl("restart", "q/0", check=0)
        s.wait_ready(2)
        master.add("q", "do")
        journal.wait_ended(n + 1)
    assert at(master, fleet.sentinels[2]) in s.log("q")
    fleet.sentinels[2].kill()
    master.add("q", *["do"] * 20)
    journal.wait_ended(22)
    # A link that falls needs one; what runs does not wait for it.
    master.r.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    wait_until(lambda: "Connection refused" in s.log("q"))
    wait_until(lambda: not any(w["consuming"] for w in s.workers()))
    master.add("q", "do")
    assert all(x.start() for x in fleet.sentinels)
    journal.wait_ended(23)


def test_a_sentinel_that_wants_a_password(tmp_path, sup, journal):
    fleet = Fleet(tmp_path, 1, 1, password="sesame")
    try:
        s = start(sup, journal, fleet.url, 1)
        wait_until(lambda: "wants a password; set sentinel_password" in s.log("q"))
        s.redis["sentinel_password"] = "wrong"
        s.write_ini()
        s.ctl("reload", "--no-wait")
        wait_until(lambda: "AUTH: WRONGPASS" in s.log("q"), 20)
        s.redis["sentinel_password"] = "sesame"
        s.write_ini()
        s.ctl("reload", "--no-wait")
        wait_until(lambda: at(fleet.servers[0], fleet.sentinels[0]) in s.log("q"), 30)
        s.wait_ready(1)
        assert "sesame" not in s.log("q") + s.out()
        shown = s.ctl("push", "q", "do", check=0)
        journal.wait_ended(1)
        assert "sesame" not in shown.out + shown.err
    finally:
        fleet.close()


def test_a_name_that_no_sentinel_knows(small, sup, journal):
    """It may be watched a little later: the workers wait, and say what they wait for."""
    s = start(sup, journal, small.url_of(*small.sentinels, master="other"), 1)
    says = 'knows no master "other"'
    wait_until(lambda: says in s.log("q"))
    wait_until(lambda: any(says in (w["note"] or "") for w in s.workers()))
    failed = s.ctl("stats", "q", check=69)
    assert says in failed.err
    assert failed.err.count("\n") == 1
    small.sentinels[0].r.execute_command("SENTINEL", "monitor", "other", "127.0.0.1",
                                         small.servers[0].port, 1)
    s.wait_ready(1, timeout=30)
    small.servers[0].add("q", "do")
    journal.wait_ended(1)


def test_a_sentinel_that_tells_old_news(server, replica, fakes, sup, journal):
    """It has been cut off from the others and calls a replica the master. Nothing is read there, and
    another one is asked."""
    old, right = fakes(FakeSentinel.at(replica)), fakes(None)
    s = start(sup, journal, Fleet.url_of(old, right), 1)
    wait_until(lambda: 'it is no master: ROLE answers "slave"' in s.log("q"))
    wait_until(lambda: right.n_asked > 0)
    assert s.workers()[0]["state"] == "starting"
    right.answer = FakeSentinel.at(server)
    s.wait_ready(1)
    assert places(s) == [["127.0.0.1:%d" % server.port]]
    server.add("q", "do")
    journal.wait_ended(1)


def test_sentinels_without_an_answer_that_counts(server, fakes, sup, journal):
    """Silent, unaware, no Sentinel, nonsense: the one that knows is found, and then asked first."""
    knows = fakes(FakeSentinel.at(server))
    bad = [fakes(None), fakes(b"*-1\r\n"), fakes(b"-ERR unknown command 'SENTINEL'\r\n"),
           fakes(b"HTTP/1.1 400\r\n\r\n"), fakes(b"*2\r\n$1\r\nh\r\n$5\r\n99999\r\n")]
    s = start(sup, journal, Fleet.url_of(*bad, knows), 1)
    s.wait_ready(1)
    assert all(x.n_asked == 2 for x in bad), [x.n_asked for x in bad]  # once by each link
    assert knows.n_asked == 2
    server.add("q", "do")
    journal.wait_ended(1)


def test_what_each_sentinel_lacks_is_said(server, fakes, sup, journal):
    for answer, says in ((None, "no answer for 0.5 s"), (b"*-1\r\n", "knows no master"),
                         (b"-ERR unknown command 'SENTINEL'\r\n", "is no Sentinel"),
                         (b"HTTP/1.1 400\r\n\r\n", "another protocol"),
                         (b"-NOAUTH Authentication required.\r\n", "set sentinel_password")):
        url = Fleet.url_of(fakes(answer))
        s = sup(server=None, start=False, ini=False)
        said = s.ctl("-s", "redis.url=" + url, "stats", "q", check=69)
        assert says in said.err and url[11:26] in said.err, said.err


def test_links_that_found_two_masters_come_together(server, replica, fakes, sup, journal):
    """For a moment both call themselves master. What one link reads the other must settle."""
    replica.r.replicaof("NO", "ONE")
    sentinel = fakes(FakeSentinel.at(server))
    s = start(sup, journal, Fleet.url_of(sentinel), 1)
    s.wait_ready(1)
    sentinel.answer = FakeSentinel.at(replica)
    # One link only falls; it finds the new one, and the other follows.
    [c] = wait_until(lambda: [c for c in server.links() if "b" in c["flags"]])
    server.r.client_kill_filter(_id=c["id"])
    wait_until(lambda: len(replica.links()) == 2)
    assert not server.links()
    replica.add("q", "do")
    journal.wait_ended(1)
    replica.wait_empty("q")


def test_redisqctl_through_sentinel(fleet, sup, journal):
    s = start(sup, journal, fleet.url)
    s.wait_ready(2)
    assert s.ctl("push", "q", "do", check=0).out.strip()
    journal.wait_ended(1)
    wait_until(lambda: json.loads(s.ctl("stats", "q", "--json", check=0).out)["done"] == 1)
    old = fleet.servers[0]
    old.stop()
    new = fleet.wait_failed_over(old)
    # Without a supervisor that is asked, too.
    pushed = s.ctl("-s", "redis.url=" + fleet.url, "push", "q", "do", check=0)
    assert pushed.out.strip()
    journal.wait_ended(2)
    new.wait_empty("q")


def test_doctor_looks_at_the_master_that_was_found(server, fakes, sup):
    """It took the url's host for granted, and a url with Sentinels has none."""
    s = sup(server=None, start=False, queues={"q": {"handler": "exec true"}},
            redis={"url": Fleet.url_of(fakes(FakeSentinel.at(server)))})
    done = s.ctl("-c", s.ini, "doctor", "q", "--json", config=False)
    assert done.out, done.err
    answer = json.loads(done.out)
    assert answer["redis"] == "redis://127.0.0.1:%d/0" % server.port
    assert "not needed: the same machine" in [f["text"] for f in answer["findings"]]


def test_the_file_is_tested_without_asking_a_sentinel(sup, tmp_path, journal):
    s = sup(server=None, start=False, redis={"url": "sentinel://127.0.0.1:1/mymaster"},
            queues={"q": {"handler": journal.handler()}}, args=["-t"])
    s.start()
    assert s.wait_exit() == 0
    assert "configuration is fine" in s.out()


def test_a_sentinel_url_shows_no_password(small, sup, journal):
    url = small.url.replace("://", "://:sesame@")
    small.servers[0].r.config_set("requirepass", "sesame")
    s = start(sup, journal, url, 1)
    s.wait_ready(1)
    assert "sesame" not in s.out() + s.log("q") + s.ctl("status").out
