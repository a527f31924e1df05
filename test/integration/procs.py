"""What /proc says about processes."""
import os


def read(pid, name):
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as f:
            return f.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def stat(pid):
    """Fields of /proc/PID/stat from the state on ([0]); [] when there is no such process."""
    text = read(pid, "stat").decode("latin-1")
    return text[text.rindex(")") + 2:].split() if ")" in text else []


def alive(pid):
    """Exists and is no zombie."""
    fields = stat(pid)
    return bool(fields) and fields[0] not in "ZX"


def state(pid):
    fields = stat(pid)
    return fields[0] if fields else None


def ppid(pid):
    fields = stat(pid)
    return int(fields[1]) if fields else None


def cpu_ticks(pid):
    """User and system time of the process itself, in clock ticks."""
    fields = stat(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def name(pid):
    return read(pid, "comm").decode("latin-1").strip()


def status_kb(pid, key):
    for line in read(pid, "status").decode("latin-1").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    return 0


def wakeups(pid):
    """Voluntary context switches of all threads."""
    total = 0
    try:
        for tid in os.listdir("/proc/%d/task" % pid):
            for line in read(pid, "task/%s/status" % tid).decode("latin-1").splitlines():
                if line.startswith("voluntary_ctxt_switches:"):
                    total += int(line.split()[1])
    except FileNotFoundError:
        pass
    return total


def environ(pid):
    pairs = read(pid, "environ").split(b"\0")
    return dict(p.split(b"=", 1) for p in pairs if b"=" in p)


def marked(mark):
    """Living processes whose environment holds `mark`, as {pid: name}."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and mark in read(int(entry), "environ") and alive(int(entry)):
            found[int(entry)] = name(int(entry))
    return found


def children(pid):
    out = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and ppid(int(entry)) == pid:
            out.append(int(entry))
    return out
