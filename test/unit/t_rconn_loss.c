/* t_rconn_loss.c - a link that falls, in every way, and its owner who closes it at odd moments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake_redis.h"
#include "link_fixture.h"

static void silent(struct fake *f, redisReply *r)
{
	(void)f;
	(void)r;
}

static void hang_up(struct fake *f, redisReply *r)
{
	(void)r;
	fake_hang_up(f);
}

/* ------------------------------------------------------------------ end-of-file anywhere */

static const char nested[] = "*3\r\n*2\r\n$1\r\na\r\n*0\r\n$-1\r\n:42\r\n";
static size_t cut;

static void say_cut_and_hang_up(struct fake *f, redisReply *r)
{
	(void)r;
	fake_say_bytes(f, nested, cut);
	fake_hang_up(f);
}

static int n_nulls, n_wholes;

static void count_reply(void *arg, const redisReply *r)
{
	struct fixture *x = arg;

	x->n_replies++;
	if (!r)
		n_nulls++;
	else
		n_wholes += r->type == REDIS_REPLY_ARRAY && r->elements == 3 &&
			    r->element[2]->integer == 42;
}

static void test_end_of_file_at_every_byte_of_a_reply(void **state)
{
	struct fixture *x = *state;
	struct rconn_arg argv[] = {{"GET", 3}};
	int n = (int)sizeof(nested);

	x->fake.on_command = say_cut_and_hang_up;
	n_nulls = n_wholes = 0;
	for (cut = 0; cut < sizeof(nested); cut++) {
		x->n_ready = x->n_down = x->n_replies = 0;
		fixture_ready(x);
		assert_int_equal(rconn_send(x->link, 1, argv, 0, count_reply, x), 0);
		assert_true(run_until(x->loop, &x->n_down, 1));
		assert_string_equal(x->why, "Redis closed the connection");
		assert_int_equal(x->n_replies, 1);
		assert_int_equal(rconn_client_id(x->link), 0);
		rconn_close(x->link);
		x->link = NULL;
		ev_run(x->loop, EVRUN_NOWAIT);
	}
	assert_int_equal(n_nulls, n - 1);
	assert_int_equal(n_wholes, 1);
}

static const char *greeting_all =
	"+OK\r\n:7\r\n$78\r\n# Server\r\nredis_version:7.0\r\nrun_id:" FAKE_RUN_ID
	"\r\n\r\n+PONG\r\n";

static const char *greet_cut(struct fake *f, const char *word)
{
	if (strcmp(word, "CLIENT SETNAME") == 0) {
		fake_say_bytes(f, greeting_all, cut);
		fake_hang_up(f);
	}
	return "";
}

static void test_end_of_file_at_every_byte_of_the_greeting(void **state)
{
	struct fixture *x = *state;
	size_t len = strlen(greeting_all);

	x->fake.greet = greet_cut;
	for (cut = 0; cut <= len; cut++) {
		x->n_ready = x->n_down = 0;
		fixture_start(x);
		assert_true(run_until(x->loop, &x->n_down, 1));
		assert_int_equal(x->n_ready, cut == len);
		rconn_close(x->link);
		x->link = NULL;
		ev_run(x->loop, EVRUN_NOWAIT);
	}
}

/* ------------------------------------------------------------------ what is no protocol */

static const char *const garbage[] = {
	"HTTP/1.1 400 Bad Request\r\n\r\n",
	"*1000000000\r\n",
	"*2000000\r\n",
	"\r\n\r\n\r\n",
	"$x\r\n",
	"*-7\r\n",
};
static size_t which;

static void say_garbage(struct fake *f, redisReply *r)
{
	(void)r;
	fake_say(f, garbage[which]);
}

static void test_garbage_and_absurd_arrays_drop_the_link(void **state)
{
	struct fixture *x = *state;

	x->fake.on_command = say_garbage;
	for (which = 0; which < ARRAY_LEN(garbage); which++) {
		x->n_ready = x->n_down = x->n_replies = 0;
		fixture_ready(x);
		fixture_send_number(x, 1);
		assert_true(run_until(x->loop, &x->n_down, 1));
		assert_non_null(strstr(x->why, "not its protocol"));
		assert_int_equal(x->replies[0], FIXTURE_LOST);
		rconn_close(x->link);
		x->link = NULL;
		ev_run(x->loop, EVRUN_NOWAIT);
	}
}

