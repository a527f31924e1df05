"""One redis-server per test: own port, own unix socket, nothing persisted unless asked."""
import contextlib
import functools
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile

import psutil
import redis

from waiting import wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# REDISQ_REDIS_SERVER=PATH: another redis-server, or valkey-server, than the one on PATH.
SERVER = os.environ.get("REDISQ_REDIS_SERVER", "redis-server")
# REDISQ_ACL=1: supervisors and workers are a user who may do no more than is documented.
WITH_ACL = os.environ.get("REDISQ_ACL", "") == "1"
# REDISQ_CLUSTER=1: the server of a test is a node of a cluster, and the url's first node another one,
# which has no slots: every link has to follow MOVED.
IN_CLUSTER = os.environ.get("REDISQ_CLUSTER", "") == "1"
# What is taken away: such commands have secret names, which only the tests know.
TAKEN_AWAY = ()
# REDISQ_MANAGED=1: as managed services do it (ElastiCache, Memorystore).
MANAGED = os.environ.get("REDISQ_MANAGED", "") == "1"
if MANAGED:
    TAKEN_AWAY = ("ACL", "BGREWRITEAOF", "BGSAVE", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DEBUG",
                  "LATENCY", "MIGRATE", "MODULE", "MONITOR", "REPLICAOF", "SAVE", "SHUTDOWN",
                  "SLAVEOF")
# REDISQ_LIKE_3_2=1: what is newer than Redis 3.2. (With REDISQ_BACKEND=list, on a Redis 6.0: then
# scripts are also replicated as it did it, and may not write once they have asked for the time.)
LIKE_3_2 = os.environ.get("REDISQ_LIKE_3_2", "") == "1"
if LIKE_3_2:
    TAKEN_AWAY = ("ACL", "BZPOPMAX", "BZPOPMIN", "CLIENT", "HELLO", "LOLWUT", "LPOS", "MEMORY",
                  "MODULE", "STRALGO", "SWAPDB", "UNLINK", "ZPOPMAX", "ZPOPMIN")


def secret_name(command):
    return "SECRET-" + command


class _Knowing(redis.UnixDomainSocketConnection):
    """Says the secret names."""

    def pack_command(self, *args):
        first, *rest = args[0].split(" ", 1)  # redis-py also says "CLIENT LIST", as one word
        if first.upper() in self.secrets:
            args = (" ".join([secret_name(first.upper())] + rest), *args[1:])
        return super().pack_command(*args)


def documented(part):
    """The permissions in worker/protocol.txt: of "worker", what it can do without ("option"),
    what redisqctl has besides ("ctl"), what is needed for lists ("list"), and what is of use in a
    cluster ("cluster")."""
    with open(os.path.join(ROOT, "worker", "protocol.txt"), encoding="utf-8") as f:
        text = f.read().split("12. Permissions\n")[1]
    blocks = [b.split() for b in re.findall(r"(?m)(?:^      \+.*\n)+", text)]
    found = dict(zip(("worker", "option", "ctl", "list", "cluster"), blocks))
    return found[part]


def optional():
    """What a worker can do without, where the tests run."""
    return documented("option") + (documented("cluster") if IN_CLUSTER else [])


@functools.lru_cache(None)
def version():
    """Of the servers that are started, as numbers; of Valkey that of the Redis it is like."""
    said = subprocess.run([SERVER, "--version"], capture_output=True, text=True, check=True).stdout
    found = tuple(int(n) for n in re.search(r"v=([\d.]+)", said).group(1).split("."))
    return max(found, (7, 2)) if "Valkey" in said else found


SINCE = dict({"LPOS": (6, 0, 6), "FUNCTION": (7,), "FCALL": (7,), "EVAL_RO": (7,)},
             **{name: (6, 2) for name in ("XAUTOCLAIM", "BLMOVE", "LMOVE", "GETDEL", "GETEX", "COPY",
                                          "ZMSCORE", "HRANDFIELD", "SMISMEMBER")})
# How a worker waits for an item of a list.
MOVE = "BLMOVE" if version() >= SINCE["BLMOVE"] else "BRPOPLPUSH"


