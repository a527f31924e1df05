"""The private redis-server of -e, with fake workers."""
import os
import signal
import subprocess

import pytest
import redis

import procs
from fakesup import fake  # noqa: F401 (a fixture)
from waiting import wait_until


@pytest.fixture
def private(fake):  # noqa: F811
    def make(**how):
        how.setdefault("args", ["-e"])
        s = fake(redis={}, **how)
        s.wait_ready()
        return s
    return make


def socket_of(s):
    return os.path.join(s.state_dir, "redis", "redis.sock")


def client(s):
    return redis.Redis(unix_socket_path=socket_of(s))


def server_pid(s):
    pids = [p for p in procs.children(s.pid) if procs.name(p) == "redis-server"]
    return pids[0] if pids else None


def test_it_serves_on_a_unix_socket_only_and_ends_last(private):
    s = private()
    r = client(s)
    assert r.ping()
    assert r.config_get("port")["port"] == "0"
    assert r.config_get("appendonly")["appendonly"] == "yes"
    assert r.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"
    config = s.request("config")["result"]
    assert config["redis_from"] == "-e" and socket_of(s) in config["snapshot"]
    pid = server_pid(s)
    assert s.stop() == 0
    assert not procs.alive(pid)
    assert s.out().index("left: exit 0") < s.out().index("private redis-server stopped")


def test_it_beats_redis_url(private):
    s = private(env={"REDIS_URL": "redis://10.255.255.1:1/0"})
    assert "10.255.255.1" not in s.request("config")["result"]["snapshot"]


def test_doubts_about_the_handler_are_said_with_it_too(private):
    s = private(queues={"demo": {"handler": "exec sh gone.sh"}})
    assert "gone.sh is not there; if it is a script, every task will fail" in s.out()


def test_the_file_s_password_is_for_another_server(fake):  # noqa: F811
    s = fake(redis={"username": "me", "password_file": "/nowhere/at/all"}, args=["-e"], start=False,
             env={"REDISQ_REDIS_PASSWORD": "secret"})
    s.start()
    s.wait_ready()
    snapshot = s.request("config")["result"]["snapshot"]
    assert "secret" not in snapshot and "nowhere" not in snapshot and "= me" not in snapshot
    assert s.request("reload", wait=True)["ok"]
    assert s.stop() == 0


def n_of(s, stream):
    """None while a server starts, which may follow one that the workers were ready with."""
    try:
        return client(s).xlen(stream)
    except redis.exceptions.ConnectionError:
        return None


def test_data_survive_a_stop_and_a_kill(private):
    s = private()
    client(s).xadd("demo", {"payload": "one"})
    assert s.stop() == 0
    s.start()
    s.wait_ready()
    assert client(s).xlen("demo") == 1
    client(s).xadd("demo", {"payload": "two"})
    pid = server_pid(s)
    s.proc.kill()
    s.proc.wait()
    s.start()                                   # at once, beside the one that still saves
    s.wait_ready()
    wait_until(lambda: n_of(s, "demo") == 2)
    wait_until(lambda: not procs.alive(pid))


def test_it_is_started_again_when_it_dies(private):
    s = private()
    client(s).set("key", "value")
    pid = server_pid(s)
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: server_pid(s) not in (None, pid))

    def back():
        try:
            return client(s).get("key") == b"value"
        except redis.exceptions.ConnectionError:
            return False
    wait_until(back)
    assert "the private redis-server died" in s.out()
    assert s.stop() == 0


def test_missing_redis_server_says_what_to_install(fake, build, tmp_path):  # noqa: F811
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "true").symlink_to("/bin/true")
    s = fake(args=["-e"], env={"PATH": str(empty)}, start=False)
    done = subprocess.run(s.command(), env=s.env, capture_output=True, text=True, timeout=20)
    assert done.returncode == 78
    assert "apt install redis-server" in done.stderr


def test_a_long_state_dir_moves_the_socket(private, tmp_path):
    long = str(tmp_path / ("x" * 100))
    s = private(supervisor={"state_dir": long})
    path = os.path.join(s.run_dir, "redis.sock")
    assert redis.Redis(unix_socket_path=path).ping()
    assert s.stop() == 0
