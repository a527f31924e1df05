"""What partitions are worth: one queue over three nodes of a cluster against the same in one."""
import collections
import os
import time

import pytest

from clusters import Cluster
from figures import figure, release  # noqa: F401 (a fixture)
from waiting import wait_until

pytestmark = pytest.mark.figures
N = 30000


def per_second(sup, cluster, build, name, partitions):
    streams = ["%s:%d" % (name, i) if partitions > 1 else name for i in range(partitions)]
    s = sup(server=None, redis={"url": cluster.url(cluster.nodes[0])},
            queues={name: {"handler": "so %s/bench/noop_so.so" % build,
                           "partitions": partitions, "concurrency": 64}},
            supervisor={"workers": 2, "log_level": "warning"})
    s.wait_ready(2)
    s.ctl("quiet", check=0)
    for stream in streams:
        node = cluster.owner(stream)
        node.wait_unread()
        for _ in range(N // partitions // 1000):
            node.add(stream, *[b"x"] * 1000)
    begun = time.monotonic()
    s.ctl("resume", check=0)
    wait_until(lambda: sum(cluster.owner(x).counters(x).get("done", 0) for x in streams) == N, 60,
               every=0.01)
    took = time.monotonic() - begun
    assert s.stop() == 0
    return N / took


def test_one_queue_of_six_partitions_on_three_nodes(tmp_path, sup, build):
    """The best of a few rounds. How much it is depends on the CPUs: three servers and two workers
    share them here, and reads of a sixth of the slots bring a sixth of the tasks each."""
    cluster = Cluster(tmp_path, 3, 0)
    try:
        best = collections.Counter()
        for turn in range(3):
            for n in (1, 6):
                rate = per_second(sup, cluster, build, "t%d-%d" % (turn, n), n)
                best[n] = max(best[n], rate)
        figure("so no-op, 2 x 64 on a cluster of 3, %d CPUs, best of 3: 1 partition %.0f/s, "
               "6 partitions %.0f/s: %.2f", os.cpu_count(), best[1], best[6], best[6] / best[1])
        assert best[6] >= 0.4 * best[1]
    finally:
        cluster.close()
