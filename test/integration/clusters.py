"""A Redis Cluster on loopback: masters, their replicas, slots that move, and a producer that follows
them. The nodes start with what nodes.conf says, so that they need not meet."""
import random
import re
import socket
import threading
import time

import redis

from redisserver import RedisServer
from waiting import wait_until

SLOTS = 16384
BUS = 10000     # the port of the cluster bus is that far above


def free_ports(n):
    """Ports of which both are free now."""
    found = []
    while len(found) < n:
        port = random.randint(11000, 19999)
        try:
            for p in (port, port + BUS):
                socket.create_server(("127.0.0.1", p)).close()
        except OSError:
            continue
        if port not in found:
            found.append(port)
    return found


def nodes_conf(nodes, me):
    """nodes: [(id, port, slots or None, id of the master or None)], what they all know."""
    lines = []
    for epoch, (name, port, slots, master) in enumerate(nodes, 1):
        flags = ("myself," if name == me else "") + ("slave" if master else "master")
        lines.append("%s 127.0.0.1:%d@%d %s %s 0 0 %d connected%s" % (
            name, port, port + BUS, flags, master or "-", epoch,
            " %d-%d" % slots if slots else ""))
    return "\n".join(lines) + "\nvars currentEpoch %d lastVoteEpoch 0\n" % len(nodes)


def node_options(timeout_ms, full_coverage=False):
    return ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
            "--cluster-node-timeout", timeout_ms, "--cluster-require-full-coverage",
            "yes" if full_coverage else "no", "--cluster-replica-validity-factor", "0",
            "--repl-diskless-sync-delay", "0"]


class Cluster:
    """nodes: the masters, then a replica of each of the first ones."""

    def __init__(self, tmp_path, n_masters=3, n_replicas=3, options=(), full_coverage=False,
                 tls=False):
        """tls: no plain port (the options say the rest)."""
        self.path, self.nodes, self.held = tmp_path, [], []
        self.options = node_options(1000, full_coverage) + list(options)
        self.tls = tls
        for attempt in range(5):
            try:
                self._begin(attempt, n_masters, n_replicas)
                break
            except RuntimeError:    # somebody was quicker to take a port
                self.close()
        self.wait_ok()

    def _begin(self, attempt, n_masters, n_replicas):
        n = n_masters + n_replicas
        ids = ["%040x" % random.getrandbits(160) for _ in range(n)]
        ports = free_ports(n)
        at = [SLOTS * i // n_masters for i in range(n_masters + 1)]
        rows = [(ids[i], ports[i], (at[i], at[i + 1] - 1) if i < n_masters else None,
                 ids[i - n_masters] if i >= n_masters else None) for i in range(n)]
        self.nodes = []
        for i, name in enumerate(ids):
            path = self.path / ("node%d.%d" % (attempt, i))
            path.mkdir()
            (path / "nodes.conf").write_text(nodes_conf(rows, name))
            tls = ["--port", "0", "--tls-port", ports[i]] if self.tls else []
            node = RedisServer(path, *self.options, *tls, port=ports[i])
            node.id = name
            self.nodes.append(node)

    def wait_ok(self):
        """All living nodes find the cluster well, and each replica has its master's data."""
        def fact():
            for node in self.alive():
                info = dict(line.split(":", 1) for line in node.r.execute_command(
                    "CLUSTER", "INFO").decode().split("\r\n") if ":" in line)
                repl = node.r.info("replication")
                if info["cluster_state"] != "ok" or int(info["cluster_known_nodes"]) != len(
                        self.nodes) or repl.get("master_link_status", "up") != "up":
                    return False
            return True
        wait_until(fact, 30, "the cluster is well")

    def alive(self):
        return [n for n in self.nodes if n.proc.poll() is None]

    def node_at(self, port):
        return next(n for n in self.nodes if n.port == int(port))

    @staticmethod
    def slot(key):
        return redis.cluster.key_slot(key.encode())

    def owner(self, key="q"):
        """Who has it, as most of the living nodes say."""
        said = []
        for node in self.alive():
            try:
                node.r.execute_command("EXISTS", key)
                said.append(node.port)
            except redis.exceptions.ResponseError as e:
                # To who comes by the socket Valkey says the port without TLS, 0 if there is none.
                said += [int(p) for p in re.findall(r"MOVED \d+ [^ ]*:([1-9]\d*)",
                                                    redirect_text(e))]
        return self.node_at(max(set(said), key=said.count)) if said else None

    def replica_of(self, node):
        """One that has all of its data."""
        for n in self.alive():
            role = n.r.role()
            if role[0] == b"slave" and role[2] == node.port and role[3] == b"connected":
                return n
        return None

    def wait_failed_over(self, old, key="q"):
        """Every living node knows another owner, which takes writes."""
        def fact():
            new = self.owner(key)
            if not new or new is old or new.r.role()[0] != b"master":
                return None
            try:
                new.r.execute_command("EXISTS", key)
            except redis.exceptions.ResponseError:
                return None
            return new
        return wait_until(fact, 30, "a replica was promoted")

    def fail_over(self, old, key="q"):
        """By hand, without any loss; the new owner. It is tried again: on a machine with much to do
        the replica may not come abreast in the five seconds it has."""
        asked = []

        def fact():
            replica = self.replica_of(old)
            if replica and (not asked or time.monotonic() - asked[-1] > 6):
                replica.r.execute_command("CLUSTER", "FAILOVER")
                asked.append(time.monotonic())
            return self.owner(key) is not old
        wait_until(fact, 40, "the failover has begun")
        return self.wait_failed_over(old, key)

    def url(self, *nodes, scheme="cluster"):
        return "%s://%s" % (scheme, ",".join("127.0.0.1:%d" % n.port
                                             for n in nodes or self.nodes))

    # ---- a slot that moves
    def begin_move(self, slot, source, target):
        """All have heard of what has moved before, or it would be as new as this."""
        wait_until(lambda: len({n.r.execute_command("CLUSTER", "INFO").split(
            b"cluster_current_epoch:")[1].split()[0] for n in self.alive()}) == 1, 30)
        target.r.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.r.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)

    def move_keys(self, slot, source, target, only=None):
        """Those that are there now (of them those that `only` is true of); their names."""
        moved = []
        for key in source.r.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1000):
            if only is None or only(key.decode()):
                source.r.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000,
                                         "KEYS", key)
                moved.append(key.decode())
        return moved

    def end_move(self, slot, target):
        masters = [n for n in self.alive() if n.r.role()[0] == b"master"]
        for node in [target] + [n for n in masters if n is not target]:
            node.r.execute_command("CLUSTER", "SETSLOT", slot, "NODE", target.id)

    @staticmethod
    def call_off(slot, source, target):
        for node in (source, target):
            node.r.execute_command("CLUSTER", "SETSLOT", slot, "STABLE")

    def move(self, slot, source, target):
        self.begin_move(slot, source, target)
        while self.move_keys(slot, source, target):
            pass
        self.end_move(slot, target)

    def take_away(self, node):
        """For good. Its ports stay free of another test's node: by that one the others would find that
        they do not know where this one is."""
        node.stop()
        for port in node.port, node.port + BUS:
            self.held.append(socket.socket())
            self.held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.held[-1].bind(("127.0.0.1", port))

    def close(self):
        for n in self.nodes:
            n.close()
        for held in self.held:
            held.close()


