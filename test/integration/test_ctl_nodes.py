"""redisqctl and a queue with partitions that are on the nodes of a cluster."""
import json

from test_ctl_partitions import N, told
from waiting import wait_until


def apart(cluster):
    """The name of a queue each of whose partitions is on a node of its own; and these nodes."""
    for name in ("q%d" % n for n in range(1000)):
        nodes = [cluster.owner("%s:%d" % (name, i)) for i in range(N)]
        if len({n.port for n in nodes}) == N:
            return name, nodes
    raise AssertionError("no such name")


def test_every_verb_finds_the_partitions_on_their_nodes(masters, sup, journal):
    q, nodes = apart(masters)
    s = sup(server=None, supervisor={"workers": 1}, redis={"url": masters.url(masters.nodes[0])},
            queues={q: {"handler": journal.handler(), "partitions": N, "concurrency": N,
                        "retry_delay": "1h", "retry_delay_max": "1h", "result_ttl": "1h"}})
    s.wait_ready(1)

    def ask(*args):
        return json.loads(s.ctl(*args, "--json", check=0).out)

    assert "pushed 300 tasks" in s.ctl("push", q, "--lines", input=b"do\n" * 300, check=0).out
    wait_until(lambda: ask("stats", q)["done"] == 300, 30, "all are done")
    assert [p["done"] for p in ask("stats", q)["partitions"]] == [100] * N
    for i, node in enumerate(nodes):
        id = s.ctl("push", q, "--partition", i, "do exit=1", check=0).out.strip()
        wait_until(lambda: node.delayed("%s:%d" % (q, i)), 20, "it waits for its next attempt")
        assert (ask("show", q, id)["state"], ask("show", q, id)["partition"]) == ("delayed", i)
        said = s.ctl("push", q, "--partition", i, "--wait", "do exit=65", check=1).err
        assert "task %d:" % i in said and "dead letter (rejected)" in said
        assert s.ctl("push", q, "--partition", i, "--wait", "do", check=0).out == ""
    rows = told(s.ctl("dead", "list", q, check=0).out)
    assert [r[0][:2] for r in rows] == ["0:", "1:", "2:"], "in the order in which they died"
    assert "3 dead tasks put back" in s.ctl("dead", "retry", q, "--all", check=0).out
    wait_until(lambda: ask("stats", q)["dead"] == N, 20, "they have died again")
    s.ctl("dead", "drop", q, *[r["redisq.id"] for r in
                               (f["fields"] for f in ask("dead", "list", q))], check=0)
    assert ask("pending", q) == [] and ask("stats", q)["delayed"] == N
    found = json.loads(s.ctl("doctor", q, "--json").out)["findings"]
    assert [f["text"] for f in found if f["queue"] and f["state"] == "bad"] == []
    said = [f["text"] for f in found if f["check"] == "partitions"]
    assert len(said) == 2 and said[1] == "3, and nothing is left in other streams"
    assert all("1 at redis://127.0.0.1:%d/0" % n.port in said[0] for n in nodes)
    masters.owner(q).add(q, b"x")
    masters.owner(q + ":40").add(q + ":40", b"x")
    said = "".join(f["text"] for f in json.loads(s.ctl("doctor", q, "--json", check=1).out)["findings"]
                   if f["check"] == "partitions" and f["state"] == "bad")
    assert "1 task is in %s:40" % q in said and "1 task is in %s itself" % q in said
    assert "accepted 309 = done 303 + dead 0 + dropped 3" in s.ctl("audit", q, check=0).out or \
        "309 tasks in all places" in s.ctl("audit", q, check=0).out
