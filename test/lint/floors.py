#!/usr/bin/python3
"""The house's floors, read from the #include lines; the modules' floors are in floors.txt."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FLOORS = ["plain", "service", "decide", "shell", "main"]
FORBIDDEN = {"ev.h", "common/log.h", "common/clock.h"}
CLOCK_CALL = re.compile(r"\b(clock_gettime|gettimeofday|time)\s*\(")
HIREDIS = re.compile(r"^(common/(rconn\w*|script)|worker/reply\w*|supervisor/ctl/\w+)$")
OPENSSL = re.compile(r"^common/tls_(openssl|session|words)$")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+([<"])([^>"]+)[>"]', re.M)

faults = []


def read_table():
    table = {}
    path = os.path.join(ROOT, "test/lint/floors.txt")
    for n, line in enumerate(open(path), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or words[0] not in FLOORS:
            sys.exit("test/lint/floors.txt:%d: expected: %s MODULE" % (n, "|".join(FLOORS)))
        table[words[1]] = words[0]
    return table


def sources():
    for top in ("common", "supervisor", "supervisor/ctl", "worker"):
        for name in sorted(os.listdir(os.path.join(ROOT, top))):
            if name.endswith((".c", ".h")):
                yield top + "/" + name


def resolve(path, name, quoted):
    """The project file an #include means, else the name as it is."""
    if quoted:
        for base in (os.path.dirname(path), "common", ""):
            full = os.path.normpath(os.path.join(base, name))
            if os.path.exists(os.path.join(ROOT, full)):
                return full
    return name


def house(module):
    return "ctl" if module.startswith("supervisor/ctl/") else module.split("/")[0]


def main():
    table = read_table()
    files = list(sources())
    includes = {}
    for path in files:
        text = open(os.path.join(ROOT, path)).read()
        includes[path] = [resolve(path, name, mark == '"') for mark, name in INCLUDE.findall(text)]

    def reach(path, seen):
        for inc in includes.get(path, []):
            if inc not in seen:
                seen[inc] = path
                reach(inc, seen)
        return seen

    for path in files:
        module = path[:-2]
        floor = table.get(module)
        if floor is None:
            faults.append("%s: not in test/lint/floors.txt; enter its module with one of %s"
                          % (path, ", ".join(FLOORS)))
            continue
        for inc in includes[path]:
            other = table.get(inc[:-2])
            if other and FLOORS.index(other) > FLOORS.index(floor):
                faults.append("%s (%s): includes %s of the higher floor %s"
                              % (path, floor, inc, other))
            pair = (house(module), house(inc) if inc in includes else None)
            if pair in (("supervisor", "worker"), ("worker", "supervisor"), ("worker", "ctl"),
                        ("ctl", "worker"), ("supervisor", "ctl")) or \
                    pair[0] == "common" and pair[1] in ("supervisor", "worker", "ctl"):
                faults.append("%s: includes %s; %s and %s do not know each other"
                              % (path, inc, pair[0], pair[1]))
            if inc.startswith("hiredis/") and not HIREDIS.match(module):
                faults.append("%s: includes <%s>; hiredis is for common/rconn*, common/script, "
                              "worker/reply* and supervisor/ctl" % (path, inc))
            if inc.startswith("openssl/") and not OPENSSL.match(module):
                faults.append("%s: includes <%s>; OpenSSL is for the module: common/tls_openssl, "
                              "tls_session, tls_words" % (path, inc))
            if inc == "ini.h" and path != "common/conf_read.c":
                faults.append("%s: includes <ini.h>; only common/conf_read.c does" % path)
        if floor in ("plain", "decide"):
            seen = reach(path, {})
            for bad in sorted(FORBIDDEN & set(seen)):
                faults.append("%s (%s): reaches %s through %s" % (path, floor, bad, seen[bad]))
            text = re.sub(r"/\*.*?\*/|//[^\n]*", "", open(os.path.join(ROOT, path)).read(),
                          flags=re.S)
            if CLOCK_CALL.search(text):
                faults.append("%s (%s): reads a clock; take now as an argument" % (path, floor))
        if "ev_default_loop" in open(os.path.join(ROOT, path)).read():
            faults.append("%s: ev_default_loop steals exit statuses; use ev_loop_new" % path)
    gone = [m for m in table
            if m + ".c" not in includes and m + ".h" not in includes]
    for module in gone:
        faults.append("test/lint/floors.txt: %s is not there any more" % module)
    for fault in faults:
        print("floors: " + fault)
    return 1 if faults else 0


sys.exit(main())
