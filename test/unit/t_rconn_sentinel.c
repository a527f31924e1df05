/*
 * t_rconn_sentinel.c - a link whose Redis has to be found by asking Sentinels. clock_gettime() is
 * our own here, so that half a second of silence, and half a minute between two looks, are over
 * when the test says so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/syscall.h>
#include <time.h>

#include "fake_redis.h"
#include "link_fixture.h"

/* ------------------------------------------------------------------ the clock */

static int64_t ahead_s;

int clock_gettime(clockid_t id, struct timespec *ts)
{
	long r = syscall(SYS_clock_gettime, id, ts);

	ts->tv_sec += ahead_s;
	return (int)r;
}

/* ------------------------------------------------------------------ the servers */

#define N_SENTINELS 3

struct world {
	struct fixture x; /* its fake is the master: at first */
	struct fake other;
	struct fake sentinels[N_SENTINELS];
	const char *answers[N_SENTINELS]; /* "" = says nothing, NULL = hangs up */
	char places[2][64];               /* what says that the master, or the other one, is it */
	char url[200];
	const char *role; /* of the master */
	int n_asked;      /* Sentinels, in all */
};

static struct world *world;

static void on_sentinel(struct fake *f, redisReply *r)
{
	size_t i = (size_t)(f - world->sentinels);

	assert_string_equal(r->element[0]->str, "SENTINEL");
	assert_string_equal(r->element[1]->str, "get-master-addr-by-name");
	assert_string_equal(r->element[2]->str, "m");
	world->n_asked++;
	if (world->answers[i])
		fake_say(f, world->answers[i]);
	else
		fake_hang_up(f);
}

/* An answer travels byte by byte and may end anywhere. */
static size_t said_at_most;

static void on_sentinel_in_crumbs(struct fake *f, redisReply *r)
{
	size_t i = (size_t)(f - world->sentinels);

	(void)r;
	world->n_asked++;
	for (size_t k = 0; world->answers[i][k] && k < said_at_most; k++) {
		fake_say_bytes(f, world->answers[i] + k, 1);
		ev_run(f->loop, EVRUN_NOWAIT);
	}
	fake_hang_up(f);
}

static void say_role(struct fake *f, const char *role)
{
	char text[64];

	snprintf(text, sizeof(text), "*3\r\n$%zu\r\n%s\r\n:0\r\n*0\r\n", strlen(role), role);
	fake_say(f, text);
}

static void on_master(struct fake *f, redisReply *r)
{
	if (strcmp(r->element[0]->str, "ROLE") == 0)
		say_role(f, world->role);
	else
		fake_say(f, ":1\r\n");
}

static void on_other(struct fake *f, redisReply *r)
{
	if (strcmp(r->element[0]->str, "ROLE") == 0)
		say_role(f, "master");
	else
		fake_say(f, ":2\r\n");
}

static void put_place(char place[64], const struct fake *f)
{
	char port[8];

	snprintf(port, sizeof(port), "%d", f->port);
	snprintf(place, 64, "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(port), port);
}

static int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));
	struct fixture *x = &w->x;

	world = w;
	w->role = "master";
	x->loop = ev_loop_new(EVFLAG_AUTO);
	fake_init(&x->fake, x->loop);
	fake_listen_tcp(&x->fake);
	x->fake.on_command = on_master;
	fake_init(&w->other, x->loop);
	fake_listen_tcp(&w->other);
	w->other.on_command = on_other;
	put_place(w->places[0], &x->fake);
	put_place(w->places[1], &w->other);
	for (int i = 0; i < N_SENTINELS; i++) {
		fake_init(&w->sentinels[i], x->loop);
		fake_listen_tcp(&w->sentinels[i]);
		w->sentinels[i].on_command = on_sentinel;
		w->answers[i] = w->places[0];
	}
	snprintf(w->url, sizeof(w->url), "sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/m/3",
		 w->sentinels[0].port, w->sentinels[1].port, w->sentinels[2].port);
	x->conf.url = w->url;
	x->conf.connect_timeout = 5000;
	x->conf.command_timeout = 5000;
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	rconn_close(w->x.link);
	for (int i = 0; i < N_SENTINELS; i++)
		fake_release(&w->sentinels[i]);
	fake_release(&w->other);
	fake_release(&w->x.fake);
	ev_loop_destroy(w->x.loop);
	free(w);
	return 0;
}

