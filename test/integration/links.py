"""A TCP proxy that understands the words between a worker and its Redis: it knows which link is
which ("fetch", "cmd"), which answer is for which command, and can hold, change and slow down single
answers. proxy.py is for links as a whole."""
import collections
import functools
import hashlib
import socket
import threading
import time

from protocol import source


@functools.lru_cache(None)
def sent_as(name):
    """What may stand behind EVAL and EVALSHA for this script of common/scripts: its text and its
    sum, of queues of both kinds."""
    out = []
    for kind in ("stream", "list"):
        lines = [line.strip(" \t") for line in source(name, kind).split("\n")]
        text = "".join(x + "\n" for x in lines if x and not x.startswith("--")).encode()
        out += [text, hashlib.sha1(text).hexdigest().encode()]  # as common/scripts/embed makes it
    return tuple(out)


def is_script(name):
    """For Links.hold() and the like: commands that run this script."""
    words_of_it = sent_as(name)
    return lambda words: words[0] in (b"EVALSHA", b"EVAL") and words[1] in words_of_it


def is_settling(words):
    """What settles tasks: those that are simply done (stream_done.c), or any."""
    return is_script("done")(words) or is_script("settle")(words)


def is_read(words):
    """What makes entries a worker's: of a list, the fetch."""
    return words[0] == b"XREADGROUP" or is_script("list_fetch")(words)


def length(data, at=0):
    """Bytes of the RESP value that begins at `at`, or None when it is not whole."""
    end = data.find(b"\r\n", at)
    if end < 0:
        return None
    kind, here = data[at:at + 1], end + 2
    if kind in b"$*":
        n = int(data[at + 1:end])
        if kind == b"$" and n >= 0:
            here += n + 2
        for _ in range(n if kind == b"*" else 0):
            size = length(data, here)
            if size is None:
                return None
            here += size
    return here - at if here <= len(data) else None


def words_of(command):
    """The words of one command as it travels."""
    out, at = [], command.index(b"\r\n") + 2
    while at < len(command):
        end = command.index(b"\r\n", at)
        n = int(command[at + 1:end])
        out.append(command[end + 2:end + 2 + n])
        at = end + 4 + n
    return out


CLIENT, SERVER = 0, 1


class Link:
    def __init__(self, client, server, budget=None, hangs=False):
        self.ends = client, server
        self.kind = "?"
        self.asked = collections.deque()    # (words, what to say or None) without an answer
        self.answering = False
        self.telling = threading.Lock()     # who writes to the client
        self.arrived = [0.0, 0.0]           # when the latest bytes came from that end
        self.left = list(budget or (None, None))    # bytes it still carries to that end
        self.hangs = hangs                  # then, instead of being cut
        self.born = time.monotonic()
        self.is_mute = self.is_cut = self.is_kept = False

    def send(self, to, data, one_by_one=False):
        """To that end; cuts the link where its budget ends."""
        left = self.left[to]
        if left is not None:
            self.left[to] = left - len(data)
            data = data[:left]
        step = 1 if one_by_one else max(len(data), 1)
        for at in range(0, len(data), step):
            self.ends[to].sendall(data[at:at + step])
        if left is not None and self.left[to] <= 0:
            self.is_mute = True
            if not self.hangs:
                raise OSError("the budget is spent")

    def cut(self):
        self.is_cut = True
        for s in self.ends:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()


