"""The scripts of common/scripts, called as a worker calls them, and what a queue then holds."""
import functools
import hashlib
import os

import redis

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(HERE, "..", "..", "common", "scripts")
LEASE = 10000
FOREIGN = 60000
RELEASED = 10 ** 12


@functools.lru_cache(None)
def source(name, kind="stream"):
    """As common/scripts/embed puts it together."""
    def read(part):
        with open(os.path.join(SCRIPTS, part + ".lua"), encoding="ascii") as f:
            return f.read()
    own = "list_" + name if kind == "list" else name
    text = read(own if os.path.exists(os.path.join(SCRIPTS, own + ".lua")) else name)
    front = {"stream": ["_stream", "_prelude"], "list": ["_list_keys", "_list", "_prelude"]}[kind]
    if text.startswith("-- alone"):
        front = []
    elif text.startswith("-- keys only"):
        front = ["_list_keys"]
    return "\n".join([read(part) for part in front] + [text])


# In front of a script: it may use no key that it was not told of (worker/protocol.txt, 7).
GUARD = """
local redis = (function()
  local real, declared = redis, {}
  for _, key in ipairs(KEYS) do declared[key] = true end
  local function look(command, ...)
    local words = {...}
    local from, to = 1, 1
    if command == 'TIME' then to = 0 end
    if command == 'XGROUP' or command == 'XINFO' then from, to = 2, 2 end
    if command == 'DEL' or command == 'EXISTS' then to = #words end
    for i = from, to do
      if not declared[words[i]] then error('a key that is not among KEYS: ' .. words[i]) end
    end
  end
  return {
    call = function(...) look(...) return real.call(...) end,
    pcall = function(...) look(...) return real.pcall(...) end,
    error_reply = real.error_reply, replicate_commands = real.replicate_commands,
  }
end)()
"""


def keys_of_list(server, queue):
    """As keys_of_list() in common/keys.c."""
    return [server.key(queue, suffix) for suffix in (
        "tasks", "owners", "pending", "letters", "last_id", "arrived", "names", "bodies", "dead",
        "held", "processing:")]


# ---- what settle.lua is told about one task
def done(task):
    return ("D",) + task


def retry(task, delay=0, attempt=2, snoozes=0):
    return ("R",) + task + (delay, attempt, snoozes)


def crash(task, delay=100, cap=1000, jitter=0, most=3, follow="retry", cause="signal 9", more=()):
    return ("K",) + task + (delay, cap, jitter, most, follow, cause) + tuple(more)


def letter(task, *more):
    return ("X",) + task + (more or ("redisq.reason", "attempts", "redisq.error", "exit 1"))


def hold(task, *more):
    return ("H",) + task + (more or ("redisq.reason", "crashes", "redisq.error", "signal 9"))


def release(task):
    return ("L",) + task


# ---- and in front of one of these
def said(task, checkpoint):
    return ("C",) + task + (checkpoint,)


def wanted(task, name=None, result="", ttl=60000):
    """name: of the task, where it is not its entry's id."""
    return ("W",) + task + (ttl, result, name or task[0])


def plain(x):
    """Bytes as text where nothing is lost by it."""
    if isinstance(x, (list, tuple)):
        return [plain(i) for i in x]
    try:
        return x.decode() if isinstance(x, bytes) else x
    except UnicodeDecodeError:
        return x


