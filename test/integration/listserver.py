"""A server on which there are no streams, and queues that are lists: with the same helpers, which
ask by the scripts that redisqctl uses (common/scripts/list_ask.lua)."""
from protocol import source
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
        return (client or self.r).eval(source("list_ask", "list"), 1, queue, *command, queue,
                           self.key(queue, ""), group)

    def lpush(self, queue, *payloads):
        """As any producer does it."""
        self.r.lpush(queue, *payloads)

    def add(self, queue, *payloads, client=None, **fields):
        pairs = [x for pair in fields.items() for x in pair]
        return [self.ask(queue, "XADD", queue, "*", "payload", p, *pairs, client=client).decode()
                for p in payloads]

    def add_fields(self, queue, *pairs):
        return self.ask(queue, "XADD", queue, "*", *[x for pair in pairs for x in pair]).decode()

    def xlen(self, queue, client=None):
        return self.ask(queue, "XLEN", queue, client=client)

    def n_added(self, queue):
        return None

    def pending(self, queue, most):
        return self.ask(queue, "XPENDING", queue, "redisq", "-", "+", most)

    def n_pending(self, queue, group="redisq"):
        return self.r.zcard(self.key(queue, "pending"))

    def consumers(self, queue, group="redisq", client=None):
        names = (client or self.r).hkeys(self.key(queue, "names"))
        return {n.decode(): {"name": n, "pending": (client or self.r).llen(
            self.key(queue, "processing:" + n.decode()))} for n in names}

    def letters(self, queue, where):
        key = self.key(queue, where)
        return [(i.decode(), flat(f)) for i, f in self.ask(queue, "XRANGE", key, "-", "+")]

    def letter_fields(self, queue, where):
        return [f for _, f in self.ask(queue, "XRANGE", self.key(queue, where), "-", "+")]

    def is_empty(self, queue, group="redisq"):
        with self.r.pipeline(transaction=True) as p:
            p.llen(queue)
            p.zcard(self.key(queue, "delayed"))
            p.zcard(self.key(queue, "pending"))
            p.eval(source("list_ask", "list"), 1, queue, "XLEN", queue, queue, self.key(queue, ""),
                   group)
            return not any(p.execute())

