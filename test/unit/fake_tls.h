/*
 * fake_tls.h - TLS in front of a fake Redis: takes a TCP client, and carries what it says to the
 * fake's unix socket and back, all in the test's loop. The bytes for the client pass through the
 * test's hands: they can be trickled, spoilt and cut.
 */
#ifndef REDISQ_FAKE_TLS_H
#define REDISQ_FAKE_TLS_H

#include <arpa/inet.h>
#include <sys/un.h>

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "fake_redis.h"

struct fake_tls {
	struct ev_loop *loop;
	SSL_CTX *ctx;
	int listener;
	int port;
	char url[96];
	ev_io accepting;
	const char *redis; /* borrowed: path of the fake's socket; NULL = nobody is behind */
	/* The client. */
	SSL *ssl;
	int fd, behind;
	ev_io from_client, from_redis, to_client;
	struct buf out; /* not sent yet */
	/* The test's side. */
	size_t step;  /* most bytes at a time; 0 = all */
	long quota;   /* bytes that may still go out; -1 = all */
	long flip;    /* which bit of what goes out first is turned over; -1 = none */
	bool one_way; /* after the first flight comes the end */
	bool mute;    /* says nothing, reads nothing */
	void (*on_client)(struct fake_tls *f); /* instead of a handshake */
	int n_clients, n_handshakes;
	int n_refusals; /* of a new handshake, by the client */
};

static inline void fake_tls_on_info(const SSL *ssl, int where, int alert)
{
	struct fake_tls *f = SSL_get_app_data(ssl);

	f->n_refusals += where == SSL_CB_READ_ALERT && (alert & 0xff) == SSL_AD_NO_RENEGOTIATION;
}

/* A key, and a certificate for it that it has signed itself. san: "DNS:h,IP:127.0.0.1". */
static inline X509 *fake_cert(EVP_PKEY *key, const char *cn, const char *san, long from_s,
			      long to_s)
{
	X509 *x = X509_new();
	X509_EXTENSION *ext =
		san ? X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, san) : NULL;

	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), (long)clock_mono_ms());
	X509_gmtime_adj(X509_getm_notBefore(x), from_s);
	X509_gmtime_adj(X509_getm_notAfter(x), to_s);
	X509_set_pubkey(x, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
				   (const unsigned char *)cn, -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(x));
	if (ext)
		X509_add_ext(x, ext, -1);
	X509_EXTENSION_free(ext);
	if (!X509_sign(x, key, EVP_sha256()))
		abort();
	return x;
}

static inline void fake_tls_send(struct fake_tls *f)
{
	size_t n = f->step && f->step < f->out.len ? f->step : f->out.len;
	ssize_t sent;

	if (f->quota >= 0 && n > (size_t)f->quota)
		n = (size_t)f->quota;
	sent = n ? send(f->fd, f->out.data, n, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
	if (f->quota >= 0 && sent > 0)
		f->quota -= sent;
	if (sent > 0)
		buf_consume(&f->out, (size_t)sent);
	else if (sent < 0 && errno != EAGAIN)
		buf_clear(&f->out); /* nobody hears it any more */
	if (f->out.len > 0 && f->quota != 0)
		ev_io_start(f->loop, &f->to_client);
	else
		ev_io_stop(f->loop, &f->to_client);
}

/* What the session wants to say. */
static inline void fake_tls_flush(struct fake_tls *f)
{
	BIO *b = SSL_get_wbio(f->ssl);
	size_t before = f->out.len, n = BIO_ctrl_pending(b);

	if (n == 0)
		return;
	if (BIO_read(b, buf_reserve(&f->out, n), (int)n) != (int)n)
		abort();
	buf_commit(&f->out, n);
	if (f->flip >= 0 && (size_t)f->flip / 8 < n) {
		f->out.data[before + (size_t)f->flip / 8] ^= (char)(1 << (f->flip % 8));
		f->flip = -1;
	}
	fake_tls_send(f);
	if (f->one_way) {
		while (f->out.len > 0)
			fake_tls_send(f);
		shutdown(f->fd, SHUT_WR);
	}
}

static inline void fake_tls_hang_up(struct fake_tls *f)
{
	if (f->fd < 0)
		return;
	ev_io_stop(f->loop, &f->from_client);
	ev_io_stop(f->loop, &f->to_client);
	ev_io_stop(f->loop, &f->from_redis);
	close(f->fd);
	if (f->behind >= 0)
		close(f->behind);
	f->fd = f->behind = -1;
	SSL_free(f->ssl);
	f->ssl = NULL;
	buf_release(&f->out);
}

static inline void fake_tls_on_redis(struct ev_loop *loop, ev_io *io, int revents)
{
	struct fake_tls *f = container_of(io, struct fake_tls, from_redis);
	static char bytes[64 * 1024];
	ssize_t n = read(f->behind, bytes, sizeof(bytes));

	(void)loop;
	(void)revents;
	if (n <= 0) {
		SSL_shutdown(f->ssl);
		fake_tls_flush(f);
		fake_tls_hang_up(f);
	} else if (SSL_write(f->ssl, bytes, (int)n) == n) {
		fake_tls_flush(f);
	}
}

static inline void fake_tls_connect(struct fake_tls *f)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};

	f->n_handshakes++;
	if (!f->redis || f->behind >= 0)
		return;
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", f->redis);
	f->behind = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(f->behind, (struct sockaddr *)&un, sizeof(un)) < 0)
		abort();
	ev_io_init(&f->from_redis, fake_tls_on_redis, f->behind, EV_READ);
	ev_io_start(f->loop, &f->from_redis);
}

