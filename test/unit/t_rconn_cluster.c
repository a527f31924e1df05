/* t_rconn_cluster.c - a link to the node of a cluster that has its key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cluster_fixture.h"

/* ------------------------------------------------------------------ finding it */

static void test_greets_and_proves(void **state)
{
	struct world *w = *state;

	start(w);
	assert_true(rconn_is_cluster(w->x.link));
	ready(w, 0);
	assert_string_equal(
		w->nodes[0].log.data,
		"CLIENT SETNAME me:cmd|CLIENT ID|INFO server|PING|CLUSTER SLOTS|EXISTS q|");
	assert_int_equal(w->x.n_down, 0);
}

/* The owner of the link hears nothing of the hops. */
static void test_follows_moved(void **state)
{
	struct world *w = *state;

	w->owner = 3;
	ready(w, 3);
	assert_int_equal(w->nodes[0].n_clients, 1);
	assert_int_equal(w->x.n_down, 0);
	fixture_send_number(&w->x, 7);
	assert_true(run_until(w->x.loop, &w->x.n_replies, 1));
	assert_int_equal(w->x.replies[0], 7);
}

static void test_logs_in_at_each(void **state)
{
	struct world *w = *state;

	fixture_login(&w->x);
	w->owner = 1;
	ready(w, 1);
	assert_non_null(strstr(w->nodes[0].log.data, "AUTH ann sesame|"));
	assert_non_null(strstr(w->nodes[1].log.data, "AUTH ann sesame|"));
}

/* No node can do anything about that, and none is told the half of it, or in the clear. */
static void test_a_password_that_cannot_be_read_ends_the_try(void **state)
{
	struct world *w = *state;

	ready(w, 0);
	w->x.conf.password_file = (char[]){"/dev/null/none"};
	rconn_drop(w->x.link, "because");
	assert_true(run_until(w->x.loop, &w->x.n_down, 2));
	assert_non_null(strstr(w->x.why, "/dev/null/none"));
	for (int i = 0; i < N_NODES; i++)
		assert_int_equal(w->nodes[i].n_clients, i == 0);
	w->x.conf.password_file = NULL;
	fixture_login(&w->x);
	ready(w, 0);
	assert_non_null(strstr(w->nodes[0].log.data, "AUTH ann sesame|"));
}

static void test_dead_seeds_are_passed_over(void **state)
{
	struct world *w = *state;

	kill_node(w, 0);
	kill_node(w, 1);
	w->owner = 3;
	ready(w, 3);
	assert_int_equal(w->x.n_down, 0);
}

/* One hangs: the others are asked long before connect_timeout is over. */
static void test_a_seed_that_hangs(void **state)
{
	struct world *w = *state;

	w->x.conf.connect_timeout = 60000;
	w->exists[0] = "";
	w->owner = 1;
	start(w);
	assert_true(run_until(w->x.loop, &w->n_greeted, 1));
	later(w, 3);
	ready(w, 1);
	assert_int_equal(w->x.n_down, 0);
}

static void test_one_that_loads_is_passed_over(void **state)
{
	struct world *w = *state;

	w->exists[0] = "-LOADING Redis is loading the dataset in memory\r\n";
	w->exists[1] = "-CLUSTERDOWN The cluster is down\r\n";
	w->owner = 2;
	ready(w, 2);
	assert_int_equal(w->x.n_down, 0);
}

/* The seeds die, the cluster lives: what CLUSTER SLOTS had told is enough. */
static void test_dead_seeds_after_the_others_were_learned(void **state)
{
	struct world *w = *state;
	char slots[100];

	write_url(w, "0");
	snprintf(slots, sizeof(slots), "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n",
		 w->nodes[2].port);
	w->slots = slots;
	ready(w, 0);
	w->owner = 3;
	kill_node(w, 0);
	ready(w, 3); /* by 2 */
	assert_int_equal(w->nodes[2].n_clients, 1);
}

static void test_all_down_is_one_failed_try(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 3; i++)
		w->exists[i] = "-CLUSTERDOWN Hash slot not served\r\n";
	start(w);
	assert_true(run_until(w->x.loop, &w->x.n_down, 1));
	assert_string_equal(w->x.why, "EXISTS: CLUSTERDOWN Hash slot not served");
	assert_int_equal(w->n_greeted, 3);
	w->exists[0] = w->exists[1] = w->exists[2] = NULL;
	ready(w, 0);
}

