"""A server whose queues are spread over three partitions, with the same helpers: what is added goes
to them in turn, what is asked is added up. An id is that of a task, "2:1700000000000-0"."""
import collections
import re

from redisserver import RedisServer

N = 3


def called(fields, prefix):
    """The fields of an entry with the task's id as a handler has it."""
    own = fields.get(b"redisq.id", b"")
    if re.fullmatch(rb"\d+-\d+", own):
        fields = {**fields, b"redisq.id": prefix.encode() + own}
    return fields


class PartServer(RedisServer):
    backend = "partitions"

    def __init__(self, tmp_path, *options, **how):
        super().__init__(tmp_path, *options, **how)
        self.turn = 0

    @staticmethod
    def streams(queue):
        return ["%s:%d" % (queue, i) for i in range(N)]

    def credentials(self, queues):
        return super().credentials([s for q in queues for s in self.streams(q)])

    def _next(self, queue):
        self.turn += 1
        i = self.turn % N
        return "%d:" % i, self.streams(queue)[i]

    def _of(self, queue, task):
        i, _, entry = task.partition(":")
        return self.streams(queue)[int(i)], entry

    def _each(self, queue):
        return [("%d:" % i, s) for i, s in enumerate(self.streams(queue))]

    # ---- what is added, and done as others do it
    def add(self, queue, *payloads, client=None, **fields):
        places = [self._next(queue) for _ in payloads]
        with (client or self.r).pipeline(transaction=False) as p:
            for (_, stream), payload in zip(places, payloads):
                p.xadd(stream, dict({"payload": payload}, **fields))
            return [i + entry.decode() for (i, _), entry in zip(places, p.execute())]

    def add_fields(self, queue, *pairs):
        i, stream = self._next(queue)
        return i + super().add_fields(stream, *pairs)

    def add_with_checkpoint(self, queue, checkpoint, payload, **fields):
        super().add_with_checkpoint(self.streams(queue)[0], checkpoint, payload, **fields)

    def deliver(self, queue, payload, owner):
        i, stream = self._next(queue)
        return i + super().deliver(stream, payload, owner)

    def give_back(self, queue, payload, owner="other"):
        i, stream = self._next(queue)
        return i + super().give_back(stream, payload, owner)

    def take_as(self, owner, queue, *ids):
        for task in ids:
            stream, entry = self._of(queue, task)
            super().take_as(owner, stream, entry)

    def acknowledge(self, queue, *ids):
        return sum(super(PartServer, self).acknowledge(*self._of(queue, t)) for t in ids)

    def delete_entry(self, queue, entry):
        super().delete_entry(*self._of(queue, entry))

    # ---- what a queue holds
    def xlen(self, queue, client=None):
        return sum(super(PartServer, self).xlen(s, client) for s in self.streams(queue))

    def n_added(self, queue):
        return sum(super(PartServer, self).n_added(s) for s in self.streams(queue))

    def pending(self, queue, most):
        return [dict(row, message_id=i.encode() + row["message_id"])
                for i, s in self._each(queue) for row in super(PartServer, self).pending(s, most)]

    def n_pending(self, queue, group="redisq"):
        return sum(super(PartServer, self).n_pending(s, group) for s in self.streams(queue))

    def consumers(self, queue, group="redisq", client=None):
        found = {}
        for s in self.streams(queue):
            for name, c in super().consumers(s, group, client).items():
                c["pending"] += found.get(name, {"pending": 0})["pending"]
                found[name] = c
        return found

    def counters(self, queue):
        total = collections.Counter()
        for s in self.streams(queue):
            total.update(super().counters(s))
        return dict(total)

    def letters(self, queue, where):
        return [(i + entry, called(fields, i)) for i, s in self._each(queue)
                for entry, fields in super(PartServer, self).letters(s, where)]

    def letter_fields(self, queue, where):
        return [f for s in self.streams(queue)
                for f in super(PartServer, self).letter_fields(s, where)]

    def delayed(self, queue):
        return {i + entry: due for i, s in self._each(queue)
                for entry, due in super(PartServer, self).delayed(s).items()}

    def is_empty(self, queue, group="redisq"):
        return all(super(PartServer, self).is_empty(s, group) for s in self.streams(queue))
