"""
The verdict: what must hold after the faults, checked on Redis, the journal, the logs and /proc. A
run that is kept has again.txt (why each task ran again) and faults.txt (what was done to whom).
"""
import collections
import json
import os

import redis

from explain import Causes, Limits, overlapping
from faults import QUEUE
from logs import Logs
from schedule import TIMEOUT

SHOWN = 12           # of each kind of fault
FEW = 2              # consumers beyond K, after the sweeps
LINES_A_SECOND = 60  # of one log's own words


class Verdict:
    def __init__(self, run):
        self.run = run
        self.n_passed = self.n_failed = 0
        self.rows = []     # of the summary table

    def check(self, name, faults, said=""):
        """`faults`: a list, empty when all is well."""
        faults = list(faults)
        ok = not faults
        self.n_passed += ok
        self.n_failed += not ok
        print("%-7s %s%s" % ("ok" if ok else "FAILED", name, ": " + said if said else ""))
        for text in faults[:SHOWN]:
            print("        %s" % (text,))
        if len(faults) > SHOWN:
            print("        and %d more" % (len(faults) - SHOWN))

    def row(self, name, value, *args):
        self.rows.append((name, value % args if args else value))

    # ---- while the supervisor lives
    def places(self):
        r = self.run
        server, tasks, journal = r.server, r.producer.tasks, r.journal
        counters = server.counters(QUEUE)
        dead = [(f[b"redisq.id"].decode(), f[b"redisq.reason"].decode(),
                 f[b"redisq.error"].decode()) for _, f in server.dead(QUEUE)]
        held = [f[b"redisq.id"].decode() for _, f in
                server.letters(QUEUE, "held")]
        letters = collections.Counter([d[0] for d in dead] + held)

        done = {i for i, runs in journal.runs.items() if i in tasks and
                any(x.end and tasks[i].planned(x.deliveries) == "done" for x in runs)}
        lost = [i for i in tasks if i not in done and not letters[i]]
        self.check("every acknowledged task was done, or is a dead letter",
                   ["lost: %s %s %s" % (i, tasks[i].payload, journal.runs.get(i)) for i in lost],
                   "%d acknowledged, %d done, %d dead, %d held, %d lost"
                   % (len(tasks), len(done), len(dead), len(held), len(lost)))
        self.check("dead letters are those that were rejected, once each",
                   ["%s: %s, %s" % d for d in dead
                    if d[1] != "rejected" or (d[0] in tasks and tasks[d[0]].fate != "rejected")] +
                   ["%s %d times" % x for x in letters.items() if x[1] > 1] +
                   ["held: " + i for i in held])

        waiting = server.xlen(QUEUE) - server.n_pending(QUEUE)
        running, delayed = server.n_pending(QUEUE), len(server.delayed(QUEUE))
        places = counters.get("done", 0) + len(dead) + counters.get("dropped", 0) + waiting + \
            running + delayed + len(held)
        # Of a list nobody counts what is added.
        added = server.n_added(QUEUE)
        accepted = places if added is None else added - counters.get("readded", 0)
        self.check("accepted = done + dead + dropped + waiting + running + delayed + held",
                   [] if accepted == places else ["%d accepted, %d in places, %s"
                                                  % (accepted, places, counters)],
                   "%d = %d + %d + %d + %d + %d + %d + %d" % (
                       accepted, counters.get("done", 0), len(dead), counters.get("dropped", 0),
                       waiting, running, delayed, len(held)))
        # An XADD without an answer may have been accepted.
        self.check("accepted = what was acknowledged, and at most what was not answered",
                   [] if 0 <= accepted - len(tasks) <= r.producer.n_unanswered else
                   ["%d accepted, %d acknowledged, %d unanswered"
                    % (accepted, len(tasks), r.producer.n_unanswered)])
        stats = json.loads(r.sup.ctl("stats", QUEUE, "--json").out)
        self.check("redisqctl stats says the same",
                   ["%s: %d, not %d" % (k, stats[k], v) for k, v in (
                       ("accepted", accepted), ("done", counters.get("done", 0)),
                       ("dead", len(dead)), ("trimmed", 0), ("waiting", waiting),
                       ("running", running), ("delayed", delayed)) if stats[k] != v])
        audit = r.sup.ctl("audit", QUEUE)
        self.check("redisqctl audit finds nothing", [] if audit.returncode == 0 else
                   (audit.out + audit.err).splitlines())
        left = [k.decode() for k in server.r.scan_iter("*") if k.decode().rsplit(":", 1)[-1] in
                ("bodies", "crash", "ckpt", "progress", "delayed", "tasks", "owners", "pending")]
        self.check("nothing is left of tasks that are done",
                   ["%s: %s" % (k, self.sample(k)) for k in left])
        self.row("tasks", "%d acknowledged, %d unanswered, %d done, %d dead, %d retried",
                 len(tasks), r.producer.n_unanswered, counters.get("done", 0), len(dead),
                 counters.get("retried", 0))

    def sample(self, key):
        try:
            return list(self.run.server.r.hscan(key)[1].items())[:5]
        except redis.exceptions.ResponseError as e:
            return e

    def consumers(self, names, k):
        self.check("consumers are at most K + %d" % FEW,
                   [] if len(names) <= k + FEW else sorted(names),
                   "%d of K = %d, at most %d at a time" % (
                       len(names), k, self.run.state.most_consumers))

    # ---- when all is over
    def past(self):
        r = self.run
        logs = Logs(r.sup)
        causes = Causes(r.faults.done, r.watch.stalls, logs.stuck)
        why, unexplained, at_once, in_one = collections.Counter(), [], [], []
        twice, notes = 0, []
        for task_id, runs in r.journal.runs.items():
            task = r.producer.tasks.get(task_id)
            for run, other in overlapping(runs):
                (in_one if run.worker == other.worker else at_once).append((run, other))
            if not task:
                continue
            for run, again in zip(runs, runs[1:]):
                cause = causes.of(run, again, task)
                why[cause or "unexplained"] += 1
                notes.append("%s\n  %s\n  %s" % (cause or "UNEXPLAINED", run, again))
                if cause is None:
                    unexplained.append("%s\n          again: %s" % (run, again))
            n = sum(x.end is not None and task.planned(x.deliveries) == "done" for x in runs)
            twice += max(0, n - 1)
        with open(os.path.join(r.sup.dir, "again.txt"), "w") as f:
            f.write("\n".join(notes) + "\n")
        with open(os.path.join(r.sup.dir, "faults.txt"), "w") as f:
            f.writelines("%.3f to %.3f  %r\n" % (x.t / 1e9, x.until / 1e9, x)
                         for x in r.faults.done)
        for cause, n in why.most_common():
            self.row("run again", "%5d  %s", n, cause)
        self.row("done twice", "%d times" % twice)
        self.check("every run after the first is explained by a fault", unexplained,
                   "%d runs, %d of them again, %d tasks done once more"
                   % (r.journal.n_starts, sum(why.values()), twice))
        pairs = [(a, b) for runs in r.journal.runs.values() for a, b in zip(runs, runs[1:])]
        self.check("the count of deliveries grows with every run",
                   ["%s, then %s" % x for x in pairs if x[1].deliveries <= x[0].deliveries])
        # Each run says its number of deliveries as soon as it lives.
        self.check("every run is given a checkpoint of a run before, and none that is older",
                   ["%s with %d, then %s with %d" % (a, a.checkpoint, b, b.checkpoint)
                    for a, b in pairs
                    if b.checkpoint > a.deliveries or b.checkpoint < a.checkpoint])
        failed = [(a, b) for a, b in pairs if a.end and b.attempt > a.attempt]
        self.check("a run that failed by itself leaves its own",
                   ["%s, then %s with %d" % (a, b, b.checkpoint) for a, b in failed
                    if b.checkpoint != a.deliveries], "%d of them" % len(failed))
        self.row("runs again with the checkpoint of the run before", "%d of %d",
                 sum(b.checkpoint == a.deliveries for a, b in pairs), len(pairs))
        self.check("attempts are charged for failures alone",
                   ["attempt %d, then %d: %s" % (a.attempt, b.attempt, a) for a, b in pairs
                    if b.attempt != a.attempt and not (
                        b.attempt == a.attempt + 1 and self.failed(a))])
        self.check("no task runs twice in one worker", ["%s, %s" % x for x in in_one])
        self.check("two workers run one task only if the first was stopped or cut off",
                   ["%s, %s" % x for x in at_once
                    if not causes.hit(x[0].worker, "stop worker", x[0].t, x[1].t) and
                    not causes.hit(x[0].worker, "kill worker", x[0].t, x[1].t) and
                    not causes.silence(x[0].t, x[1].t)],
                   "%d times" % len(at_once))

        limits = Limits(r.faults.limits, r.faults.supervisors)
        over = [x for runs in r.journal.runs.values() for x in runs if x.beside > limits.at(x.t)]
        self.check("never more handlers than K x concurrency",
                   ["%d, not %d: %s" % (x.beside, limits.at(x.t), x) for x in
                    sorted(over, key=lambda x: x.t)],
                   "at most %d at once, each of %d starts looked at"
                   % (r.journal.most, r.journal.n_starts))
        self.check("no handler outlives its worker", sorted(r.watch.long_orphans))
        self.check("nothing happened by itself", r.faults.strange +
                   [x.failure for x in (r.watch, r.state) if x.failure])
        self.check("no report of a sanitizer, nothing that cannot happen", logs.bad,
                   "%d lines" % logs.n_lines)
        n, (name, second) = logs.worst_second()
        self.check("no log storm", [] if n <= LINES_A_SECOND else
                   ["%s wrote %d lines at %s" % (name, n, second)],
                   "at most %d lines a second, %s at %s" % (n, name, second))
        def calm(rows):
            return [x for x in rows if not any(
                f.kind != "kill worker" and f.t <= x[2] and f.until >= x[1] - 1e9
                for f in r.faults.done)]
        first = logs.first_recoveries()
        self.recovery("recovery, no other fault about", calm(first))
        self.recovery("recovery, whatever else was broken", first)
        self.recovery("recovery, suspects run one by one", logs.recoveries)
        self.recovery("likewise, from the end of the one before", calm(self.in_turn(logs)))

    def failed(self, run):
        """It ended as a failed attempt; a timeout, too, of which the journal sees no end."""
        task = self.run.producer.tasks.get(run.id)
        if run.end is None:
            return run.seen - run.t >= (TIMEOUT - 0.5) * 1e9
        return not task or task.planned(run.deliveries) == "failed"

    def in_turn(self, logs):
        """The recoveries, each counted from when the worker that runs the task had ended the one
        before it: suspects of a crash run one by one, so all else is a wait for their length."""
        ends = collections.defaultdict(list)
        for runs in self.run.journal.runs.values():
            for run in runs:
                ends["worker_%d" % run.worker].append(run.end or run.seen)
        out = []
        for who, death, again, _, where in logs.recoveries:
            free = max([death] + [t for t in ends[where.partition("@")[0]] if t <= again])
            out.append((who, death, again, int((again - free) / 1e6), where))
        return out

    def recovery(self, name, rows):
        """kill -9 of a worker to its task running again, by the supervisor's log."""
        times = sorted(x[3] for x in rows)
        if times:
            def at(p):
                return times[min(len(times) - 1, len(times) * p // 100)]
            self.row(name, "p50 %d ms, p99 %d ms, worst %d ms of %d", at(50), at(99), times[-1],
                     len(times))

    def table(self):
        print("\n-- summary")
        for name, value in self.rows:
            print("%-42s %s" % (name, value))
