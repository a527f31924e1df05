"""Every fault of Redis, a row each: no worker exits, logs or spins for it; what runs goes on and is
settled once; and within 10 s of its end work goes on. See trial.py."""
import dataclasses
import re
import os
import random
import threading

import pytest
import redis

from links import Links
from redisserver import version
from trial import GREETING, Row, Trial
from waiting import wait_until


@pytest.fixture
def links(server):
    made = Links(server.port)
    yield made
    made.close()


def config(**keys):
    return lambda t: [t.server.r.config_set(k.replace("_", "-"), v) for k, v in keys.items()]


def acl(*words):
    return lambda t: t.server.r.execute_command("ACL", "SETUSER", "w", *words)


def hang_up(t):
    t.server.r.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def steps(*each):
    return lambda t: [step(t) for step in each]


def nothing(t):
    pass


def sets(**values):
    """Of the proxy."""
    return lambda t: [setattr(t.links, k, v) for k, v in values.items()]


# ---------------------------------------------------------------- what Redis itself has lost

def destroy_group(t):
    try:
        t.server.r.xgroup_destroy("q", "redisq")
    except redis.exceptions.ResponseError:
        pass        # nobody has made the stream again


def delete_records(t):
    """Of who has which name."""
    r = t.server.r
    r.delete(t.server.key("q", "names"), *r.keys(t.server.key("q", "consumer:*")))


def replace_by_a_string(t):
    with t.server.r.pipeline(transaction=True) as p:
        p.rename("q", "{q}aside")
        p.set("q", "a string")
        p.execute()


def put_back(t):
    t.server.r.rename("{q}aside", "q")


def delayed(t):
    return t.server.key("q", "delayed")


LOST = [
    Row("nogroup", destroy_group, nothing, again=destroy_group, erases=True, says="NOGROUP"),
    Row("del", lambda t: t.server.r.delete("q"), nothing, again=lambda t: t.server.r.delete("q"),
        commands=200, erases=True),   # each opening asks 9 TYPEs
    Row("flushall", lambda t: t.server.r.flushall(), nothing,
        again=lambda t: t.server.r.flushall(), commands=200, erases=True),
    Row("noscript", lambda t: t.server.r.script_flush(), nothing,
        again=lambda t: t.server.r.script_flush(), blind=False, settles=True),
    Row("records", delete_records, nothing, again=delete_records, seconds=2.5, blind=False,
        settles=True, then=lambda t: wait_until(
            lambda: t.server.r.hlen(t.server.key("q", "names")) == 2, 5)),
    Row("wrongtype", replace_by_a_string, put_back, says="WRONGTYPE"),
    Row("wrongtype 2", lambda t: t.server.r.set(delayed(t), "a string"),
        lambda t: t.server.r.delete(delayed(t)), blind=False, runs=2,
        then=lambda t: wait_until(lambda: "settling: WRONGTYPE" in t.sup.log("q"))),
]


# ---------------------------------------------------------------- what Redis refuses

REFUSED = [
    Row("readonly", lambda t: t.server.r.replicaof("127.0.0.1", "1"),
        lambda t: t.server.r.replicaof("NO", "ONE"), seconds=4, within=5, says="READONLY"),
    Row("masterdown",
        steps(config(replica_read_only="no", replica_serve_stale_data="no"),
              lambda t: t.server.r.replicaof("127.0.0.1", "1")),
        lambda t: t.server.r.replicaof("NO", "ONE"), says="MASTERDOWN"),
    Row("oom", config(maxmemory="1mb"), config(maxmemory="0"), blind=False, settles=True,
        runs=2, then=lambda t: wait_until(lambda: re.search("moving delayed tasks back: .*OOM ",
                                                    t.sup.log("q")))),
    # Before 7.0 scripts are not refused: who has no free slot, and does not read, meets nothing.
    Row("noreplicas", config(min_replicas_to_write="1"), config(min_replicas_to_write="0"),
        some=version() < (7,), says="NOREPLICAS"),
]


def fail_to_save(t):
    os.mkdir(os.path.join(t.server.dir, "dump.rdb"))
    config(save="3600 1000000")(t)
    save(t)


def save(t):
    r = t.server.r
    r.bgsave()
    wait_until(lambda: not r.info("persistence")["rdb_bgsave_in_progress"])


def save_again(t):
    os.rmdir(os.path.join(t.server.dir, "dump.rdb"))
    save(t)


def spin(t):
    def run():
        try:
            t.server.client().eval("while true do end", 0)
        except redis.exceptions.RedisError:
            pass        # killed
    config(lua_time_limit="100")(t)  # busy-reply-threshold, in words of all versions
    threading.Thread(target=run, daemon=True).start()


