"""Does what the schedule says to real processes, and writes down what was done to whom, when."""
import collections
import os
import signal
import threading
import time

import procs
import redis

from schedule import CONCURRENCY, K

QUEUE = "chaos"


def now():
    return time.monotonic_ns()


class Fault:
    """pid: whom it hit (None: everybody). From t to `until` (None while it lasts)."""

    def __init__(self, kind, pid=None, until=None):
        self.kind, self.pid = kind, pid
        self.t = now()
        self.until = until if until is not None else self.t

    def __repr__(self):
        return "%s%s" % (self.kind, " %d" % self.pid if self.pid else "")


def same(pid):
    """What tells a process from a later one with its pid."""
    fields = procs.stat(pid)
    return fields[19] if fields else None


class Faults:
    def __init__(self, sup, server, proxy, journal):
        self.sup, self.server, self.proxy, self.journal = sup, server, proxy, journal
        self.done = []             # Fault, in order
        self.counts = collections.Counter()
        self.idle = collections.Counter()   # nobody was there to be hit
        self.limits = [(now(), K, CONCURRENCY)]  # (from when, K, concurrency), meant or seen
        self.supervisors = []      # when one was started
        self.undo = []             # (when, function)
        self.cuts = self.freezes = 0
        self.ending = None         # the supervisor that was told to end
        self.strange = []          # what must not have happened
        self.ctl_threads = []
        self.ctl_exits = collections.Counter()
        self.client = redis.Redis(unix_socket_path=server.socket, socket_timeout=1)

    # ---- whom
    def workers(self):
        return sorted(p for p, name in self.sup.marked().items() if name == "redisq-worker")

    @staticmethod
    def choose(among, pick, n=1):
        if not among:
            return []
        at = int(pick * len(among)) % len(among)
        return (among[at:] + among[:at])[:n]

    # ---- doing it
    def act(self, kind, values):
        self.counts[kind] += 1
        hit = getattr(self, kind.replace(",", "").replace(" ", "_"))(**values)
        if hit is False:
            self.idle[kind] += 1

    def turn(self):
        """What is due: undoing, and a new supervisor after an old one."""
        due = [u for u in self.undo if u[0] <= now()]
        self.undo = [u for u in self.undo if u[0] > now()]
        for _, function in due:
            function()
        if self.sup.proc.poll() is not None:
            rc = self.sup.proc.returncode
            if self.ending is not self.sup.proc or rc not in (0, 1):
                self.strange.append("supervisor %d ended with %d by itself" % (self.sup.pid, rc))
            self.start_supervisor()

    def heal(self):
        """Ends every fault that lasts."""
        undo, self.undo = self.undo, []
        for _, function in undo:
            function()

    def later(self, seconds, function):
        self.undo.append((now() + int(seconds * 1e9), function))

    def note(self, kind, pid=None):
        fault = Fault(kind, pid)
        self.done.append(fault)
        return fault

    def lasting(self, kind, seconds, end, pid=None):
        fault = self.note(kind, pid)
        fault.until = 1 << 62

        def over():
            end()
            fault.until = now()
        self.later(seconds, over)

    def limit(self, k=None, c=None):
        _, old_k, old_c = self.limits[-1]
        self.limits.append((now(), k or old_k, c or old_c))

    def seen(self, t, k, c):
        """What the status says."""
        self.limits.append((t, k, c))

    def signal(self, pid, signo):
        try:
            os.kill(pid, signo)
        except ProcessLookupError:
            pass

    def tell(self, signo):
        """A signal to the supervisor, as soon as it has begun to listen."""
        blocked = procs.read(self.sup.pid, "status").decode().partition("SigBlk:")[2].split()
        if blocked and int(blocked[0], 16) & 1 << signo - 1:
            if signo == signal.SIGTERM:
                if self.ending is self.sup.proc:  # the second one: tasks are given back
                    self.note("fast stop")
                self.ending = self.sup.proc
            self.sup.signal(signo)
        elif self.sup.proc.poll() is None:
            self.later(0.02, lambda: self.tell(signo))

    def start_supervisor(self):
        self.supervisors.append(now())
        self.limit(k=K)
        self.sup.start()

    # ---- processes
    def kill_worker(self, pick, n=1):
        victims = self.choose(self.workers(), pick, n)
        for pid in victims:
            self.note("kill worker", pid)
            self.signal(pid, signal.SIGKILL)
        return bool(victims)

    def kill_two_workers(self, pick):
        return self.kill_worker(pick, 2)

    def kill_handler(self, pick):
        victims = self.choose(sorted(self.journal.alive()), pick)
        for pid in victims:
            self.note("kill handler", pid)
            self.signal(pid, signal.SIGKILL)
        return bool(victims)

    def kill_supervisor(self):
        self.note("kill supervisor")
        self.sup.proc.kill()
        self.sup.proc.wait()
        self.start_supervisor()

    def kill_supervisor_and_a_worker(self, pick):
        victims = self.choose(self.workers(), pick)
        self.note("kill supervisor")
        self.sup.proc.kill()
        for pid in victims:
            self.note("kill worker", pid)
            self.signal(pid, signal.SIGKILL)
        self.sup.proc.wait()
        self.start_supervisor()

    def term_new_supervisor(self):
        self.tell(signal.SIGTERM)

    def stop_worker(self, pick, lasts):
        for pid in self.choose(self.workers(), pick):
            who = same(pid)
            self.signal(pid, signal.SIGSTOP)
            self.lasting("stop worker", lasts, lambda: who and same(pid) == who and
                         self.signal(pid, signal.SIGCONT), pid)
            return True
        return False

    # ---- Redis and the way to it
    def kill_redis(self):
        self.freezes = 0
        fault = self.note("redis away")
        fault.until = 1 << 62
        self.server.stop()
        if not self.server.start():
            self.strange.append("redis-server does not start again")
        fault.until = now()

    def stop_redis(self, lasts):
        pid = self.server.proc.pid
        self.server.pause()
        # Another stop may have begun meanwhile; the first end ends both.
        self.lasting("redis away", lasts, lambda: self.signal(pid, signal.SIGCONT)
                     if self.server.proc.pid == pid else None)

    def cut_links(self, lasts):
        self.proxy.cut(refuse=lasts > 0.2)
        self.cuts += 1

        def end():
            self.cuts -= 1
            if not self.cuts:
                self.proxy.heal()
        self.lasting("links cut", lasts, end)

    def slow_links(self, lasts, delay):
        self.proxy.delay = delay

        def end():
            self.proxy.delay = 0.0
        self.lasting("links slow", lasts, end)

    def client_kill(self, pick):
        try:
            clients = [c for c in self.client.client_list() if c["name"].startswith("redisq:")]
            for c in self.choose(sorted(clients, key=lambda c: c["name"]), pick):
                self.note("client kill")
                self.client.client_kill_filter(_id=c["id"])
                return True
        except redis.exceptions.RedisError:
            pass
        return False

    def script_flush(self):
        try:
            self.client.script_flush()
        except redis.exceptions.RedisError:
            return False
        return True

    # ---- orders
    def hup(self, concurrency):
        self.sup.queues[QUEUE]["concurrency"] = concurrency
        self.sup.write_ini()
        self.limit(c=concurrency)
        self.tell(signal.SIGHUP)

    def ctl(self, *words):
        def run():
            try:
                done = self.sup.ctl(*words, timeout=100)
            except Exception as e:  # it hangs, or worse
                self.strange.append("redisqctl %s: %s" % (" ".join(words), e))
                return
            self.ctl_exits["%s %d" % (words[0], done.returncode)] += 1
            if done.returncode < 0 or "Sanitizer" in done.err or "runtime error" in done.err:
                self.strange.append("redisqctl %s: %d %s" % (" ".join(words), done.returncode,
                                                             done.err))
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.ctl_threads.append(thread)
        return thread

    def scale(self, workers):
        self.limit(k=workers)
        self.ctl("scale", str(workers))

    def restart(self, pick):
        self.ctl("restart", str(int(pick * K)))

    def stop_and_start(self, lasts):
        self.ctl("stop")
        self.later(lasts, lambda: self.ctl("start"))

    def quiet_and_resume(self, lasts):
        self.ctl("quiet")
        self.later(lasts, lambda: self.ctl("resume"))