/* All that is going on now has been done: the loop finds nothing more. */
static void settle(struct world *w)
{
	for (int i = 0; i < 50; i++)
		ev_run(w->x.loop, EVRUN_NOWAIT);
}

static void later(struct world *w, int64_t seconds)
{
	ahead_s += seconds;
	ev_now_update(w->x.loop); /* or what is armed next would be so from before the jump */
}

/* ------------------------------------------------------------------ finding it */

static void test_asks_then_connects_and_proves(void **state)
{
	struct world *w = *state;
	char where[64];

	fixture_start(&w->x);
	assert_non_null(strstr(rconn_where(w->x.link), "sentinel://127.0.0.1:"));
	assert_true(run_until(w->x.loop, &w->x.n_ready, 1));
	snprintf(where, sizeof(where), "redis://127.0.0.1:%d/3", w->x.fake.port);
	assert_string_equal(rconn_where(w->x.link), where);
	assert_string_equal(w->x.fake.log.data,
			    "ROLE|SELECT 3|CLIENT SETNAME me:cmd|CLIENT ID|INFO server|PING|");
	assert_string_equal(w->sentinels[0].log.data, "SENTINEL get-master-addr-by-name m|");
	assert_int_equal(w->n_asked, 1);
}

/* Neither ever sees the other's. */
static void test_each_gets_its_own_password(void **state)
{
	static char user[] = "watcher", password[] = "s1";
	struct world *w = *state;

	fixture_login(&w->x);
	fixture_ready(&w->x);
	assert_non_null(strstr(w->x.fake.log.data, "AUTH ann sesame|ROLE|"));
	assert_string_equal(w->sentinels[0].log.data, "SENTINEL get-master-addr-by-name m|");
	rconn_close(w->x.link);
	buf_clear(&w->sentinels[0].log);
	buf_clear(&w->x.fake.log);
	w->x.conf.sentinel_password = password;
	w->x.n_ready = 0;
	fixture_ready(&w->x);
	assert_string_equal(w->sentinels[0].log.data,
			    "AUTH s1|SENTINEL get-master-addr-by-name m|");
	rconn_close(w->x.link);
	buf_clear(&w->sentinels[0].log);
	w->x.conf.sentinel_username = user;
	w->x.n_ready = 0;
	fixture_ready(&w->x);
	assert_string_equal(w->sentinels[0].log.data,
			    "AUTH watcher s1|SENTINEL get-master-addr-by-name m|");
	assert_null(strstr(w->x.fake.log.data, "s1"));
}

static const char *no_password_here(struct fake *f, const char *word)
{
	(void)f;
	return strcmp(word, "AUTH") == 0
		       ? "-ERR AUTH <password> called without any password configured\r\n"
		       : NULL;
}

static const char *wrong_password(struct fake *f, const char *word)
{
	(void)f;
	return strcmp(word, "AUTH") == 0 ? "-WRONGPASS invalid s1\r\n" : NULL;
}

static void test_a_password_that_nobody_asked_for_does_no_harm(void **state)
{
	static char password[] = "s1";
	struct world *w = *state;

	w->x.conf.sentinel_password = password;
	w->sentinels[0].greet = no_password_here;
	fixture_ready(&w->x);
	assert_int_equal(w->n_asked, 1);
}

static void test_a_wrong_password_is_said_and_not_shown(void **state)
{
	static char password[] = "s1";
	struct world *w = *state;

	w->x.conf.sentinel_password = password;
	for (int i = 0; i < N_SENTINELS; i++) {
		w->sentinels[i].greet = wrong_password;
		w->answers[i] = "-NOAUTH Authentication required.\r\n";
	}
	fixture_start(&w->x);
	assert_true(run_until(w->x.loop, &w->x.n_down, 1));
	assert_non_null(strstr(w->x.why, "AUTH: WRONGPASS invalid ***"));
	assert_int_equal(w->n_asked, 3);
}

