"""A supervisor under test: its configuration, its life, its words, and what it must not leave."""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid

import procs
from waiting import wait_until


def read_file(path):
    """Text of a file; empty when it was rotated away at this moment."""
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def kill(pid):
    """Ends one that may have ended meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def close_all(made, more=()):
    """Closes each, whatever the others say to it, and fails with all that was wrong."""
    faults = []
    for each in made:
        try:
            each.close()
        except Exception as e:                   # pytest's own, as at a limit, go through
            faults.append(str(e) or repr(e))
    faults += more
    assert not faults, "\n".join(faults)


SANITIZERS = ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:")


class Supervisor:
    """
    queues: {name: {key: value}}, supervisor/redis: {key: value} of those sections. `server` gives
    redis.url. args: further arguments (ini=False: nothing but these). wrap: a command in front.
    """

    def __init__(self, build, tmp_path, server=None, queues=None, supervisor=None, redis=None,
                 args=(), env=None, ini=True, wrap=(), start=True):
        self.build = build
        self.dir = str(tmp_path)
        self.mark = "TEST_MARK=" + uuid.uuid4().hex
        self.run_dir = tempfile.mkdtemp(prefix="rqs", dir="/tmp")  # unix paths are short
        self.ini = os.path.join(self.dir, "redisq.ini")
        self.log_dir = os.path.join(self.dir, "log")
        self.state_dir = os.path.join(self.dir, "state")
        self.socket = os.path.join(self.run_dir, "control.sock")
        self.san = os.path.join(self.dir, "sanitizer")
        self.backend = server.backend if server else "stream"
        self.queues = queues or {}
        self.supervisor = dict({"name": "t" + uuid.uuid4().hex[:8],
                                "control_socket": self.socket,
                                "pid_file": os.path.join(self.run_dir, "supervisor.pid"),
                                "state_dir": self.state_dir, "log_dir": self.log_dir,
                                "log_to": "files", "log_level": "debug",
                                "workers": 2}, **(supervisor or {}))
        self.server = server
        self.redis = dict({"url": server.url} if server else {}, **(redis or {}))
        if server and ini and not {"username", "password", "password_file"} & set(self.redis) and \
                "@" not in self.redis["url"]:
            self.redis.update(server.credentials(self.streams()))
        self.env = self.clean_env(env)
        self.args = [str(a) for a in args]
        self.with_ini = ini
        self.wrap = list(wrap)
        self.proc = None
        self.n_starts = 0
        if ini:
            self.write_ini()
        if start:
            self.start()

    def clean_env(self, extra=None):
        env = {"PATH": self.build + ":" + os.environ.get("PATH", "/usr/bin:/bin"),
               "HOME": self.dir, "LANG": "C.UTF-8", "TERM": "dumb",
               "XDG_CONFIG_HOME": self.dir + "/config", "XDG_RUNTIME_DIR": self.run_dir,
               "XDG_STATE_HOME": self.dir + "/xdg-state",
               "RUNTIME_DIRECTORY": self.run_dir, "STATE_DIRECTORY": self.dir + "/state",
               "LOGS_DIRECTORY": self.log_dir,
               "ASAN_OPTIONS": "log_path=%s:abort_on_error=0:detect_leaks=1" % self.san,
               "UBSAN_OPTIONS": "log_path=%s:print_stacktrace=1" % self.san,
               "TSAN_OPTIONS": "log_path=%s" % self.san}
        env[self.mark.split("=")[0]] = self.mark.split("=")[1]
        env.update({k: str(v) for k, v in (extra or {}).items()})
        return env

    # ---- configuration
    def streams(self):
        """What the queues are in Redis."""
        return [s for q, keys in self.queues.items()
                for s in ([q] if int(keys.get("partitions", 1)) == 1 else
                          ["%s:%d" % (q, i) for i in range(int(keys["partitions"]))])]

    def write_ini(self, text=None):
        """Writes the file from the dictionaries, or `text` as it is."""
        if self.server and self.redis.get("username") == "worker":
            self.server.credentials(self.streams())
        if text is None:
            parts = ["[supervisor]"] + ["%s = %s" % kv for kv in self.supervisor.items()]
            parts += ["", "[redis]"] + ["%s = %s" % kv for kv in self.redis.items()]
            for name, keys in self.queues.items():
                parts += ["", "[queue %s]" % name] + ["%s = %s" % kv for kv in keys.items()]
                parts += ["backend = list"] if self.backend == "list" else []
                parts += ["partitions = 3"] if self.backend == "partitions" else []
            text = "\n".join(parts) + "\n"
        with open(self.ini + ".new", "w") as f:
            f.write(text)
        os.rename(self.ini + ".new", self.ini)

    # ---- life
    def command(self):
        return (self.wrap + [os.path.join(self.build, "redisq-supervisor")] +
                (["-c", self.ini] if self.with_ini else []) + self.args)

    def start(self):
        self.n_starts += 1
        self.out_path = os.path.join(self.dir, "supervisor.%d.out" % self.n_starts)
        with open(self.out_path, "wb") as out:
            self.proc = subprocess.Popen(self.command(), env=self.env, stdin=subprocess.DEVNULL,
                                         stdout=out, stderr=subprocess.STDOUT, cwd=self.dir,
                                         start_new_session=True)
        return self

    @property
    def pid(self):
        return self.proc.pid

    def out(self):
        """stdout and stderr of the supervisor so far."""
        with open(self.out_path, errors="replace") as f:
            return f.read()

    def signal(self, signo):
        self.proc.send_signal(signo)

    def wait_exit(self, timeout=40):
        """Its exit status (negative: the signal)."""
        wait_until(lambda: self.proc.poll() is not None, timeout,
                   lambda: "the supervisor has ended; it said:\n" + self.out()[-2000:])
        return self.proc.returncode

    def stop(self, timeout=40):
        """TERM, and the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait_exit(timeout)

    # ---- words
    def request(self, verb, timeout=60, **args):
        """One request on the control socket; the last line of the answer."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(timeout)
            s.connect(self.socket)
            s.sendall(json.dumps(dict({"verb": verb}, **args)).encode() + b"\n")
            with s.makefile("r") as lines:
                for line in lines:
                    answer = json.loads(line)
                    if "ok" in answer:
                        return answer
        raise ConnectionError("no answer to " + verb)

    def status(self):
        """The status object, or None when nobody answers."""
        try:
            answer = self.request("status", timeout=10)
        except (OSError, ValueError):
            return None
        return answer["result"] if answer["ok"] else None

    def workers(self, queue=None):
        """Rows of the queue (of all queues), in the order of the status."""
        status = self.status()
        return [w for q in (status["queues"] if status else [])
                if queue in (None, q["name"]) for w in q["workers"]]

    def ready(self, queue=None):
        return [w for w in self.workers(queue) if w["state"] == "ready"]

    def wait_ready(self, n=None, queue=None, timeout=20):
        """Until n workers (default: as many as are wanted) are ready and the state is running."""
        def fact():
            assert self.proc.poll() is None, \
                "supervisor ended with %s:\n%s" % (self.proc.returncode, self.out()[-3000:])
            status = self.status()
            if not status:
                return None
            queues = [q for q in status["queues"] if queue in (None, q["name"])]
            want = n if n is not None else sum(q["workers_wanted"] for q in queues)
            rows = [w for q in queues for w in q["workers"] if w["state"] == "ready"]
            return rows if len(rows) == want and (rows or want == 0) else None
        return wait_until(fact, timeout, "workers are ready")

    def pids(self, queue=None):
        return [w["pid"] for w in self.workers(queue) if w["pid"]]

    def last_reload(self):
        status = self.status()
        return status["supervisor"]["last_reload"] if status else None

    def wait_reload(self, was_generation=None, timeout=30):
        """Until no reload is going on and last_reload is there; returns it."""
        def fact():
            status = self.status()
            if not status or status["supervisor"]["state"] != "running":
                return None
            if was_generation is not None and \
                    status["supervisor"]["generation"] <= was_generation:
                return None
            return status["supervisor"]["last_reload"]
        return wait_until(fact, timeout, "the reload is done")

    def reload(self):
        """redisqctl reload, and until the old workers are gone: what comes now meets new ones.
        (A read that an old worker had sent before may still bring it a task, which it runs.)"""
        self.ctl("reload", check=0)
        wait_until(lambda: all(w["state"] == "ready" for w in self.workers()), 30,
                   "the old workers are gone")

    def ctl(self, *args, check=None, input=None, env=None, timeout=90, config=True):
        """Runs redisqctl; check: the exit status it must have."""
        with self.server.trusted() if self.server else contextlib.nullcontext():
            done = self.run_ctl(args, input, env, timeout, config)
        done.out = done.stdout.decode(errors="replace")
        done.err = done.stderr.decode(errors="replace")
        if check is not None:
            assert done.returncode == check, (args, done.returncode, done.out, done.err)
        return done

    def run_ctl(self, args, input, env, timeout, config):
        return subprocess.run(
            [os.path.join(self.build, "redisqctl")] +
            (["-s", "supervisor.control_socket=" + self.socket] if config else []) +
            [str(a) for a in args],
            env=dict(self.env, **(env or {})), input=input, capture_output=True, timeout=timeout,
            cwd=self.dir)

    def log_files(self, queue):
        """{slot: text of its present log file}."""
        found = {}
        if os.path.isdir(self.log_dir):
            for name in sorted(os.listdir(self.log_dir)):
                stem, dot, slot = name[:-4].rpartition("-")
                if name.endswith(".log") and stem == queue and slot.isdigit():
                    found[int(slot)] = read_file(os.path.join(self.log_dir, name))
        return found

    def log(self, queue):
        return "".join(self.log_files(queue).values())

    # ---- what is left
    def marked(self):
        """Living processes that descend from this supervisor, as {pid: name}."""
        return procs.marked(self.mark.encode())

    def close(self):
        """Ends it whatever its state; fails if it left processes or a sanitizer complained."""
        if self.proc and self.proc.poll() is None:
            self.signal(signal.SIGQUIT)
            end = time.monotonic() + 10
            try:
                self.proc.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        complaints = self.complaints()
        left = self.marked()
        if left:
            try:
                wait_until(lambda: not self.marked(), 8)
                left = {}
            except AssertionError:
                left = self.marked()
                for pid in left:
                    kill(pid)
        shutil.rmtree(self.run_dir, ignore_errors=True)
        assert not complaints, complaints
        assert not left, "processes were left behind: %r" % left

    def show(self, n_lines=60):
        """Prints the last words; pytest shows them when the test has failed."""
        logs = sorted(os.listdir(self.log_dir)) if os.path.isdir(self.log_dir) else []
        own = [self.out_path] if self.proc else []
        for path in own + [self.log_dir + "/" + n for n in logs]:
            print("-- %s\n%s" % (path, "\n".join(read_file(path).split("\n")[-n_lines:])))

    def complaints(self):
        """Reports of the sanitizers and of broken invariants."""
        found = []
        for name in os.listdir(self.dir):
            path = os.path.join(self.dir, name)
            if name.startswith("sanitizer."):
                found.append(read_file(path))
        texts = [self.out()] if self.proc else []
        if os.path.isdir(self.log_dir):
            texts += [read_file(os.path.join(self.log_dir, n)) for n in os.listdir(self.log_dir)]
        for text in texts:
            found += [line for line in text.splitlines()
                      if any(s in line for s in SANITIZERS) or "invariant" in line.lower()]
        return "\n".join(found)
