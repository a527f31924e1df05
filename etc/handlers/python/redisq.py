"""redisq: task handlers in Python. One file, no dependencies, Python 3.7 or later; copy it.

    import redisq

    async def handle(task):
        user = task.json()["user"]
        if not user:
            raise redisq.Dead("no user")       # never to be tried again
        return {"greeted": user}               # done; the value is the result, None = no result

    redisq.run(handle, slots=16)

    [queue mail]
    handler = pipe python3 mail.py             # one child serves 16 tasks at once
    handler = exec python3 mail.py             # the same file, one process per task

How a task ends: the handler returns = done. It raises `Dead` = dead letter at once; `Snooze` = not
now, no attempt charged; `Retry` = failed, and may say when to try again; any other exception =
failed attempt, with the exception's text; the traceback goes to the log.

A plain `def handle(task)` runs in a thread of its own, up to `slots` at once.

Cancelling (timeout, drain limit, lost lease): a coroutine gets asyncio.CancelledError at its next
await. A thread cannot be interrupted: it may look at `task.cancelled`. What is not over within
kill_grace is killed.

stdout and stderr are logs: print as you like. Mind that fd 3 is the way to the worker; npm, sudo
and some shells' wrappers close it.
"""
import asyncio
import base64
import concurrent.futures
import json
import os
import signal
import sys
import threading
import traceback

__all__ = ["run", "Task", "Dead", "Retry", "Snooze"]


class Dead(Exception):
    """The task can never work: a dead letter at once."""


class Retry(Exception):
    """A failed attempt that may say when to try again."""

    def __init__(self, error="", delay_ms=None):
        super().__init__(error)
        self.delay_ms = delay_ms


class Snooze(Exception):
    """Not now: tried again later, no attempt charged."""

    def __init__(self, delay_ms=None):
        super().__init__("snoozed")
        self.delay_ms = delay_ms


class Task:
    """One task. `payload` and the values of `fields` are str, or bytes where they are not UTF-8.

    id            the same in all attempts; with `queue` the idempotency key
    attempt       from 1, of max_attempts
    deliveries    all hands it went through, this one included
    enqueued_at_ms, deadline_ms   Unix time; deadline_ms is None without a timeout
    saved         the last checkpoint(), of an earlier attempt too; None without one
    cancelled     why it is to stop, None = it is not
    """

    def __init__(self, say, line):
        self._say = say
        self.id = line["id"]
        self.queue = line.get("queue", "")
        self.attempt = line.get("attempt", 1)
        self.max_attempts = line.get("max_attempts")
        self.deliveries = line.get("deliveries", 1)
        self.enqueued_at_ms = line.get("enqueued_at_ms")
        self.deadline_ms = line.get("deadline_ms")
        self.fields = dict(line.get("fields") or {})
        for name, value in (line.get("fields_b64") or {}).items():
            self.fields[name] = base64.b64decode(value)
        self.payload = line.get("payload")
        if "payload_b64" in line:
            self.payload = base64.b64decode(line["payload_b64"])
        self.saved = line.get("checkpoint")
        self.cancelled = None

    def json(self):
        """The payload as JSON; Dead if it is none."""
        try:
            return json.loads(self.payload)
        except (TypeError, ValueError) as e:
            raise Dead("the payload is not JSON: %s" % e) from None

    def checkpoint(self, value):
        """Keeps any JSON value (up to 64 KiB) with the task: the next attempt has it as `saved`,
        also after a crash."""
        self.saved = value
        self._say({"type": "checkpoint", "id": self.id, "value": value})

    def progress(self, value):
        """Any JSON value for `redisqctl show`: 40, "3 of 7", {...}."""
        self._say({"type": "progress", "id": self.id, "value": value})


def _ending(task, error):
    """The last word on a task whose handler raised `error`."""
    text = str(error) or type(error).__name__
    line = {"type": "retry", "id": task.id, "error": text}
    if isinstance(error, Dead):
        line["type"] = "dead"
    elif isinstance(error, Snooze):
        line = {"type": "snooze", "id": task.id}
    elif isinstance(error, asyncio.CancelledError):
        line["error"] = "cancelled: %s" % (task.cancelled or "by the handler itself")
    elif not isinstance(error, Retry):
        traceback.print_exception(type(error), error, error.__traceback__)
        line["error"] = "%s: %s" % (type(error).__name__, text)
    if getattr(error, "delay_ms", None) is not None:
        line["delay_ms"] = error.delay_ms
    return line


class _Answers:
    """fd 3. Lines are whole also when threads write at once; those of one turn of the event loop go
    out in one write, checkpoints at once."""

    def __init__(self, fd, with_ids):
        try:
            os.set_inheritable(fd, False)
        except OSError:
            sys.exit("redisq: fd %d is closed. Handlers are started by redisq-worker; npm, sudo and "
                     "the like close it: start python3 itself" % fd)
        self.fd = fd
        self.with_ids = with_ids
        self.lock = threading.Lock()
        self.pending = []
        self.loop = None  # set where lines may be put off until its next turn

    def say(self, line):
        if not self.with_ids:
            line = {k: v for k, v in line.items() if k != "id"}
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        with self.lock:
            self.pending.append(data)
            first = len(self.pending) == 1
        if not self.loop or line["type"] == "checkpoint":
            self.flush()
        elif first:
            self.loop.call_soon_threadsafe(self.flush)

    def flush(self):
        with self.lock:
            data = b"".join(self.pending)
            self.pending.clear()
            while data:
                data = data[os.write(self.fd, data):]