/* ------------------------------------------------------------------ those that do not know */

static void test_silence_costs_half_a_second_once(void **state)
{
	struct world *w = *state;

	w->answers[0] = "";
	w->answers[1] = NULL;
	fixture_start(&w->x);
	assert_true(run_until(w->x.loop, &w->n_asked, 1));
	settle(w);
	assert_int_equal(w->n_asked, 1);
	later(w, 1);
	assert_true(run_until(w->x.loop, &w->x.n_ready, 1));
	assert_int_equal(w->n_asked, 3);
	/* A link that comes back has nothing to wait for. */
	w->answers[0] = w->answers[1] = w->places[0];
	fake_hang_up(&w->x.fake);
	assert_true(run_until(w->x.loop, &w->x.n_ready, 2));
	assert_int_equal(w->n_asked, 4);
}

static void test_an_answer_may_end_anywhere(void **state)
{
	struct world *w = *state;
	size_t whole = strlen(w->places[0]);

	w->answers[1] = w->answers[2] = NULL;
	w->sentinels[0].on_command = on_sentinel_in_crumbs;
	for (said_at_most = 0; said_at_most <= whole; said_at_most++) {
		w->x.n_ready = w->x.n_down = 0;
		fixture_start(&w->x);
		if (said_at_most < whole) {
			assert_true(run_until(w->x.loop, &w->x.n_down, 1));
			assert_int_equal(w->x.n_ready, 0);
			assert_non_null(strstr(w->x.why, "closed the connection"));
		} else {
			assert_true(run_until(w->x.loop, &w->x.n_ready, 1));
		}
		rconn_close(w->x.link);
		settle(w);
	}
	w->x.link = NULL;
}

static void test_none_knows(void **state)
{
	struct world *w = *state;

	w->answers[0] = "*-1\r\n";
	w->answers[1] = NULL;
	w->answers[2] = "+what\r\n";
	fixture_start(&w->x);
	assert_true(run_until(w->x.loop, &w->x.n_down, 1));
	assert_non_null(strstr(w->x.why, "knows no master \"m\""));
	assert_int_equal(w->n_asked, 3);
	assert_int_equal(w->x.fake.n_clients, 0);
	/* And then one does. */
	w->answers[1] = w->places[0];
	assert_true(run_until(w->x.loop, &w->x.n_ready, 1));
}

/* ------------------------------------------------------------------ old news */

static void test_a_slave_is_left_and_another_sentinel_asked(void **state)
{
	struct world *w = *state;

	w->role = "slave";
	w->answers[1] = w->places[1];
	fixture_start(&w->x);
	assert_true(run_until(w->x.loop, &w->x.n_ready, 1));
	assert_int_equal(w->x.n_down, 1);
	assert_string_equal(w->x.why, "it is no master: ROLE answers \"slave\"");
	assert_int_equal(w->other.n_clients, 1);
	assert_string_equal(w->sentinels[1].log.data, "SENTINEL get-master-addr-by-name m|");
}

static void refuse_role(struct fake *f, redisReply *r)
{
	(void)r;
	fake_say(f, "-NOPERM this user has no permissions to run the 'role' command\r\n");
}

static void test_role_must_be_allowed(void **state)
{
	struct world *w = *state;

	w->x.fake.on_command = refuse_role;
	fixture_start(&w->x);
	assert_true(run_until(w->x.loop, &w->x.n_down, 1));
	assert_non_null(strstr(w->x.why, "ROLE: NOPERM"));
	assert_int_equal(w->x.n_ready, 0);
}

/* ------------------------------------------------------------------ the master moves */

