"""What was measured, as a text for people and as JSON; and what had to come of it."""
import json
import statistics
import sys


def say(text):
    """Progress, while the table is not there yet."""
    print(text, file=sys.stderr, flush=True)


def short(value):
    """Three digits that matter, thousands as k."""
    if value is None:
        return "-"
    if value >= 99950:
        return "%.0f k" % (value / 1000)
    if value >= 9995:
        return "%.1f k" % (value / 1000)
    return "%.0f" % value if value >= 100 else "%.3g" % value


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(len(values) * p / 100))]


def median(values):
    return statistics.median(values) if values else None


class Report:
    def __init__(self, facts):
        self.facts = facts
        self.tables = []
        self.targets = []

    def table(self, title, head, rows):
        """rows: lists of texts or numbers, as long as `head`."""
        self.tables.append({"title": title, "head": head, "rows": rows})

    def target(self, what, value, at_least=None, at_most=None):
        """Nothing is noted when a side of it was not measured."""
        if value is None:
            return
        ok = value >= at_least if at_most is None else value <= at_most
        self.targets.append({"what": what, "value": value, "at_least": at_least,
                             "at_most": at_most, "pass": ok})

    def ratio(self, what, a, b, at_least=None, at_most=None):
        if a is not None and b:
            self.target(what, a / b, at_least, at_most)

    def text(self):
        out = ["  ".join("%s: %s" % kv for kv in self.facts.items())]
        for t in self.tables:
            cells = [t["head"]] + [[c if isinstance(c, str) else short(c) for c in row]
                                   for row in t["rows"]]
            widths = [max(len(row[i]) for row in cells) for i in range(len(t["head"]))]
            out += ["", t["title"]]
            for row in cells:
                out.append("  " + row[0].ljust(widths[0]) + "".join(
                    "  " + cell.rjust(width) for cell, width in zip(row[1:], widths[1:])))
        if self.targets:
            out += ["", "targets"]
            width = max(len(t["what"]) for t in self.targets)
            for t in self.targets:
                bound = "<= %g" % t["at_most"] if t["at_least"] is None else \
                    ">= %g" % t["at_least"]
                out.append("  %s  %8.3g  %8s  %s" % (t["what"].ljust(width), t["value"], bound,
                                                     "pass" if t["pass"] else "MISS"))
        return "\n".join(out) + "\n"

    def write(self, stem):
        with open(stem + ".txt", "w") as f:
            f.write(self.text())
        with open(stem + ".json", "w") as f:
            json.dump({"facts": self.facts, "tables": self.tables, "targets": self.targets}, f,
                      indent=1)