static inline void fake_tls_carry(struct fake_tls *f)
{
	static char bytes[64 * 1024];
	int n;

	while ((n = SSL_read(f->ssl, bytes, sizeof(bytes))) > 0)
		for (ssize_t at = 0, sent; at<n; at += sent> 0 ? sent : 0) {
			sent = send(f->behind, bytes + at, (size_t)(n - at),
				    MSG_NOSIGNAL | MSG_DONTWAIT);
			if (sent < 0 && errno != EAGAIN)
				return;
			if (sent < 0) /* the fake reads in this same loop */
				ev_run(f->loop, EVRUN_NOWAIT);
		}
}

static inline void fake_tls_on_client_bytes(struct ev_loop *loop, ev_io *io, int revents)
{
	struct fake_tls *f = container_of(io, struct fake_tls, from_client);
	char bytes[16 * 1024];
	ssize_t n;
	int r;

	(void)loop;
	(void)revents;
	if (f->mute) {
		ev_io_stop(f->loop, &f->from_client);
		return;
	}
	n = read(f->fd, bytes, sizeof(bytes));
	if (n <= 0) {
		fake_tls_hang_up(f);
		return;
	}
	if (f->on_client) {
		f->on_client(f);
		return;
	}
	BIO_write(SSL_get_rbio(f->ssl), bytes, (int)n);
	if (!SSL_is_init_finished(f->ssl)) {
		r = SSL_do_handshake(f->ssl);
		fake_tls_flush(f);
		if (r != 1 && SSL_get_error(f->ssl, r) == SSL_ERROR_SSL)
			fake_tls_hang_up(f);
		if (r != 1)
			return;
		fake_tls_connect(f);
	}
	if (f->behind >= 0)
		fake_tls_carry(f);
	fake_tls_flush(f);
}

static inline void fake_tls_on_writable(struct ev_loop *loop, ev_io *io, int revents)
{
	(void)loop;
	(void)revents;
	fake_tls_send(container_of(io, struct fake_tls, to_client));
}

static inline void fake_tls_on_accept(struct ev_loop *loop, ev_io *io, int revents)
{
	struct fake_tls *f = container_of(io, struct fake_tls, accepting);

	(void)revents;
	fake_tls_hang_up(f);
	f->fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
	f->n_clients++;
	f->ssl = SSL_new(f->ctx);
	SSL_set_app_data(f->ssl, f);
	SSL_set_info_callback(f->ssl, fake_tls_on_info);
	SSL_set_accept_state(f->ssl);
	SSL_set_bio(f->ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	ev_io_init(&f->from_client, fake_tls_on_client_bytes, f->fd, EV_READ);
	ev_io_init(&f->to_client, fake_tls_on_writable, f->fd, EV_WRITE);
	ev_io_start(loop, &f->from_client);
}

static inline void fake_tls_init(struct fake_tls *f, struct ev_loop *loop)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(in);

	memset(f, 0, sizeof(*f));
	f->loop = loop;
	f->fd = f->behind = -1;
	f->flip = f->quota = -1;
	buf_init(&f->out);
	f->ctx = SSL_CTX_new(TLS_server_method());
	f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (bind(f->listener, (struct sockaddr *)&in, sizeof(in)) < 0 ||
	    getsockname(f->listener, (struct sockaddr *)&in, &len) < 0 ||
	    listen(f->listener, 16) < 0)
		abort();
	f->port = ntohs(in.sin_port);
	snprintf(f->url, sizeof(f->url), "rediss://127.0.0.1:%d", f->port);
	ev_io_init(&f->accepting, fake_tls_on_accept, f->listener, EV_READ);
	ev_io_start(f->loop, &f->accepting);
}

static inline void fake_tls_release(struct fake_tls *f)
{
	fake_tls_hang_up(f);
	ev_io_stop(f->loop, &f->accepting);
	close(f->listener);
	SSL_CTX_free(f->ctx);
}

#endif
