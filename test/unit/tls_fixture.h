/* tls_fixture.h - a link, a fake Redis and TLS in front of it, in one loop; and its certificates.
 */
#ifndef REDISQ_TLS_FIXTURE_H
#define REDISQ_TLS_FIXTURE_H

#include <openssl/pem.h>

#include "fake_tls.h"
#include "link_fixture.h"

#define DAY_S (24 * 3600L)

struct tls_fixture {
	struct fixture x; /* first: the events' argument */
	struct fake_tls front;
	EVP_PKEY *key;
	char ca_file[64];
};

static inline void write_pem(const char *path, X509 *cert, EVP_PKEY *key)
{
	char fresh[128];
	FILE *f;

	snprintf(fresh, sizeof(fresh), "%s.new", path);
	f = fopen(fresh, "we");
	assert_non_null(f);
	if (cert)
		assert_int_equal(PEM_write_X509(f, cert), 1);
	if (key)
		assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(f);
	assert_int_equal(rename(fresh, path), 0); /* a new inode: what it was is no more */
}

/* The server shows that certificate from now on; `trusted`: it is in tls_ca_file, too. */
static inline void show_cert(struct tls_fixture *t, const char *san, long from_s, long to_s,
			     bool trusted)
{
	X509 *cert = fake_cert(t->key, "fake redis", san, from_s, to_s);

	SSL_CTX_use_certificate(t->front.ctx, cert);
	SSL_CTX_use_PrivateKey(t->front.ctx, t->key);
	if (trusted)
		write_pem(t->ca_file, cert, NULL);
	X509_free(cert);
}

static inline int tls_setup(void **state)
{
	struct tls_fixture *t = xcalloc(1, sizeof(*t));
	void *x;

	if (fixture_setup(&x) < 0)
		return -1;
	memcpy(&t->x, x, sizeof(t->x));
	/* The fake's watchers know their place: it begins anew in ours. */
	fake_release(&((struct fixture *)x)->fake);
	free(x);
	fake_init(&t->x.fake, t->x.loop);
	fake_listen_unix(&t->x.fake, t->x.dir);
	fake_tls_init(&t->front, t->x.loop);
	t->front.redis = t->x.fake.path;
	t->key = EVP_EC_gen("P-256");
	snprintf(t->ca_file, sizeof(t->ca_file), "%s/ca.pem", t->x.dir);
	show_cert(t, "IP:127.0.0.1,DNS:localhost", -60, DAY_S, true);
	t->x.conf.url = t->front.url;
	t->x.conf.tls_ca_file = t->ca_file;
	*state = t;
	return 0;
}

static inline int tls_teardown(void **state)
{
	struct tls_fixture *t = *state;

	rconn_close(t->x.link);
	fake_release(&t->x.fake);
	fake_tls_release(&t->front);
	ev_loop_destroy(t->x.loop);
	unlink(t->ca_file);
	rmdir(t->x.dir);
	EVP_PKEY_free(t->key);
	free(t);
	return 0;
}

static inline void echo(struct fake *f, redisReply *r)
{
	char text[32];

	snprintf(text, sizeof(text), ":%s\r\n", r->element[1]->str);
	fake_say(f, text);
}

static inline void works(struct tls_fixture *t)
{
	t->x.fake.on_command = echo;
	t->x.n_replies = 0;
	for (int i = 0; i < 100; i++)
		fixture_send_number(&t->x, i);
	assert_true(run_until(t->x.loop, &t->x.n_replies, 100));
	for (int i = 0; i < 100; i++)
		assert_int_equal(t->x.replies[i], i);
}

static inline void falls(struct tls_fixture *t, const char *says)
{
	assert_true(run_until(t->x.loop, &t->x.n_down, 1));
	if (!strstr(t->x.why, says))
		fail_msg("says \"%s\", not \"%s\"", t->x.why, says);
}

#define TLS_TEST(f) cmocka_unit_test_setup_teardown(f, tls_setup, tls_teardown)

#endif
