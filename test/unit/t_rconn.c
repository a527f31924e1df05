/* t_rconn.c - a link against a scripted server, while all goes well and while commands run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake_redis.h"
#include "link_fixture.h"

static void test_greeting_is_one_write_in_order(void **state)
{
	struct fixture *x = *state;

	fixture_login(x);
	snprintf(x->url, sizeof(x->url), "%s?db=3", x->fake.url);
	x->conf.url = x->url;
	fixture_start(x);
	assert_true(run_until(x->loop, &x->n_ready, 1));
	assert_string_equal(x->fake.log.data, "AUTH ann sesame|SELECT 3|CLIENT SETNAME me:cmd|"
					      "CLIENT ID|INFO server|PING|");
	assert_int_equal(x->fake.first_read > 150, 1); /* all of it came in one read */
	assert_int_equal(rconn_client_id(x->link), 7);
	assert_string_equal(rconn_run_id(x->link), FAKE_RUN_ID);
	assert_null(strstr(rconn_where(x->link), "sesame"));
	assert_true(rconn_is_ready(x->link));
}

static void test_greeting_without_password_and_database(void **state)
{
	struct fixture *x = *state;

	fixture_start(x);
	assert_true(run_until(x->loop, &x->n_ready, 1));
	assert_string_equal(x->fake.log.data, "CLIENT SETNAME me:cmd|CLIENT ID|INFO server|PING|");
}

static const char *refuse_optional(struct fake *f, const char *word)
{
	(void)f;
	if (strncmp(word, "CLIENT", 6) == 0)
		return "-ERR unknown command `CLIENT`, with args beginning with: `ID`, \r\n";
	return "-NOPERM this user has no permissions to run the command\r\n";
}

static void test_refused_client_info_and_ping_do_no_harm(void **state)
{
	struct fixture *x = *state;

	x->fake.greet = refuse_optional;
	fixture_start(x);
	assert_true(run_until(x->loop, &x->n_ready, 1));
	assert_int_equal(rconn_client_id(x->link), 0);
	assert_string_equal(rconn_run_id(x->link), "");
}

static const struct {
	const char *word;
	const char *answer;
	const char *why; /* what people read */
} refusals[] = {
	{"AUTH", "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
	 "AUTH: WRONGPASS invalid username-password pair or user is disabled; check username, "
	 "password or password_file in [redis]"},
	{"AUTH", "-ERR unknown command `AUTH`, with args beginning with: `ann`, `sesame`, \r\n",
	 "AUTH: ERR unknown command `AUTH`"},
	{"AUTH", "-ERR sesame is not the word\r\n", "AUTH: ERR *** is not the word"},
	{"CLIENT SETNAME", "-NOAUTH Authentication required.\r\n",
	 "CLIENT SETNAME: NOAUTH Authentication required; set password or password_file in "
	 "[redis]"},
	{"PING", "-LOADING Redis is loading the dataset in memory\r\n",
	 "PING: LOADING Redis is loading the dataset in memory"},
	{"PING", "-MASTERDOWN Link with MASTER is down\r\n",
	 "PING: MASTERDOWN Link with MASTER is down"},
	{"PING", "-BUSY Redis is busy running a script.\r\n",
	 "PING: BUSY Redis is busy running a script."},
	{"AUTH", "-ERR max number of clients reached\r\n",
	 "AUTH: ERR max number of clients reached"},
};

static size_t refusal;

static const char *refuse_one(struct fake *f, const char *word)
{
	/* The second time it is willing. */
	if (f->n_clients > 1 || strcmp(word, refusals[refusal].word) != 0)
		return NULL;
	return refusals[refusal].answer;
}

static void test_refusals_are_told_without_secrets(void **state)
{
	struct fixture *x = *state;

	fixture_login(x);
	for (refusal = 0; refusal < ARRAY_LEN(refusals); refusal++) {
		x->fake.greet = refuse_one;
		x->n_down = 0;
		fixture_start(x);
		assert_true(run_until(x->loop, &x->n_down, 1));
		assert_string_equal(x->why, refusals[refusal].why);
		assert_int_equal(x->n_ready, 0);
		rconn_close(x->link);
		x->link = NULL;
		ev_run(x->loop, EVRUN_NOWAIT);
		x->fake.n_clients = 0;
	}
}

static void test_loading_is_waited_for(void **state)
{
	struct fixture *x = *state;

	refusal = 4;
	x->fake.greet = refuse_one;
	fixture_start(x);
	assert_true(run_until(x->loop, &x->n_ready, 1));
	assert_int_equal(x->n_down, 1);
	assert_int_equal(x->fake.n_clients, 2);
}

/* ------------------------------------------------------------------ commands */

static void echo_number(struct fake *f, redisReply *r)
{
	char text[64];

	snprintf(text, sizeof(text), ":%s\r\n", r->element[1]->str);
	fake_say(f, text);
}

static void test_replies_come_in_order(void **state)
{
	struct fixture *x = *state;

	x->fake.on_command = echo_number;
	fixture_ready(x);
	for (int i = 0; i < 1000; i++)
		fixture_send_number(x, i);
	assert_int_equal(rconn_n_pending(x->link), 1000);
	assert_int_equal(x->fake.n_commands, 0); /* nothing is written before the turn ends */
	assert_true(run_until(x->loop, &x->n_replies, 1000));
	for (int i = 0; i < 1000; i++)
		assert_int_equal(x->replies[i], i);
	assert_int_equal(rconn_n_pending(x->link), 0);
}

