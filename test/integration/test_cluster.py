"""Queues in a Redis Cluster: cluster://, the node that has the slot, slots that move, failovers. See
clusters.py."""
import json
import re
import time

import pytest

from clusters import Cluster, Producer
from redisserver import MANAGED
from waiting import PATIENCE, stays, wait_until

GONE = "127.0.0.1:1"    # nobody is there


def start(sup, journal, url, workers=2, redis=None, handler=(), queues=("q",), supervisor=None,
          **keys):
    return sup(server=None, supervisor=dict({"workers": workers, "log_level": "info"},
                                            **(supervisor or {})),
               redis=dict({"url": url}, **(redis or {})),
               queues={q: dict({"handler": journal.handler(*handler), "concurrency": 2,
                                "lease": "6s", "retry_delay": "100ms", "kill_grace": "300ms"},
                               **keys) for q in queues})


def places(sup, queue="q"):
    """Where each worker has said that the queue is, in order."""
    return [re.findall(r'"%s" is at 127.0.0.1:(\d+) ' % re.escape(queue), text)
            for text in sup.log_files(queue).values()]


def consuming(sup, port):
    """All workers, at that node."""
    return all(w["consuming"] and w["redis"] == "redis://127.0.0.1:%d/0" % port
               for w in sup.workers())


def other_master(cluster, owner):
    return next(n for n in cluster.alive() if n is not owner and n.r.role()[0] == b"master")


def count(cluster, journal, replicated=()):
    """What became of everything, once nothing is left: lost and repeated ones."""
    cluster.owner().wait_empty("q", 60)
    ended = {e["id"] for e in journal.ends()}
    twice = {i: n for i, n in journal.runs().items() if n > 1}
    return set(replicated) - ended, twice


# ------------------------------------------------------------------ the way there

def test_every_master_will_do_as_a_seed(cluster, sup, journal):
    owner, n = cluster.owner(), 0
    for seed in cluster.nodes[:3]:
        s = start(sup, journal, cluster.url(seed), 1)
        s.wait_ready(1)
        assert consuming(s, owner.port)
        owner.add("q", *["do"] * 20)
        n += 20
        journal.wait_ended(n)
        owner.wait_empty("q")
        assert places(s) == [[str(owner.port)]]
        s.stop()
    assert max(journal.runs().values()) == 1


def test_a_replica_and_dead_seeds_will_do(cluster, sup, journal):
    owner = cluster.owner()
    replica = cluster.replica_of(other_master(cluster, owner))
    s = start(sup, journal, "cluster://%s,127.0.0.1:%d" % (GONE, replica.port), 1)
    s.wait_ready(1)
    owner.add("q", "do")
    journal.wait_ended(1)
    assert "Connection refused" not in s.log("q"), "a dead seed is no trouble as long as one lives"


def test_all_seeds_die_and_the_cluster_lives(cluster, sup, journal):
    """What the nodes told of each other is enough to find the new owner."""
    owner = cluster.owner()
    seed = other_master(cluster, owner)
    s = start(sup, journal, cluster.url(seed))
    s.wait_ready(2)
    seed.stop()
    cluster.wait_failed_over(seed, next(k for k in map(str, range(1000)) if
                                        cluster.owner(k) is None or cluster.slot(k) in
                                        slots_of(cluster, seed)))
    owner.stop()
    new = cluster.wait_failed_over(owner)
    wait_until(lambda: consuming(s, new.port), 10, lambda: "all consume again: %r" % s.workers())
    new.add("q", *["do"] * 10)
    journal.wait_ended(10)


