"""The benchmark itself, with few tasks and without the peers (which npm would have to bring): that
every family still runs on the present programs and says what it has measured."""
import json
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(build, rows, **env):
    """(results.json, stdout) of a run."""
    done = subprocess.run(
        ["/usr/bin/python3", os.path.join(ROOT, "test/bench/bench.py"), build, rows],
        env=dict(os.environ, RUNS="1", **env), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    with open(os.path.join(build, "bench", "results.json")) as f:
        return json.load(f), done.stdout


def test_it_measures_so_and_exec_beside_their_ceilings(build):
    results, text = run(build, "ceiling,so,pipe,python,spawnloop,exec,drain,latency,memory",
                        SHORT="1", N="100")
    drain, latency, memory = results["tables"]
    assert [row[0] for row in drain["rows"]] == ["1 x 4", "1 x 64", "4 x 4"]
    for side in ("ceiling", "so", "pipe", "python", "spawnloop", "exec"):
        assert all(row[drain["head"].index(side)] > 0 for row in drain["rows"])
    p50 = {row[0]: row[1] for row in latency["rows"]}
    assert set(p50) == {"floor", "so", "pipe", "exec"}
    assert 0 < p50["floor"] and 0 < p50["so"] < p50["exec"]
    assert memory["rows"][0][0] == "before"
    judged = {t["what"]: t["pass"] for t in results["targets"]}
    assert {"so / ceiling, K=1 c=64", "exec / spawn loop, K=4 c=4"} <= set(judged)
    assert judged["stream nodes more, one task pending all along"]
    assert "exec / spawn loop, K=4 c=4" in text and results["facts"]["commit"] in text


def test_a_row_that_does_not_exist_is_named(build):
    done = subprocess.run(
        ["/usr/bin/python3", os.path.join(ROOT, "test/bench/bench.py"), build, "speed"],
        capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert "no row speed" in done.stderr