class Links:
    """
    hold(which): answers to such commands stay inside, with all behind them, until free(); held()
    tells how many do. lies: [which, [answers]]: those are told in turn instead of the true ones
    (None = the true one); n_lies counts. refuse(words): commands for which the link is cut, unsent;
    n_refused counts. rate: bytes a second of answers, 0 = no limit. seen: counts by name of the
    command.
    instead(words): what is said in place of asking Redis (None = ask); n_instead counts. silent:
    what clients say is swallowed, and such a link never speaks again. crumbs: every byte travels
    alone, that many seconds late. budget(n): (bytes to the client, to the server) that the n-th link
    carries before it is cut; None there = any number. hangs: it falls silent instead.
    keep(which): the next such command, and what its link says after it, is still under way: see
    kept. deliver(): now it arrives, whatever has become of the link.
    said: None, or a list that gets (link, words) of all that clients say.
    """

    def __init__(self, port):
        self.upstream = port
        self.lock = threading.Condition()
        self.links = []
        self.held_for = None
        self.n_held = 0
        self.lies = None
        self.n_lies = self.n_answers = 0
        self.refuse = None
        self.n_refused = 0
        self.rate = 0
        self.instead = None
        self.n_instead = 0
        self.silent = False
        self.kept_for = None
        self.kept = []
        self.crumbs = 0
        self.budget = None
        self.hangs = False
        self.accepted = 0
        self.said = None
        self.seen = collections.Counter()
        self.scripts = collections.Counter()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "redis://127.0.0.1:%d/0" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    # ---- for the tests
    def hold(self, which):
        with self.lock:
            self.held_for = which

    def free(self):
        with self.lock:
            self.held_for = None
            self.lock.notify_all()

    def held(self):
        return self.n_held

    def n_script(self, name):
        """How often this script of common/scripts was asked for."""
        return sum(self.scripts[words] for words in set(sent_as(name)))

    def keep(self, which):
        with self.lock:
            self.kept_for = which

    def deliver(self):
        """Returns when all of it was answered."""
        with self.lock:
            kept, self.kept = self.kept, []
        with socket.create_connection(("127.0.0.1", self.upstream), 5) as s:
            data = b""
            for raw in kept:
                s.sendall(raw)
                while length(data) is None:
                    data += s.recv(1 << 20)
                data = data[length(data):]

    def cut(self, kind):
        with self.lock:
            cut = [x for x in self.links if x.kind == kind and not x.is_cut]
            for link in cut:
                link.cut()
            self.lock.notify_all()
        assert cut, "no %s link" % kind

    def cut_older(self, seconds):
        with self.lock:
            self.links = [x for x in self.links if not x.is_cut]
            for link in self.links:
                if time.monotonic() - link.born > seconds:
                    link.cut()

    def close(self):
        self.listener.close()
        self.free()
        for link in self.links:
            link.cut()

    # ---- inside
    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.accepted += 1
                budget = self.budget and self.budget(self.accepted)
            try:
                server = socket.create_connection(("127.0.0.1", self.upstream), 5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            for s in (client, server):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = Link(client, server, budget, self.hangs)
            with self.lock:
                self.links.append(link)
            for each in (self._ask, self._answer):
                threading.Thread(target=self._carry, args=(each, link), daemon=True).start()

    @staticmethod
    def _carry(each, link):
        """Calls each(link, value) for every RESP value that comes from one end."""
        end = CLIENT if each.__name__ == "_ask" else SERVER
        source_end = link.ends[end]
        data = b""
        try:
            while not link.is_cut:
                size = length(data) if data else None
                if size is None:
                    more = source_end.recv(1 << 20)
                    if not more:
                        break
                    link.arrived[end] = time.monotonic()
                    data += more
                    continue
                each(link, data[:size])
                data = data[size:]
        except OSError:
            pass
        link.cut()

    def _ask(self, link, raw):
        words = words_of(raw)
        if words[:2] == [b"CLIENT", b"SETNAME"]:
            link.kind = words[2].decode().rpartition(":")[2]
        with self.lock:
            if self.said is not None:
                self.said.append((link, words))
            self.seen[words[0].decode()] += 1
            if words[0] in (b"EVALSHA", b"EVAL"):
                self.scripts[words[1]] += 1
            if self.refuse and self.refuse(words):
                self.n_refused += 1
                raise OSError
            if self.kept_for and self.kept_for(words):
                self.kept_for, link.is_kept = None, True
            if link.is_kept:
                self.kept.append(raw)
                return
            told = self.instead and self.instead(words)
            self.n_instead += told is not None
            if self.silent or link.is_mute:
                link.is_mute = True
                return
            link.asked.append((words, told))
        if told is None:
            self._late(link, CLIENT)
            link.send(SERVER, raw, self.crumbs)
        else:
            self._tell(link)

    def _late(self, link, end):
        if self.crumbs:
            threading.Event().wait(max(0.0, link.arrived[end] + self.crumbs - time.monotonic()))

    @staticmethod
    def _tell(link):
        """What is next to be said in place of Redis."""
        with link.telling:
            while link.asked and link.asked[0][1] is not None and not link.answering:
                link.send(CLIENT, link.asked.popleft()[1])

    def _answer(self, link, raw):
        with self.lock:
            # Redis may speak first: "max number of clients".
            words = link.asked.popleft()[0] if link.asked else [b""]
            if self.silent or link.is_mute:
                link.is_mute = True
                return
            link.answering = True
            if self.held_for and self.held_for(words):
                self.n_held += 1
                self.lock.wait_for(lambda: link.is_cut or not self.held_for)
                self.n_held -= 1
            if self.lies and self.lies[0](words):
                answers = self.lies[1]
                told = answers[self.n_answers % len(answers)]
                self.n_answers += 1
                self.n_lies += told is not None
                raw = raw if told is None else told
            rate = self.rate
        pause = threading.Event()
        self._late(link, SERVER)
        with link.telling:
            for at in range(0, len(raw), 16384):
                piece = raw[at:at + 16384]
                if rate and len(raw) > 1000:
                    pause.wait(len(piece) / rate)
                link.send(CLIENT, piece, self.crumbs)
            link.answering = False
        self._tell(link)
