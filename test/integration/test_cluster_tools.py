"""Around a queue in a Redis Cluster: redisqctl, doctor, permissions, TLS, partitions."""
import json
import os
import re
import subprocess

import pytest

from clusters import Cluster
from redisserver import MANAGED, documented, version
from test_cluster import consuming, other_master, start
from tlsserver import Certs, TlsServer
from waiting import wait_until


def on_nodes(masters, n, pattern="q%d"):
    """{node: the name of a queue that is there}."""
    names = {}
    for k in range(1000):
        names.setdefault(masters.owner(pattern % k), pattern % k)
        if len(names) == n:
            return names
    raise AssertionError("no such names")


def findings(sup, *words):
    done = sup.ctl(*words, "doctor", "--json", "q")
    assert done.out, done.err
    return {f["check"]: f for f in json.loads(done.out)["findings"]}


def test_redisqctl_goes_where_each_queue_is(masters, sup, journal):
    names = on_nodes(masters, 3)
    s = start(sup, journal, masters.url(masters.nodes[0]), 1, queues=sorted(names.values()))
    s.wait_ready(3)
    for i, (node, name) in enumerate(names.items()):
        node.add(name, *["do"] * (i + 1))
        s.ctl("push", name, "do exit=65", check=0)
        node.wait_empty(name)
        assert node.dead(name)[0][0] in s.ctl("dead", "list", name, check=0).out
        s.ctl("audit", name, check=0)
        s.ctl("pending", name, check=0)
    rows = json.loads(s.ctl("stats", "--json", check=0).out)
    assert {r["queue"]: r["done"] for r in rows} == {
        name: i + 1 for i, name in enumerate(names.values())}


def test_redisqctl_waits_for_a_slot_that_moves(masters, sup, journal):
    """For some seconds; then it says why it gives up."""
    slot, home = masters.slot("q"), masters.owner()
    target = other_master(masters, home)
    s = start(sup, journal, masters.url(home), 1)
    s.wait_ready(1)
    home.add("q", "do")
    home.wait_empty("q")
    masters.begin_move(slot, home, target)
    masters.move_keys(slot, home, target)
    failed = s.ctl("stats", "q", check=69)
    assert "slot %d is being moved away from" % slot in failed.err
    masters.end_move(slot, target)
    assert json.loads(s.ctl("stats", "q", "--json", check=0).out)["done"] == 1


def test_doctor_looks_at_the_cluster_and_the_slot(masters, sup, journal):
    slot, home = masters.slot("q"), masters.owner()
    target = other_master(masters, home)
    s = start(sup, journal, masters.url(target), 1)
    s.wait_ready(1)
    found = findings(s)
    assert found["cluster"]["state"] == "fine", found["cluster"]
    assert "16384 of 16384 slots served" in found["cluster"]["text"]
    assert found["slot"]["text"] == "%d is at redis://127.0.0.1:%d/0" % (slot, home.port)
    assert found["version"]["state"] == "fine"
    assert "127.0.0.1:%d" % home.port in found["version"]["text"], "the node that has the queue"
    assert "at the same node" in found["prefixes"]["text"]
    home.add("q", "do")
    home.wait_empty("q")
    masters.begin_move(slot, home, target)
    found = findings(s)
    assert found["slot"]["state"] == "bad"
    assert "being moved to 127.0.0.1:%d" % target.port in found["slot"]["text"]
    assert "redis-cli --cluster fix" in found["slot"]["do"]
    masters.call_off(slot, home, target)
    # The cluster does not know yet that it has lost a node: it says so when it does.
    victim = next(n for n in masters.nodes if n not in (home, target))
    victim.stop()
    wait_until(lambda: findings(s)["cluster"]["state"] == "bad", 20)