static void test_a_turn_is_one_write(void **state)
{
	struct fixture *x = *state;

	x->fake.on_command = echo_number;
	fixture_ready(x);
	for (int i = 0; i < 100; i++)
		fixture_send_number(x, i);
	assert_true(run_until(x->loop, &x->fake.n_commands, 1));
	assert_int_equal(x->fake.n_commands, 100);
}

static void send_from_prepare(struct ev_loop *loop, ev_prepare *w, int revents)
{
	struct fixture *x = w->data;

	(void)revents;
	ev_prepare_stop(loop, w);
	fixture_send_number(x, 5);
}

static void test_what_a_prepare_watcher_sends_goes_out_before_the_loop_sleeps(void **state)
{
	struct fixture *x = *state;
	int64_t began;
	ev_prepare p;

	x->fake.on_command = echo_number;
	fixture_ready(x);
	ev_prepare_init(&p, send_from_prepare);
	p.data = x;
	ev_prepare_start(x->loop, &p);
	began = clock_mono_ms();
	assert_true(run_until(x->loop, &x->n_replies, 1));
	/* Asleep it would only have been woken by the command's own deadline. */
	assert_true(clock_mono_ms() - began < x->conf.command_timeout);
}

static void test_flush_does_not_wait_for_the_end_of_the_turn(void **state)
{
	struct fixture *x = *state;
	char bytes[256];

	x->fake.on_command = echo_number;
	fixture_ready(x);
	fixture_send_number(x, 1);
	assert_int_equal(recv(x->fake.fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT), -1);
	rconn_flush(x->link);
	assert_true(recv(x->fake.fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT) > 0);
	assert_true(run_until(x->loop, &x->n_replies, 1));
}

static void answer_with_its_length(struct fake *f, redisReply *r)
{
	char text[64];

	snprintf(text, sizeof(text), ":%zu\r\n", r->element[1]->len);
	fake_say(f, text);
}

static void test_large_arguments_travel_in_pieces(void **state)
{
	struct fixture *x = *state;
	size_t len = 4 * 1024 * 1024;
	char *big = xcalloc(len, 1);
	struct rconn_arg argv[] = {{"SET", 3}, {big, len}};

	x->fake.on_command = answer_with_its_length;
	fixture_ready(x);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rconn_send(x->link, 2, argv, 0, fixture_on_number, x), 0);
	free(big); /* copied */
	assert_true(run_until(x->loop, &x->n_replies, 3));
	for (int i = 0; i < 3; i++)
		assert_int_equal(x->replies[i], len);
}

static void answer_with_a_megabyte(struct fake *f, redisReply *r)
{
	size_t len = 1024 * 1024;
	char *big = xcalloc(len, 1);

	(void)r;
	fake_say(f, "$1048576\r\n");
	fake_say_bytes(f, big, len);
	fake_say(f, "\r\n");
	free(big);
}

static void on_bulk(void *arg, const redisReply *r)
{
	struct fixture *x = arg;

	assert_non_null(r);
	assert_int_equal(r->len, 1024 * 1024);
	x->n_replies++;
}

static void test_large_replies(void **state)
{
	struct fixture *x = *state;
	struct rconn_arg argv[] = {{"GET", 3}};

	x->fake.on_command = answer_with_a_megabyte;
	fixture_ready(x);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rconn_send(x->link, 1, argv, 0, on_bulk, x), 0);
	assert_true(run_until(x->loop, &x->n_replies, 3));
}

static void say_error(struct fake *f, redisReply *r)
{
	(void)r;
	fake_say(f, "-READONLY You can't write against a read only replica.\r\n");
}

static void on_error(void *arg, const redisReply *r)
{
	struct fixture *x = arg;

	assert_int_equal(r->type, REDIS_REPLY_ERROR);
	x->n_replies++;
}

static void test_an_error_reply_is_a_reply(void **state)
{
	struct fixture *x = *state;
	struct rconn_arg argv[] = {{"SET", 3}};

	x->fake.on_command = say_error;
	fixture_ready(x);
	assert_int_equal(rconn_send(x->link, 1, argv, 0, NULL, NULL), 0);
	assert_int_equal(rconn_send(x->link, 1, argv, 0, on_error, x), 0);
	assert_true(run_until(x->loop, &x->n_replies, 1));
	assert_true(rconn_is_ready(x->link));
	assert_int_equal(x->n_down, 0);
}

static void test_a_new_name_is_sent_at_once_and_kept(void **state)
{
	struct fixture *x = *state;

	x->fake.on_command = echo_number;
	fixture_ready(x);
	rconn_set_name(x->link, "other");
	fixture_send_number(x, 1);
	assert_true(run_until(x->loop, &x->n_replies, 1));
	assert_non_null(strstr(x->fake.log.data, "PING|CLIENT SETNAME other|"));
	rconn_drop(x->link, "test");
	assert_true(run_until(x->loop, &x->n_ready, 2));
	assert_non_null(strstr(x->fake.log.data, "ECHO 1|CLIENT SETNAME other|CLIENT ID|"));
}

#define T(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_greeting_is_one_write_in_order),
		T(test_greeting_without_password_and_database),
		T(test_refused_client_info_and_ping_do_no_harm),
		T(test_refusals_are_told_without_secrets),
		T(test_loading_is_waited_for),
		T(test_replies_come_in_order),
		T(test_a_turn_is_one_write),
		T(test_what_a_prepare_watcher_sends_goes_out_before_the_loop_sleeps),
		T(test_flush_does_not_wait_for_the_end_of_the_turn),
		T(test_large_arguments_travel_in_pieces),
		T(test_large_replies),
		T(test_an_error_reply_is_a_reply),
		T(test_a_new_name_is_sent_at_once_and_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
