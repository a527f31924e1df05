"""A handler program without a worker: a test speaks the worker's part of the protocol with it."""
import fcntl
import json
import os
import select
import subprocess
import time


class PipeChild:
    """A child of `handler = pipe ...`: JSON lines to its stdin, its answers from fd 3."""

    def __init__(self, argv, env=None, extra=None):
        answers, low = os.pipe()
        answers_in = fcntl.fcntl(low, fcntl.F_DUPFD, 10)  # not in the way of 3, which it shall be
        os.close(low)
        self.proc = subprocess.Popen(
            ["bash", "-c", 'exec "$@" 3>&%d %d>&-' % (answers_in, answers_in), "sh"] + list(argv),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=dict(os.environ, **(env or {}), **(extra or {})), pass_fds=[answers_in])
        os.close(answers_in)
        self.answers = answers
        self.data = b""

    def send(self, **line):
        self.proc.stdin.write(json.dumps(line).encode() + b"\n")
        self.proc.stdin.flush()

    def task(self, id, payload=None, **more):
        """A task as the worker sends it; `payload` that is no text is its JSON."""
        line = {"v": 1, "type": "task", "id": id, "queue": "q", "attempt": 2, "max_attempts": 12,
                "deliveries": 3, "enqueued_at_ms": 1700000000000, "fields": {"colour": "red"}}
        if payload is not None:
            line["payload"] = payload if isinstance(payload, str) else json.dumps(payload)
        line.update(more)
        self.send(**line)

    def line(self, timeout=20.0):
        """The next answer; None when fd 3 was closed."""
        end = time.monotonic() + timeout
        while b"\n" not in self.data:
            left = end - time.monotonic()
            assert left > 0 and select.select([self.answers], [], [], left)[0], \
                "no answer within %.0f s" % timeout
            chunk = os.read(self.answers, 65536)
            if not chunk:
                return None
            self.data += chunk
        text, _, self.data = self.data.partition(b"\n")
        return json.loads(text)

    def finish(self, timeout=20.0):
        """Waits for its end; (exit status, stdout, stderr)."""
        out, err = self.proc.communicate(timeout=timeout)
        return self.proc.returncode, out, err

    def close(self):
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.communicate()
        os.close(self.answers)
