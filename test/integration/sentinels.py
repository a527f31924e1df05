"""A master, its replicas and the Sentinels that watch them, on loopback; the master is "mymaster"."""
import os
import random
import socket
import subprocess
import threading

import redis

from links import length
from redisserver import SERVER, TAKEN_AWAY, RedisServer, secret_name, version
from waiting import wait_until


class Sentinel:
    def __init__(self, tmp_path, n, master_port, quorum, password=None):
        self.dir = str(tmp_path / ("sentinel%d" % n))
        os.mkdir(self.dir)
        self.conf = os.path.join(self.dir, "sentinel.conf")
        self.password = password
        self.proc = None
        for _ in range(20):
            self.port = random.randint(12000, 19999)
            self.write(master_port, quorum)
            if self.start():
                return
        raise RuntimeError("no Sentinel: " + open(self.dir + "/log").read())

    def write(self, master_port, quorum):
        words = ["port %d" % self.port, "bind 127.0.0.1", "dir " + self.dir,
                 "logfile %s/log" % self.dir,
                 "sentinel monitor mymaster 127.0.0.1 %d %d" % (master_port, quorum),
                 "sentinel down-after-milliseconds mymaster 1000",
                 "sentinel failover-timeout mymaster 4000"]
        # A provider tells his own Sentinels.
        words += ["sentinel rename-command mymaster %s %s" % (c, secret_name(c)) for c in TAKEN_AWAY]
        if self.password:
            words += ["requirepass " + self.password]
            words += ["sentinel sentinel-pass " + self.password] if version() >= (6, 2) else []
        with open(self.conf, "w") as f:
            f.write("\n".join(words) + "\n")

    def start(self):
        self.proc = subprocess.Popen([SERVER, self.conf, "--sentinel"],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.r = redis.Redis(port=self.port, password=self.password, socket_timeout=5)

        def answers():
            if self.proc.poll() is not None:
                return "ended"
            try:
                return self.r.ping()
            except redis.exceptions.ConnectionError:
                return False
        return wait_until(answers, what="the Sentinel answers") != "ended"

    def kill(self):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()

    def master_port(self):
        return int(self.r.execute_command("SENTINEL", "get-master-addr-by-name", "mymaster")[1])

    def sees(self):
        """(replicas, other Sentinels) that it knows of and finds well."""
        seen = []
        for word in ("replicas", "sentinels"):
            rows = self.r.execute_command("SENTINEL", word, "mymaster")
            rows = [dict(zip(r[::2], r[1::2])) if isinstance(r, list) else r for r in rows]
            well = [r for r in rows if not {"s_down", "disconnected"} &
                    set(flags(r).split(","))]
            seen.append(len([r for r in well if word == "sentinels" or link_is_up(r)]))
        return tuple(seen)


def field(row, name):
    value = row.get(name, row.get(name.encode(), b""))
    return value.decode() if isinstance(value, bytes) else str(value)


def flags(row):
    return field(row, "flags")


def link_is_up(row):
    return field(row, "master-link-status") == "ok"


class Fleet:
    """servers[0] is the first master."""

    def __init__(self, tmp_path, n_servers=3, n_sentinels=3, password=None):
        self.servers, self.sentinels = [], []
        try:
            for i in range(n_servers):
                path = tmp_path / ("redis%d" % i)
                path.mkdir()
                of = ["--replicaof", "127.0.0.1", self.servers[0].port] if i else []
                self.servers.append(RedisServer(path, "--repl-diskless-sync-delay", "0", *of))
            for i in range(n_sentinels):
                self.sentinels.append(Sentinel(tmp_path, i, self.servers[0].port,
                                               n_sentinels // 2 + 1, password))
            self.wait_whole()
        except BaseException:
            self.close()
            raise

    @property
    def url(self):
        return self.url_of(*self.sentinels)

    @staticmethod
    def url_of(*sentinels, master="mymaster"):
        return "sentinel://%s/%s" % (",".join("127.0.0.1:%d" % s.port for s in sentinels), master)

    def wait_whole(self):
        """Every Sentinel knows every replica and every other Sentinel."""
        want = len(self.servers) - 1, len(self.sentinels) - 1
        wait_until(lambda: all(s.sees() == want for s in self.sentinels), 30,
                   lambda: "the Sentinels see all: %r" % [s.sees() for s in self.sentinels])

    def server_at(self, port):
        return next(s for s in self.servers if s.port == port)

    def master(self):
        """The server that the first living Sentinel calls the master."""
        alive = next(s for s in self.sentinels if s.proc.poll() is None)
        return self.server_at(alive.master_port())

    def wait_failed_over(self, old):
        """The new master: another than `old`, and it takes writes."""
        def fact():
            s = self.master()
            if s is old or s.proc.poll() is not None:
                return None
            return s if s.r.role()[0] == b"master" else None
        return wait_until(fact, 30, "a replica was promoted")

    def add(self, queue, *payloads):
        """To the master of now: on a machine that stands still for a second there is a new one."""
        def fact():
            try:
                return self.master().add(queue, *payloads)
            except redis.exceptions.RedisError:
                return None
        return wait_until(fact, 30, "the master takes %d tasks" % len(payloads))

    def close(self):
        for s in self.sentinels:
            s.kill()
        for s in self.servers:
            s.close()


class Producer:
    """Adds tasks, one after the other, wherever a Sentinel says; `replicated` are the ids of those
    that a replica had taken, too, before the next was added."""

    def __init__(self, fleet, queue):
        self.fleet, self.queue = fleet, queue
        self.replicated, self.n_failed, self.ending = [], 0, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        r = None
        while not self.ending.is_set():
            try:
                if r is None:
                    r = redis.Redis(port=self.fleet.master().port, socket_timeout=1)
                with r.pipeline(transaction=False) as p:
                    p.xadd(self.queue, {"payload": "do"})
                    p.execute_command("WAIT", 1, 500)
                    entry, n = p.execute()
                if n >= 1:
                    self.replicated.append(entry.decode())
            except (redis.exceptions.RedisError, OSError):
                self.n_failed += 1
                r = None
                self.ending.wait(0.05)

    def end(self):
        self.ending.set()
        self.thread.join()
        return list(self.replicated)


class FakeSentinel:
    """Says what it is told: `answer` is its answer to every command, None = nothing at all."""

    def __init__(self, answer=None):
        self.answer = answer
        self.n_asked = 0
        self.clients = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @classmethod
    def at(cls, server):
        return cls.at_port(server.port)

    @staticmethod
    def at_port(port):
        port = str(port)
        return b"*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n" % (len(port), port.encode())

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.clients.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        data = b""
        try:
            while True:
                more = client.recv(4096)
                if not more:
                    return
                data += more
                size = length(data)
                if size is None:
                    continue
                data = data[size:]
                self.n_asked += 1
                if self.answer is not None:
                    client.sendall(self.answer)
                    return
                if not client.recv(4096):
                    return
        except OSError:
            pass
        finally:
            client.close()

    def close(self):
        self.listener.close()
        for c in self.clients:
            c.close()
