/*
 * tls_openssl.c - redisq-tls.so, the only user of OpenSSL; see tls_module.h. What goes wrong
 * becomes words for people in tls_words.c.
 *
 * Rules: the error queue is emptied before each call, or an old entry would explain a new failure.
 * One read gives at most one record and nothing is read ahead, so that what was not read yet is in
 * the socket, where the loop sees it. Bytes go by send(MSG_NOSIGNAL). Nothing asks a terminal for a
 * passphrase. The other side may not renegotiate.
 */
#include <errno.h>
#include <sys/socket.h>

#include <openssl/x509v3.h>

#include "tls_session.h"

_Static_assert(sizeof(((struct rconn_io *)NULL)->why) >= TLS_WHY_MAX, "words fit");
_Static_assert(RCONN_READ_MIN >= SSL3_RT_MAX_PLAIN_LENGTH, "a record fits into every read");

struct tls_context {
	SSL_CTX *ssl; /* owned */
	bool has_cert;
};

/* Made once and never freed, as the module stays loaded. */
static BIO_METHOD *socket_method;
static int io_index = -1; /* of the io in a session's ex_data */

/* ------------------------------------------------------------------ the socket below */

static struct tls_session *session_of(BIO *b)
{
	return ((struct rconn_io *)BIO_get_data(b))->state;
}

/* What recv() or send() returned; true: nothing can be done now. */
static bool would_block(BIO *b, ssize_t n)
{
	int error = n < 0 ? errno : 0;

	BIO_clear_retry_flags(b);
	if (error == EAGAIN || error == EINTR)
		return true;
	session_of(b)->error = error;
	return false;
}

static int socket_read(BIO *b, char *data, int len)
{
	struct rconn_io *io = BIO_get_data(b);
	ssize_t n = recv(io->fd, data, (size_t)len, MSG_DONTWAIT);

	if (would_block(b, n))
		BIO_set_retry_read(b);
	session_of(b)->is_end = n == 0;
	return (int)n;
}

static int socket_write(BIO *b, const char *data, int len)
{
	struct rconn_io *io = BIO_get_data(b);
	ssize_t n = send(io->fd, data, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (would_block(b, n))
		BIO_set_retry_write(b);
	return (int)n;
}

static long socket_ctrl(BIO *b, int command, long number ATTR_UNUSED, void *p ATTR_UNUSED)
{
	if (command == BIO_CTRL_FLUSH)
		return 1;
	return command == BIO_CTRL_EOF && session_of(b)->is_end;
}

static bool prepare(void)
{
	if (!socket_method) {
		socket_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
		if (!socket_method)
			return false;
		BIO_meth_set_read(socket_method, socket_read);
		BIO_meth_set_write(socket_method, socket_write);
		BIO_meth_set_ctrl(socket_method, socket_ctrl);
	}
	if (io_index < 0)
		io_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
	return io_index >= 0;
}

/* ------------------------------------------------------------------ certificates and rules */

/* Says what is wrong with the certificate, the first time, while it is at hand. */
static int on_verify(int ok, X509_STORE_CTX *x)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(x, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct rconn_io *io = SSL_get_ex_data(ssl, io_index);

	if (!ok && !io->why[0])
		tls_words_certificate(io, x);
	return ok;
}

static int no_passphrase(char *out ATTR_UNUSED, int size ATTR_UNUSED, int writing ATTR_UNUSED,
			 void *arg ATTR_UNUSED)
{
	return -1;
}

static bool set_rules(SSL_CTX *ssl, bool verify)
{
	SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_default_passwd_cb(ssl, no_passphrase);
	if (verify)
		SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, on_verify);
	else
		SSL_CTX_set_verify(ssl, SSL_VERIFY_NONE, NULL);
	/* The system's policy may ask for more than we do. */
	return SSL_CTX_get_min_proto_version(ssl) >= TLS1_2_VERSION ||
	       SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) == 1;
}

static bool load_trust(SSL_CTX *ssl, const struct tls_settings *s, char why[TLS_WHY_MAX])
{
	if (!s->verify)
		return true;
	if (s->ca_file && SSL_CTX_load_verify_locations(ssl, s->ca_file, NULL) != 1)
		return tls_words_file(why, "tls_ca_file", s->ca_file);
	if (s->ca_dir && SSL_CTX_load_verify_locations(ssl, NULL, s->ca_dir) != 1)
		return tls_words_file(why, "tls_ca_dir", s->ca_dir);
	if (!s->ca_file && !s->ca_dir && SSL_CTX_set_default_verify_paths(ssl) != 1)
		return tls_words_file(why, "the system's certificates", "");
	return true;
}

static bool load_own(SSL_CTX *ssl, const struct tls_settings *s, char why[TLS_WHY_MAX])
{
	if (!s->cert_file || !s->key_file)
		return true;
	if (SSL_CTX_use_certificate_chain_file(ssl, s->cert_file) != 1)
		return tls_words_file(why, "tls_cert_file", s->cert_file);
	if (SSL_CTX_use_PrivateKey_file(ssl, s->key_file, SSL_FILETYPE_PEM) != 1)
		return tls_words_key(why, s->key_file, s->cert_file);
	if (SSL_CTX_check_private_key(ssl) != 1)
		return tls_words_key(why, s->key_file, s->cert_file);
	return true;
}

static void context_free(struct tls_context *t)
{
	SSL_CTX_free(t->ssl);
	free(t);
}

static struct tls_context *context_new(const struct tls_settings *s, char why[TLS_WHY_MAX])
{
	struct tls_context *t = calloc(1, sizeof(*t));

