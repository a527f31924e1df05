"""A batch of settlements looks once at what is pending, and answers for each as if it were alone."""
import os
import re

import pytest

from conftest import ROOT
from protocol import protocol, done, letter, release, retry


BACKENDS = ("stream", "list")


@pytest.fixture
def p(server):
    made = protocol(server)
    assert made.claim("me", "n1") == [1, 0]
    return made


def looks(p, *verdicts):
    """The answers, and how often the pending list was asked."""
    p.settle("me")  # the script is known from here on
    p.r.config_resetstat()
    answers = p.settle("me", *verdicts)
    return answers, p.r.info("commandstats").get("cmdstat_xpending", {}).get("calls", 0)


@pytest.mark.backends("stream")
def test_one_look_for_a_batch(p):
    p.add(*[b"x"] * 64)
    tasks = p.read("me", 64)
    answers, n = looks(p, *[done(t) for t in reversed(tasks)])
    assert answers == [1] * 64 and n == 1
    assert p.pending() == {} and p.raw("XLEN", "q") == 0 and p.counter("done") == 64


@pytest.mark.backends("stream")
def test_one_alone_is_looked_at_alone(p):
    p.add(b"x", b"y")
    tasks = p.read("me", 2)
    assert looks(p, done(tasks[1])) == ([1], 1)
    assert list(p.pending()) == [tasks[0][0]]


@pytest.mark.backends("stream")
@pytest.mark.parametrize("shuffled", [
    ["10-0", "5-9", "1000-0", "99-7", "5-10", "100-5", "6-1"], ["9-100", "10-10"], ["10-99", "10-1"]])
def test_entry_ids_are_numbers_in_two_parts(p, shuffled):
    """First and last by their text would be others: the look would find nothing, each need its own."""
    for i in sorted(shuffled, key=lambda i: [int(n) for n in i.split("-")]):
        p.r.xadd("q", {"payload": b"x"}, id=i)
    p.read("me", len(shuffled))
    assert looks(p, *[done((i, 1)) for i in shuffled]) == ([1] * len(shuffled), 1)
    assert p.pending() == {}


@pytest.mark.backends("stream")
def test_many_others_in_between(p):
    """More than the look shows: the rest is asked for one by one, and the answers are the same."""
    p.add(*[b"x"] * 400)
    tasks = p.read("me", 400)
    some = tasks[::40]
    answers, n = looks(p, *[done(t) for t in some])
    assert answers == [1] * 10
    assert 1 < n <= 11
    assert set(p.pending()) == {i for i, _ in tasks} - {i for i, _ in some}


@pytest.mark.parametrize("verdict", [done, retry, letter, release])
def test_a_wrong_token_or_owner_in_a_batch_changes_nothing_about_it(p, verdict):
    p.claim("you", "n2")
    p.add(*[b"x"] * 6)
    mine = p.read("me", 2)
    yours = p.read("you", 2)
    mine += p.read("me", 2)
    p.make_idle("me", 10000, mine[1][0])
    p.raw("XCLAIM", "q", "redisq", "me", 0, mine[1][0])  # taken again: under token 2
    before = p.pending()
    batch = [mine[0], yours[0], mine[1], ("1-1", 1), (mine[2][0], 2), mine[3], mine[3]]
    assert p.settle("me", *[verdict(t) for t in batch]) == [1, -1, -1, 0, -1, 1, 0]
    after = p.pending()
    for i in (yours[0][0], yours[1][0], mine[1][0], mine[2][0]):
        assert after[i][::2] == before[i][::2]
    assert p.counts()[mine[1][0]] == 2


def post_mortem():
    """The fields of a letter that protocol.txt tells of, but for those that stay with the task."""
    with open(os.path.join(ROOT, "worker", "protocol.txt"), encoding="utf-8") as f:
        text = f.read().split("A dead letter, or held task, has")[1].split("Where the user's fields")[0]
    return [name for name in re.findall(r"(?m)^(redisq\.\w+) ", text) if name != "redisq.checkpoint"]


def test_nothing_of_a_post_mortem_comes_back_with_the_task(p):
    """What its process had taken (redisq.usage) did, as one more field with every death."""
    assert {"redisq.reason", "redisq.usage", "redisq.stderr"} <= set(post_mortem())
    p.add(b"t")
    task, = p.read("me", 1)
    p.settle("me", letter(task, *[x for name in post_mortem() for x in (name, "x")]))
    entry, = p.readd([i for i, _ in p.entries(p.dead)])
    fields = dict(p.entries(p.queue))[entry]
    assert set(fields[::2]) == {b"payload", b"redisq.id", b"redisq.attempt", b"redisq.deliveries",
                                b"redisq.enqueued_at"}