class Protocol:
    def __init__(self, server, queue="q", group="redisq"):
        self.server, self.r, self.queue, self.group = server, server.r, queue, group
        self.dead_max, self.keep = 1000, 0
        for suffix in ("delayed", "bodies", "dead", "held", "counters", "ckpt", "progress", "crash",
                       "names"):
            setattr(self, suffix, server.key(queue, suffix))
        self.open()

    def open(self):
        self.r.xgroup_create(self.queue, self.group, "0", mkstream=True)

    def claim_key(self, name):
        return self.server.key(self.queue, "consumer:" + name)

    def result_key(self, task):
        return self.server.key(self.queue, "result:" + task)

    def failed_key(self, task):
        return self.server.key(self.queue, "failed:" + task)

    def run(self, script, keys, *args):
        text = GUARD + source(script, self.server.backend)
        sha = hashlib.sha1(text.encode()).hexdigest()
        try:
            return self.r.evalsha(sha, len(keys), *keys, *args)
        except redis.exceptions.NoScriptError:
            return self.r.eval(text, len(keys), *keys, *args)

    # ---- the scripts
    def claim(self, name, nonce, ttl=LEASE, record=None):
        return plain(self.run("claim", [self.claim_key(name), self.names, self.queue, self.crash,
                                        self.ckpt, self.progress],
                              self.group, name, nonce, record or nonce + " host boot 1", ttl))

    def renew(self, me, nonce, *tasks, ttl=LEASE, window=100, record=None):
        return plain(self.run("renew", [self.claim_key(me), self.queue, self.crash, self.names,
                                        self.ckpt, self.progress],
                              self.group, me, nonce, record or nonce + " host boot 1", ttl, window,
                              len(tasks), *[x for t in tasks for x in t]))

    def scan(self, me, start="-", count=100, lease=LEASE, foreign=FOREIGN):
        _, last, flat = plain(self.run("scan", [self.queue, self.names, self.crash], self.group, me, start,
                                       count, lease, foreign))
        return last, [tuple(flat[i:i + 4]) for i in range(0, len(flat), 5)]

    def take(self, me, nonce, *seen, stale=1, lease=LEASE, foreign=FOREIGN):
        """seen: (id, owner, token); None when fenced, else {id: (token, fields)}."""
        keys = [self.queue, self.crash, self.names, self.claim_key(me), self.ckpt, self.progress]
        answer = self.run("take", keys + [self.claim_key(s[1]) for s in seen], self.group, me,
                          nonce, lease, stale, foreign, len(seen), *[x for s in seen for x in s])
        if answer[0] == 0:
            return None
        return {i.decode(): (token, fields) for i, token, fields, _, _ in answer[1]}

    def settle(self, me, *verdicts):
        keys = [self.queue, self.delayed, self.bodies, self.dead, self.held, self.counters, self.ckpt,
                self.crash, self.progress]
        flat, n = [], 0
        for op, entry, token, *args in verdicts:
            if op == "W":
                keys += [self.result_key(args[2]), self.failed_key(args[2])]
                args = args[:2]
            n += op not in "CW"
            flat += [op, entry, token, len(args)] + args
        return self.run("settle", keys, self.group, me, self.keep, self.dead_max, n, *flat)

    def note(self, me, *notes, lost=0):
        """notes: (kind, id, token, value), kind C or P; lost: links, by then."""
        return self.run("checkpoint", [self.queue, self.ckpt, self.progress, self.claim_key(me)],
                        self.group, me, lost, len(notes), *[x for n in notes for x in n])

    def promote(self, limit=128):
        return plain(self.run("promote", [self.queue, self.delayed, self.bodies, self.dead,
                                          self.ckpt, self.crash, self.counters],
                              limit, self.dead_max))

    def handover(self, dead, nonce, *ran, charge=1, start="-", to="+",
                 cause="alone worker signal 9 SIGKILL", ttl=LEASE):
        """One page: [-1], or [moved, charged, last id of the page]."""
        return plain(self.run("handover", [self.queue, self.claim_key(dead), self.crash, self.ckpt,
                                           self.progress],
                              self.group, dead, nonce, charge, ttl, start, to, cause, len(ran),
                              *[x for t in ran for x in t]))

    def delconsumer(self, name, nonce=""):
        return self.run("delconsumer", [self.queue, self.claim_key(name), self.names],
                        self.group, name, nonce)

    def readd(self, ids, key=None):
        return plain(self.run("dead_retry", [key or self.dead, self.queue, self.counters, self.ckpt], *ids))

    def drop(self, ids, key=None):
        return self.run("dead_drop", [key or self.dead, self.counters], *ids)

    # ---- a producer, a worker, time
    def add(self, *payloads):
        return self.server.add(self.queue, *payloads)

    def read(self, me, n):
        """[(id, token)] of new entries."""
        got = self.r.xreadgroup(self.group, me, {self.queue: ">"}, count=n)
        return [(i.decode(), 1) for _, entries in got for i, _ in entries]

    def make_idle(self, owner, ms, *ids):
        """As if `owner` had them and was last heard of `ms` ago."""
        self.raw("XCLAIM", self.queue, self.group, owner, 0, *ids, "IDLE", ms, "JUSTID")

    # ---- what there is
    def raw(self, *words):
        """The answer as it came, not as the client library arranges it."""
        link = self.r.connection_pool.get_connection(words[0])
        try:
            link.send_command(*words)
            return link.read_response()
        finally:
            self.r.connection_pool.release(link)

    def pending(self):
        """{id: (owner, idle, count)}"""
        rows = self.raw("XPENDING", self.queue, self.group, "-", "+", 100000)
        return {i.decode(): (owner.decode(), idle, count) for i, owner, idle, count in rows}

    def body(self, entry):
        found = self.run("show_body", [self.delayed, self.bodies], entry, "0")[1]
        if not found:
            return None
        names = ("id", "due", "fields", "task", "attempt", "deliveries", "snoozes", "enqueued_at",
                 "ckpt", "crash")
        return dict(zip(names, [found[2] if i == 2 else plain(x) for i, x in enumerate(found)]))

    def entries(self, key):
        """[(id, [field, value, ...])]: order and repetitions kept."""
        return [(i.decode(), fields) for i, fields in self.raw("XRANGE", key, "-", "+")]

    def dumps(self):
        return {k: self.r.dump(k) for k in sorted(self.r.keys("*"))}

    def state(self):
        """All that is kept, without the clocks: idle times and the time claims have left."""
        out = {}
        for k in sorted(self.r.keys("*")):
            kind = self.r.type(k)
            if kind == b"stream":
                out[k] = self.entries(k)
            elif kind == b"hash":
                out[k] = self.r.hgetall(k)
            elif kind == b"zset":
                out[k] = self.r.zrange(k, 0, -1, withscores=True)
            elif kind == b"list":
                out[k] = self.r.lrange(k, 0, -1)
            else:
                out[k] = self.r.get(k)
        out["pending"] = {i: (owner, idle > RELEASED, count)
                          for i, (owner, idle, count) in self.pending().items()}
        return out

    def counts(self):
        return {i: row[2] for i, row in self.pending().items()}

    def places(self):
        """{payload: [place, ...]}: in a sound queue every list has one place."""
        out = {}

        def note(fields, place):
            at = [bytes(f) for f in fields[::2]].index(b"payload")
            out.setdefault(fields[2 * at + 1].decode(), []).append(place)

        pending = self.pending()
        group, = self.r.xinfo_groups(self.queue)
        last = tuple(map(int, group["last-delivered-id"].split(b"-")))
        for i, fields in self.entries(self.queue):
            if i in pending:
                note(fields, "running")
            elif tuple(map(int, i.split("-"))) > last:
                note(fields, "waiting")
            elif not self.keep:
                note(fields, "stranded")
        for i in self.r.zrange(self.delayed, 0, -1):
            note(self.body(i)["fields"], "delayed")
        for place, key in (("dead", self.dead), ("held", self.held)):
            for _, fields in self.entries(key):
                note(fields, place)
        return out

    def counter(self, name):
        return int(self.r.hget(self.counters, name) or 0)


