"""Clocks that jump, for whatever program is started with its env (clock_shim.c)."""
import os
import struct

HOUR = 3600


class WallClock:
    def __init__(self, build, path):
        self.shim = os.path.join(build, "clock-shim.so")
        self.path = str(path)
        assert os.path.exists(self.shim), self.shim + " is missing; make tools"
        with open(self.path, "wb") as f:
            f.write(bytes(16))

    def set(self, seconds):
        """From now on it is that far from the true one."""
        with open(self.path, "r+b", buffering=0) as f:
            f.write(struct.pack("q", int(seconds * 1e9)))

    def sleep(self, seconds):
        """The machine has slept that long, counted from the start."""
        with open(self.path, "r+b", buffering=0) as f:
            f.write(struct.pack("qq", int(seconds * 1e9), int(seconds * 1e9)))

    def env(self, asan_options=""):
        """The sanitizer's library wants to be the first and need not be: the shim calls nothing."""
        return {"LD_PRELOAD": self.shim, "CLOCK_SHIM": self.path,
                "ASAN_OPTIONS": asan_options + ":verify_asan_link_order=0"}
