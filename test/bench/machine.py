"""What the figures were taken on: the machine, the versions, the commit."""
import json
import os
import platform
import subprocess

from redisserver import SERVER


def first_line(command, cwd=None):
    """The first line that the command says; empty when there is no such command."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.strip().split("\n")[0]


def cpu_model():
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def memory_gib():
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def peer_versions(out):
    found = {}
    for name in ("bullmq", "ioredis", "bee-queue"):
        path = os.path.join(out, "node_modules", name, "package.json")
        if os.path.exists(path):
            with open(path) as f:
                found[name] = json.load(f)["version"]
    return found


def commit(root):
    name = first_line(["git", "rev-parse", "--short", "HEAD"], root)
    changed = first_line(["git", "status", "--porcelain", "--untracked-files=no"], root)
    return name + (" with changes" if changed else "")


def facts(root, out):
    return {
        "commit": commit(root),
        "cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)), "memory_gib": memory_gib(),
        "kernel": platform.release(),
        "redis": first_line([SERVER, "--version"]).split(" sha=")[0],
        "node": first_line(["node", "--version"]), "python": platform.python_version(),
        **peer_versions(out),
        "load_before": round(os.getloadavg()[0], 2),
    }