	ERR_clear_error();
	if (t && prepare())
		t->ssl = SSL_CTX_new(TLS_client_method());
	if (!t || !t->ssl || !set_rules(t->ssl, s->verify)) {
		tls_words_file(why, "OpenSSL", "");
	} else if (load_trust(t->ssl, s, why) && load_own(t->ssl, s, why)) {
		t->has_cert = s->cert_file != NULL;
		return t;
	}
	if (t)
		context_free(t);
	return NULL;
}

/* ------------------------------------------------------------------ a session */

/* An address is proved by the certificate's addresses, a name by its names; only names are SNI. */
static bool expect_host(struct tls_session *s)
{
	X509_VERIFY_PARAM *p = SSL_get0_param(s->ssl);
	char bare[64];
	int n = (int)strcspn(s->host, "%"); /* fe80::1%eth0 */

	if (snprintf(bare, sizeof(bare), "%.*s", n, s->host) < (int)sizeof(bare) &&
	    X509_VERIFY_PARAM_set1_ip_asc(p, bare) == 1)
		return true;
	X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return X509_VERIFY_PARAM_set1_host(p, s->host, 0) == 1 &&
	       SSL_set_tlsext_host_name(s->ssl, s->host) == 1;
}

static void end(struct rconn_io *io)
{
	struct tls_session *s = io->state;

	ERR_clear_error();
	if (s->established && !s->broken)
		SSL_shutdown(s->ssl); /* one try; nobody waits for its answer */
	SSL_free(s->ssl);
	free(s);
	io->state = NULL;
}

static int begin(struct rconn_io *io, struct tls_context *t, const char *host)
{
	struct tls_session *s = calloc(1, sizeof(*s));
	BIO *socket = NULL;

	ERR_clear_error();
	if (s && (s->ssl = SSL_new(t->ssl)) != NULL)
		socket = BIO_new(socket_method);
	if (!socket) {
		if (s)
			SSL_free(s->ssl);
		free(s);
		tls_words_file(io->why, "OpenSSL", "");
		return -1;
	}
	snprintf(s->host, sizeof(s->host), "%s", host);
	s->has_cert = t->has_cert;
	io->state = s;
	BIO_set_data(socket, io);
	BIO_set_init(socket, 1);
	SSL_set_bio(s->ssl, socket, socket);
	SSL_set_ex_data(s->ssl, io_index, io);
	SSL_set_connect_state(s->ssl);
	if (expect_host(s))
		return 0;
	tls_words_file(io->why, "the host of the url", host);
	end(io);
	return -1;
}

/* What is wrong with the session: 0 its end, else -1 with errno and perhaps words. */
static int broken(struct rconn_io *io, int code)
{
	struct tls_session *s = io->state;

	s->broken = true;
	errno = EPROTO;
	if (io->why[0])
		return -1; /* on_verify() has said it; the farewell may have failed since */
	if (s->is_end)
		return 0;
	if (code == SSL_ERROR_SSL || !s->error)
		tls_words_failure(io);
	else
		errno = s->error;
	return -1;
}

/* After a call that did not succeed: as broken(), or -1 with EAGAIN and what is waited for. */
static int failed(struct rconn_io *io, int result)
{
	struct tls_session *s = io->state;
	int code = SSL_get_error(s->ssl, result);

	switch (code) {
	case SSL_ERROR_WANT_READ:
		io->wants_read = true;
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_WANT_WRITE:
		io->wants_write = true;
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	default:
		return broken(io, code);
	}
}

static int handshake(struct rconn_io *io)
{
	struct tls_session *s = io->state;
	int r;

	io->wants_read = io->wants_write = false;
	ERR_clear_error();
	r = SSL_do_handshake(s->ssl);
	if (r == 1) {
		s->established = true;
		return 1;
	}
	r = failed(io, r);
	if (r < 0 && errno == EAGAIN)
		return 0;
	if (r == 0 || errno == ECONNRESET || errno == EPIPE) {
		tls_words_hung_up(io);
		errno = ECONNRESET;
	}
	return -1;
}

static ssize_t read_record(struct rconn_io *io, void *data, size_t len)
{
	struct tls_session *s = io->state;
	bool write_waits = io->wants_read;
	size_t n = 0;
	int r;

	io->wants_write = false;
	ERR_clear_error();
	r = SSL_read_ex(s->ssl, data, len, &n);
	if (r == 1)
		return (ssize_t)n;
	r = failed(io, r);
	io->wants_read = write_waits; /* that a read waits for it goes without saying */
	return r;
}

static ssize_t write_records(struct rconn_io *io, const void *data, size_t len)
{
	struct tls_session *s = io->state;
	bool read_waits = io->wants_write;
	size_t done = 0, n = 0;

	io->wants_read = false;
	while (done < len) {
		ERR_clear_error();
		if (SSL_write_ex(s->ssl, (const char *)data + done, len - done, &n) != 1)
			break;
		done += n;
	}
	if (done == len)
		return (ssize_t)done;
	if (failed(io, 0) == 0)
		errno = EPIPE;
	io->wants_write = read_waits; /* likewise */
	return done > 0 ? (ssize_t)done : -1;
}

__attribute__((visibility("default"))) extern const struct tls_module redisq_tls_module;

const struct tls_module redisq_tls_module = {
	.abi = TLS_MODULE_ABI,
	.io_size = sizeof(struct rconn_io),
	.context_new = context_new,
	.context_free = context_free,
	.begin = begin,
	.handshake = handshake,
	.read = read_record,
	.write = write_records,
	.end = end,
};