def slots_of(cluster, node):
    at = cluster.nodes.index(node)
    n = sum(1 for x in cluster.nodes) // 2
    return range(16384 * at // n, 16384 * (at + 1) // n)


def test_queues_live_on_different_nodes(masters, sup, journal):
    names = {}
    for k in range(1000):
        names.setdefault(masters.owner("q%d" % k).port, "q%d" % k)
        if len(names) == 3:
            break
    s = start(sup, journal, masters.url(masters.nodes[0]), 1, queues=sorted(names.values()))
    s.wait_ready(3)
    for port, name in names.items():
        masters.node_at(port).add(name, "do")
    journal.wait_ended(3)
    for port, name in names.items():
        masters.node_at(port).wait_empty(name)
        assert places(s, name) == [[str(port)]]


def test_a_plain_url_at_the_wrong_node_is_refused_with_the_right_one(masters, sup, journal):
    """MOVED went round in a loop of reconnections; now it is said once what to write."""
    owner = masters.owner()
    wrong = other_master(masters, owner)
    s = start(sup, journal, wrong.url, 1)
    assert s.wait_exit() == 78
    says = "write url = cluster://127.0.0.1:%d" % owner.port
    assert says in s.log("q") + s.out()
    assert s.log("q").count("is refused") == 1
    failed = s.ctl("-s", "redis.url=" + wrong.url, "stats", "q", config=False)
    assert failed.returncode != 0 and says in failed.err, failed.err


def test_a_database_of_a_cluster_is_refused_with_the_right_url(masters, sup, journal):
    """SELECT was tried again for ever: "not allowed in cluster mode"."""
    node = masters.owner()
    if "server_mode" in node.r.info("server"):
        pytest.skip("Valkey's clusters have databases")
    url = "redis://127.0.0.1:%d/2" % node.port
    s = start(sup, journal, url, 1)
    assert s.wait_exit() == 78
    says = "has no database 2; write url = cluster://127.0.0.1:%d" % node.port
    assert says in s.log("q") + s.out()
    failed = s.ctl("-s", "redis.url=" + url, "stats", "q", config=False, check=78)
    assert says in failed.err and "is it running" not in failed.err, failed.err
    # With partitions each of them is refused, and it ends likewise.
    s = start(sup, journal, url, 1, partitions=3)
    assert s.wait_exit() == 78


def test_a_plain_url_is_fine_until_the_slot_moves(masters, sup, journal, gate):
    owner = masters.owner()
    target = other_master(masters, owner)
    s = start(sup, journal, owner.url, 1)
    s.wait_ready(1)
    owner.add("q", b"do " + str(gate).encode())
    journal.wait_started(1)
    masters.move(masters.slot("q"), owner, target)
    says = "write url = cluster://127.0.0.1:%d" % target.port
    wait_until(lambda: says in s.log("q"))
    gate.open()
    stays(lambda: s.log("q").count(says) == 1, 3)
    # With the right url the task is settled by the next worker that comes.
    s.redis["url"] = masters.url(owner)
    s.write_ini()
    s.ctl("reload", "--no-wait")
    target.wait_empty("q", 60)


def test_a_password(tmp_path, sup, journal):
    made = Cluster(tmp_path, 3, 0)
    try:
        for n in made.nodes:
            n.r.config_set("requirepass", "sesame")
        owner = made.owner()
        url = made.url(other_master(made, owner)).replace("://", "://:sesame@")
        s = start(sup, journal, url, 1)
        s.wait_ready(1)
        owner.add("q", "do")
        journal.wait_ended(1)
        assert "sesame" not in s.out() + s.log("q") + s.ctl("status").out
        s = start(sup, journal, url.replace("sesame", "wrong"), 1)
        wait_until(lambda: "WRONGPASS" in s.log("q"))
    finally:
        made.close()


def test_another_database_is_a_mistake(sup, journal):
    s = start(sup, journal, "cluster://127.0.0.1:1/3", 1)
    assert s.wait_exit() == 78
    assert "has no database 3, only 0" in s.out()


# ------------------------------------------------------------------ a slot that moves

def test_a_slot_moves_under_load(cluster, sup, journal):
    """There and back, key by key, all the while there is work: nothing is lost, nothing runs twice."""
    slot, home = cluster.slot("q"), cluster.owner()
    target = other_master(cluster, home)
    s = start(sup, journal, cluster.url(target))
    s.wait_ready(2)
    pids = sorted(s.pids())
    load = Producer(cluster)
    for source, to in ((home, target), (target, home), (home, target)):
        n = len(journal.ends())
        journal.wait_ended(n + 50)
        cluster.move(slot, source, to)
        moved = time.monotonic()
        wait_until(lambda: consuming(s, to.port), 10, lambda: "they follow: %r" % s.workers())
        print("cluster: consuming %.2f s after the slot had moved" % (time.monotonic() - moved))
    n = len(journal.ends())
    journal.wait_ended(n + 50)
    accepted = load.end()
    lost, twice = count(cluster, journal, accepted)
    print("cluster: %d accepted in three moves, %d ran twice" % (len(accepted), len(twice)))
    assert not lost
    assert not twice
    assert sorted(s.pids()) == pids
    want = [str(x.port) for x in (home, target, home, target)]
    assert places(s) == [want, want], "each worker went there once, to and fro no more"


@pytest.mark.parametrize("first", ["stream", "others"])
def test_a_move_that_takes_longer_than_the_lease_runs_nothing_twice(cluster, sup, journal, gate,
                                                                    first):
    """With the stream gone and the rest still there, or the other way round, nobody can renew."""
    slot, home = cluster.slot("q"), cluster.owner()
    target = other_master(cluster, home)
    s = start(sup, journal, cluster.url(home), 2, lease="2s", max_attempts=2,
              supervisor={"heartbeat_timeout": "0"})
    s.wait_ready(2)
    ids = home.add("q", *[b"do " + str(gate).encode()] * 3, "do")
    journal.wait_started(4)

    def once():
        return all(journal.runs()[i] == 1 for i in ids)
    # Something delayed and something dead, so that most of the keys are there.
    home.add("q", b"do exit=65", b"do exit=1")
    cluster.begin_move(slot, home, target)
    cluster.move_keys(slot, home, target, lambda k: (k == "q") == (first == "stream"))
    wait_until(lambda: "waiting for the cluster, running tasks go on" in s.log("q"))
    began = time.monotonic()
    stays(once, 5)     # more than two leases
    cluster.move_keys(slot, home, target)
    cluster.end_move(slot, target)
    wait_until(lambda: consuming(s, target.port), 10)
    print("cluster: a move of %.1f s with a lease of 2 s" % (time.monotonic() - began))
    # Those that were idle for so long are not taken: their owners come first.
    stays(once, 5)
    assert len(journal.running()) == 3
    target.add("q", "do")
    gate.open()
    wait_until(lambda: target.counters("q").get("died") == 2, 30)
    target.wait_empty("q", 60)
    assert once()
    assert target.counters("q")["done"] == 5
    assert "lost" not in s.log("q").replace("lost=0", "")


def test_new_workers_wait_while_the_slot_moves(cluster, sup, journal):
    slot, home = cluster.slot("q"), cluster.owner()
    target = other_master(cluster, home)
    home.add("q", "do")
    cluster.begin_move(slot, home, target)
    cluster.move_keys(slot, home, target)
    s = start(sup, journal, cluster.url(home), 2)
    wait_until(lambda: "is being moved" in s.log("q"))
    assert target.r.execute_command("CLUSTER", "COUNTKEYSINSLOT", slot) == 1, "nothing was made"
    assert home.r.execute_command("CLUSTER", "COUNTKEYSINSLOT", slot) == 0
    cluster.end_move(slot, target)
    s.wait_ready(2)
    journal.wait_ended(1)
    target.wait_empty("q")
    assert all(w["restarts"] == 0 for w in s.workers())


def test_a_move_that_is_called_off(cluster, sup, journal):
    slot, home = cluster.slot("q"), cluster.owner()
    target = other_master(cluster, home)
    s = start(sup, journal, cluster.url(home), 2)
    s.wait_ready(2)
    home.add("q", *["do"] * 5)
    journal.wait_ended(5)
    cluster.begin_move(slot, home, target)
    wait_until(lambda: "waiting for the cluster" in s.log("q"), 20)
    cluster.call_off(slot, home, target)
    home.add("q", *["do"] * 5)
    journal.wait_ended(10)
    home.wait_empty("q")
    assert consuming(s, home.port)


# ------------------------------------------------------------------ failover

def test_kill_9_of_the_owner_under_load(cluster, sup, journal):
    s = start(sup, journal, cluster.url(cluster.nodes[0]))
    s.wait_ready(2)
    pids = sorted(s.pids())
    old = cluster.owner()
    load = Producer(cluster, wait=1)
    journal.wait_ended(50)
    old.stop()
    new = cluster.wait_failed_over(old)
    promoted = time.monotonic()
    wait_until(lambda: consuming(s, new.port), 20, lambda: "all consume again: %r" % s.workers())
    took = time.monotonic() - promoted
    load.end()
    n = len(journal.ends())
    new.add("q", *["do"] * 20)
    journal.wait_ended(n + 20)
    lost, twice = count(cluster, journal, load.replicated)
    print("cluster: consuming %.1f s after the promotion; %d replicated, %d ran twice or more, the "
          "producer failed %d times" % (took, len(load.replicated), len(twice), load.n_failed))
    assert took < 8 * PATIENCE
    assert not lost, "what was replicated is done"
    assert max(twice.values(), default=1) <= 2
    assert sorted(s.pids()) == pids, "no worker has ended"
    old.start()
    wait_until(lambda: old.is_replica(), 30, "the old one is a replica")
    assert consuming(s, new.port)


def test_failover_by_hand_loses_nothing(cluster, sup, journal):
    s = start(sup, journal, cluster.url(cluster.nodes[0]))
    s.wait_ready(2)
    load = Producer(cluster)
    for _ in range(2):
        n = len(journal.ends())
        journal.wait_ended(n + 50)
        old = cluster.owner()
        new = cluster.fail_over(old)
        wait_until(lambda: consuming(s, new.port), 10, lambda: "they follow: %r" % s.workers())
        wait_until(lambda: cluster.replica_of(new), 20, "the old one follows")
    n = len(journal.ends())
    journal.wait_ended(n + 20)
    accepted = load.end()
    lost, twice = count(cluster, journal, accepted)
    print("cluster: %d accepted in two failovers by hand, %d ran twice" % (
        len(accepted), len(twice)))
    assert not lost


def test_an_owner_that_hangs(cluster, sup, journal):
    s = start(sup, journal, cluster.url(), redis={"command_timeout": "1s", "connect_timeout": "60s"})
    s.wait_ready(2)
    old = cluster.owner()
    old.pause()
    try:
        new = wait_until(lambda: next((n for n in cluster.nodes if n is not old and
                                       n.r.role()[0] == b"master" and
                                       n in cluster.nodes[3:]), None), 30)
        promoted = time.monotonic()
        wait_until(lambda: consuming(s, new.port), 30,
                   lambda: "all are at the new owner: %r" % s.workers())
        print("cluster: all at the new owner %.1f s after the promotion of one that hung"
              % (time.monotonic() - promoted))
        new.add("q", *["do"] * 20)
        journal.wait_ended(20)
    finally:
        old.go_on()
    wait_until(lambda: old.is_replica(), 30, "the old one is a replica")
    assert consuming(s, new.port)


def test_a_promotion_is_seen_while_the_old_owner_hangs(tmp_path, sup, journal):
    """Each try went to the one that hung, first and with doubled patience: the replica was found
    when that was over, 5 s after the promotion and later."""
    made = Cluster(tmp_path, options=["--cluster-node-timeout", 4000])
    try:
        s = start(sup, journal, made.url(), redis={"command_timeout": "500ms",
                                                   "connect_timeout": "60s"})
        s.wait_ready(2)
        pids = sorted(s.pids())
        old = made.owner()
        load = Producer(made, wait=1)
        journal.wait_ended(50)
        witness = other_master(made, old)
        old.pause()
        new = wait_until(lambda: promoted_instead_of(made, old, witness), 40, "a replica was promoted")
        promoted = time.monotonic()
        wait_until(lambda: consuming(s, new.port), 30,
                   lambda: "all are at the new owner: %r" % s.workers())
        took = time.monotonic() - promoted
        print("cluster: consuming %.1f s after the promotion of the replica of one that hangs"
              % took)
        assert took < 4 * PATIENCE
        began = time.monotonic()
        s.ctl("-s", "redis.url=" + made.url(old, witness), "stats", "q", config=False, check=0)
        print("cluster: redisqctl, to which that one is named first, needs %.1f s"
              % (time.monotonic() - began))
        # It goes on as a replica: whoever is there has to come to the new one.
        late = start(sup, journal, made.url(old), 1)
        wait_until(lambda: late.workers(), 10)
        old.go_on()
        wait_until(lambda: old.is_replica(), 30, "the old one is a replica")
        load.end()
        late.wait_ready(1)
        wait_until(lambda: consuming(late, new.port), 30)
        assert consuming(s, new.port)
        n = len(journal.ends())
        new.add("q", *["do"] * 20)
        journal.wait_ended(n + 20)
        new.wait_empty("q", 60)
        lost = set(load.replicated) - {e["id"] for e in journal.ends()}
        assert not lost, "what was replicated is done"
        assert sorted(s.pids()) == pids, "no worker has ended"
        want = [str(old.port), str(new.port)]
        assert places(s) == [want, want], "nobody has gone back"
    finally:
        made.close()


def promoted_instead_of(made, old, witness):
    """Who has its slots now, by CLUSTER NODES of that one; None: it still has them."""
    slot = made.slot("q")
    for line in witness.r.execute_command("CLUSTER", "NODES").decode().splitlines():
        words = line.split()
        ranges = [w.split("-") for w in words[8:] if not w.startswith("[")]
        if "master" in words[2] and any(int(r[0]) <= slot <= int(r[-1]) for r in ranges):
            node = made.node_at(re.match(r".*:(\d+)@", words[1]).group(1))
            return node if node is not old else None
    return None


def test_cluster_down_and_back(tmp_path, sup, journal, gate):
    """Slots without a node, and a cluster that then serves nothing: what runs goes on."""
    made = Cluster(tmp_path, 3, 0, full_coverage=True)
    try:
        owner = made.owner()
        victim = other_master(made, owner)
        s = start(sup, journal, made.url(), 2)
        s.wait_ready(2)
        owner.add("q", b"do " + str(gate).encode())
        journal.wait_started(1)
        victim.stop()
        wait_until(lambda: "CLUSTERDOWN" in s.log("q"), 20)
        gate.open()
        journal.wait_ended(1)
        victim.start()
        made.wait_ok()
        owner.add("q", *["do"] * 10)
        journal.wait_ended(11)
        owner.wait_empty("q")
        assert max(journal.runs().values()) == 1
        assert all(w["restarts"] == 0 for w in s.workers())
    finally:
        made.close()


@pytest.mark.skipif(MANAGED, reason="knows the links by the names that CLIENT gives them")
def test_two_links_come_together(masters, sup, journal):
    """One of them is cut off and finds the queue elsewhere: the other follows, and both stay."""
    slot, home = masters.slot("q"), masters.owner()
    target = other_master(masters, home)
    s = start(sup, journal, masters.url(home), 1)
    s.wait_ready(1)
    for source, to, kind in ((home, target, ":fetch"), (target, home, ":cmd")):
        masters.move(slot, source, to)
        for c in source.r.client_list():
            if c["name"].endswith(kind):
                source.r.client_kill_filter(_id=c["id"])
        wait_until(lambda: consuming(s, to.port), 10)
        links = {c["id"] for c in to.r.client_list() if c["name"].startswith("redisq:")}
        assert len(links) == 2
        to.add("q", "do")
        to.wait_empty("q")
        stays(lambda: links == {c["id"] for c in to.r.client_list()
                                if c["name"].startswith("redisq:")}, 1)
    journal.wait_ended(2)


# ------------------------------------------------------------------ all the rest works there, too

def test_outcomes(masters, sup, journal):
    """Done, retried, delayed, dead, and put back."""
    owner = masters.owner()
    s = start(sup, journal, masters.url(other_master(masters, owner)), max_attempts=2)
    s.wait_ready(2)
    ids = owner.add("q", "do", "do exit=1")
    wait_until(lambda: len(owner.dead("q")) == 1)
    owner.wait_empty("q")
    assert owner.counters("q")["done"] == 1
    assert owner.counters("q")["retried"] == 1
    shown = s.ctl("dead", "list", "q", check=0)
    assert ids[1] in shown.out
    s.ctl("dead", "retry", "q", "--all", check=0)
    journal.wait_ended(5)
    wait_until(lambda: len(owner.dead("q")) == 1)
    s.ctl("push", "q", "do", check=0)
    journal.wait_ended(6)
    owner.wait_empty("q")
    stats = json.loads(s.ctl("stats", "q", "--json", check=0).out)
    assert (stats["done"], stats["dead"], stats["waiting"]) == (2, 1, 0)


def test_push_and_wait(masters, sup, journal):
    owner = masters.owner()
    s = start(sup, journal, masters.url(other_master(masters, owner)))
    s.wait_ready(2)
    s.ctl("push", "q", "--wait", "do", check=0)
    failed = s.ctl("push", "q", "--wait", "do exit=65", check=1)
    assert "is a dead letter" in failed.err
    assert owner.counters("q")["done"] == 1


def test_lists(masters, sup, journal):
    owner = masters.owner()
    target = other_master(masters, owner)
    s = start(sup, journal, masters.url(target), backend="list")
    s.wait_ready(2)
    owner.r.lpush("q", *["do"] * 20)
    journal.wait_ended(20)
    wait_until(lambda: owner.counters("q").get("done") == 20)
    masters.move(masters.slot("q"), owner, target)
    wait_until(lambda: consuming(s, target.port), 10)
    target.r.lpush("q", *["do"] * 20)
    journal.wait_ended(40)
    wait_until(lambda: target.counters("q").get("done") == 40)
    assert json.loads(s.ctl("stats", "q", "--json", check=0).out)["done"] == 40


def test_a_crash_is_handed_over(masters, sup, journal, gate):
    import os
    import signal
    owner = masters.owner()
    s = start(sup, journal, masters.url(other_master(masters, owner)), 1)
    s.wait_ready(1)
    owner.add("q", b"do " + str(gate).encode())
    journal.wait_started(1)
    os.kill(s.pids()[0], signal.SIGKILL)
    journal.wait_started(2)
    gate.open()
    owner.wait_empty("q")
