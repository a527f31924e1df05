"""What one task that kills its worker costs all the others. A figure of the release build (see
test_figures.py)."""
import statistics
import time

import pytest

from figures import figure, release  # noqa: F401 (a fixture)
from waiting import wait_until

pytestmark = pytest.mark.figures
ROUNDS = 3


def good_per_second(sup, server, journal, name, poison):
    """1000 tasks of 10 to 20 ms on 4 x 4, and among them one that kills its worker, or none."""
    s = sup(queues={name: {"handler": journal.handler(), "concurrency": 4}},
            supervisor={"workers": 4, "log_level": "info"})
    s.wait_ready(4)
    tasks = [b"do sleep=%d" % (10 + i % 11) for i in range(1000)]
    tasks[100:100] = [b"do parent=9 until=99"] * poison
    begun = time.monotonic()
    server.add(name, *tasks)
    wait_until(lambda: server.counters(name).get("done") == 1000, 120, "the good ones are done")
    took = time.monotonic() - begun
    server.wait_empty(name, 60)
    assert server.counters(name) == dict({"done": 1000}, **({"died": poison} if poison else {}))
    assert s.stop() == 0
    return 1000 / took


def test_one_poison_task_costs_less_than_half_of_the_throughput(sup, server, journal):
    ratios = []
    for n in range(ROUNDS):
        alone, beside = [good_per_second(sup, server, journal, "q%d-%d" % (n, k), k)
                         for k in (0, 1)]
        ratios.append(beside / alone)
        figure("1000 good tasks on 4 x 4: %.0f/s, beside one that kills its worker %.0f/s: %.2f",
               alone, beside, ratios[-1])
    assert statistics.median(ratios) >= 0.5, ratios
