"""Certificates made with the openssl program, and a redis-server that speaks TLS with them."""
import os
import random
import shutil
import ssl
import subprocess

from redisserver import RedisServer
from sentinels import FakeSentinel


class Certs:
    """PEM files in a directory: ca(name) and cert(name, ca) make NAME.crt and NAME.key."""

    def __init__(self, path):
        self.dir = str(path)
        self.ca("ca")
        self.cert("redis", "DNS:localhost,IP:127.0.0.1,IP:::1")
        self.cert("client")

    def crt(self, name):
        return os.path.join(self.dir, name + ".crt")

    def key(self, name):
        return os.path.join(self.dir, name + ".key")

    def _openssl(self, *words):
        subprocess.run(["openssl"] + list(words), check=True, cwd=self.dir,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def _request(self, name, *more):
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                      "-keyout", name + ".key", "-subj", "/CN=" + name, *more)

    def ca(self, name):
        self._request(name, "-x509", "-days", "30", "-out", name + ".crt")

    def cert(self, name, san="DNS:nobody.example", ca="ca", days=30):
        """days < 0: it expired yesterday."""
        self._request(name, "-out", name + ".csr")
        with open(os.path.join(self.dir, name + ".ext"), "w") as f:
            f.write("subjectAltName=%s\n" % san)
        self._openssl("x509", "-req", "-in", name + ".csr", "-CA", ca + ".crt", "-CAkey",
                      ca + ".key", "-CAcreateserial", *self._lasts(days), "-extfile",
                      name + ".ext", "-out", name + ".crt")

    @staticmethod
    def _lasts(days):
        said = subprocess.run(["openssl", "x509", "-help"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=True).stdout
        if days > 0 or b"-not_after" not in said:
            return ["-days", str(days)]
        return ["-not_before", "20200101000000Z", "-not_after", "20200102000000Z"]  # since 3.4

    def keys(self, client=False, **more):
        """Keys of [redis]."""
        own = {"tls_cert_file": self.crt("client"), "tls_key_file": self.key("client")}
        return dict({"tls_ca_file": self.crt("ca")}, **dict(own if client else {}, **more))


class TlsSentinel(FakeSentinel):
    """Says, over TLS, that the master is at the TLS port of `server`."""

    def __init__(self, server, certs, cert="redis"):
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(certs.crt(cert), certs.key(cert))
        super().__init__(self.at_port(server.tls_port))

    def _serve(self, client):
        try:
            super()._serve(self.tls.wrap_socket(client, server_side=True))
        except OSError:
            client.close()


def replace(path, *sources):
    """Puts the sources, joined, in the place of path, as a deploy does."""
    with open(path + ".new", "wb") as out:
        for source in sources:
            with open(source, "rb") as f:
                shutil.copyfileobj(f, out)
    os.rename(path + ".new", path)


class TlsServer(RedisServer):
    """Also has a plain port. cert: name of the certificate it shows."""

    def __init__(self, tmp_path, certs, *options, cert="redis", clients="no", bind="127.0.0.1"):
        self.certs = certs
        self.bind = bind
        self.tls_port = None
        self.is_settled = False
        self.tls_options = ["--tls-cert-file", certs.crt("shown"), "--tls-key-file",
                            certs.key("shown"), "--tls-ca-cert-file", certs.crt("shown-ca"),
                            "--tls-auth-clients", clients]
        self._put(cert, "ca")
        super().__init__(tmp_path, *options)
        self.is_settled = True

    def start(self, *more, loaded=True):
        if not self.is_settled:
            self.tls_port = random.randint(20000, 32000)
        return super().start("--tls-port", self.tls_port, "--bind", *self.bind.split(),
                             *self.tls_options, *more, loaded=loaded)

    def tls_url(self, host="127.0.0.1", port=None):
        return "rediss://%s:%d/0" % (host, port or self.tls_port)

    def show(self, cert, ca="ca"):
        """Shows another certificate to new clients."""
        self._put(cert, ca)
        self.r.config_set("tls-cert-file", self.certs.crt("shown"))  # has all three read again

    def _put(self, cert, ca):
        replace(self.certs.crt("shown"), self.certs.crt(cert))
        replace(self.certs.key("shown"), self.certs.key(cert))
        replace(self.certs.crt("shown-ca"), self.certs.crt(ca))
