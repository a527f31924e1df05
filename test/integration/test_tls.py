"""rediss://: the same work over TLS, and a word for everything that can be wrong with it."""
import collections
import os
import shutil
import signal
import socket
import tempfile
import threading

import pytest

import procs
from proxy import Proxy
from redisserver import version
from tlsserver import Certs, TlsSentinel, TlsServer, replace
from waiting import wait_until


@pytest.fixture(scope="session")
def all_certs(tmp_path_factory):
    """Made once, as they cost a second; never changed."""
    c = Certs(tmp_path_factory.mktemp("certs"))
    c.ca("ca2")
    c.cert("redis2", "DNS:localhost,IP:127.0.0.1", "ca2")
    c.cert("elsewhere", "DNS:redis.example,IP:10.0.0.1")
    c.cert("expired", "IP:127.0.0.1", days=-1)
    c.cert("client2", ca="ca2")
    return c


@pytest.fixture
def certs(all_certs, tmp_path):
    """The test's own copy."""
    own = Certs.__new__(Certs)
    own.dir = str(tmp_path / "certs")
    os.mkdir(own.dir)
    for name in os.listdir(all_certs.dir):
        replace(os.path.join(own.dir, name), os.path.join(all_certs.dir, name))
    return own


@pytest.fixture
def servers(tmp_path, certs):
    made = []

    def make(*options, **how):
        path = tmp_path / ("redis%d" % len(made))
        path.mkdir()
        made.append(TlsServer(path, certs, *options, **how))
        return made[-1]

    yield make
    for s in made:
        s.close()


@pytest.fixture
def server(servers):
    return servers()


def maps_openssl(pid):
    return b"libssl" in procs.read(pid, "maps")


# ---------------------------------------------------------------- it works

def test_the_main_job_over_tls(sup, server, certs, journal):
    ids = server.add("video", *[b"do sleep=20"] * 100)
    s = sup(queues={"video": {"handler": journal.handler(), "concurrency": 4}},
            redis=dict(certs.keys(), url=server.tls_url("localhost")))
    rows = s.wait_ready(2)
    ids += [s.ctl("push", "video", "do sleep=20", check=0).out.strip() for _ in range(5)]
    ids += server.add("video", *[b"do sleep=20"] * 95)
    server.wait_empty("video", 60)
    assert journal.runs() == collections.Counter(ids)
    assert journal.most_at_once() <= 8
    assert ("done 200" if version() >= (7,) else "200 tasks in all places") in \
        s.ctl("audit", "video", check=0).out
    # OpenSSL is where the links are, and nowhere else.
    assert all(maps_openssl(w["pid"]) for w in rows)
    assert not maps_openssl(s.pid)
    assert s.stop() == 0


def test_without_tls_nobody_loads_openssl(sup, server, certs, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, redis=dict(certs.keys(), url=server.url))
    rows = s.wait_ready(2)
    assert not any(maps_openssl(pid) for pid in [s.pid] + [w["pid"] for w in rows])
    assert "tls_ca_file has no effect: the url is not rediss://" in s.out()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_the_host_may_be_a_name_or_an_address(sup, servers, certs, journal, host):
    server = servers(bind="127.0.0.1 ::1")
    s = sup(server=server, queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1},
            redis=dict(certs.keys(), url=server.tls_url(host)))
    s.wait_ready(1)
    server.add("q", b"x")
    server.wait_empty("q")


def test_client_certificates(sup, servers, certs, journal):
    server = servers(clients="yes")
    s = sup(server=server, queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1},
            redis=certs.keys(client=True, url=server.tls_url()))
    s.wait_ready(1)
    s.ctl("push", "q", "x", check=0)
    server.wait_empty("q")


def test_print_config_has_the_keys(sup, server, certs, journal):
    keys = certs.keys(client=True, tls_ca_dir=certs.dir, tls_verify="no", url=server.tls_url())
    s = sup(queues={"q": {"handler": journal.handler()}}, redis=keys, args=["--print-config"])
    assert s.wait_exit() == 0
    for key, value in keys.items():
        assert "%s = %s" % (key, value) in s.out()