def test_doctor_goes_on_where_a_node_is_away(masters, sup, journal):
    for k in range(1000):
        name = "p%d" % k
        at = [masters.owner("%s:%d" % (name, i)) for i in range(3)]
        if len(set(at)) == 3:
            break
    s = start(sup, journal, masters.url(), 1, queues=[name], partitions=3)
    s.wait_ready(1)
    at[1].stop()
    found = json.loads(s.ctl("doctor", name, "--json", check=1).out)["findings"]
    bad, = [f for f in found if f["check"] == "node"]
    assert bad["partitions"] == [1] and bad["queue"] == name and bad["state"] == "bad"
    assert "could not be used: connect to 127.0.0.1:%d: Connection refused" % at[1].port in bad["text"]
    assert "--cluster check" in bad["do"]
    assert [f for f in found if f["check"] == "group"], "what the others have was looked at"
    assert "127.0.0.1:%d: Connection refused" % at[1].port in s.ctl("doctor", name, check=1).out


def test_doctor_looks_at_every_name_of_many_queues_with_few_links(masters, sup, journal):
    """What may be left over of a queue has 65 names, each somewhere in the cluster: none of their
    links outlives the look at it."""
    names = ["a%d" % k for k in range(8)]
    s = start(sup, journal, masters.url(masters.nodes[0]), 1, queues=names)
    s.wait_ready(len(names))
    masters.owner("a7:63").add("a7:63", "do")
    done = subprocess.run(
        ["/bin/sh", "-c", "ulimit -n 40; exec \"$@\"", "sh", os.path.join(s.build, "redisqctl"),
         "-s", "supervisor.control_socket=" + s.socket, "doctor", "--json"],
        env=s.env, capture_output=True, timeout=90)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)["findings"]
    assert [f for f in found if "no access" in f["text"] or f["check"] == "node"] == []
    assert [f["text"] for f in found if f["check"] == "partitions"] == [
        "1 entry is in a7:63, which is no queue"]


def test_doctor_knows_a_cluster_behind_a_plain_url(masters, sup, journal):
    s = start(sup, journal, masters.owner().url, 1)
    s.wait_ready(1)
    found = findings(s)
    assert found["version"]["state"] == "bad"
    assert found["version"]["do"] == "write cluster:// in place of redis:// in the url of [redis]"
    assert "cluster" not in found
    socket = findings(s, "-s", "redis.url=unix://" + masters.owner().socket)["version"]
    assert socket["do"] == "write url = cluster://HOST:PORT in [redis]"


@pytest.mark.one_server("is about a server that is no node of a cluster")
@pytest.mark.skipif(MANAGED, reason="asks CLUSTER of a server that has not")
def test_doctor_knows_a_single_server_behind_a_cluster_url(server, sup, journal):
    """It works as redis:// does: said once, and not what can only be asked of a cluster."""
    s = start(sup, journal, "cluster://127.0.0.1:%d" % server.port, 1, partitions=3)
    s.wait_ready(1)
    done = s.ctl("doctor", "q", "--json")
    found = json.loads(done.out)["findings"]
    assert [f["text"] for f in found if f["check"] == "cluster"] == [
        "this is no cluster; in the url write redis:// in place of cluster://"]
    two = "-s", "redis.url=cluster://127.0.0.1:%d,127.0.0.1:1" % server.port
    assert findings(s, *two)["cluster"]["text"].endswith(", and one host alone")
    assert [f for f in found if f["check"] == "slot" or "cluster support" in f["text"]] == []
    assert [f["text"] for f in found if f["check"] == "partitions"] == [
        "concurrency 2 is lower than the 3 partitions: a task may wait up to a second for a worker "
        "to come round", "3, and nothing is left in other streams"]


@pytest.mark.one_server("is about a server that is no node of a cluster")
@pytest.mark.skipif(MANAGED, reason="asks CLUSTER of a server that has not")
def test_doctor_keeps_tls_and_password_of_a_url_whose_scheme_is_to_be_another(sup, tmp_path):
    certs = Certs(tmp_path)
    one = TlsServer(tmp_path, certs)
    try:
        one.r.config_set("requirepass", "p")
        url = one.tls_url().replace("rediss://", "clusters://:p@")
        done = sup(start=False).ctl("-s", "redis.url=" + url, "-s", "redis.tls_ca_file=" +
                                    certs.crt("ca"), "doctor", "q", "--json", config=False)
        found = {f["check"]: f["text"] for f in json.loads(done.out)["findings"]}
        assert found["cluster"] == (
            "this is no cluster; in the url write rediss:// in place of clusters://")
    finally:
        one.close()


