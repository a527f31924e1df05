"""A TCP proxy that can be cut, frozen and slowed down, between a worker and its Redis."""
import socket
import threading
import time


class Proxy:
    def __init__(self, port):
        self.upstream = port
        self.lock = threading.Condition()
        self.links = []
        self.frozen = False
        self.refusing = False
        self.delay = 0.0       # of every link
        self.delay_of_new = 0.0  # of each link that is accepted from now on, for its life
        self.accepted = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return "redis://127.0.0.1:%d/0" % self.port

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.accepted += 1
                refuse = self.refusing
                own_delay = self.delay_of_new
            try:
                if refuse:
                    raise ConnectionRefusedError
                server = socket.create_connection(("127.0.0.1", self.upstream), 5)
                server.settimeout(None)
            except OSError:
                client.close()
                continue
            for s in (client, server):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.links.append((client, server))
            for a, b in ((client, server), (server, client)):
                threading.Thread(target=self._carry, args=(a, b, own_delay),
                                 daemon=True).start()

    def _carry(self, source, sink, own_delay):
        due = threading.Event()
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                arrived = time.monotonic()
                with self.lock:
                    self.lock.wait_for(lambda: not self.frozen)
                    delay = max(self.delay, own_delay)
                due.wait(max(0.0, arrived + delay - time.monotonic())) if delay else None
                sink.sendall(data)
        except OSError:
            pass
        self._close((source, sink))

    @staticmethod
    def _close(pair):
        for s in pair:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def cut(self, refuse=True):
        """Drops every connection; refuse: new ones are dropped, too, until heal()."""
        with self.lock:
            self.refusing = refuse
            links, self.links = self.links, []
        for pair in links:
            self._close(pair)

    def freeze(self):
        """Bytes stay inside; connections stay up."""
        with self.lock:
            self.frozen = True

    def heal(self):
        with self.lock:
            self.refusing = False
            self.frozen = False
            self.lock.notify_all()

    def close(self):
        self.listener.close()
        self.cut()
        self.heal()
