"""A worker on its own, without a supervisor."""
import os
import subprocess

from supervised import Supervisor
from waiting import wait_until


class Alone(Supervisor):
    """keys: those of its one queue, q. stdout: a descriptor instead of the file log() reads."""

    def __init__(self, build, tmp_path, stdout=None, **how):
        self.stdout = stdout
        keys = dict({"retry_delay": "50ms", "retry_jitter": "0%", "kill_grace": "300ms"},
                    **how.pop("keys", {}))
        super().__init__(build, tmp_path, queues={"q": keys}, **how)

    def command(self):
        return self.wrap + [os.path.join(self.build, "redisq-worker"), "-c", self.ini, "-q", "q"]

    def start(self):
        if self.stdout is None:
            return super().start()
        self.out_path = os.path.join(self.dir, "worker.err")
        with open(self.out_path, "wb") as err:
            self.proc = subprocess.Popen(self.command(), env=self.env, stdin=subprocess.DEVNULL,
                                         stdout=self.stdout, stderr=err, cwd=self.dir,
                                         start_new_session=True)
        return self

    def log(self, queue="q"):
        return self.out()

    def wait_said(self, text, n=1, timeout=15):
        return wait_until(lambda: self.out().count(text) >= n, timeout,
                          "it has said %r %d times" % (text, n))

    def wait_ready(self, n=1, timeout=20):
        self.wait_said(" is ready: queue q", n, timeout)
        return self

    def name(self):
        """The consumer name it has now."""
        return self.out().rpartition(" is ready: queue q")[0].rpartition("consumer ")[2]