static void test_an_owner_that_is_dead_is_waited_for(void **state)
{
	struct world *w = *state;

	w->owner = 3;
	kill_node(w, 3);
	start(w);
	assert_true(run_until(w->x.loop, &w->x.n_down, 1));
	assert_non_null(strstr(w->x.why, "slot 5 is at 127.0.0.1:"));
	assert_non_null(strstr(w->x.why, "could not be used: connect to 127.0.0.1:"));
	assert_non_null(strstr(w->x.why, "Connection refused"));
	w->owner = 1; /* promoted */
	ready(w, 1);
}

/* Whoever has the slot for now says ASK of a key that has gone, or never was. */
static void test_a_slot_that_moves_is_waited_for(void **state)
{
	struct world *w = *state;

	w->exists[0] = "-ASK 5 127.0.0.1:1\r\n";
	start(w);
	assert_true(run_until(w->x.loop, &w->x.n_down, 1));
	assert_non_null(strstr(w->x.why, "slot 5 is being moved away from 127.0.0.1"));
	assert_int_equal(w->nodes[1].n_clients, 0);
	w->exists[0] = NULL;
	w->owner = 2;
	ready(w, 2);
}

/* By one of them: the others may have the new one already. */
static void test_one_that_refuses_is_passed_over(void **state)
{
	struct world *w = *state;

	w->exists[0] = "-NOAUTH Authentication required.\r\n";
	w->owner = 1;
	ready(w, 1);
	assert_int_equal(w->x.n_down, 0);
}

/* Whoever is asked after it: it is what a person can mend. */
static void test_a_refused_password_is_said(void **state)
{
	struct world *w = *state;

	w->owner = 1;
	w->exists[1] = "-NOAUTH Authentication required.\r\n";
	start(w);
	assert_true(run_until(w->x.loop, &w->x.n_down, 1));
	assert_non_null(
		strstr(w->x.why,
		       "EXISTS: NOAUTH Authentication required; set password or password_file in "
		       "[redis] (at 127.0.0.1:"));
	assert_int_equal(w->nodes[2].n_clients, 1);
}

/* Without the permissions for both words the link stands, and later replies show the way. */
static void test_without_permissions(void **state)
{
	struct world *w = *state;

	w->slots = "-NOPERM this user has no permissions to run the 'cluster|slots' command\r\n";
	w->exists[0] = "-NOPERM this user has no permissions to run the 'exists' command\r\n";
	w->owner = 1;
	ready(w, 0);
	fixture_send_number(&w->x, 7);
	ready(w, 1);
}

/* ------------------------------------------------------------------ later */

static const char *seen_error;

static void on_error(void *arg, const redisReply *r)
{
	int *n = arg;

	seen_error = r && r->type == REDIS_REPLY_ERROR && strncmp(r->str, "MOVED 5 ", 8) == 0
			     ? "MOVED"
			     : "else";
	++*n;
}

/* The reply tells that nothing was done; the link falls, and comes back at once at the target. */
static void test_moved_in_a_later_reply(void **state)
{
	const struct rconn_arg argv[] = {{"ECHO", 4}, {"1", 1}};
	struct world *w = *state;
	int n = 0;

	ready(w, 0);
	w->owner = 3;
	assert_int_equal(rconn_send(w->x.link, 2, argv, 0, on_error, &n), 0);
	assert_true(run_until(w->x.loop, &n, 1));
	assert_string_equal(seen_error, "MOVED");
	assert_false(rconn_is_ready(w->x.link));
	ready(w, 3);
	assert_int_equal(w->x.n_down, 1);
	assert_non_null(strstr(w->x.why, "slot 5 is at 127.0.0.1:"));
	assert_int_equal(w->nodes[0].n_clients, 1); /* nobody else was asked */
	assert_int_equal(w->nodes[1].n_clients, 0);
}

/* Two that send to each other: not as fast as the loop turns. */
static void test_moved_to_and_fro_does_not_spin(void **state)
{
	struct world *w = *state;
	struct fixture *x = &w->x;

	w->exists[0] = w->exists[1] = ":1\r\n";
	ready(w, 0);
	for (int i = 0; i < 4; i++) {
		w->owner = i % 2 ? 0 : 1;
		fixture_send_number(x, 7);
		ready(w, w->owner);
	}
	assert_int_equal(x->n_down, 4);
	assert_true(w->nodes[0].n_clients + w->nodes[1].n_clients <= 5);
}

/* A node that is cut off from the others, which have promoted another meanwhile. */
static void test_the_others_are_asked_when_the_cluster_is_down(void **state)
{
	struct world *w = *state;

	ready(w, 0);
	w->echo = w->exists[0] = "-CLUSTERDOWN The cluster is down\r\n";
	w->owner = 2;
	fixture_send_number(&w->x, 7);
	ready(w, 2);
	assert_int_equal(w->x.n_down, 1);
	assert_string_equal(w->x.why, "CLUSTERDOWN The cluster is down");
}