static void say_two(struct fake *f, redisReply *r)
{
	(void)r;
	fake_say(f, ":1\r\n-ERR and goodbye\r\n");
}

static void test_a_reply_to_no_command_drops_the_link(void **state)
{
	struct fixture *x = *state;

	x->fake.on_command = say_two;
	fixture_ready(x);
	fixture_send_number(x, 1);
	assert_true(run_until(x->loop, &x->n_down, 1));
	assert_int_equal(x->replies[0], 1);
	assert_string_equal(x->why, "ERR and goodbye");
}

/* ------------------------------------------------------------------ deadlines */

static void test_a_hung_server_runs_into_the_deadline(void **state)
{
	struct fixture *x = *state;

	x->fake.on_command = silent;
	x->conf.command_timeout = 30;
	fixture_ready(x);
	fixture_send_number(x, 1);
	fixture_send_number(x, 2);
	assert_true(run_until(x->loop, &x->n_down, 1));
	assert_non_null(strstr(x->why, "no answer to ECHO for 0."));
	assert_int_equal(x->n_replies, 2);
	assert_int_equal(x->replies[1], FIXTURE_LOST);
}

static const char *no_greeting(struct fake *f, const char *word)
{
	(void)f;
	return strcmp(word, "CLIENT SETNAME") == 0 ? NULL : "";
}

static void test_a_server_that_hangs_in_the_greeting(void **state)
{
	struct fixture *x = *state;

	x->conf.connect_timeout = 100;
	x->fake.greet = no_greeting;
	fixture_start(x);
	assert_true(run_until(x->loop, &x->n_down, 1));
	assert_non_null(strstr(x->why, "no answer to CLIENT ID from "));
}

static ev_timer answer_later;

static void answer_both(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct fake *f = w->data;

	(void)loop;
	(void)revents;
	fake_say(f, "*-1\r\n:2\r\n");
}

static void block_a_while(struct fake *f, redisReply *r)
{
	if (strcmp(r->element[0]->str, "XREADGROUP") != 0)
		return;
	ev_timer_init(&answer_later, answer_both, 0.1, 0.);
	answer_later.data = f;
	ev_timer_start(f->loop, &answer_later);
}

static void test_a_command_behind_a_blocked_one_has_its_time(void **state)
{
	struct fixture *x = *state;
	struct rconn_arg argv[] = {{"XREADGROUP", 10}};

	x->fake.on_command = block_a_while;
	x->conf.command_timeout = 30;
	fixture_ready(x);
	assert_int_equal(rconn_send(x->link, 1, argv, 5000, fixture_on_number, x), 0);
	fixture_send_number(x, 2);
	assert_true(run_until(x->loop, &x->n_replies, 2));
	assert_int_equal(x->replies[1], 2);
	assert_int_equal(x->n_down, 0);
}

static void test_a_shorter_deadline_is_kept_after_a_longer_one(void **state)
{
	struct fixture *x = *state;
	struct rconn_arg argv[] = {{"XREADGROUP", 10}};

	x->fake.on_command = block_a_while;
	x->conf.command_timeout = 50;
	fixture_ready(x);
	assert_int_equal(rconn_send(x->link, 1, argv, 60000, fixture_on_number, x), 0);
	fixture_send_number(x, 2);
	assert_true(run_until(x->loop, &x->n_replies, 2));
	x->fake.on_command = silent;
	fixture_send_number(x, 3);
	assert_true(run_until(x->loop, &x->n_down, 1)); /* not in a minute */
}

static void say_after_the_deadline(struct fake *f, redisReply *r)
{
	int64_t end_ms = clock_mono_ms() + 60;

	(void)r;
	fake_say(f, ":9\r\n");
	while (clock_mono_ms() < end_ms) /* as if this process had been stopped */
		;
}

static void test_a_reply_that_waited_for_us_is_taken(void **state)
{
	struct fixture *x = *state;

	x->fake.on_command = say_after_the_deadline;
	x->conf.command_timeout = 30;
	fixture_ready(x);
	fixture_send_number(x, 1);
	assert_true(run_until(x->loop, &x->n_replies, 1));
	assert_int_equal(x->replies[0], 9);
	assert_int_equal(x->n_down, 0);
	assert_true(rconn_is_ready(x->link));
}

/* ------------------------------------------------------------------ order at the loss */

