"""A random walk through the protocol: workers that run, stall, die and come back as zombies, an
operator, and a Redis that now and then is full or forbids something. After every step each accepted
entry is in one place, no delivery count has fallen, the counters add up, and every task has, wherever
it is, the last checkpoint that was kept.

REDISQ_SEEDS=60 walks for a minute."""
import os
import random

import pytest
import redis

from protocol import (LEASE, RELEASED, Protocol, crash, done, hold, letter, protocol, refused, release, retry,
                      said)

BACKENDS = ("stream", "list")
STEPS = 500
SEEDS = int(os.environ.get("REDISQ_SEEDS", "3"))
FORBIDDEN = ["xadd", "xdel", "xack", "xtrim", "xclaim", "xrange", "xpending", "hset", "hget",
             "hdel", "hincrby", "zadd", "zrem", "set", "pexpire", "get"]


class Walk(Protocol):
    def __init__(self, server, seed):
        super().__init__(server)
        self.rng = random.Random(seed)
        self.dead_max = 12
        self.rich = self.r
        self.r.execute_command("ACL", "SETUSER", "poor", "reset", "on", ">x", "~*", "+@all")
        self.poor = server.client(username="poor", password="x")
        self.workers = {}   # name -> (nonce, {id: token} it believes in)
        self.zombies = []   # (name, id, token) of the dead
        self.n_added = self.n_names = 0
        self.highest = {}   # entry -> the highest delivery count seen
        self.settled = set()  # (entry, token) whose settlement was accepted
        self.left = {}      # payload -> the checkpoints it may have: one, but after a refusal
        self.n_said = 0

    def pick(self, things):
        return self.rng.choice(sorted(things)) if things else None

    def worker(self):
        return self.pick(self.workers)

    # ---- steps
    def step_add(self):
        n = self.rng.randint(1, 4)
        self.server.add(self.queue, *[b"t%d" % (self.n_added + i) for i in range(n)])
        self.n_added += n

    def step_birth(self):
        if len(self.workers) < 4:
            self.n_names += 1
            name, nonce = "w%d" % self.n_names, "n%d" % self.n_names
            if self.claim(name, nonce)[0] == 1:
                self.workers[name] = (nonce, {})

    def step_death(self):
        name = self.worker()
        if name:
            _, tasks = self.workers.pop(name)
            self.zombies += [(name, i, t) for i, t in tasks.items()]
            self.fall_silent(name)

    def fall_silent(self, name):
        """A lease goes by."""
        self.rich.delete(self.claim_key(name))
        for entry, (owner, idle, _) in self.pending().items():
            if owner == name and idle < RELEASED:
                self.make_idle(name, LEASE + 1, entry)

    def step_death_seen_by_a_supervisor(self):
        """Handed over at once, twice, and what ran is charged once."""
        name = self.worker()
        if not name:
            return
        nonce, tasks = self.workers[name]
        ran = [t for t in tasks.items() if self.rng.random() < 0.8]
        expected = {entry: self.rich.hget(self.crash, entry) for entry in self.pending()}
        for entry, token in ran:
            owner, _, count = self.pending().get(entry, ("", 0, 0))
            if (owner, count) == (name, token):
                n = int((expected[entry] or b"0").split(b":")[0]) + 1
                if (expected[entry] or b"::").split(b":")[1] != b"%d" % token:
                    expected[entry] = b"%d:%d:company worker exit 3" % (n, token)
        del self.workers[name]
        self.zombies += [(name, i, t) for i, t in tasks.items()]
        try:
            self.handover(name, nonce, *ran, cause="company worker exit 3")
            assert self.handover(name, nonce, *ran, cause="company worker exit 3")[1] == 0
            for entry, (owner, idle, _) in self.pending().items():
                assert owner != name or idle > RELEASED
                assert self.rich.hget(self.crash, entry) == expected[entry]
            if self.rng.random() < 0.5:
                self.delconsumer(name, nonce)
        finally:  # what was refused is left to the leases
            self.r = self.rich
            self.fall_silent(name)

    def step_read(self):
        name = self.worker()
        if name:
            self.workers[name][1].update(self.read(name, self.rng.randint(1, 5)))

    def step_settle(self):
        name = self.worker()
        if not name:
            return
        _, tasks = self.workers[name]
        some = self.rng.sample(sorted(tasks.items()), min(len(tasks), self.rng.randint(1, 5)))
        verdicts = [self.rng.choice([done, done, retry, crash, letter, hold, release])(task)
                    for task in some]
        front = [said(task, self.a_checkpoint(task)) for task in some if self.rng.random() < 0.3]
        entries = dict(self.entries(self.queue))
        carried = {c[1]: (self.payload(entries[c[1]]), c[3]) for c in front if c[1] in entries}
        for (entry, token), verdict, answer in zip(some, verdicts,
                                                   self.settle(name, *front, *verdicts)):
            del tasks[entry]
            if answer == 1 and entry in carried and (verdict[0] != "L" or self.r is self.rich):
                payload, value = carried[entry]
                self.left[payload] = {value}
            if answer == 1 and verdict[0] != "L":
                assert (entry, token) not in self.settled
                self.settled.add((entry, token))

    def a_checkpoint(self, task):
        """A new one, which the task may have from now on, if it is the caller's."""
        self.n_said += 1
        value = b"c%d" % self.n_said
        fields = dict(self.entries(self.queue)).get(task[0])
        if fields and self.is_of(task):
            self.left.setdefault(self.payload(fields), {None}).add(value)
        return value

    def is_of(self, task):
        owner, _, count = self.pending().get(task[0], ("", 0, 0))
        return count == task[1] and task[0] in self.workers.get(owner, ("", {}))[1]

    def step_note(self):
        name = self.worker()
        task = self.pick(self.workers[name][1].items()) if name else None
        if task:
            value = self.a_checkpoint(task)
            kept = self.note(name, ("P",) + task + ("9 %",), ("C",) + task + (value,))
            if kept == [1, 1]:
                assert self.rich.hget(self.ckpt, task[0]) == value

    def step_late_copy(self):
        """Of a command of the dead, or of one that was settled before."""
        old = self.zombies + [(n, i, t) for n in self.workers for i, t in self.settled]
        if old:
            name, entry, token = self.pick(old)
            owner, _, count = self.pending().get(entry, ("", 0, 0))
            if (owner, count) == (name, token):
                return  # it has not been taken away yet: a true one
            verdict = self.rng.choice([done, retry, crash, letter, hold, release])
            before = self.dumps()
            assert self.settle(name, said((entry, token), "late"), verdict((entry, token))) in ([0], [-1])
            assert self.note(name, ("C", entry, token, "late")) in ([0], [-1])
            assert self.dumps() == before

    def step_renew(self):
        name = self.worker()
        if name:
            nonce, tasks = self.workers[name]
            asked = sorted(tasks.items())
            _, _, answers, extras = self.renew(name, nonce, *asked)
            for (entry, _), answer in zip(asked, answers):
                if answer not in (1, 2):
                    del tasks[entry]
            seen = [(extras[i], name, extras[i + 2]) for i in range(0, len(extras), 3)]
            self.took(name, self.take(name, nonce, *seen))

    def step_take(self):
        name = self.worker()
        if name:
            _, rows = self.scan(name)
            seen = [(i, owner, count) for i, owner, _, count in rows]
            self.rng.shuffle(seen)
            self.took(name, self.take(name, self.workers[name][0], *seen[:4]))

    def took(self, name, got):
        for entry, (token, _) in (got or {}).items():
            self.workers[name][1][entry] = token

    def step_promote(self):
        self.promote(self.rng.randint(1, 6))

    def step_operator(self):
        key = self.rng.choice([self.dead, self.held])
        ids = [i for i, _ in self.entries(key)]
        some = self.rng.sample(ids, min(len(ids), 2)) + ["1-1"]
        (self.readd if self.rng.random() < 0.8 else self.drop)(some, key)

    def step_names(self):
        for name in [n.decode() for n in self.rich.hkeys(self.names)]:
            self.delconsumer(name, "")

    def payload(self, fields):
        return fields[2 * [bytes(f) for f in fields[::2]].index(b"payload") + 1].decode()

    def checkpoints(self):
        """{payload: what its next attempt would be given}"""
        out = {}
        for i, fields in self.entries(self.queue):
            out[self.payload(fields)] = self.rich.hget(self.ckpt, i)
        for i in self.rich.zrange(self.delayed, 0, -1):
            body = self.body(i)
            out[self.payload(body["fields"])] = body["ckpt"].encode() or None
        for key in (self.dead, self.held):
            for _, fields in self.entries(key):
                out[self.payload(fields)] = dict(zip(fields[::2], fields[1::2])).get(
                    b"redisq.checkpoint")
        return out

    # ---- the walk
    def step(self):
        steps = [getattr(self, n) for n in dir(self) if n.startswith("step_")]
        step = self.rng.choice(steps + [self.step_read, self.step_settle, self.step_settle])
        trouble = self.rng.random()
        if step in (self.step_add, self.step_death, self.step_read):
            trouble = 1
        where = step.__name__
        if trouble < 0.25:
            command = self.rng.choice(FORBIDDEN)
            where += " without " + command
            self.rich.execute_command("ACL", "SETUSER", "poor", "+@all", "-" + command)
            self.r = self.poor
        elif trouble < 0.35:
            where += " at OOM"
            self.rich.config_set("maxmemory", 1)
        if trouble < 0.35:
            why = refused(step)
            self.r = self.rich
            self.rich.config_set("maxmemory", 0)
            assert why is None or "OOM" in why or "used memory" in why or "permission" in why or \
                "can't run" in why, (where, why)
        else:
            step()
        self.check(where)

    def check(self, where):
        places = self.places()
        assert {k: v for k, v in places.items() if len(v) != 1} == {}, where
        count = self.counter
        assert len(places) == self.n_added - count("done") - count("dropped"), where
        for entry, n in self.counts().items():
            assert n >= self.highest.get(entry, 0), where
            self.highest[entry] = n
        found = self.checkpoints()
        for payload in places:
            assert found.get(payload) in self.left.get(payload, {None}), (where, payload)
            self.left[payload] = {found.get(payload)}
        # The bodies are those of delayed tasks; one may be left where a step was refused midway.
        delayed = set(self.rich.zrange(self.delayed, 0, -1))
        assert delayed <= set(self.rich.hkeys(self.bodies)), where


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_random_walk_loses_nothing_and_doubles_nothing(server, seed):
    walk = protocol(server, seed, base=Walk)
    for _ in range(STEPS):
        walk.step()
    # And then all goes well, and everything comes to an end.
    walk.zombies, rounds = [], 0
    while walk.workers:
        walk.step_death()
    walk.step_birth()
    (name, (nonce, tasks)), = walk.workers.items()
    while set(p for v in walk.places().values() for p in v) - {"dead", "held"}:
        rounds += 1
        assert rounds < 200
        walk.promote()
        walk.step_read()
        walk.step_take()
        walk.settle(name, *[done(t) for t in tasks.items()])
        tasks.clear()
        for entry in walk.rich.zrange(walk.delayed, 0, -1):
            walk.rich.zadd(walk.delayed, {entry: 0})
    walk.check("the end")
    walk.step_names()
    assert set(walk.server.consumers(walk.queue)) == {name}
    assert walk.pending() == {} and walk.server.xlen(walk.queue) == 0
    assert not walk.rich.exists(walk.delayed, walk.ckpt, walk.progress)
