/* t_rconn_tls.c - a link over TLS: who is believed, what is said of who is not, and bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <openssl/pem.h>

#include "backoff.h"
#include "fake_tls.h"
#include "link_fixture.h"

#define DAY_S (24 * 3600L)

struct tls_fixture {
	struct fixture x; /* first: the events' argument */
	struct fake_tls front;
	EVP_PKEY *key;
	char ca_file[64];
};

static void write_pem(const char *path, X509 *cert, EVP_PKEY *key)
{
	char fresh[80];
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
static void show_cert(struct tls_fixture *t, const char *san, long from_s, long to_s, bool trusted)
{
	X509 *cert = fake_cert(t->key, "fake redis", san, from_s, to_s);

	SSL_CTX_use_certificate(t->front.ctx, cert);
	SSL_CTX_use_PrivateKey(t->front.ctx, t->key);
	if (trusted)
		write_pem(t->ca_file, cert, NULL);
	X509_free(cert);
}

static int setup(void **state)
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

static int teardown(void **state)
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

/* ------------------------------------------------------------------ bytes */

static void echo(struct fake *f, redisReply *r)
{
	char text[32];

	snprintf(text, sizeof(text), ":%s\r\n", r->element[1]->str);
	fake_say(f, text);
}

static void works(struct tls_fixture *t)
{
	t->x.fake.on_command = echo;
	t->x.n_replies = 0;
	for (int i = 0; i < 100; i++)
		fixture_send_number(&t->x, i);
	assert_true(run_until(t->x.loop, &t->x.n_replies, 100));
	for (int i = 0; i < 100; i++)
		assert_int_equal(t->x.replies[i], i);
}

static void test_a_link_works_over_tls(void **state)
{
	struct tls_fixture *t = *state;

	fixture_ready(&t->x);
	assert_string_equal(t->x.fake.log.data,
			    "CLIENT SETNAME me:cmd|CLIENT ID|INFO server|PING|");
	assert_int_equal(rconn_client_id(t->x.link), 7);
	assert_non_null(strstr(rconn_where(t->x.link), "rediss://127.0.0.1:"));
	assert_string_equal(SSL_get_version(t->front.ssl), "TLSv1.3");
	works(t);
}

static void test_a_handshake_byte_by_byte(void **state)
{
	struct tls_fixture *t = *state;

	t->front.step = 1;
	fixture_ready(&t->x);
	works(t);
}

#define LARGE (3 * 1024 * 1024)

static void say_large(struct fake *f, redisReply *r)
{
	static char body[LARGE];
	char head[32];

	snprintf(head, sizeof(head), "$%d\r\n", LARGE);
	memset(body, r->element[1]->len == LARGE ? 'y' : 'n', sizeof(body));
	fake_say(f, head);
	fake_say_bytes(f, body, sizeof(body));
	fake_say(f, "\r\n");
}

static void on_large(void *arg, const redisReply *r)
{
	struct fixture *x = arg;

	assert_non_null(r);
	assert_int_equal(r->len, LARGE);
	assert_int_equal(r->str[0], 'y');
	assert_int_equal(r->str[LARGE - 1], 'y');
	x->n_replies++;
}

/* More than the socket takes at once, in both directions: records are cut anywhere. */
static void test_megabytes_go_both_ways(void **state)
{
	struct tls_fixture *t = *state;
	char *body = xcalloc(1, LARGE);
	struct rconn_arg argv[] = {{"SET", 3}, {body, LARGE}};

	fixture_ready(&t->x);
	t->x.fake.on_command = say_large;
	for (int i = 0; i < 2; i++)
		assert_int_equal(rconn_send(t->x.link, 2, argv, 0, on_large, &t->x), 0);
	assert_true(run_until(t->x.loop, &t->x.n_replies, 2));
	free(body);
}

static void test_keys_may_be_renewed(void **state)
{
	struct tls_fixture *t = *state;

	fixture_ready(&t->x);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(SSL_key_update(t->front.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
		assert_int_equal(SSL_do_handshake(t->front.ssl), 1);
		fake_tls_flush(&t->front);
		works(t);
	}
	assert_int_equal(t->x.n_down, 0);
}

static void some_turns(struct tls_fixture *t)
{
	for (int i = 0; i < 50; i++)
		ev_run(t->x.loop, EVRUN_NOWAIT);
}

/* The answer to a new key finds no room. */
static void test_keys_may_be_renewed_while_output_is_stuck(void **state)
{
	struct tls_fixture *t = *state;
	char *body = xcalloc(1, LARGE);
	struct rconn_arg argv[] = {{"SET", 3}, {body, LARGE}};

	fixture_ready(&t->x);
	t->x.fake.on_command = say_large;
	t->front.mute = true;
	for (int i = 0; i < 3; i++)
		assert_int_equal(rconn_send(t->x.link, 2, argv, 0, on_large, &t->x), 0);
	some_turns(t);
	assert_int_equal(SSL_key_update(t->front.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
	SSL_do_handshake(t->front.ssl);
	fake_tls_flush(&t->front);
	some_turns(t);
	t->front.mute = false;
	ev_io_start(t->x.loop, &t->front.from_client);
	assert_true(run_until(t->x.loop, &t->x.n_replies, 3));
	assert_int_equal(t->x.n_down, 0);
	free(body);
}

static int take_anybody(int ok, X509_STORE_CTX *x)
{
	(void)ok;
	(void)x;
	return 1;
}

/* Half of a message to TLS itself came in: OpenSSL writes nothing until it has the rest. Its ticket
 * is large because our certificate is in it. */
static void test_a_write_waits_for_the_rest_of_a_ticket(void **state)
{
	static const char name[] = "DNS:a-name-that-is-long-so-that-thirty-of-it-fill-a-ticket.%d";
	struct tls_fixture *t = *state;
	struct buf san = BUF_INIT;
	char mine[80];
	X509 *cert;

	for (int i = 0; i < 30; i++) {
		buf_adds(&san, i ? "," : "");
		buf_addf(&san, name, i);
	}
	cert = fake_cert(t->key, "me", san.data, -60, DAY_S);
	snprintf(mine, sizeof(mine), "%s/mine.pem", t->x.dir);
	write_pem(mine, cert, t->key);
	t->x.conf.tls_cert_file = t->x.conf.tls_key_file = mine;
	SSL_CTX_set_verify(t->front.ctx, SSL_VERIFY_PEER, take_anybody);
	SSL_CTX_set_session_id_context(t->front.ctx, (const unsigned char *)"x", 1);
	SSL_CTX_set_max_send_fragment(t->front.ctx, 512);
	t->x.fake.on_command = echo;
	fixture_ready(&t->x);
	assert_int_equal(SSL_new_session_ticket(t->front.ssl), 1);
	t->front.quota = 800;
	SSL_do_handshake(t->front.ssl);
	fake_tls_flush(&t->front);
	some_turns(t);
	assert_true(t->front.out.len > 0);
	fixture_send_number(&t->x, 5);
	some_turns(t);
	assert_int_equal(t->x.fake.n_commands, 0);
	t->front.quota = -1;
	fake_tls_send(&t->front);
	assert_true(run_until(t->x.loop, &t->x.n_replies, 1));
	assert_int_equal(t->x.replies[0], 5);
	assert_int_equal(t->x.n_down, 0);
	unlink(mine);
	X509_free(cert);
	buf_release(&san);
}

static void test_renegotiation_is_refused(void **state)
{
	struct tls_fixture *t = *state;
	unsigned char before[32], after[32];

	SSL_CTX_set_max_proto_version(t->front.ctx, TLS1_2_VERSION);
	fixture_ready(&t->x);
	works(t);
	SSL_get_client_random(t->front.ssl, before, sizeof(before));
	assert_int_equal(SSL_renegotiate(t->front.ssl), 1);
	SSL_do_handshake(t->front.ssl);
	fake_tls_flush(&t->front);
	for (int i = 0; i < 1000 && t->front.n_refusals == 0; i++)
		ev_run(t->x.loop, EVRUN_ONCE);
	assert_int_equal(t->front.n_refusals, 1);
	SSL_get_client_random(t->front.ssl, after, sizeof(after));
	assert_memory_equal(before, after, sizeof(before));
}

/* ------------------------------------------------------------------ ends */

static void falls(struct tls_fixture *t, const char *says)
{
	assert_true(run_until(t->x.loop, &t->x.n_down, 1));
	if (!strstr(t->x.why, says))
		fail_msg("says \"%s\", not \"%s\"", t->x.why, says);
}

static void test_goodbye_ends_a_link(void **state)
{
	struct tls_fixture *t = *state;

	fixture_ready(&t->x);
	fake_hang_up(&t->x.fake);
	falls(t, "Redis closed the connection");
}

static void test_an_end_without_goodbye_ends_a_link(void **state)
{
	struct tls_fixture *t = *state;

	fixture_ready(&t->x);
	shutdown(t->front.fd, SHUT_WR);
	falls(t, "Redis closed the connection");
}

static void test_a_closed_link_says_goodbye(void **state)
{
	struct tls_fixture *t = *state;

	fixture_ready(&t->x);
	rconn_close(t->x.link);
	t->x.link = NULL;
	for (int i = 0; i < 1000 && !(SSL_get_shutdown(t->front.ssl) & SSL_RECEIVED_SHUTDOWN); i++)
		ev_run(t->x.loop, EVRUN_ONCE);
	assert_int_equal(SSL_get_shutdown(t->front.ssl) & SSL_RECEIVED_SHUTDOWN,
			 SSL_RECEIVED_SHUTDOWN);
}

/* ------------------------------------------------------------------ who is not believed */

static void test_certificates_that_are_refused(void **state)
{
	static const struct {
		const char *san;
		long from_s, to_s;
		bool trusted;
		const char *says;
	} cases[] = {
		{"IP:127.0.0.2,DNS:a.example,IP:::1", -60, DAY_S, true,
		 "TLS: the certificate is for 127.0.0.2, a.example, ::1, not for 127.0.0.1; "},
		{NULL, -60, DAY_S, true, "the certificate is for fake redis, not for 127.0.0.1"},
		/* An address in a name's place is none. */
		{"DNS:127.0.0.1", -60, DAY_S, true, "is for 127.0.0.1, not for 127.0.0.1"},
		{"IP:127.0.0.1", -2 * DAY_S, -DAY_S, true,
		 "TLS: the certificate of Redis expired "},
		{"IP:127.0.0.1", DAY_S, 2 * DAY_S, true, "is the clock right?"},
		{"IP:127.0.0.1", -60, DAY_S, false, "signed by no CA that is trusted here"},
	};
	struct tls_fixture *t = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		show_cert(t, cases[i].san, cases[i].from_s, cases[i].to_s, cases[i].trusted);
		t->x.n_down = 0;
		fixture_start(&t->x);
		falls(t, cases[i].says);
		assert_int_equal(t->x.n_ready, 0);
		rconn_close(t->x.link);
	}
	assert_int_equal(t->x.fake.n_clients, 0);
	t->x.link = NULL;
}

static void test_tls_verify_no_believes_everybody(void **state)
{
	struct tls_fixture *t = *state;

	show_cert(t, "DNS:other", -2 * DAY_S, -DAY_S, false);
	t->x.conf.tls_verify = CONF_TLS_VERIFY_NO;
	fixture_ready(&t->x);
	works(t);
}

static void test_a_name_is_asked_for_by_sni(void **state)
{
	struct tls_fixture *t = *state;
	char url[96];

	fixture_ready(&t->x);
	assert_null(SSL_get_servername(t->front.ssl, TLSEXT_NAMETYPE_host_name)); /* no address */
	rconn_close(t->x.link);
	snprintf(url, sizeof(url), "rediss://localhost:%d", t->front.port);
	t->x.conf.url = url;
	t->x.n_ready = 0;
	fixture_ready(&t->x);
	assert_string_equal(SSL_get_servername(t->front.ssl, TLSEXT_NAMETYPE_host_name),
			    "localhost");
}

static void test_old_versions_are_refused(void **state)
{
	struct tls_fixture *t = *state;

	SSL_CTX_set_security_level(t->front.ctx, 0);
	SSL_CTX_set_min_proto_version(t->front.ctx, TLS1_VERSION);
	SSL_CTX_set_max_proto_version(t->front.ctx, TLS1_1_VERSION);
	fixture_start(&t->x);
	falls(t, "here it is 1.2 and newer");
}

static void test_a_client_certificate_is_asked_for(void **state)
{
	struct tls_fixture *t = *state;

	SSL_CTX_set_verify(t->front.ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	for (int v = TLS1_2_VERSION; v <= TLS1_3_VERSION; v++) {
		SSL_CTX_set_max_proto_version(t->front.ctx, v);
		t->x.n_down = 0;
		fixture_start(&t->x);
		falls(t, "if it wants client certificates, set tls_cert_file");
		rconn_close(t->x.link);
	}
	t->x.link = NULL;
}

/* ------------------------------------------------------------------ no TLS over there */

static void say_plain(struct fake_tls *f)
{
	static const char text[] = "-ERR unknown command\r\n";

	assert_int_equal(write(f->fd, text, sizeof(text) - 1), sizeof(text) - 1);
}

static void test_a_plain_answer_is_understood(void **state)
{
	struct tls_fixture *t = *state;

	t->front.on_client = say_plain;
	fixture_start(&t->x);
	falls(t, "what answers does not speak TLS");
}

static void test_a_server_that_hangs_up_at_hello(void **state)
{
	struct tls_fixture *t = *state;

	t->front.on_client = fake_tls_hang_up;
	fixture_start(&t->x);
	falls(t, "the connection ended in the middle of the handshake; is that a TLS port");
}

/* Plain Redis waits for the end of the line. */
static void test_silence_is_a_failure_in_time(void **state)
{
	struct tls_fixture *t = *state;

	t->front.mute = true;
	t->x.conf.connect_timeout = 60;
	fixture_start(&t->x);
	falls(t, "no answer to the TLS handshake for 0.1 s; is that a TLS port?");
}

static void test_a_plain_link_to_a_tls_port_says_so(void **state)
{
	struct tls_fixture *t = *state;
	char url[96];

	snprintf(url, sizeof(url), "redis://127.0.0.1:%d", t->front.port);
	t->x.conf.url = url;
	fixture_start(&t->x);
	falls(t, "rediss://");
}

/* ------------------------------------------------------------------ garbage */

static void test_noise_after_the_handshake_ends_the_link(void **state)
{
	struct tls_fixture *t = *state;
	struct rng rng;
	char noise[4096];

	rng_seed(&rng, 20);
	for (int i = 0; i < 50; i++) {
		t->x.n_ready = t->x.n_down = 0;
		fixture_ready(&t->x);
		for (size_t k = 0; k < sizeof(noise); k++)
			noise[k] = (char)rng_below(&rng, 256);
		if (i % 2) { /* begins as a record would */
			memcpy(noise, "\x17\x03\x03\x0f\xfb", 5);
		}
		assert_int_equal(write(t->front.fd, noise, sizeof(noise)), sizeof(noise));
		falls(t, "TLS: ");
		rconn_close(t->x.link);
	}
	t->x.link = NULL;
}

/* Every bit of the server's first words, a few at a time: each must fail, and none must hang. */
static void test_a_spoilt_handshake_never_stands(void **state)
{
	struct tls_fixture *t = *state;

	t->front.one_way = true;
	for (long bit = 0; bit < 7000; bit += 47) {
		t->front.flip = bit;
		t->x.n_down = 0;
		fixture_start(&t->x);
		assert_true(run_until(t->x.loop, &t->x.n_down, 1));
		assert_int_equal(t->x.n_ready, 0);
		rconn_close(t->x.link);
	}
	t->x.link = NULL;
}

/* ------------------------------------------------------------------ new certificates */

static void reconnect(struct tls_fixture *t)
{
	rconn_close(t->x.link);
	t->x.n_ready = t->x.n_down = 0;
	fixture_start(&t->x);
}

static void test_a_changed_ca_file_is_read_at_the_next_connection(void **state)
{
	struct tls_fixture *t = *state;

	fixture_ready(&t->x);
	show_cert(t, "IP:127.0.0.1", -60, DAY_S, true);
	works(t); /* what stands, stands */
	reconnect(t);
	assert_true(run_until(t->x.loop, &t->x.n_ready, 1));
	show_cert(t, "IP:127.0.0.1", -60, DAY_S, false);
	reconnect(t);
	falls(t, "signed by no CA");
}

/* Half a file, or none, in the middle of a deploy. */
static void test_a_bad_file_leaves_the_certificates_that_were_read(void **state)
{
	struct tls_fixture *t = *state;

	fixture_ready(&t->x);
	write_pem(t->ca_file, NULL, NULL);
	reconnect(t);
	assert_true(run_until(t->x.loop, &t->x.n_ready, 1));
	unlink(t->ca_file);
	reconnect(t);
	assert_true(run_until(t->x.loop, &t->x.n_ready, 1));
	works(t);
}

static void test_files_that_are_wrong_from_the_start(void **state)
{
	static char dir[] = "/tmp", none[] = "/no/such/file";
	struct tls_fixture *t = *state;
	char key[80], mine[80];
	EVP_PKEY *other = EVP_EC_gen("P-256");
	X509 *cert = fake_cert(t->key, "me", NULL, -60, DAY_S);
	struct {
		char *ca, *cert, *key;
		const char *says;
	} cases[] = {
		{none, NULL, NULL, "tls_ca_file /no/such/file: No such file or directory; "},
		{dir, NULL, NULL, "tls_ca_file /tmp is not a file; "},
		{key, NULL, NULL, "give a PEM file that has what the key says"},
		{t->ca_file, key, key, "tls_cert_file"},
		{t->ca_file, mine, key, "is not the key of tls_cert_file"},
		{t->ca_file, mine, mine, "tls_key_file"},
	};

	snprintf(key, sizeof(key), "%s/key.pem", t->x.dir);
	snprintf(mine, sizeof(mine), "%s/mine.pem", t->x.dir);
	write_pem(key, NULL, other);
	write_pem(mine, cert, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		t->x.conf.tls_ca_file = cases[i].ca;
		t->x.conf.tls_cert_file = cases[i].cert;
		t->x.conf.tls_key_file = cases[i].key;
		t->x.n_down = 0;
		fixture_start(&t->x);
		falls(t, cases[i].says);
		rconn_close(t->x.link);
	}
	t->x.link = NULL;
	unlink(key);
	unlink(mine);
	X509_free(cert);
	EVP_PKEY_free(other);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_a_link_works_over_tls),
		T(test_a_handshake_byte_by_byte),
		T(test_megabytes_go_both_ways),
		T(test_keys_may_be_renewed),
		T(test_keys_may_be_renewed_while_output_is_stuck),
		T(test_a_write_waits_for_the_rest_of_a_ticket),
		T(test_renegotiation_is_refused),
		T(test_goodbye_ends_a_link),
		T(test_an_end_without_goodbye_ends_a_link),
		T(test_a_closed_link_says_goodbye),
		T(test_certificates_that_are_refused),
		T(test_tls_verify_no_believes_everybody),
		T(test_a_name_is_asked_for_by_sni),
		T(test_old_versions_are_refused),
		T(test_a_client_certificate_is_asked_for),
		T(test_a_plain_answer_is_understood),
		T(test_a_server_that_hangs_up_at_hello),
		T(test_silence_is_a_failure_in_time),
		T(test_a_plain_link_to_a_tls_port_says_so),
		T(test_noise_after_the_handshake_ends_the_link),
		T(test_a_spoilt_handshake_never_stands),
		T(test_a_changed_ca_file_is_read_at_the_next_connection),
		T(test_a_bad_file_leaves_the_certificates_that_were_read),
		T(test_files_that_are_wrong_from_the_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
