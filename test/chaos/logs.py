"""What the logs of a run say: reports, storms, recoveries."""
import collections
import datetime
import glob
import os
import re
import time

BAD = ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:", "invariant",
       "cannot happen", "please report", "Assertion")
# The leak check of a process that is killed meanwhile.
NO_REPORT = re.compile(r"^==\d+==Unable to get registers from thread \d+\.$")
AGAIN = re.compile(r"task (\S+) of (\S+) runs again in (\S+), (\d+) ms after the death")
STUCK = re.compile(r"^(\S+) .*worker (\d+) of \S+ .*stuck")


def lines_of(paths):
    for path in sorted(paths):
        with open(path, errors="replace") as f:
            for line in f:
                yield path, line.rstrip("\n")


class Logs:
    def __init__(self, sup):
        self.outs = glob.glob(os.path.join(sup.dir, "supervisor.*.out"))
        self.logs = glob.glob(os.path.join(sup.log_dir, "*"))
        self.reports = glob.glob(os.path.join(sup.dir, "sanitizer.*"))
        self.bad, self.stuck = [], []
        # (consumer that died, its death, running again, ms between, where)
        self.recoveries = []
        self.n_lines = 0
        self.per_second = collections.Counter()
        # Stamps are of the wall clock, everything else here of the monotonic one.
        self.offset = time.time_ns() - time.monotonic_ns()
        for path, line in lines_of(self.reports):
            if not NO_REPORT.match(line):
                self.bad.append("%s: %s" % (os.path.basename(path), line))
        for path, line in lines_of(self.outs + self.logs):
            self.take(path, line)

    def take(self, path, line):
        self.n_lines += 1
        own = (path in self.outs or " E [-] " in line) and " debug" not in line
        if own:
            name = "supervisor" if path in self.outs else os.path.basename(path).split(".")[0]
            self.per_second[name, line[:19]] += 1
        if any(word in line for word in BAD):
            self.bad.append("%s: %s" % (os.path.basename(path), line))
        if path in self.outs:
            again = AGAIN.search(line)
            if again:
                ms, t = int(again.group(4)), self.when(line.split()[0])
                self.recoveries.append((again.group(2), t - ms * 1000000, t, ms, again.group(3)))
            stuck = STUCK.match(line)
            if stuck:
                self.stuck.append((self.when(stuck.group(1)), int(stuck.group(2))))

    def when(self, stamp):
        wall = datetime.datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S.%fZ")
        wall = wall.replace(tzinfo=datetime.timezone.utc)
        return int(wall.timestamp() * 1e9) - self.offset

    def first_recoveries(self):
        """Of each death the first: what crashed in company runs again one by one."""
        first = {}
        for row in self.recoveries:
            if row[0] not in first or row[3] < first[row[0]][3]:
                first[row[0]] = row
        return list(first.values())

    def worst_second(self):
        """(lines, (log, second)) of the fullest second; what tasks write does not count."""
        return max(((n, w) for w, n in self.per_second.items()), default=(0, ("", "")))