def test_the_documented_permissions_will_do(masters, sup, journal):
    """Without CLUSTER a link goes by MOVED alone, and doctor says what it does not know."""
    for n in masters.nodes:
        n.r.execute_command("ACL", "SETUSER", "w", "on", ">p", "~q", "~{q}:*", "-@all",
                            *documented("worker"))
    home = masters.owner()
    target = other_master(masters, home)
    s = start(sup, journal, masters.url(target), 1, redis={"username": "w", "password": "p"})
    s.wait_ready(1)
    home.add("q", *["do"] * 5)
    journal.wait_ended(5)
    home.wait_empty("q")
    assert {"cluster|slots", "cluster"} & {  # before 7.0 without what of it
        i["object"] for i in target.r.acl_log() if i["username"] == "w"}
    masters.move(masters.slot("q"), home, target)
    wait_until(lambda: consuming(s, target.port), 10)
    target.add("q", "do")
    journal.wait_ended(6)
    for n in masters.nodes:
        n.r.execute_command("ACL", "SETUSER", "w", *documented("ctl"))
    found = findings(s)
    assert found["cluster"]["state"] == found["slot"]["state"] == "unknown"


def test_tls(tmp_path, sup, journal):
    certs = Certs(tmp_path)
    options = ["--tls-cluster", "yes", "--tls-cert-file", certs.crt("redis"), "--tls-key-file",
               certs.key("redis"), "--tls-ca-cert-file", certs.crt("ca"), "--tls-auth-clients", "no"]
    made = Cluster(tmp_path, 3, 0, options=options, tls=True)
    try:
        home = made.owner()
        target = other_master(made, home)
        s = start(sup, journal, made.url(target, scheme="clusters"), 1, redis=certs.keys())
        s.wait_ready(1)
        home.add("q", "do")
        journal.wait_ended(1)
        home.wait_empty("q")
        assert s.workers()[0]["redis"] == "rediss://127.0.0.1:%d/0" % home.port
        assert json.loads(s.ctl("stats", "q", "--json", check=0).out)["done"] == 1
        plain = findings(s, "-s", "redis.url=rediss://127.0.0.1:%d" % home.port, "-s",
                         "redis.tls_ca_file=" + certs.crt("ca"))["version"]
        assert plain["do"] == "write clusters:// in place of rediss:// in the url of [redis]"
    finally:
        made.close()


def test_a_certificate_must_be_for_what_the_nodes_call_each_other(tmp_path, sup, journal):
    """The url says localhost, MOVED 127.0.0.1, and the certificate is for the first only."""
    certs = Certs(tmp_path)
    certs.cert("named", "DNS:localhost")
    options = ["--tls-cluster", "yes", "--tls-cert-file", certs.crt("named"), "--tls-key-file",
               certs.key("named"), "--tls-ca-cert-file", certs.crt("ca"), "--tls-auth-clients", "no"]
    made = Cluster(tmp_path, 3, 0, options=options, tls=True)
    try:
        home = made.owner()
        url = made.url(other_master(made, home), scheme="clusters").replace("127.0.0.1", "localhost")
        s = start(sup, journal, url, 1, redis=certs.keys())
        wait_until(lambda: [w for w in s.workers() if "certificate" in (w["note"] or "")], 20)
        wait_until(lambda: "not for 127.0.0.1; " in s.workers()[0]["note"], 20)
        assert "set cluster-announce-hostname" in s.workers()[0]["note"]
        if version() < (7,):    # has no such thing
            return
        home.add("q", "do")
        for n in made.nodes:
            n.r.config_set("cluster-announce-hostname", "localhost")
            n.r.config_set("cluster-preferred-endpoint-type", "hostname")
        journal.wait_ended(1)
        assert s.workers()[0]["redis"] == "rediss://localhost:%d/0" % home.port
    finally:
        made.close()


