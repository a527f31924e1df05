/*
 * t_rconn_scout.c - a link to a node of a cluster that does not answer, while the others know who
 * has the key.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cluster_fixture.h"

/* The owner hangs, or its host is gone, and with each try it is given more time: a replica that is
 * promoted meanwhile is found at once all the same. */
static void test_a_promotion_is_seen_while_the_old_owner_hangs(void **state)
{
	struct world *w = *state;

	w->x.conf.connect_timeout = 60000;
	w->owner = 3;
	w->exists[3] = "";
	start(w);
	for (int i = 1; i <= 6; i++) {
		assert_true(run_until(w->x.loop, &w->nodes[3].n_commands, 2 * i));
		later(w, 61);
		assert_true(run_until(w->x.loop, &w->x.n_down, i));
	}
	/* What was of no use is said as before. */
	assert_non_null(strstr(w->x.why, "could not be used: no answer to EXISTS from 127.0.0.1:"));
	assert_true(run_until(w->x.loop, &w->nodes[3].n_commands, 14));
	w->owner = 1;
	ready(w, 1);
	assert_int_equal(w->x.n_down, 6);
	assert_int_equal(w->nodes[3].n_clients, 7);
}

/* A listener whose queue is full drops what comes, as the network does where a host is gone. */
static void stop_answering(struct world *w, int i, int *queue, int n)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};

	ev_io_stop(w->x.loop, &w->nodes[i].accepting);
	assert_int_equal(listen(w->nodes[i].listener, 0), 0);
	in.sin_port = htons((uint16_t)w->nodes[i].port);
	for (int k = 0; k < n; k++) {
		queue[k] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		assert_true(connect(queue[k], (const struct sockaddr *)&in, sizeof(in)) == 0 ||
			    errno == EINPROGRESS);
	}
}

/* Not a word comes back, not even that of the kernel. */
static void test_a_promotion_is_seen_while_the_old_host_is_gone(void **state)
{
	struct world *w = *state;
	int queue[4];

	w->x.conf.connect_timeout = 60000;
	stop_answering(w, 3, queue, ARRAY_LEN(queue));
	w->owner = 3;
	start(w);
	assert_true(run_until(w->x.loop, &w->n_greeted, 3)); /* one, and two others meanwhile */
	assert_int_equal(w->nodes[3].n_clients, 0);
	w->owner = 2;
	ready(w, 2);
	assert_int_equal(w->x.n_down, 0);
	for (size_t i = 0; i < ARRAY_LEN(queue); i++)
		close(queue[i]);
}

/* Even where the one that is promoted has told in this try that the slot is not its own. */
static void test_one_that_was_asked_before_is_promoted(void **state)
{
	struct world *w = *state;

	w->x.conf.connect_timeout = 60000;
	w->owner = 3;
	w->exists[3] = "";
	start(w);
	assert_true(run_until(w->x.loop, &w->nodes[3].n_commands, 2));
	w->owner = 0;
	ready(w, 0);
	assert_int_equal(w->x.n_down, 0);
}

/* It was only slow, and answers at last: nobody else is asked any more. */
static void test_an_owner_that_answers_late_is_as_good(void **state)
{
	struct world *w = *state;

	w->x.conf.connect_timeout = 60000;
	w->exists[0] = "";
	start(w);
	assert_true(run_until(w->x.loop, &w->nodes[1].n_clients, 2));
	assert_int_equal(w->nodes[0].n_clients, 1);
	fake_say(&w->nodes[0], ":1\r\n");
	ready(w, 0);
	assert_int_equal(w->x.n_down, 0);
	while (w->nodes[1].fd >= 0 || w->nodes[2].fd >= 0)
		ev_run(w->x.loop, EVRUN_ONCE);
	fixture_send_number(&w->x, 7);
	assert_true(run_until(w->x.loop, &w->x.n_replies, 1));
	assert_int_equal(w->x.replies[0], 7);
}

/* It goes on as a replica of the new one, which it says itself. */
static void test_an_old_owner_that_goes_on_sends_to_the_new_one(void **state)
{
	struct world *w = *state;

	w->x.conf.connect_timeout = 60000;
	w->exists[0] = w->exists[1] = w->exists[2] = "";
	start(w);
	assert_true(run_until(w->x.loop, &w->n_greeted, 1));
	w->owner = 3;
	say_moved(&w->nodes[0], 3);
	ready(w, 3);
	assert_int_equal(w->x.n_down, 0);
}

/* A link for no key in particular goes to whoever answers. */
static void test_any_node_that_answers_will_do_without_a_key(void **state)
{
	const struct rconn_events events = {fixture_on_ready, fixture_on_down};
	struct world *w = *state;

	w->x.conf.connect_timeout = 60000;
	w->nodes[0].deaf = true;
	w->x.link = rconn_new(w->x.loop, &w->x.conf, "me:cmd", &events, &w->x);
	rconn_start(w->x.link);
	ready(w, 1);
	assert_int_equal(w->x.n_down, 0);
}

/* Closed while somebody else is being asked: nothing is left of that. */
static void test_is_closed_while_others_are_asked(void **state)
{
	struct world *w = *state;

	w->exists[0] = w->exists[1] = w->exists[2] = "";
	start(w);
	assert_true(run_until(w->x.loop, &w->n_greeted, 2));
	rconn_close(w->x.link);
	w->x.link = NULL;
	while (w->nodes[0].fd >= 0 || w->nodes[1].fd >= 0)
		ev_run(w->x.loop, EVRUN_ONCE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_a_promotion_is_seen_while_the_old_owner_hangs),
		TEST(test_a_promotion_is_seen_while_the_old_host_is_gone),
		TEST(test_one_that_was_asked_before_is_promoted),
		TEST(test_an_owner_that_answers_late_is_as_good),
		TEST(test_an_old_owner_that_goes_on_sends_to_the_new_one),
		TEST(test_any_node_that_answers_will_do_without_a_key),
		TEST(test_is_closed_while_others_are_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
