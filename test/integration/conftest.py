"""Fixtures: every test has its own Redis, its own supervisor, its own directories."""
import os
import signal
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)

# Run under nohup, the programs would inherit that SIGHUP is ignored; a handler is not inherited.
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda signo, frame: None)

from clusters import Cluster, Spares                  # noqa: E402
from journal import Gate, Journal            # noqa: E402
from listserver import ListServer             # noqa: E402
from partserver import PartServer             # noqa: E402
from proxy import Proxy                      # noqa: E402
from redisserver import IN_CLUSTER, RedisServer  # noqa: E402
from supervised import Supervisor, close_all  # noqa: E402


@pytest.fixture(scope="session")
def build():
    """Directory of the programs under test: REDISQ_BUILD, else build/asan."""
    path = os.path.abspath(os.environ.get("REDISQ_BUILD", os.path.join(ROOT, "build", "asan")))
    assert os.path.isdir(path), path + " is missing; run make VARIANT=asan all tools"
    return path


# Of a test that is for queues of both kinds, in a module that is not.
on_both = pytest.mark.backends("stream", "list")


@pytest.fixture
def backend():
    """What queues are in Redis."""
    return "stream"


def pytest_runtest_setup(item):
    """@pytest.mark.one_server("why"): makes no sense in a cluster."""
    mark = item.get_closest_marker("one_server")
    if mark and IN_CLUSTER:
        pytest.skip("not in a cluster: " + mark.args[0])


def pytest_generate_tests(metafunc):
    """BACKENDS of a module, or @pytest.mark.backends(...) of one test: run with each of them."""
    mark = metafunc.definition.get_closest_marker("backends")
    names = mark.args if mark else getattr(metafunc.module, "BACKENDS", ("stream",))
    if "backend" in metafunc.fixturenames and names != ("stream",):
        metafunc.parametrize("backend", names)


def pytest_collection_modifyitems(config, items):
    """REDISQ_BACKEND=list: only what is about such queues."""
    only = os.environ.get("REDISQ_BACKEND")
    if only:
        others = [i for i in items if not hasattr(i, "callspec") or
                  i.callspec.params.get("backend") != only]
        config.hook.pytest_deselected(items=others)
        items[:] = [i for i in items if i not in others]


@pytest.fixture(scope="session")
def spares(tmp_path_factory):
    made = Spares(tmp_path_factory.mktemp)
    yield made
    made.close()


@pytest.fixture
def server(tmp_path, backend, spares):
    """A running redis-server; .r is a client, .url its address, .backend what queues are there."""
    if backend == "stream" and os.environ.get("REDISQ_PARTITIONS") == "1":
        backend = "partitions"
    kind = {"list": ListServer, "partitions": PartServer}.get(backend, RedisServer)
    s = spares.take(kind) if IN_CLUSTER else kind(tmp_path)
    yield s
    s.close()


@pytest.fixture
def cluster(tmp_path):
    """Three masters, a replica of each."""
    made = Cluster(tmp_path)
    yield made
    made.close()


@pytest.fixture
def masters(tmp_path):
    """Three masters and no replica."""
    made = Cluster(tmp_path, 3, 0)
    yield made
    made.close()


@pytest.fixture
def proxy(server):
    p = Proxy(server.port)
    yield p
    p.close()


@pytest.fixture
def journal(tmp_path, build):
    return Journal(tmp_path / "journal", os.path.join(build, "fake-handler"))


@pytest.fixture
def pipes(tmp_path, build):
    """The journal of fake_pipe.c: one process for many tasks."""
    return Journal(tmp_path / "journal", os.path.join(build, "fake-pipe"), "pipe")


@pytest.fixture
def gate(tmp_path):
    return Gate(tmp_path / "gate")


def denials(server):
    """What Redis refused the programs although nobody meant it to."""
    if server.proc.poll() is None and not server.expects_denials:
        for d in server.denials():
            yield "not permitted: %s %s" % d


@pytest.fixture
def sup(build, tmp_path, server):
    """Makes supervisors: sup(queues={...}, supervisor={...}, ...); see supervised.py."""
    made = []

    def make(**how):
        where = tmp_path if not made else tmp_path / ("sup%d" % len(made))
        where.mkdir(exist_ok=True)
        how.setdefault("server", server)
        made.append(Supervisor(build, where, **how))
        return made[-1]

    yield make
    for s in made:
        s.show()
    close_all(made, denials(server))
