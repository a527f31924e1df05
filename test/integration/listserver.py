"""A server on which there are no streams, and queues that are lists: with the same helpers, which
ask by the scripts that redisqctl uses (common/scripts/list_ask.lua)."""
import hashlib

from protocol import keys_of_list, source
from redisserver import RedisServer


def flat(fields):
    it = iter(fields)
    return dict(zip(it, it))


class ListServer(RedisServer):
    backend = "list"

    def __init__(self, tmp_path, *options, **how):
        gone = ("XADD", "XREADGROUP", "XREAD", "XACK", "XDEL", "XCLAIM", "XAUTOCLAIM", "XPENDING",
                "XRANGE", "XREVRANGE", "XLEN", "XINFO", "XGROUP", "XTRIM")
        for command in gone:
            options += ("--rename-command", command, "")
        super().__init__(tmp_path, *options, **how)

    def ask(self, queue, *command, group="redisq", client=None):
        """A stream command, done with the lists of the queue."""
        return self._ask(client or self.r, queue, *command, group=group)

    def _ask(self, client, queue, *command, group="redisq"):
        keys = [queue] + keys_of_list(self, queue)
        return client.eval(source("list_ask", "list"), len(keys), *keys, *command, queue,
                           self.key(queue, ""), group)

    def lpush(self, queue, *payloads):
        """As any producer does it."""
        self.r.lpush(queue, *payloads)

    def add(self, queue, *payloads, client=None, **fields):
        pairs = [x for pair in fields.items() for x in pair]
        text, keys = source("list_ask", "list"), [queue] + keys_of_list(self, queue)
        sha = hashlib.sha1(text.encode()).hexdigest()
        with (client or self.r).pipeline(transaction=False) as p:
            for k, payload in enumerate(payloads):  # the first makes the script known
                run = p.evalsha if k else p.eval
                run(sha if k else text, len(keys), *keys, "XADD", queue, "*", "payload", payload,
                    *pairs, queue, self.key(queue, ""), "redisq")
            return [i.decode() for i in p.execute()]

    def add_fields(self, queue, *pairs):
        return self.ask(queue, "XADD", queue, "*", *[x for pair in pairs for x in pair]).decode()

    def add_with_checkpoint(self, queue, checkpoint, payload, **fields):
        with self.r.pipeline(transaction=True) as p:
            p.set(self.key(queue, "last_id"), "9999999999999-8")
            p.hset(self.key(queue, "ckpt"), "9999999999999-9", checkpoint)
            self._ask(p, queue, "XADD", queue, "*", "payload", payload,
                      *[x for pair in fields.items() for x in pair])
            assert p.execute()[-1] == b"9999999999999-9"

    def deliver(self, queue, payload, owner):
        claim = self.key(queue, "consumer:" + owner)
        record = self.r.get(claim) or b"nonce"
        with self.r.pipeline(transaction=True) as p:
            self._ask(p, queue, "XADD", queue, "*", "payload", payload)
            p.set(claim, record)
            p.eval(source("list_fetch", "list"), 4, queue, claim, self.key(queue, "crash"),
                   self.key(queue, "ckpt"), "redisq", owner, record.split()[0], 1, "payload", 0,
                   queue, self.key(queue, ""), "redisq")
            p.delete(claim)
            entry, _, (_, fetched), _ = p.execute()
        assert fetched[0][0] == entry, "something waited before it"
        return entry.decode()

    def give_back(self, queue, payload, owner="other"):
        entry = self.deliver(queue, payload, owner)
        self.ask(queue, "XCLAIM", queue, "redisq", owner, 0, entry, "TIME", 1, "JUSTID")
        return entry

    def take_as(self, owner, queue, *ids):
        self.ask(queue, "XCLAIM", queue, "redisq", owner, 0, *ids)

    def acknowledge(self, queue, *ids):
        return self.ask(queue, "XACK", queue, "redisq", *ids)

    def delete_entry(self, queue, entry):
        assert self.r.hdel(self.key(queue, "tasks"), entry) == 1

    def xlen(self, queue, client=None):
        return self.ask(queue, "XLEN", queue, client=client)

    def n_added(self, queue):
        return None

    def pending(self, queue, most):
        rows = self.ask(queue, "XPENDING", queue, "redisq", "-", "+", most)
        return [dict(zip(("message_id", "consumer", "time_since_delivered", "times_delivered"), r))
                for r in rows]

    def n_pending(self, queue, group="redisq"):
        return self.r.zcard(self.key(queue, "pending"))

    def consumers(self, queue, group="redisq", client=None):
        names = (client or self.r).hkeys(self.key(queue, "names"))
        return {n.decode(): {"name": n, "pending": (client or self.r).llen(
            self.key(queue, "processing:" + n.decode()))} for n in names}

    def letters(self, queue, where):
        key = self.key(queue, where) if where else queue
        return [(i.decode(), flat(f)) for i, f in self.ask(queue, "XRANGE", key, "-", "+")]

    def letter_fields(self, queue, where):
        return [f for _, f in self.ask(queue, "XRANGE", self.key(queue, where), "-", "+")]

    def is_empty(self, queue, group="redisq"):
        with self.r.pipeline(transaction=True) as p:
            p.llen(queue)
            p.zcard(self.key(queue, "delayed"))
            p.zcard(self.key(queue, "pending"))
            self._ask(p, queue, "XLEN", queue, group=group)
            return not any(p.execute())