def test_partitions_are_spread_over_the_nodes(masters, sup, journal):
    for k in range(1000):
        name = "p%d" % k
        at = {masters.owner("%s:%d" % (name, i)).port for i in range(3)}
        if len(at) == 3:
            break
    s = start(sup, journal, masters.url(masters.nodes[0]), 2, queues=[name], partitions=3)
    s.wait_ready(2)
    for i in range(3):
        masters.owner("%s:%d" % (name, i)).add("%s:%d" % (name, i), *["do"] * 10)
    journal.wait_ended(30)
    for i in range(3):
        masters.owner("%s:%d" % (name, i)).wait_empty("%s:%d" % (name, i))
    assert json.loads(s.ctl("stats", name, "--json", check=0).out)["done"] == 30
    # One of them moves; the others do not mind.
    key = name + ":1"
    home = masters.owner(key)
    target = other_master(masters, home)
    masters.move(masters.slot(key), home, target)
    for i in range(3):
        masters.owner("%s:%d" % (name, i)).add("%s:%d" % (name, i), *["do"] * 10)
    journal.wait_ended(60)
    target.wait_empty(key)
    assert re.search(r'"%s" is at 127.0.0.1:%d ' % (key, target.port), s.log(name))


def test_doctor_finds_a_lopsided_spread_and_a_number_that_mends_it(masters, sup, journal):
    """Chance decides which node has a partition: with 3 some node has none."""
    for k in range(1000):
        name = "p%d" % k
        if len({masters.owner("%s:%d" % (name, i)).port for i in range(3)}) == 2:
            break
    s = start(sup, journal, masters.url(masters.nodes[0]), 1, queues=[name], partitions=3)
    s.wait_ready(1)

    def spread(*words):
        done = s.ctl(*words, "doctor", name, "--json")
        assert done.out, done.err
        found = json.loads(done.out)["findings"]
        return next(f for f in found if f["check"] == "partitions" and " at redis" in f["text"])

    said = spread()
    assert said["state"] == "note" and "none at 1 of the 3 nodes: one node has 67% of the queue, " \
        "where 33% is its share" in said["text"]
    better = re.search(r"partitions = (\d+)$", said["text"]).group(1)
    said = spread("-s", "queue.partitions=" + better)
    assert said["state"] == "fine" and said["text"].count(" at ") == 3


def test_doctor_finds_a_node_that_has_twice_its_share(masters, sup):
    """None is without, but one has four of six."""
    masters_of = [masters.owner("video:%d" % i).port for i in range(6)]
    assert sorted(masters_of.count(port) for port in set(masters_of)) == [1, 1, 4]
    s = sup(start=False)
    done = s.ctl("-s", "redis.url=" + masters.url(), "-s", "queue.partitions=6", "doctor", "video",
                 "--json", config=False)
    said = [f for f in json.loads(done.out)["findings"] if f["check"] == "partitions"]
    assert [f for f in said if f["state"] == "note" and "one node has 67% of the queue" in f["text"]
            and f["text"].endswith("partitions = 8")], said


def test_all_that_a_queue_has_moves_along(masters, sup, journal, gate):
    """Delayed, dead and running tasks, a checkpoint, counters; what is due while nobody can put it
    back is put back afterwards."""
    slot, home = masters.slot("q"), masters.owner()
    target = other_master(masters, home)
    s = start(sup, journal, masters.url(home), 1, retry_delay="3s", retry_jitter="0%")
    s.wait_ready(1)
    home.add("q", "do exit=65", "do")
    wait_until(lambda: home.counters("q").get("died") == 1 and home.counters("q").get("done") == 1)
    running, again = home.add("q", b"do ckpt=1 " + str(gate).encode(), "do exit=1 until=2")
    due, = wait_until(lambda: list(home.delayed("q").values()))
    masters.begin_move(slot, home, target)
    while masters.move_keys(slot, home, target):
        pass
    wait_until(lambda: "waiting for the cluster" in s.log("q"))
    wait_until(lambda: target.r.time()[0] * 1000 > due + 1000, what="it was due")
    assert len(journal.starts(again)) == 1
    masters.end_move(slot, target)
    journal.wait_ended(4)
    assert len(journal.starts(again)) == 2
    gate.open()
    target.wait_empty("q")
    assert len(journal.starts(running)) == 1
    assert target.counters("q")["done"] == 3 and len(target.dead("q")) == 1
    assert home.r.keys("*q*") == []