class _Child:
    """A long-lived child: JSON lines on stdin."""

    def __init__(self, handle, slots):
        self.handle = handle
        self.slots = slots
        self.answers = _Answers(3, with_ids=True)
        self.running = {}  # id -> (task, asyncio.Task)
        self.part = []     # of a line that has not ended
        self.loop = None
        self.over = None
        self.threads = None

    async def call(self, task):
        if self.threads is None:
            return await self.handle(task)
        return await self.loop.run_in_executor(self.threads, self.handle, task)

    async def serve(self, task):
        try:
            line = {"type": "done", "id": task.id}
            result = await self.call(task)
            if result is not None:
                line["result"] = result
                json.dumps(result)  # one that is no JSON is the handler's error
        except BaseException as e:  # every task gets its answer
            line = _ending(task, e)
        self.end(task, line)

    def end(self, task, line):
        del self.running[task.id]
        self.answers.say(line)

    def start(self, task):
        def unstarted(job):  # cancelled before its first step: serve() never knew
            if job.cancelled():
                self.end(task, _ending(task, asyncio.CancelledError()))

        job = self.loop.create_task(self.serve(task))
        self.running[task.id] = (task, job)
        job.add_done_callback(unstarted)

    def on_line(self, raw):
        try:
            line = json.loads(raw)
        except ValueError as e:
            print("redisq: not JSON on stdin: %s" % e, file=sys.stderr)
            return
        kind = line.get("type")
        if kind == "task":
            self.start(Task(self.answers.say, line))
        elif kind == "cancel" and line.get("id") in self.running:
            task, job = self.running[line["id"]]
            task.cancelled = line.get("reason") or "cancelled"
            if self.threads is None:
                job.cancel()
        elif kind == "drain":
            self.over.set()

    def on_readable(self):
        data = os.read(0, 262144)
        if not data:
            self.loop.remove_reader(0)
            self.over.set()
            return
        lines = data.split(b"\n")
        self.part.append(lines.pop(0))
        if lines:
            self.on_line(b"".join(self.part))
            self.part = [lines.pop()]
        for raw in lines:
            self.on_line(raw)

    async def main(self):
        self.loop = self.answers.loop = asyncio.get_running_loop()
        self.over = asyncio.Event()
        if not asyncio.iscoroutinefunction(self.handle):
            self.threads = concurrent.futures.ThreadPoolExecutor(self.slots)
        self.loop.add_reader(0, self.on_readable)
        self.answers.say({"type": "ready", "slots": self.slots})
        await self.over.wait()
        while self.running:
            await asyncio.wait([job for _, job in self.running.values()])
        self.answers.flush()


def _run_one(handle):
    """Started once per task: the task is in the environment and on stdin."""
    env = os.environ
    number = lambda name: int(env[name]) if name in env else None
    answers = _Answers(int(env.get("REDISQ_ANSWER_FD", "3")), with_ids=False)
    data = sys.stdin.buffer.read()
    try:
        data = data.decode()
    except UnicodeDecodeError:
        pass
    fields = json.loads(env.get("REDISQ_FIELDS", "{}"))
    saved = env.get("REDISQ_CHECKPOINT")
    try:
        saved = json.loads(saved) if saved is not None else None
    except ValueError:
        pass  # a string comes without its quotes
    task = Task(answers.say, {
        "id": env["REDISQ_ID"], "queue": env.get("REDISQ_QUEUE", ""),
        "attempt": number("REDISQ_ATTEMPT"), "max_attempts": number("REDISQ_MAX_ATTEMPTS"),
        "deliveries": number("REDISQ_DELIVERIES"),
        "enqueued_at_ms": number("REDISQ_ENQUEUED_AT_MS"),
        "deadline_ms": number("REDISQ_DEADLINE_MS"),
        "fields_b64": fields.pop("fields_b64", None), "fields": fields, "checkpoint": saved})
    task.payload = data

    async def serve():
        job = asyncio.current_task()

        def on_term():
            task.cancelled = "SIGTERM"
            job.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, on_term)
        return await handle(task)

    try:
        if asyncio.iscoroutinefunction(handle):
            result = asyncio.run(serve())
        else:
            result = handle(task)
        line = {"type": "done"}
        if result is not None:
            line["result"] = result
        answers.say(line)
    except BaseException as e:
        answers.say(_ending(task, e))


def run(handle, slots=None):
    """Serves tasks until there are no more; returns then. `slots`: how many at once in this
    process (default: 16 for a coroutine function, else 1)."""
    if "REDISQ_ID" in os.environ:
        _run_one(handle)
        return
    if slots is None:
        slots = 16 if asyncio.iscoroutinefunction(handle) else 1
    asyncio.run(_Child(handle, slots).main())
