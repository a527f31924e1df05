"""A cgroup with little memory, of whichever version this machine has its memory controller in."""
import os

from waiting import wait_until


class MemoryGroup:
    """OSError where it cannot be made."""

    def __init__(self, name, n_bytes):
        groups = {}
        with open("/proc/self/cgroup") as f:
            for line in f.read().splitlines():
                _, controllers, path = line.split(":", 2)
                groups.update(dict.fromkeys(controllers.split(","), path))
        v1 = "memory" in groups
        mount, root = self._mount("cgroup" if v1 else "cgroup2", "memory" if v1 else None)
        own = groups["memory" if v1 else ""]
        if root != "/" and own.startswith(root):
            own = own[len(root):]
        self.path = os.path.join(mount + own.rstrip("/"), name)
        os.mkdir(self.path)
        try:
            if v1:
                self._write("memory.limit_in_bytes", n_bytes)
            else:
                self._write("memory.max", n_bytes)
                self._write("memory.swap.max", 0)
        except OSError:
            os.rmdir(self.path)
            raise
        self.wrap = ("sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec "$@"', self.path)

    @staticmethod
    def _mount(kind, option):
        with open("/proc/self/mountinfo") as f:
            for line in f:
                head, _, tail = line.partition(" - ")
                words, (fs, _, options) = head.split(), tail.split(None, 2)
                if fs == kind and (option is None or option in options.strip().split(",")):
                    return words[4], words[3]
        raise FileNotFoundError("no %s is mounted" % kind)

    def _write(self, name, value):
        with open(os.path.join(self.path, name), "w") as f:
            f.write(str(value))

    def close(self):
        def removed():
            try:
                os.rmdir(self.path)
            except OSError:
                return False
            return True
        wait_until(removed, 10, "the cgroup is empty")