REFUSED += [
    Row("misconf", fail_to_save, save_again, says="MISCONF"),
    Row("busy", spin, lambda t: t.server.r.script_kill(), says="BUSY"),
    Row("noauth", steps(config(requirepass="x"), hang_up), config(requirepass=""), blind=True,
        redis={"username": ""},
        says="NOAUTH"),
    Row("wrongpass", steps(acl("resetpass", ">new"), hang_up),
        lambda t: t.secret.write_text("new\n"), user=True, blind=True, says="WRONGPASS"),
    Row("no user", lambda t: t.server.r.execute_command("ACL", "DELUSER", "w"),
        acl("on", ">p", "~*", "+@all"), user=True, blind=True, says="WRONGPASS"),
    # Once in all a worker tries each of its commands, to say which it may not use.
    Row("noperm", acl("-@all"), acl("+@all"), user=True, says="NOPERM", commands=100),
    Row("noperm read", acl("-xreadgroup"), acl("+@all"), user=True, commands=100,
        says="may not use xreadgroup on q; grant it: ACL SETUSER ... +xreadgroup",
        settles=True, some=True),
    Row("maxclients", steps(config(maxclients="1"), hang_up), config(maxclients="1000"),
        blind=True, met=lambda t: t.server.r.info("stats")["rejected_connections"] >= 6),
]


# ---------------------------------------------------------------- said in place of Redis

def told(name, line, everything=False, **more):
    def instead(words):
        return line if everything or words[0] not in GREETING else None
    return Row(name, sets(instead=instead), sets(instead=None),
               met=lambda t: t.links.n_instead >= 6, **more)


TOLD = [
    told("clusterdown", b"-CLUSTERDOWN The cluster is down\r\n", says="CLUSTERDOWN"),
    told("tryagain", b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
         says="TRYAGAIN"),
    told("moved", b"-MOVED 3999 127.0.0.1:6381\r\n",
         says="write url = cluster://127.0.0.1:6381"),
    told("unblocked", b"-UNBLOCKED force unblock from blocking operation, instance state changed "
         b"(master -> replica?)\r\n", says="UNBLOCKED"),
    told("unknown", b"-ERR something nobody has heard of\r\n", says="nobody has heard of"),
    told("http", b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<html>\r\n", everything=True,
         blind=True, says="not its protocol"),
]


# ---------------------------------------------------------------- the way there

JUNK = [b"\0\xff\x17junk\r\n", b"$-5\r\n", b"*9999999999\r\n", b"%2\r\n+a\r\n", b":12x\r\n",
        b"?\r\n\r\n", b"$3\r\nabcde\r\n", b"\r\n"]


def save_and_kill(t):
    t.server.r.save()
    t.server.stop()


def load_on(t):
    t.server.load_on()


class Cuts:
    """Budgets of links: every second one is cut within the greeting, the others anywhere. (Every byte
    of the greeting, and of a reply: t_rconn_loss.c.)"""

    def __init__(self):
        self.random = random.Random(11)
        self.plan = ([(self.random.randrange(1200), None) for _ in range(16)] +
                     [(None, self.random.randrange(170)) for _ in range(16)])

    def __call__(self, n):
        if n % 2 and self.plan:
            return self.plan.pop()
        return ((self.random.randrange(1200, 6000), None) if self.random.random() < 0.5 else
                (None, self.random.randrange(200, 60000)))


def cut_everywhere(t):
    t.links.budget = t.cuts = Cuts()
    t.links.cut_older(0)


def hang_everywhere(t):
    t.links.hangs = True
    cut_everywhere(t)


def wedge(t):
    t.links.silent = True


def pause(t):
    if version() >= (6, 2):
        t.server.r.client_pause(60000, all=False)
    else:  # nobody can end it
        t.server.r.execute_command("CLIENT", "PAUSE", "6000")


def unpause(t):
    if version() >= (6, 2):
        t.server.r.client_unpause()
    t.server.r.ping()