def test_a_directory_of_cas_and_the_environment(sup, server, certs, journal, tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    replace(str(store / "ca.pem"), certs.crt("ca"))
    certs._openssl("rehash", str(store))
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1},
            env={"REDISQ_REDIS_TLS_CA_DIR": str(store), "REDIS_URL": server.tls_url()})
    s.wait_ready(1)
    server.add("q", b"x")
    server.wait_empty("q")


def test_the_systems_store_is_the_default(sup, server, certs, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1},
            redis={"url": server.tls_url()}, env={"SSL_CERT_FILE": certs.crt("ca")})
    s.wait_ready(1)
    server.add("q", b"x")
    server.wait_empty("q")


def test_tls_verify_no_is_said_at_each_start(sup, servers, certs, journal):
    server = servers(cert="expired")
    s = sup(server=server, queues={"q": {"handler": journal.handler()}},
            redis={"url": server.tls_url(), "tls_verify": "no"})
    s.wait_ready(2)
    server.add("q", b"x")
    server.wait_empty("q")
    assert s.out().count("tls_verify = no: nothing proves that it is Redis") == 1
    wait_until(lambda: all(t.count("tls_verify = no: nothing proves that it is Redis") == 1
                           for t in s.log_files("q").values()) and s.log_files("q"))


# ---------------------------------------------------------------- what is wrong is said

SIGNED = "signed by no CA that is trusted here"
PORT = "rediss://127.0.0.1:{tls}"

