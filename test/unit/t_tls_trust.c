/* t_tls_trust.c - a link over TLS: who is believed, what is said of who is not, and new
 * certificates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "tls_fixture.h"

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
	/* And blames no certificate for what happens later. */
	shutdown(t->front.fd, SHUT_WR);
	falls(t, "Redis closed the connection");
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

/* Writes it in the place where it is: its directory does not change by that. */
static void overwrite_pem(const char *path, X509 *cert)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_int_equal(PEM_write_X509(f, cert), 1);
	fclose(f);
}

static void
test_a_file_of_tls_ca_dir_that_is_overwritten_is_read_at_the_next_connection(void **state)
{
	static const struct timespec long_ago[] = {{1000, 0}, {1000, 0}};
	struct tls_fixture *t = *state;
	X509 *first = fake_cert(t->key, "fake redis", "IP:127.0.0.1", -60, DAY_S);
	X509 *second = fake_cert(t->key, "fake redis", "IP:127.0.0.1", -120, DAY_S);
	char dir[80], link[100], file[100];
	struct stat before, after;

	snprintf(dir, sizeof(dir), "%s/cas", t->x.dir);
	snprintf(file, sizeof(file), "%s/cas/redis.pem", t->x.dir);
	snprintf(link, sizeof(link), "%s/cas/%08lx.0", t->x.dir, X509_subject_name_hash(first));
	assert_int_equal(mkdir(dir, 0700), 0);
	overwrite_pem(file, first);
	assert_int_equal(utimensat(AT_FDCWD, file, long_ago, 0), 0);
	assert_int_equal(symlink("redis.pem", link), 0); /* as openssl rehash does */
	t->x.conf.tls_ca_file = NULL;
	t->x.conf.tls_ca_dir = dir;
	SSL_CTX_use_certificate(t->front.ctx, first);
	fixture_ready(&t->x);
	works(t);
	SSL_CTX_use_certificate(t->front.ctx, second);
	reconnect(t);
	falls(t, "TLS: ");
	assert_int_equal(stat(dir, &before), 0);
	overwrite_pem(file, second);
	assert_int_equal(stat(dir, &after), 0);
	assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof(before.st_mtim));
	reconnect(t);
	assert_true(run_until(t->x.loop, &t->x.n_ready, 1));
	works(t);
	unlink(link);
	unlink(file);
	rmdir(dir);
	X509_free(first);
	X509_free(second);
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
	const struct CMUnitTest tests[] = {
		TLS_TEST(test_certificates_that_are_refused),
		TLS_TEST(test_tls_verify_no_believes_everybody),
		TLS_TEST(test_a_name_is_asked_for_by_sni),
		TLS_TEST(test_old_versions_are_refused),
		TLS_TEST(test_a_client_certificate_is_asked_for),
		TLS_TEST(test_a_plain_answer_is_understood),
		TLS_TEST(test_a_server_that_hangs_up_at_hello),
		TLS_TEST(test_silence_is_a_failure_in_time),
		TLS_TEST(test_a_plain_link_to_a_tls_port_says_so),
		TLS_TEST(test_a_changed_ca_file_is_read_at_the_next_connection),
		TLS_TEST(
			test_a_file_of_tls_ca_dir_that_is_overwritten_is_read_at_the_next_connection),
		TLS_TEST(test_a_bad_file_leaves_the_certificates_that_were_read),
		TLS_TEST(test_files_that_are_wrong_from_the_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
