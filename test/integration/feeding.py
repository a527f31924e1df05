"""Tasks for as long as a test needs them, however slow the machine is."""
import threading


class Feed:
    """Adds tasks from a thread of its own until the block ends: about `waiting` of them wait."""

    def __init__(self, server, queue, payload=b"x", waiting=40):
        self.server, self.queue, self.payload = server, queue, payload
        self.waiting = waiting
        self.ids = []
        self.over = threading.Event()
        self.fault = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            while not self.over.wait(0.02):
                if self.server.xlen(self.queue) - self.server.n_pending(self.queue) < self.waiting:
                    self.ids += self.server.add(self.queue, *[self.payload] * 16)
        except Exception as e:
            self.fault = e

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self.over.set()
        self.thread.join()
        assert kind or not self.fault, self.fault