WRONG = {
    "unknown ca": ({}, PORT, {"tls_ca_file": "{dir}/ca2.crt"}, SIGNED),
    "no ca": ({}, PORT, {}, SIGNED),
    "expired": ({"cert": "expired"}, PORT, {"tls_ca_file": "{dir}/ca.crt"},
                "the certificate of Redis expired on "),
    "wrong address": ({"cert": "elsewhere"}, PORT, {"tls_ca_file": "{dir}/ca.crt"},
                      "the certificate is for redis.example, 10.0.0.1, not for 127.0.0.1; "),
    "wrong name": ({"cert": "elsewhere"}, "rediss://localhost:{tls}",
                   {"tls_ca_file": "{dir}/ca.crt"}, "not for localhost; "),
    "no client certificate": ({"clients": "yes"}, PORT, {"tls_ca_file": "{dir}/ca.crt"},
                              "if it wants client certificates, set tls_cert_file"),
    "a stranger's certificate": ({"clients": "yes"}, PORT,
                                 {"tls_ca_file": "{dir}/ca.crt", "tls_cert_file":
                                  "{dir}/client2.crt", "tls_key_file": "{dir}/client2.key"},
                                 "is tls_cert_file signed by its tls-ca-cert-file"),
    "plain port": ({}, "rediss://127.0.0.1:{plain}", {"tls_ca_file": "{dir}/ca.crt"},
                   "for 1.0 s; is that a TLS port? Without TLS it is redis://"),
    "plain node": ({}, "clusters://127.0.0.1:{plain}", {"tls_ca_file": "{dir}/ca.crt"},
                   "for 1.0 s; is that a TLS port? Without TLS it is cluster://"),
    "plain client": ({}, "redis://127.0.0.1:{tls}", {}, "if that is a TLS port, write rediss://"),
    "nobody": ({}, "rediss://127.0.0.1:1", {"tls_ca_file": "{dir}/ca.crt"}, "Connection refused"),
    "wrong key": ({}, PORT, {"tls_ca_file": "{dir}/ca.crt", "tls_cert_file": "{dir}/client.crt",
                             "tls_key_file": "{dir}/ca.key"}, "is not the key of tls_cert_file"),
    "key is missing": ({}, PORT, {"tls_cert_file": "{dir}/client.crt",
                                  "tls_key_file": "{dir}/none"}, "/none: No such file"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_in_time(sup, servers, certs, name):
    """redisqctl has the same link as a worker, and one try."""
    how, url, keys, says = WRONG[name]
    server = servers(**how)
    s = sup(server=server, ini=False, start=False)
    sets = dict(keys, url=url, connect_timeout="1s" if name in ("plain port", "plain node") else "10s")
    args = []
    for key, value in sets.items():
        value = value.format(dir=certs.dir, tls=server.tls_port, plain=server.port)
        args += ["-s", "redis.%s=%s" % (key, value)]
    done = s.ctl(*args, "stats", "q", config=False)
    assert done.returncode == 69, (done.out, done.err)
    assert says in done.err and done.err.count("\n") == 1, done.err


def test_tls_1_1_is_refused(sup, servers, certs):
    server = servers("--tls-protocols", "TLSv1.1")
    s = sup(server=server, ini=False, start=False)
    done = s.ctl("-s", "redis.url=" + server.tls_url(), "-s", "redis.tls_verify=no", "stats", "q",
                 config=False)
    assert done.returncode == 69 and "here it is 1.2 and newer" in done.err, done.err


def test_workers_wait_for_a_certificate_that_is_right(sup, servers, certs, journal):
    """A person has to mend it: said once, nobody crashes, and then work goes on by itself."""
    server = servers(cert="expired")
    s = sup(server=server, queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1},
            redis=certs.keys(url=server.tls_url()))
    wait_until(lambda: "the certificate of Redis expired on " in s.log("q"))
    ids = server.add("q", b"x")
    server.show("redis")
    server.wait_empty("q", 30)
    assert journal.runs() == collections.Counter(ids)
    assert all(w["restarts"] == 0 for w in s.workers())


CONFIG = {
    "cert without key": ({"tls_cert_file": "{dir}/client.crt"},
                         "[redis] tls_cert_file without tls_key_file"),
    "no such file": ({"tls_ca_file": "/no/such"}, "[redis] tls_ca_file: /no/such: No such file"),
    "no pem": ({"tls_ca_file": "/etc/passwd"}, 'there is no "CERTIFICATE-----" in it'),
    "word": ({"tls_verify": "maybe"}, "tls_verify = maybe: not one of yes|no"),
}


@pytest.mark.parametrize("name", CONFIG)
def test_a_wrong_configuration_starts_nothing(sup, server, certs, journal, name):
    keys, says = CONFIG[name]
    s = sup(queues={"q": {"handler": journal.handler()}}, start=False,
            redis={k: v.format(dir=certs.dir) for k, v in dict(keys, url=server.tls_url()).items()})
    for args in ([], ["-t"]):
        s.args = args
        s.start()
        assert s.wait_exit() == 78
        assert says in s.out() and "redisq.ini:" in s.out(), s.out()


def test_t_finds_a_key_of_another_certificate(sup, server, certs, journal):
    s = sup(queues={"q": {"handler": journal.handler()}}, args=["-t"],
            redis=certs.keys(client=True, url=server.tls_url(), tls_key_file=certs.key("ca")))
    assert s.wait_exit() == 78
    assert "ca.key is not the key of tls_cert_file" in s.out()


# ---------------------------------------------------------------- Sentinel

@pytest.fixture
def sentinels(certs, server):
    made = []

    def make(cert):
        made.append(TlsSentinel(server, certs, cert))
        return "sentinels://127.0.0.1:%d/mymaster" % made[-1].port
    yield make
    for s in made:
        s.close()


def test_sentinel_and_the_master_it_names_over_tls(sup, server, certs, journal, sentinels):
    s = sup(queues={"q": {"handler": journal.handler()}},
            redis=certs.keys(url=sentinels("redis")))
    s.wait_ready(2)
    s.ctl("push", "q", "x", check=0)
    server.wait_empty("q")
    assert "tls_ca_file has no effect" not in s.out()


def test_a_sentinel_with_a_wrong_certificate_is_not_believed(sup, server, certs, sentinels):
    s = sup(ini=False, start=False)
    done = s.ctl("-s", "redis.url=" + sentinels("elsewhere"), "-s",
                 "redis.tls_ca_file=" + certs.crt("ca"), "stats", "q", config=False)
    assert done.returncode == 69, (done.out, done.err)
    assert "the certificate is for redis.example, 10.0.0.1, not for 127.0.0.1" in done.err


# ---------------------------------------------------------------- new certificates

class Load:
    """Tasks without end, from a thread of its own."""

    def __init__(self, server):
        self.server = server
        self.ids = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.over.wait(0.02):
            self.ids += self.server.add("q", b"do sleep=30", b"do sleep=5")

    def end(self):
        self.over.set()
        self.thread.join()
        return collections.Counter(self.ids)


@pytest.mark.timeout(180)
def test_a_new_ca_and_new_certificates_under_load(sup, servers, certs, journal):
    """The way of a rotation: trust both, show the new ones, trust the new one alone."""
    server = servers(clients="yes")
    mine = {k: os.path.join(certs.dir, "mine." + k) for k in ("ca", "crt", "key")}

    def own(name, *cas):
        replace(mine["ca"], *[certs.crt(ca) for ca in cas])
        replace(mine["crt"], certs.crt(name))
        replace(mine["key"], certs.key(name))

    own("client", "ca")
    s = sup(server=server, queues={"q": {"handler": journal.handler(), "concurrency": 4}},
            redis={"url": server.tls_url(), "tls_ca_file": mine["ca"],
                   "tls_cert_file": mine["crt"], "tls_key_file": mine["key"]})
    before = {w["pid"] for w in s.wait_ready(2)}
    load = Load(server)
    own("client", "ca", "ca2")
    s.ctl("reload", check=0)
    # Redis trusts both for as long as it takes.
    replace(certs.crt("both"), certs.crt("ca"), certs.crt("ca2"))
    server.show("redis2", ca="both")
    own("client2", "ca", "ca2")
    s.ctl("reload", check=0)
    server.show("redis2", ca="ca2")
    own("client2", "ca2")
    s.ctl("reload", check=0)
    after = {w["pid"] for w in s.wait_ready(2)}
    assert not before & after
    ids = load.end()
    # Nobody who has but the old certificates could connect now.
    server.r.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    ids.update(server.add("q", *[b"x"] * 20))
    server.wait_empty("q", 60)
    assert journal.runs() == ids
    assert server.counters("q")["done"] == len(ids)


def test_a_wrong_file_fails_the_reload_and_the_old_workers_go_on(sup, server, certs, journal):
    s = sup(queues={"q": {"handler": journal.handler()}},
            redis=certs.keys(client=True, url=server.tls_url()))
    pids = {w["pid"] for w in s.wait_ready(2)}
    replace(certs.key("client"), certs.key("ca"))
    done = s.ctl("reload")
    assert done.returncode == 1 and "is not the key of tls_cert_file" in done.err, done.err
    server.add("q", b"x")
    server.wait_empty("q")
    assert {w["pid"] for w in s.ready()} == pids
    assert "is not the key of tls_cert_file" in s.log("q")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start workers as another user")
def test_a_key_that_the_workers_user_cannot_read(sup, server, certs):
    with tempfile.TemporaryDirectory(prefix="rqc", dir="/tmp") as there:
        check_unreadable_key(sup, server, certs, there)


def check_unreadable_key(sup, server, certs, there):
    certs.dir = shutil.copytree(certs.dir, there, dirs_exist_ok=True)
    os.chmod(there, 0o755)
    os.chmod(certs.key("client"), 0o600)
    reports = os.path.join(there, "reports")  # of sanitizers, which make their directory at once
    os.mkdir(reports)
    os.chmod(reports, 0o777)
    s = sup(queues={"q": {"handler": "exec true", "cwd": "/"}},
            supervisor={"workers": 1, "user": "nobody"},
            env={"ASAN_OPTIONS": "log_path=%s/asan" % reports,
                 "UBSAN_OPTIONS": "log_path=%s/ubsan" % reports},
            redis=certs.keys(client=True, url=server.tls_url()))
    wait_until(lambda: "client.key: Permission denied; give a path that this user can read"
               in s.log("q"))
    os.chmod(certs.key("client"), 0o644)
    server.add("q", b"x")
    server.wait_empty("q", 30)
    s.stop()
    assert not os.listdir(reports)


def test_a_link_that_comes_back_has_the_certificates_of_the_day(sup, server, certs, journal):
    s = sup(queues={"q": {"handler": journal.handler()}},
            redis=certs.keys(url=server.tls_url()))
    s.wait_ready(2)
    replace(certs.crt("ca"), certs.crt("ca2"))
    server.show("redis2", ca="ca2")
    server.r.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    ids = server.add("q", *[b"x"] * 20)
    server.wait_empty("q")
    assert journal.runs() == collections.Counter(ids)
    assert "the certificates for TLS have changed and were read again" in s.log("q")


# ---------------------------------------------------------------- faults

def test_redis_killed_and_back(sup, servers, certs, journal):
    server = servers("--appendonly", "yes", "--appendfsync", "always")
    s = sup(server=server,
            queues={"q": {"handler": journal.handler("sleep=20"), "concurrency": 4}},
            redis=certs.keys(url=server.tls_url()))
    s.wait_ready(2)
    ids = server.add("q", *[b"x"] * 300)
    for n in (20, 120):
        wait_until(lambda: server.counters("q").get("done", 0) >= n)
        server.stop()
        server.start()
    server.wait_empty("q", 60)
    assert set(journal.runs()) == set(ids)
    assert server.counters("q")["done"] == 300
    assert all(w["restarts"] == 0 for w in s.workers())


@pytest.mark.timeout(180)
def test_a_slow_path_that_is_cut(sup, server, certs, journal):
    proxy = Proxy(server.tls_port)
    proxy.delay = 0.1
    s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 4}},
            redis=certs.keys(url=server.tls_url(port=proxy.port)))
    s.wait_ready(2)
    ids = server.add("q", *[b"do sleep=5 " + os.urandom(30000).hex().encode()] * 40)
    for n in (5, 20):
        wait_until(lambda: server.counters("q").get("done", 0) >= n, 60)
        proxy.cut(refuse=False)
    server.wait_empty("q", 60)
    assert set(journal.runs()) == set(ids)
    assert server.counters("q")["done"] == 40
    proxy.close()