static void nothing_is_ready_when_lost(struct fixture *x)
{
	assert_int_equal(x->n_down, 0); /* replies first, then on_down */
	assert_false(rconn_is_ready(x->link));
	assert_int_equal(fixture_try_number(x, 0), -1);
}

static void test_all_that_wait_are_told_in_order_and_then_the_owner(void **state)
{
	struct fixture *x = *state;

	x->fake.on_command = hang_up;
	x->in_reply = nothing_is_ready_when_lost;
	fixture_ready(x);
	for (int i = 0; i < 50; i++)
		fixture_send_number(x, i);
	assert_true(run_until(x->loop, &x->n_down, 1));
	assert_int_equal(x->n_replies, 50);
	assert_int_equal(rconn_n_pending(x->link), 0);
}

static void test_it_comes_back(void **state)
{
	struct fixture *x = *state;

	x->fake.on_command = hang_up;
	fixture_ready(x);
	for (int i = 1; i <= 5; i++) {
		fixture_send_number(x, i);
		assert_true(run_until(x->loop, &x->n_ready, i + 1));
		assert_int_equal(x->n_down, i);
	}
	assert_int_equal(x->fake.n_clients, 6);
}

static void hurry(struct fixture *x)
{
	if (x->n_down < 30)
		rconn_hurry(x->link, NULL);
}

static void test_a_back_off_is_ended_by_hurry(void **state)
{
	struct fixture *x = *state;
	int64_t begun = clock_mono_ms();

	snprintf(x->url, sizeof(x->url), "unix://%s/none", x->dir);
	x->conf.url = x->url;
	x->in_down = hurry;
	fixture_start(x);
	rconn_hurry(x->link, NULL); /* it is trying: nothing to end */
	assert_int_equal(x->n_down, 0);
	assert_true(run_until(x->loop, &x->n_down, 30));
	/* Thirty back-offs of up to 2 s would have taken half a minute. */
	assert_in_range(clock_mono_ms() - begun, 0, 5000);
	x->in_down = NULL;
}

static void test_silence_is_counted_from_what_the_command_takes_itself(void **state)
{
	struct fixture *x = *state;
	struct rconn_arg argv[] = {{"XREADGROUP", 10}};
	int64_t now, at;

	x->fake.on_command = silent;
	fixture_ready(x);
	assert_true(rconn_silent_at(x->link, 100) == INT64_MAX);
	now = clock_mono_ms();
	assert_int_equal(rconn_send(x->link, 1, argv, 2000, fixture_on_number, x), 0);
	fixture_send_number(x, 1); /* behind it: waits as long */
	at = rconn_silent_at(x->link, 100);
	assert_in_range(at, now + 2100, clock_mono_ms() + 2100);
}

static void test_drop_waits_for_the_end_of_the_turn(void **state)
{
	struct fixture *x = *state;

	x->fake.on_command = silent;
	fixture_ready(x);
	fixture_send_number(x, 1);
	rconn_drop(x->link, "because");
	rconn_drop(x->link, "another reason");
	assert_int_equal(x->n_replies, 0);
	assert_false(rconn_is_ready(x->link));
	assert_int_equal(fixture_try_number(x, 2), -1);
	assert_true(run_until(x->loop, &x->n_down, 1));
	assert_string_equal(x->why, "because");
	assert_int_equal(x->n_replies, 1);
	assert_true(run_until(x->loop, &x->n_ready, 2));
}

static void test_nobody_there(void **state)
{
	struct fixture *x = *state;

	snprintf(x->url, sizeof(x->url), "unix://%s/none", x->dir);
	x->conf.url = x->url;
	fixture_start(x);
	assert_int_equal(x->n_down, 0); /* never inside a call */
	assert_true(run_until(x->loop, &x->n_down, 2));
	assert_non_null(strstr(x->why, "/none: No such file or directory"));
}

static void test_a_server_that_never_reads_is_given_up(void **state)
{
	struct fixture *x = *state;
	int n = 0;

	x->fake.on_command = silent;
	fixture_ready(x);
	x->fake.deaf = true;
	ev_io_stop(x->loop, &x->fake.reading);
	x->in_reply = NULL;
	for (struct rconn_arg argv[] = {{"PING", 4}}; n < 1000000; n++)
		if (rconn_send(x->link, 1, argv, 0, NULL, NULL) < 0)
			break;
	assert_true(n < 100000);
	assert_true(run_until(x->loop, &x->n_down, 1));
	assert_non_null(strstr(x->why, "Redis takes no more"));
}