def startable(options):
    """Redis does not start where it is told to rename a command that it has not."""
    out, skip = [], 0
    for option, name in zip(options, options[1:] + [""]):
        if option == "--rename-command" and version() < SINCE.get(name, ()):
            skip = 3
        if skip:
            skip -= 1
        else:
            out.append(option)
    return out


class RedisServer:
    backend = "stream"
    seed = None     # in a cluster: another node, which the url names first

    def __init__(self, tmp_path, *options, env=None, port=None):
        """port: the one that it must have; else any that is free."""
        self.dir = str(tmp_path)
        self.env = dict(os.environ, **(env or {}))
        self.options = startable([str(o) for o in options])
        self.secrets = [c for c in TAKEN_AWAY if c not in self.options and
                        # Services with clusters leave it: their clients need it.
                        (c != "CLUSTER" or "--cluster-enabled" not in self.options)]
        self.options += [w for c in self.secrets for w in ("--rename-command", c, secret_name(c))]
        self.options += ["--lua-replicate-commands", "no"] if LIKE_3_2 else []
        self.run_dir = tempfile.mkdtemp(prefix="rqr", dir="/tmp")  # unix paths are short
        self.socket = os.path.join(self.run_dir, "r.sock")
        self.log = os.path.join(self.dir, "redis.log")
        self.proc = None
        self.user, self.acl, self.expects_denials = "default", [], False
        if WITH_ACL and "ACL" not in self.options + self.secrets:
            self.user = "worker"
            self.acl = (["on", ">secret", "-@all", "+select", "+role"] +
                        documented("worker") + documented("option"))
            self.acl += ["resetchannels"] if version() >= (6, 2) else []
            if self.backend == "list":
                self.acl += documented("list") + ["+lindex", "+zrevrangebyscore"]
                self.acl += ["+blmove"] if version() >= SINCE["BLMOVE"] else []
        for _ in range(1 if port else 20):
            self.port = port or random.randint(20000, 32000)
            if self.start():
                return
        raise RuntimeError("redis-server does not start: " + open(self.log).read())

    def start(self, *more, loaded=True):
        """Starts it (again, on the same port); False when it ended at once. more: options for this
        time. loaded: waits until it has read its data."""
        self.proc = subprocess.Popen(
            [SERVER, "--port", str(self.port), "--bind", "127.0.0.1",
             "--unixsocket", self.socket, "--save", "", "--appendonly", "no",
             "--dir", self.dir, "--logfile", self.log, "--daemonize", "no"] + self.options +
            (["--user", "worker"] + self.acl if self.acl else []) +
            [str(o) for o in more],
            stdin=subprocess.DEVNULL, env=self.env)
        self.r = self.client(socket_timeout=20)

        def answers():
            if self.proc.poll() is not None:
                return "ended"
            try:
                return self.r.ping() and (not self.seed or not loaded or self.serves())
            except (redis.exceptions.ResponseError, redis.exceptions.AuthenticationError):
                return True
            except redis.exceptions.BusyLoadingError:
                return not loaded
            except redis.exceptions.ConnectionError:
                return False
        return wait_until(answers, what="redis-server answers") != "ended"

    def client(self, **how):
        """To its unix socket; knows the secret names."""
        knowing = type("Knowing", (_Knowing,), {"secrets": self.secrets})
        return redis.Redis(connection_pool=redis.ConnectionPool(
            connection_class=knowing, path=self.socket, **how))

    def serves(self):
        """A node of a cluster does not, for two seconds after its start."""
        return "cluster_state:ok" in self.r.execute_command("CLUSTER", "INFO").decode()

    def permit(self, *words):
        """From now on the user of REDISQ_ACL may do this, too."""
        if self.acl:
            self.acl += [w for w in words if w not in self.acl]
            self._set_user(*self.acl)

    def _set_user(self, *words):
        if self.proc.poll() is None:
            self.r.execute_command("ACL", "SETUSER", "worker", *words)

    def credentials(self, queues):
        """Keys of [redis] for whoever serves these queues."""
        if not self.acl:
            return {}
        # A pattern cannot have blanks, and what is a wildcard to it is a byte here.
        plain = [re.sub(r"[] *?\\^[]", "?", q) for q in queues]
        self.permit(*[p for q in plain for p in ("~" + q, "~" + self.key(q, "*"))])
        return {"username": "worker", "password": "secret"}

    @contextlib.contextmanager
    def trusted(self):
        """Meanwhile it may do what redisqctl needs."""
        if self.acl:
            self._set_user(*documented("ctl"))
        yield
        if self.acl:
            self._set_user("-@all", *self.acl)

    def denials(self):
        """What REDISQ_ACL's user was not permitted: (command or key, which). A test that takes
        permissions away says so in expects_denials."""
        return [(i["reason"], i["object"]) for i in self.r.acl_log()
                if i["username"] == "worker"] if self.acl else []

    @property
    def url(self):
        if self.seed:
            return "cluster://127.0.0.1:%d,127.0.0.1:%d" % (self.seed.port, self.port)
        return "redis://127.0.0.1:%d/0" % self.port

    @property
    def unix_url(self):
        return "unix://%s?db=0" % self.socket

    def is_replica(self):
        try:
            return self.r.role()[0] == b"slave"
        except redis.exceptions.ConnectionError:  # who becomes one cuts its links
            return False

    def pause(self):
        self.proc.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.proc.send_signal(signal.SIGCONT)

    def stop(self):
        """As a crash: nothing is saved."""
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()

    def start_loading(self):
        """Saves, stops, and starts with so much to read that it says LOADING for seconds."""
        # 6.0 answers nobody before it has read 2 MB.
        often = version() >= (6, 2)
        with self.r.pipeline(transaction=False) as p:
            for n in range(3000):
                p.set("fill%d" % n, "x" if often else os.urandom(10000))
            p.execute()
        self.r.save()
        self.stop()
        self.start("--key-load-delay", "1000", *(
            ("--loading-process-events-interval-bytes", "1024") if often else ()), loaded=False)

    def load_on(self):
        """Until all of it was read, as soon as possible."""
        if version() >= (6, 2):  # 6.0 lets nobody set anything meanwhile
            self.r.config_set("key-load-delay", "0")
        wait_until(lambda: self.r.info("persistence")["loading"] == 0)

    def close(self):
        self.stop()
        if self.seed:
            self.seed.close()
        shutil.rmtree(self.run_dir, ignore_errors=True)

    # ---- what a queue holds
    @staticmethod
    def key(queue, suffix):
        return ("%s:%s" if "{" in queue else "{%s}:%s") % (queue, suffix)

    def add(self, queue, *payloads, client=None, **fields):
        """XADD of each payload; returns the ids as text."""
        with (client or self.r).pipeline(transaction=False) as p:
            for payload in payloads:
                p.xadd(queue, dict({"payload": payload}, **fields))
            return [i.decode() for i in p.execute()]

    def add_fields(self, queue, *pairs):
        """XADD with fields as they are: order and repetitions kept."""
        flat = [x for pair in pairs for x in pair]
        return self.r.execute_command("XADD", queue, "*", *flat).decode()

    def add_with_checkpoint(self, queue, checkpoint, payload, **fields):
        """One that an attempt before has left something of."""
        with self.r.pipeline(transaction=True) as p:
            p.hset(self.key(queue, "ckpt"), "9-1", checkpoint)
            p.xadd(queue, dict({"payload": payload}, **fields), "9-1")
            p.execute()

    def deliver(self, queue, payload, owner):
        """A new entry that `owner` has; nothing waits before it."""
        with self.r.pipeline(transaction=True) as p:
            p.xadd(queue, {"payload": payload})
            p.xgroup_create(queue, "redisq", "0")
            p.xreadgroup("redisq", owner, {queue: ">"}, count=1)
            entry = p.execute(raise_on_error=False)[0]
        return entry.decode()

    def give_back(self, queue, payload, owner="other"):
        """An entry that somebody had and let go of."""
        entry = self.deliver(queue, payload, owner)
        self.r.xclaim(queue, "redisq", owner, 0, [entry], time=1, justid=True)
        return entry

    def take_as(self, owner, queue, *ids):
        """It has these now: a delivery more."""
        self.r.xclaim(queue, "redisq", owner, 0, list(ids))

    def acknowledge(self, queue, *ids):
        return self.r.xack(queue, "redisq", *ids)

    def delete_entry(self, queue, entry):
        """As somebody may do who is no worker."""
        assert self.r.xdel(queue, entry) == 1

    def entries(self, queue):
        """[(id, {field: value})] of what waits or runs, oldest first."""
        return self.letters(queue, None)

    def xlen(self, queue, client=None):
        return (client or self.r).xlen(queue)

    def n_added(self, queue):
        """Entries that were ever added; None where that is not known."""
        return self.r.xinfo_stream(queue)["entries-added"]

    def pending(self, queue, most):
        return self.r.xpending_range(queue, "redisq", "-", "+", most)

    def n_pending(self, queue, group="redisq"):
        try:
            return self.r.xpending(queue, group)["pending"]
        except redis.exceptions.ResponseError:
            return 0

    def consumers(self, queue, group="redisq", client=None):
        r = client or self.r
        # Before 6.2 there is none without a delivery: then it is who has taken a name.
        names = r.hkeys(self.key(queue, "names")) if version() < (6, 2) else []
        taken = {n.decode(): {"name": n, "pending": 0} for n in names}
        try:
            found = r.xinfo_consumers(queue, group)
            return dict(taken, **{c["name"].decode(): c for c in found})
        except redis.exceptions.ResponseError:
            return taken

    def counters(self, queue):
        return {k.decode(): int(v) for k, v in self.r.hgetall(self.key(queue, "counters")).items()}

    def letters(self, queue, where):
        """Dead or held ones, oldest first: (id, {field: value}) as bytes."""
        key = self.key(queue, where) if where else queue
        return [(i.decode(), f) for i, f in self.r.xrange(key)]

    def letter_fields(self, queue, where):
        """Of each, its fields as they are: names and values in turn."""
        key = self.key(queue, where)
        all_of = self.r.eval("return redis.call('XRANGE', KEYS[1], '-', '+')", 1, key)
        return [fields for _, fields in all_of]

    def dead(self, queue):
        return self.letters(queue, "dead")

    def delayed(self, queue):
        return {i.decode(): s for i, s in
                self.r.zrange(self.key(queue, "delayed"), 0, -1, withscores=True)}

    def is_empty(self, queue, group="redisq"):
        """Every accepted task is done or dead: nothing waits, runs or is delayed (one look)."""
        with self.r.pipeline(transaction=True) as p:
            p.xlen(queue)
            p.zcard(self.key(queue, "delayed"))
            p.xpending(queue, group)
            waiting, delayed, pending = p.execute(raise_on_error=False)
        if isinstance(pending, Exception):  # no group yet
            pending = {"pending": 0}
        return waiting == 0 and delayed == 0 and pending["pending"] == 0

    def links(self):
        """CLIENT LIST of whoever came by TCP, as supervisors and workers do, and no test."""
        return [c for c in self.r.client_list(_type="normal") if c["addr"].startswith("127.")]

    def links_of(self, pid, blocked):
        """Those of a process that are blocked in a read, or those that are not."""
        ports = {str(c.laddr.port) for c in psutil.Process(pid).connections("tcp4")}
        return [c for c in self.links() if c["addr"].rpartition(":")[2] in ports and
                ("b" in c["flags"]) == blocked]

    def wait_unread(self):
        """Until no worker waits in a read (what a read under way brings is run, also when quiet)."""
        wait_until(lambda: self.r.info("clients")["blocked_clients"] == 0)

    def wait_empty(self, queue, timeout=30):
        wait_until(lambda: self.is_empty(queue), timeout,
                   lambda: "queue %s is empty (xlen %d, pending %d, delayed %d)" % (
                       queue, self.xlen(queue), self.n_pending(queue), len(self.delayed(queue))))
