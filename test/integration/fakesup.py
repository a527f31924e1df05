"""The supervisor with fake workers (fake_worker.c): no Redis, any misbehaviour on demand."""
import os

import pytest

from supervised import Supervisor, close_all, read_file
from waiting import wait_until


class FakeSupervisor(Supervisor):
    """
    knobs: what the workers do, see fake_worker.c; set_knobs() changes it for those that start
    from then on. heard() is what the workers were told.
    """

    def __init__(self, build, tmp_path, knobs=None, queues=None, **how):
        self.knobs_path = os.path.join(str(tmp_path), "knobs")
        self.journal_path = os.path.join(str(tmp_path), "worker-journal")
        self.set_knobs(**(knobs or {}))
        env = {"REDISQ_WORKER_PROGRAM": os.path.join(build, "fake-worker"),
               "FAKE_WORKER_KNOBS": self.knobs_path,
               "FAKE_WORKER_JOURNAL": self.journal_path}
        env.update(how.pop("env", {}))
        how.setdefault("server", None)
        super().__init__(build, tmp_path, env=env,
                         queues=queues or {"demo": {"handler": "exec /bin/true"}}, **how)

    def set_knobs(self, **knobs):
        """die_ms=5; at="1" for one slot is written knobs={"die_ms@1": 5}."""
        with open(self.knobs_path + ".new", "w") as f:
            f.writelines("%s=%s\n" % kv for kv in knobs.items())
        os.rename(self.knobs_path + ".new", self.knobs_path)

    def journal(self):
        """[(pid, slot, seconds of the monotonic clock, words)] in order."""
        text = read_file(self.journal_path)
        lines = (x.split(" ", 3) for x in text[:text.rfind("\n") + 1].splitlines())
        return [(int(p), int(s), int(ms) / 1000, words) for p, s, ms, words in lines]

    def heard(self):
        """[(pid, slot, words)] in order."""
        return [(p, s, words) for p, s, _, words in self.journal()]

    def started_at(self, slot):
        """Seconds of the monotonic clock, by the workers' own watch."""
        return [t for _, s, t, w in self.journal() if s == slot and w == "started"]

    def starts(self, slot=None):
        return [p for p, s, w in self.heard() if w == "started" and slot in (None, s)]

    def credit_out(self, queue="demo"):
        status = self.status()
        return [q["credit_out"] for q in status["queues"] if q["name"] == queue][0]

    def wait_state(self, state, n=1, timeout=15):
        """Rows in this state, as soon as there are n."""
        def fact():
            rows = [w for w in self.workers() if w["state"] == state]
            return rows if len(rows) >= n else None
        return wait_until(fact, timeout, "%d workers are %s" % (n, state))


@pytest.fixture
def fake(build, tmp_path):
    """Makes supervisors with fake workers: fake(knobs={...}, supervisor={...}, ...)."""
    made = []

    def make(**how):
        where = tmp_path / ("fake%d" % len(made))
        where.mkdir()
        made.append(FakeSupervisor(build, where, **how))
        return made[-1]

    yield make
    close_all(reversed(made))


def queue(**keys):
    """The one queue, with these keys."""
    return {"demo": dict({"handler": "exec /bin/true", "kill_grace": "200ms"}, **keys)}
