"""What the fake handlers wrote down (fake_handler.c, fake_pipe.c)."""
import collections
import json
import os

from waiting import wait_until


class Journal:
    def __init__(self, path, program, kind="exec"):
        self.kind = kind
        self.path = str(path)
        self.program = program
        open(self.path, "a").close()

    def handler(self, *knobs):
        """Value of the key `handler`."""
        return " ".join([self.kind, self.program, self.path] + list(knobs))

    def argv(self, *knobs):
        return [self.program, self.path] + list(knobs)

    def events(self, kind=None, task=None):
        with open(self.path) as f:
            text = f.read()
        lines = text[:text.rfind("\n") + 1].splitlines()
        out = [json.loads(line) for line in lines]
        return [e for e in out if kind in (None, e["ev"]) and task in (None, e["id"])]

    def starts(self, task=None):
        return self.events("start", task)

    def ends(self, task=None):
        return self.events("end", task)

    def runs(self):
        """How often each entry id was started."""
        return collections.Counter(e["id"] for e in self.starts())

    def running(self):
        """Handlers that are alive now, as {pid: id}; from /proc, so killed ones do not count."""
        import procs
        ended = {e["pid"] for e in self.ends()}
        return {e["pid"]: e["id"] for e in self.starts()
                if e["pid"] not in ended and procs.alive(e["pid"])}

    def most_at_once(self):
        return max([e["beside"] for e in self.starts()], default=0)

    def wait_started(self, n, timeout=30):
        return wait_until(lambda: len(self.starts()) >= n and self.starts(), timeout,
                          "%d handlers have started" % n)

    def wait_ended(self, n, timeout=60):
        return wait_until(lambda: len(self.ends()) >= n and self.ends(), timeout,
                          "%d handlers have ended" % n)

    def longest_gap(self):
        """Longest time in seconds without the end of a task, between the first and the last."""
        t = sorted(e["t"] for e in self.ends())
        return max([(b - a) / 1e9 for a, b in zip(t, t[1:])], default=0)


class Gate:
    """A file that handlers with gate=FILE wait for."""

    def __init__(self, path):
        self.path = str(path)

    def __str__(self):
        return "gate=" + self.path

    def open(self):
        open(self.path, "w").close()

    def shut(self):
        os.unlink(self.path)