def test_half_closed_by_the_other_side(sup, server, certs, journal):
    """The proxy shuts its sending side towards the workers: an end, not a wait for the deadline."""
    proxy = Proxy(server.tls_port)
    s = sup(queues={"q": {"handler": journal.handler()}}, supervisor={"workers": 1},
            redis=certs.keys(url=server.tls_url(port=proxy.port)))
    s.wait_ready(1)
    n = proxy.accepted
    with proxy.lock:
        for client, _ in proxy.links:
            client.shutdown(socket.SHUT_WR)
    wait_until(lambda: proxy.accepted >= n + 2, what="both links come back")
    server.add("q", b"x")
    server.wait_empty("q")
    proxy.close()


def test_the_tasks_of_a_killed_worker_are_handed_over(sup, server, certs, journal, gate):
    s = sup(queues={"q": {"handler": journal.handler(), "concurrency": 2}},
            redis=certs.keys(url=server.tls_url()))
    s.wait_ready(2)
    ids = server.add("q", *[b"do " + str(gate).encode()] * 3)
    first = journal.wait_started(3)
    os.kill(first[0]["ppid"], signal.SIGKILL)
    wait_until(lambda: "handed over" in s.out())
    gate.open()
    server.wait_empty("q")
    assert set(journal.runs()) == set(ids)
    assert server.counters("q") == {"done": 3}