def redirect_text(error):
    """redis-py takes the code off some errors."""
    if isinstance(error, redis.exceptions.MovedError):
        return "MOVED %s" % error
    if isinstance(error, redis.exceptions.AskError):
        return "ASK %s" % error
    return str(error)


class Producer:
    """Adds tasks, one after the other, and goes where it is sent. accepted: their ids; replicated:
    those that a replica had, too, before the next was added."""

    def __init__(self, cluster, queue="q", pause=0.002, wait=0):
        self.cluster, self.queue, self.pause, self.wait = cluster, queue, pause, wait
        self.accepted, self.replicated, self.n_failed = [], [], 0
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _add(self, r, asking):
        with r.pipeline(transaction=False) as p:
            if asking:
                p.execute_command("ASKING")
            p.xadd(self.queue, {"payload": "do"})
            if self.wait:
                p.execute_command("WAIT", 1, 500)
            said = p.execute()[1 if asking else 0:]
        self.accepted.append(said[0].decode())
        if self.wait and said[1] >= 1:
            self.replicated.append(said[0].decode())

    def _run(self):
        to, asking = self.cluster.nodes[0], False
        while not self.ending.is_set():
            try:
                self._add(to.r, asking)
                asking = False
                self.ending.wait(self.pause)
            except (redis.exceptions.RedisError, OSError) as e:
                found = re.search(r"(MOVED|ASK) \d+ [^ ]*:(\d+)", redirect_text(e))
                asking = bool(found) and found.group(1) == "ASK"
                if found:
                    to = self.cluster.node_at(found.group(2))
                    continue
                self.n_failed += 1
                to = self.cluster.nodes[self.n_failed % len(self.cluster.nodes)]
                self.ending.wait(0.05)

    def end(self):
        self.ending.set()
        self.thread.join()
        return list(self.accepted)


class Spares:
    """Servers for REDISQ_CLUSTER: each has all slots, and beside it a node (.seed) that has none, but
    tells who has. A master serves nothing for two seconds after its start, so that the next one is
    started before it is needed."""

    def __init__(self, new_path):
        self.new_path, self.spares = new_path, {}

    def take(self, kind):
        server = self.spares.pop(kind, None) or self._begin(kind)
        self.spares[kind] = self._begin(kind)
        wait_until(lambda: server.serves() and server.seed.serves(), 30, "the cluster is well")
        return server

    def close(self):
        for server in self.spares.values():
            server.close()

    def _begin(self, kind):
        ids = ["%040x" % random.getrandbits(160) for _ in range(2)]
        for _ in range(5):
            ports = free_ports(2)
            rows = [(ids[0], ports[0], (0, SLOTS - 1), None), (ids[1], ports[1], None, None)]
            paths = self.new_path("server"), self.new_path("seed")
            seed = None
            for path, name in zip(paths, ids):
                (path / "nodes.conf").write_text(nodes_conf(rows, name))
            try:
                seed = RedisServer(paths[1], *node_options(15000), port=ports[1])
                server = kind(paths[0], *node_options(15000), port=ports[0])
            except RuntimeError:    # somebody was quicker to take a port
                if seed:
                    seed.close()
                continue
            server.seed = seed
            return server
        raise RuntimeError("no cluster")
