"""etc/handlers/paid_provider.py: one order and one charge, whatever dies in between."""
import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

import procs
from conftest import ROOT
from waiting import wait_until

PROGRAM = os.path.join(ROOT, "etc", "handlers", "paid_provider.py")
FOR_EVER = "100000"  # seconds a job takes, unless it is told to finish


class Provider:
    def __init__(self):
        self.proc = subprocess.Popen([sys.executable, PROGRAM, "--provider", "0", FOR_EVER],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.url = self.proc.stdout.readline().split()[-1].decode()

    def ask(self, path, body=None):
        # No proxy of the environment: it is on this machine.
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                self.url + path, body, 30) as answer:
            return json.load(answer)

    def charges(self):
        return self.ask("/ledger")["charges"]

    def looks(self):
        return self.ask("/ledger")["looks"].get("job-1", 0)

    def finish(self):
        self.ask("/finish", b"")

    def close(self):
        self.proc.kill()
        self.proc.wait()
        self.proc.stdout.close()


@pytest.fixture
def provider():
    p = Provider()
    yield p
    p.close()


def kill_handler(s):
    """The one process below a worker."""
    worker, = [w for w in s.workers() if w["running"]]
    handler, = procs.children(worker["pid"])
    os.kill(handler, signal.SIGKILL)


def kill_worker(s):
    worker, = [w for w in s.workers() if w["running"]]
    os.kill(worker["pid"], signal.SIGKILL)


def kill_supervisor(s):
    """And all that it had, before anything could be put in order."""
    for pid in procs.marked(s.mark.encode()):
        os.kill(pid, signal.SIGSTOP)
    for pid in procs.marked(s.mark.encode()):
        os.kill(pid, signal.SIGKILL)
    s.wait_exit()
    s.start()


def stop_fast(s):
    s.signal(signal.SIGQUIT)
    s.wait_exit()
    s.start()


@pytest.mark.parametrize("what", [kill_handler, kill_worker, kill_supervisor, stop_fast])
def test_it_is_paid_for_once(sup, server, provider, what):
    s = sup(queues={"video": {"handler": "exec " + PROGRAM, "env": "PROVIDER=" + provider.url,
                              "retry_delay": "50ms", "lease": "2s"}},
            supervisor={"workers": 2})
    s.wait_ready(2)
    task, = server.add("video", b'{"prompt": "a cat"}', **{"redisq.result_ttl": "60000"})
    for _ in range(2):
        looks = provider.looks()
        wait_until(lambda: provider.looks() > looks + 1, 30, "it is asked after")
        wait_until(lambda: server.r.exists("{video}:ckpt"), 30, "its checkpoint is there")
        what(s)
    looks = provider.looks()
    wait_until(lambda: provider.looks() > looks, 60, "a later attempt asks after the same job")
    provider.finish()
    server.wait_empty("video")
    assert json.loads(server.r.get("{video}:result:" + task))["job"] == "job-1"
    assert [c["job"] for c in provider.charges()] == ["job-1"]
    assert provider.charges()[0]["key"] == "video/" + task
    log = s.log("video")
    assert log.count("ordered job job-1") == 1 and log.count("going on with job job-1") >= 2
    s.ctl("audit", "video", check=0)


def test_an_order_whose_checkpoint_was_lost_is_known_by_its_key(sup, server, provider):
    s = sup(queues={"video": {"handler": "exec " + PROGRAM, "env": "PROVIDER=" + provider.url,
                              "retry_delay": "50ms"}}, supervisor={"workers": 1})
    server.add("video", b"x")
    wait_until(lambda: provider.looks() > 0, 30)
    wait_until(lambda: server.r.delete("{video}:ckpt"), 30, "the checkpoint is there, and gone")
    kill_worker(s)
    wait_until(lambda: s.log("video").count("ordered job job-1") == 2, 30, "ordered again")
    provider.finish()
    server.wait_empty("video")
    assert len(provider.charges()) == 1