/* ------------------------------------------------------------------ closing inside callbacks */

static void close_it(struct fixture *x)
{
	struct rconn *link = x->link;

	x->link = NULL;
	rconn_close(link);
	rconn_close(link); /* twice does no harm */
}

static void close_in_first_reply(struct fixture *x)
{
	int before = x->n_replies;

	if (!x->link)
		return;
	close_it(x);
	/* Those that waited behind have been told before rconn_close() came back. */
	assert_int_equal(x->n_replies, before + 9);
}

static void echo_seven(struct fake *f, redisReply *r)
{
	(void)r;
	fake_say(f, ":7\r\n:7\r\n");
}

static void test_close_inside_a_reply(void **state)
{
	struct fixture *x = *state;

	x->fake.on_command = echo_seven;
	x->in_reply = close_in_first_reply;
	fixture_ready(x);
	for (int i = 0; i < 10; i++)
		fixture_send_number(x, i);
	assert_true(run_until(x->loop, &x->n_replies, 10));
	assert_int_equal(x->replies[0], 7);
	assert_int_equal(x->replies[1], FIXTURE_LOST);
	assert_int_equal(x->n_down, 0);
}

static void test_close_inside_a_lost_reply(void **state)
{
	struct fixture *x = *state;

	x->fake.on_command = hang_up;
	x->in_reply = close_in_first_reply;
	fixture_ready(x);
	for (int i = 0; i < 10; i++)
		fixture_send_number(x, i);
	assert_true(run_until(x->loop, &x->n_replies, 10));
	ev_run(x->loop, EVRUN_NOWAIT);
	assert_int_equal(x->n_down, 0);
}

static void test_close_inside_on_ready(void **state)
{
	struct fixture *x = *state;

	x->in_ready = close_it;
	fixture_ready(x);
	ev_run(x->loop, EVRUN_NOWAIT);
	assert_int_equal(x->n_down, 0);
}

static void test_close_inside_on_down(void **state)
{
	struct fixture *x = *state;

	x->fake.on_command = hang_up;
	x->in_down = close_it;
	fixture_ready(x);
	fixture_send_number(x, 1);
	assert_true(run_until(x->loop, &x->n_down, 1));
	ev_run(x->loop, EVRUN_NOWAIT);
	assert_int_equal(x->n_ready, 1);
}

static void test_close_in_every_state(void **state)
{
	struct fixture *x = *state;
	const struct rconn_events events = {fixture_on_ready, fixture_on_down};

	x->link = rconn_new(x->loop, &x->conf, "me", &events, x);
	close_it(x); /* down */
	fixture_start(x);
	close_it(x); /* connecting */
	x->fake.greet = no_greeting;
	fixture_start(x);
	assert_true(run_until(x->loop, &x->fake.n_clients, 1));
	close_it(x); /* greeting */
	fixture_start(x);
	rconn_drop(x->link, "test");
	assert_true(run_until(x->loop, &x->n_down, 1));
	close_it(x); /* waiting */
	assert_int_equal(x->n_ready, 0);
	rconn_close(NULL);
}

#define T(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_end_of_file_at_every_byte_of_a_reply),
		T(test_end_of_file_at_every_byte_of_the_greeting),
		T(test_garbage_and_absurd_arrays_drop_the_link),
		T(test_a_reply_to_no_command_drops_the_link),
		T(test_a_hung_server_runs_into_the_deadline),
		T(test_a_server_that_hangs_in_the_greeting),
		T(test_a_command_behind_a_blocked_one_has_its_time),
		T(test_a_shorter_deadline_is_kept_after_a_longer_one),
		T(test_a_reply_that_waited_for_us_is_taken),
		T(test_all_that_wait_are_told_in_order_and_then_the_owner),
		T(test_it_comes_back),
		T(test_a_back_off_is_ended_by_hurry),
		T(test_silence_is_counted_from_what_the_command_takes_itself),
		T(test_drop_waits_for_the_end_of_the_turn),
		T(test_nobody_there),
		T(test_a_server_that_never_reads_is_given_up),
		T(test_close_inside_a_reply),
		T(test_close_inside_a_lost_reply),
		T(test_close_inside_on_ready),
		T(test_close_inside_on_down),
		T(test_close_in_every_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
