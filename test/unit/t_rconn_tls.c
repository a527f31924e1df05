/* t_rconn_tls.c - a link over TLS: bytes, ends, and noise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "backoff.h"
#include "tls_fixture.h"

/* ------------------------------------------------------------------ bytes */

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TLS_TEST(test_a_link_works_over_tls),
		TLS_TEST(test_a_handshake_byte_by_byte),
		TLS_TEST(test_megabytes_go_both_ways),
		TLS_TEST(test_keys_may_be_renewed),
		TLS_TEST(test_keys_may_be_renewed_while_output_is_stuck),
		TLS_TEST(test_a_write_waits_for_the_rest_of_a_ticket),
		TLS_TEST(test_renegotiation_is_refused),
		TLS_TEST(test_goodbye_ends_a_link),
		TLS_TEST(test_an_end_without_goodbye_ends_a_link),
		TLS_TEST(test_a_closed_link_says_goodbye),
		TLS_TEST(test_noise_after_the_handshake_ends_the_link),
		TLS_TEST(test_a_spoilt_handshake_never_stands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