WAY = [
    # Longer than the longest back-off of a link.
    Row("stop", save_and_kill, lambda t: t.server.start(), seconds=6, blind=True, says="link"),
    Row("vanish", lambda t: t.server.stop(), lambda t: t.server.start(), blind=True, erases=True),
    Row("loading", lambda t: t.server.start_loading(), load_on, blind=True, says="LOADING"),
    Row("hung", lambda t: t.server.pause(), lambda t: t.server.go_on(), blind=True,
        says="no answer"),
    # A request that may take for ever is none that is answered.
    Row("patient", lambda t: t.server.pause(), lambda t: t.server.go_on(), blind=True,
        redis={"command_timeout": "60s"}),
    # It greets, and then does nothing.
    Row("paused", pause, unpause, blind=True, says="no answer"),
    Row("half-open", wedge, sets(silent=False), blind=True, says="no answer"),
    Row("slow", sets(crumbs=0.1), sets(crumbs=0), blind=False, settles=True),
    Row("junk", sets(lies=[lambda words: True, JUNK]), sets(lies=None), blind=True),
    Row("cut", steps(sets(budget=lambda n: (0, 0)), lambda t: t.links.cut_older(0)),
        sets(budget=None), blind=True, says="closed the connection"),
    Row("eof", cut_everywhere, steps(sets(budget=None), lambda t: t.links.cut_older(0)),
        met=lambda t: not t.cuts.plan, again=lambda t: t.links.cut_older(0.3), commands=200,
        connects=100, cpu=0.5),
    # The same, but what would be cut falls silent: every state of a link has its deadline.
    Row("silence", hang_everywhere, sets(budget=None, hangs=False), seconds=3, blind=True,
        says="no answer"),
]

ROWS = LOST + REFUSED + TOLD + WAY


def params(rows):
    """Those that make a replica of the server cannot be where the cluster does that itself."""
    alone = pytest.mark.one_server("REPLICAOF is refused")
    return [pytest.param(row, id=row.name, marks=[alone] if row.name in ("readonly", "masterdown")
                         else []) for row in rows]


@pytest.mark.parametrize("row", params(ROWS))
def test_a_fault_of_redis(row, sup, server, links, journal, gate, tmp_path):
    Trial(row, sup, server, links, journal, gate, tmp_path).run()


# Of each kind one; at OOM a new worker is let in, and what the dead one had is handed over.
WITH_A_DEATH = [dataclasses.replace(row, runs=1) for row in ROWS if row.name in (
    "readonly", "oom", "noreplicas", "busy", "noperm", "hung", "loading", "cut")]


@pytest.mark.parametrize("row", params(WITH_A_DEATH))
def test_a_worker_that_dies_in_a_fault_of_redis(row, sup, server, links, journal, gate, tmp_path):
    Trial(row, sup, server, links, journal, gate, tmp_path).run_with_a_death()


# ---------------------------------------------------------------- queues that are lists

def replace_the_list_by_a_string(t):
    with t.server.r.pipeline(transaction=True) as p:
        p.delete("q")
        p.set("q", "a string")
        p.execute()


# What is another thing with a list; and of the others those in which commands of its own matter.
OF_LISTS = [
    Row("wrongtype", replace_the_list_by_a_string, lambda t: t.server.r.delete("q"),
        some=True, says="WRONGTYPE"),
    Row("wrongtype owners", lambda t: t.server.r.rename(t.server.key("q", "owners"), "{q}aside") and
        t.server.r.set(t.server.key("q", "owners"), "a string"),
        lambda t: t.server.r.rename("{q}aside", t.server.key("q", "owners")), says="WRONGTYPE"),
    Row("noperm wait", acl("-brpoplpush", *["-blmove"] * (version() >= (6, 2))), acl("+@all"), user=True, commands=100,
        says="may not use brpoplpush on q; grant it: ACL SETUSER ... +brpoplpush",
        settles=True, some=True),
    Row("noperm fetch", steps(acl("-lrange"), lambda t: t.server.lpush("q", *[b"x"] * 4)),
        acl("+@all"), user=True, commands=100, says="may not use lrange on q", some=True,
        then=lambda t: setattr(t, "n_added", t.n_added + 4)),
] + [row for row in ROWS if row.name in (
    "flushall", "noscript", "wrongtype 2", "oom", "noperm", "busy", "unknown", "hung", "junk")]


@pytest.mark.backends("list")
@pytest.mark.parametrize("row", params(OF_LISTS))
def test_a_fault_of_redis_with_a_list(row, sup, server, links, journal, gate, tmp_path):
    Trial(row, sup, server, links, journal, gate, tmp_path).run()


@pytest.mark.backends("list")
@pytest.mark.parametrize("name", ["oom", "cut"])
def test_a_worker_of_a_list_that_dies_in_a_fault_of_redis(
        name, sup, server, links, journal, gate, tmp_path):
    row, = [row for row in WITH_A_DEATH if row.name == name]
    Trial(row, sup, server, links, journal, gate, tmp_path).run_with_a_death()