class ListProtocol(Protocol):
    """A queue that is a list: the same, by other means."""

    def open(self):
        self.caller = "me"
        for suffix in ("owners", "tasks", "last_id"):
            setattr(self, suffix, self.server.key(self.queue, suffix))

    @property
    def arrived(self):
        return self.server.key(self.queue, "arrived")

    def run(self, script, keys, *args):
        """As stream_add_list_args(): the list of whose claim record is there, and of the caller."""
        claim, had = self.claim_key(""), self.server.key(self.queue, "processing:")
        whose = [k[len(claim):] for k in keys if k.startswith(claim)]
        whose += [args[1]] if script in ("settle", "take", "renew") else []
        whose += [self.caller] if script == "done" else []
        return super().run(script, keys + keys_of_list(self.server, self.queue) +
                           [had + name for name in whose], *args, self.queue,
                           self.server.key(self.queue, ""), self.group)

    def raw(self, *words):
        return self.server.ask(self.queue, *words, group=self.group, client=self.r)

    def fetch(self, me, nonce, n, field="payload", moved=1000):
        """None when fenced, else {id: fields}."""
        got = self.run("list_fetch", [self.queue, self.claim_key(me), self.crash, self.ckpt],
                       self.group, me, nonce, n, field, moved)
        return None if got[0] == 0 else {i.decode(): fields for i, _, fields, _, _ in got[1]}

    def read(self, me, n):
        """By whatever life of the name there is; where there is none, by one that ends with it."""
        record = self.r.get(self.claim_key(me))
        if not record:
            self.r.set(self.claim_key(me), "x")
        nonce = record.decode().split()[0] if record else "x"
        got = []
        for page in range(0, n, 1000):
            got += self.fetch(me, nonce, min(1000, n - page))
        if not record:
            self.r.delete(self.claim_key(me))
        return [(i, 1) for i in got]

    def make_idle(self, owner, ms, *ids):
        seconds, us = self.r.time()
        for i in ids:
            token, _, had = self.r.hget(self.owners, i).decode().split(" ", 2)
            if had != owner:
                self.r.lrem(self.server.key(self.queue, "processing:" + had), 1, i)
                self.r.lpush(self.server.key(self.queue, "processing:" + owner), i)
            self.r.hset(self.owners, i, "%s %d %s" % (
                token, seconds * 1000 + us // 1000 - ms, owner))

    def state(self):
        out = super().state()
        out.pop(self.owners.encode(), None)  # has times; what else it has is pending
        return out

    def places(self):
        out = {}

        def note(fields, place):
            at = [bytes(f) for f in fields[::2]].index(b"payload")
            out.setdefault(fields[2 * at + 1].decode(), []).append(place)

        pending, tasks = self.pending(), dict(self.entries(self.queue))
        for item in self.r.lrange(self.queue, 0, -1):
            i = item[8:].decode() if item.startswith(b"\0redisq\0") else None
            if i in tasks and i not in pending:
                note(tasks.pop(i), "waiting")
            else:
                note([b"payload", item], "waiting")
        for i, fields in tasks.items():
            note(fields, "running" if i in pending else "stranded")
        for i in self.r.zrange(self.delayed, 0, -1):
            note(self.body(i)["fields"], "delayed")
        for place, key in (("dead", self.dead), ("held", self.held)):
            for _, fields in self.entries(key):
                note(fields, place)
        return out


def protocol(server, *args, base=Protocol):
    """A `base`, or the same on a list, as the server has it."""
    if server.backend == "list":
        bases = (ListProtocol,) if base is Protocol else (ListProtocol, base)
        base = type(base.__name__ + "OnList", bases, {})
    return base(server, *args)


def refused(call):
    """The error text of call(), or None when it answered."""
    try:
        call()
    except redis.exceptions.RedisError as e:
        return str(e)
    return None