static void test_who_watches_looks_every_half_minute(void **state)
{
	struct world *w = *state;

	fixture_start(&w->x);
	rconn_watch_master(w->x.link);
	assert_true(run_until(w->x.loop, &w->x.n_ready, 1));
	settle(w);
	assert_int_equal(w->n_asked, 1);
	for (int n = 2; n < 5; n++) { /* nothing has changed */
		later(w, 31);
		assert_true(run_until(w->x.loop, &w->n_asked, n));
		settle(w);
		assert_true(rconn_is_ready(w->x.link));
		assert_int_equal(w->n_asked, n);
	}
	for (int i = 0; i < N_SENTINELS; i++)
		w->answers[i] = w->places[1];
	later(w, 31);
	assert_true(run_until(w->x.loop, &w->x.n_ready, 2));
	assert_non_null(strstr(w->x.why, "the master has moved to 127.0.0.1:"));
	assert_int_equal(w->other.n_clients, 1);
}

static void test_who_does_not_watch_does_not_ask(void **state)
{
	struct world *w = *state;

	fixture_ready(&w->x);
	later(w, 31);
	settle(w);
	assert_int_equal(w->n_asked, 1);
}

static void test_without_a_sentinel_the_link_stays(void **state)
{
	struct world *w = *state;

	fixture_start(&w->x);
	rconn_watch_master(w->x.link);
	assert_true(run_until(w->x.loop, &w->x.n_ready, 1));
	w->answers[0] = w->answers[1] = w->answers[2] = NULL;
	for (int n = 1; n < 3; n++) {
		later(w, 31);
		assert_true(run_until(w->x.loop, &w->n_asked, 1 + n * N_SENTINELS));
		settle(w);
		assert_true(rconn_is_ready(w->x.link));
	}
	fixture_send_number(&w->x, 1);
	assert_true(run_until(w->x.loop, &w->x.n_replies, 1));
	assert_int_equal(w->x.n_down, 0);
}

/* A host that is gone says nothing; connect_timeout is far away. */
static void test_a_silent_master_is_given_up_when_another_is_known(void **state)
{
	struct world *w = *state;

	w->x.conf.connect_timeout = 600000;
	w->x.fake.deaf = true;
	fixture_start(&w->x);
	assert_true(run_until(w->x.loop, &w->x.fake.n_clients, 1));
	later(w, 2); /* asked again: still there */
	assert_true(run_until(w->x.loop, &w->n_asked, 2));
	settle(w);
	assert_int_equal(w->x.n_down, 0);
	for (int i = 0; i < N_SENTINELS; i++)
		w->answers[i] = w->places[1];
	later(w, 2);
	assert_true(run_until(w->x.loop, &w->x.n_ready, 1));
	assert_int_equal(w->x.fake.n_clients, 1);
	assert_int_equal(w->other.n_clients, 1);
}

/* ------------------------------------------------------------------ the owner goes */

static void test_closed_and_dropped_at_any_moment(void **state)
{
	struct world *w = *state;

	w->answers[1] = "";
	w->answers[0] = NULL;
	for (int turns = 0; turns < 60; turns++) {
		fixture_start(&w->x);
		for (int i = 0; i < turns / 2; i++)
			ev_run(w->x.loop, EVRUN_NOWAIT);
		if (turns % 2) {
			rconn_drop(w->x.link, "dropped");
			settle(w);
		}
		rconn_close(w->x.link);
		settle(w);
	}
	w->x.link = NULL;
	w->answers[1] = w->places[0];
	w->x.n_ready = 0;
	fixture_ready(&w->x);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_asks_then_connects_and_proves),
		TEST(test_each_gets_its_own_password),
		TEST(test_a_password_that_nobody_asked_for_does_no_harm),
		TEST(test_a_wrong_password_is_said_and_not_shown),
		TEST(test_silence_costs_half_a_second_once),
		TEST(test_an_answer_may_end_anywhere),
		TEST(test_none_knows),
		TEST(test_a_slave_is_left_and_another_sentinel_asked),
		TEST(test_role_must_be_allowed),
		TEST(test_who_watches_looks_every_half_minute),
		TEST(test_who_does_not_watch_does_not_ask),
		TEST(test_without_a_sentinel_the_link_stays),
		TEST(test_a_silent_master_is_given_up_when_another_is_known),
		TEST(test_closed_and_dropped_at_any_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