static void test_other_errors_leave_the_link_alone(void **state)
{
	struct world *w = *state;

	ready(w, 0);
	w->echo = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
	fixture_send_number(&w->x, 1);
	assert_true(run_until(w->x.loop, &w->x.n_replies, 1));
	w->echo = "-ASK 5 127.0.0.1:1\r\n";
	fixture_send_number(&w->x, 1);
	assert_true(run_until(w->x.loop, &w->x.n_replies, 2));
	fixture_send_number(&w->x, 3);
	assert_true(run_until(w->x.loop, &w->x.n_replies, 3));
	assert_int_equal(w->x.replies[2], 3);
	assert_int_equal(w->x.n_down, 0);
}

/* What a link does whose url is redis://: nothing of all this. */
static void test_moved_without_a_cluster_url(void **state)
{
	struct world *w = *state;
	char url[64];

	snprintf(url, sizeof(url), "redis://127.0.0.1:%d/0", w->nodes[0].port);
	w->x.conf.url = url;
	ready(w, 0);
	assert_false(rconn_is_cluster(w->x.link));
	assert_null(strstr(w->nodes[0].log.data, "CLUSTER"));
	assert_null(strstr(w->nodes[0].log.data, "EXISTS"));
	w->owner = 1;
	fixture_send_number(&w->x, 1);
	assert_true(run_until(w->x.loop, &w->x.n_replies, 1));
	assert_true(rconn_is_ready(w->x.link));
}

/* ------------------------------------------------------------------ two links */

static void test_one_follows_the_other(void **state)
{
	const struct rconn_events events = {fixture_on_ready, fixture_on_down};
	struct world *w = *state;
	struct fixture *x = &w->x;
	struct rconn *other;
	int n_ready;

	w->exists[1] = ":1\r\n"; /* both take it for theirs: a failover that not all know of */
	ready(w, 0);
	write_url(w, "1");
	other = rconn_new(x->loop, &x->conf, "me:fetch", &events, x);
	rconn_set_key(other, "q");
	rconn_start(other);
	n_ready = x->n_ready;
	assert_true(run_until(x->loop, &x->n_ready, n_ready + 1));
	assert_string_not_equal(rconn_where(x->link), rconn_where(other));
	rconn_drop_to(x->link, other, "the other is elsewhere");
	assert_true(run_until(x->loop, &x->n_ready, n_ready + 2));
	assert_string_equal(rconn_where(x->link), rconn_where(other));
	rconn_close(other);
}

/* It waits out its back-off, and the other one has found the new owner: nobody else is asked. */
static void test_one_is_told_where_the_other_is(void **state)
{
	const struct rconn_events events = {fixture_on_ready, fixture_on_down};
	struct world *w = *state;
	struct fixture *x = &w->x;
	struct rconn *other;
	int n_ready;

	w->exists[0] = w->exists[1] = w->exists[2] = "-CLUSTERDOWN Hash slot not served\r\n";
	start(w);
	assert_true(run_until(x->loop, &x->n_down, 1));
	w->owner = 3;
	write_url(w, "3");
	other = rconn_new(x->loop, &x->conf, "me:fetch", &events, x);
	rconn_set_key(other, "q");
	rconn_start(other);
	n_ready = x->n_ready;
	assert_true(run_until(x->loop, &x->n_ready, n_ready + 1));
	rconn_hurry(x->link, other);
	assert_true(run_until(x->loop, &x->n_ready, n_ready + 2));
	assert_string_equal(rconn_where(x->link), rconn_where(other));
	rconn_close(other);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_greets_and_proves),
		TEST(test_follows_moved),
		TEST(test_logs_in_at_each),
		TEST(test_a_password_that_cannot_be_read_ends_the_try),
		TEST(test_dead_seeds_are_passed_over),
		TEST(test_a_seed_that_hangs),
		TEST(test_one_that_loads_is_passed_over),
		TEST(test_dead_seeds_after_the_others_were_learned),
		TEST(test_all_down_is_one_failed_try),
		TEST(test_an_owner_that_is_dead_is_waited_for),
		TEST(test_a_slot_that_moves_is_waited_for),
		TEST(test_one_that_refuses_is_passed_over),
		TEST(test_a_refused_password_is_said),
		TEST(test_without_permissions),
		TEST(test_moved_in_a_later_reply),
		TEST(test_moved_to_and_fro_does_not_spin),
		TEST(test_the_others_are_asked_when_the_cluster_is_down),
		TEST(test_other_errors_leave_the_link_alone),
		TEST(test_moved_without_a_cluster_url),
		TEST(test_one_follows_the_other),
		TEST(test_one_is_told_where_the_other_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
