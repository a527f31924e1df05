"""Why did a task run again? Each run but the last of a task is put down to a cause, or to none."""
import bisect

from schedule import LEASE, RETRY_DELAY, TIMEOUT

BEFORE = 0.3    # from a handler's start to its first words, on a loaded machine; seconds
# A task is another's only when its owner was silent for a lease. That a link is lost, or slow, is
# no cause: nothing may come of it but a renewal.
AWAY = ("redis away", "links cut")
SILENT = LEASE * 2 / 3   # the last renewal is up to a third of the lease old
LATE = 2.0      # to be there again after it: back-off, greeting


def joined(spans, gap=1.0):
    """Spans of time, those less than `gap` seconds apart as one."""
    out = []
    for a, b in sorted(spans):
        if out and a - out[-1][1] < gap * 1e9:
            out[-1] = (out[-1][0], max(b, out[-1][1]))
        else:
            out.append((a, b))
    return out


class Causes:
    """Faults by whom they hit, from the journal of the faults and the supervisor's log."""

    def __init__(self, faults, stalls, stuck):
        self.by_pid = {}
        for f in faults:
            if f.pid:
                self.by_pid.setdefault(f.pid, []).append(f)
        self.away = joined([(f.t, f.until) for f in faults if f.kind in AWAY])
        self.fast_stops = [f.t for f in faults if f.kind == "fast stop"]
        self.stalls = stalls
        self.stuck = stuck     # [(when, pid)] the supervisor took for stuck

    def hit(self, pid, kind, begin, end):
        return any(f.kind == kind and f.t <= end and f.until >= begin
                   for f in self.by_pid.get(pid, ()))

    def silence(self, begin, end):
        """Did Redis stay out of reach for long, in that time or shortly before it?"""
        begin -= LATE * 1e9
        return any(b - a >= SILENT * 1e9 and a <= end and b >= begin for a, b in self.away)

    def of(self, run, again, task):
        """The cause of `again`, the run of the same task after `run`."""
        begin, end = run.t - BEFORE * 1e9, again.t
        if run.end is None and self.hit(run.pid, "kill handler", begin, end):
            return "its handler was killed"
        planned = task.planned(run.deliveries)
        if planned == "timed out" or (planned != "done" and run.end is not None and
                                      again.t - run.end >= RETRY_DELAY * 0.95e9):
            return "planned: " + planned
        if self.hit(run.worker, "kill worker", begin, end):
            return "its worker was killed"
        if self.hit(run.worker, "stop worker", begin, end):
            return "its worker was stopped"
        if any(begin <= t <= end for t in self.fast_stops):
            return "a fast stop"
        if any(pid == run.worker and begin <= t <= end for t, pid in self.stuck):
            return "its worker was stuck: the machine is slow"
        if run.end is None and run.seen - run.t >= (TIMEOUT - 0.2) * 1e9:
            return "it timed out: the machine is slow"
        if self.silence(begin, end):
            return "Redis was out of reach"
        if any(a <= end and b >= begin for a, b in self.stalls):
            return "the machine stood still"
        return None


def overlapping(runs):
    """Pairs (run, other) of one task where `other` began while `run` was alive."""
    for k, run in enumerate(runs):
        until = run.end if run.end is not None else run.seen
        for other in runs[k + 1:]:
            if other.t < until:
                yield run, other


class Limits:
    """The most handlers there may have been at a moment. A lowered limit is not in force before
    the tasks that run have ended; a new supervisor has the old one's workers beside its own."""
    MEMORY = 12.0   # of what was in force; the longest a task and its drain may take
    AHEAD = 0.5

    def __init__(self, limits, supervisors):
        self.limits = sorted(limits)
        self.times = [x[0] for x in self.limits]
        self.supervisors = supervisors

    def at(self, t):
        begin = t - int(self.MEMORY * 1e9)
        first = max(0, bisect.bisect_right(self.times, begin) - 1)
        last = bisect.bisect_right(self.times, t + int(self.AHEAD * 1e9))
        rows = self.limits[first:last]
        if any(begin <= s <= t for s in self.supervisors):
            return max(k for _, k, _ in rows) * max(c for _, _, c in rows)
        return max(k * c for _, k, c in rows)
