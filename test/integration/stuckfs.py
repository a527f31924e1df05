"""A directory that swallows whoever looks into it: a FUSE file system that answers nothing.

A process whose request the server has read waits for the answer in the kernel and does not die of
SIGKILL until it comes, like one on a hung NFS server or a broken disk. close() lets it go.
"""
import ctypes
import os
import struct
import threading

IN_HEADER = struct.Struct("IIQQIIII")
OUT_HEADER = struct.Struct("IiQ")
FUSE_INIT = 26
MNT_DETACH = 2
libc = ctypes.CDLL(None, use_errno=True)


class StuckDir:
    """OSError where it cannot be mounted."""

    def __init__(self, path):
        self.path = str(path)
        os.makedirs(self.path, exist_ok=True)
        self.asked = 0  # how many wait for an answer
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % self.fd
        if libc.mount(b"stuck", self.path.encode(), b"fuse.stuck", 0, options.encode()):
            error = ctypes.get_errno()
            os.close(self.fd)
            raise OSError(error, "mount: " + os.strerror(error))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                request = os.read(self.fd, 1 << 20)
            except OSError:
                return
            _, opcode, unique, *_ = IN_HEADER.unpack_from(request)
            if opcode == FUSE_INIT:
                answer = struct.pack("IIIIHHIIHHI28x", 7, 31, 0, 0, 1, 1, 4096, 1, 1, 0, 0)
                os.write(self.fd, OUT_HEADER.pack(16 + len(answer), 0, unique) + answer)
            else:
                self.asked += 1

    def close(self):
        if self.fd < 0:
            return
        # MNT_FORCE (1) ends what waits, also while our thread is in read().
        libc.umount2(self.path.encode(), 1 | MNT_DETACH)
        os.close(self.fd)
        self.fd = -1
