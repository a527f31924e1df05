/* t_script.c - scripts over a link: against a fake server, and against a real one if there is one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>

#include "fake_redis.h"
#include "link_fixture.h"
#include "script.h"
#include "spawn.h"

static const struct rconn_arg args[] = {{"{q}:c", 5}, {"nul\0\r\nin", 8}, {"", 0}};

static int n_seen;
static bool hang_up_at_eval;

/* EVALSHA is unknown; EVAL must bring the same arguments, byte for byte. */
static void knows_no_script(struct fake *f, redisReply *r)
{
	bool by_sha = strcmp(r->element[0]->str, "EVALSHA") == 0;

	n_seen++;
	assert_int_equal(r->elements, 6);
	assert_string_equal(r->element[1]->str,
			    by_sha ? script_sha1(SCRIPT_CLAIM) : script_text(SCRIPT_CLAIM));
	assert_string_equal(r->element[2]->str, "1");
	assert_string_equal(r->element[3]->str, "{q}:c");
	assert_int_equal(r->element[4]->len, 8);
	assert_memory_equal(r->element[4]->str, "nul\0\r\nin", 8);
	assert_int_equal(r->element[5]->len, 0);
	if (by_sha)
		fake_say(f, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
	else if (hang_up_at_eval)
		fake_hang_up(f);
	else
		fake_say(f, ":1\r\n");
}

static int send_claim(struct fixture *x)
{
	return script_send(x->link, x->link, SCRIPT_CLAIM, 1, 3, args, 0, fixture_on_number, x);
}

static void test_an_unknown_script_is_sent_again_by_eval(void **state)
{
	struct fixture *x = *state;

	x->fake.on_command = knows_no_script;
	hang_up_at_eval = false;
	n_seen = 0;
	fixture_ready(x);
	assert_int_equal(send_claim(x), 0);
	assert_int_equal(send_claim(x), 0);
	assert_true(run_until(x->loop, &x->n_replies, 2));
	assert_int_equal(x->replies[0], 1);
	assert_int_equal(x->replies[1], 1);
	assert_int_equal(n_seen, 4);
}

static void test_a_detour_that_is_not_ready_is_not_taken(void **state)
{
	struct fixture *x = *state;
	const struct rconn_events none = {NULL, NULL};
	struct rconn *down = rconn_new(x->loop, &x->conf, "me:down", &none, NULL);

	x->fake.on_command = knows_no_script;
	hang_up_at_eval = false;
	fixture_ready(x);
	assert_int_equal(
		script_send(x->link, down, SCRIPT_CLAIM, 1, 3, args, 0, fixture_on_number, x), 0);
	assert_true(run_until(x->loop, &x->n_replies, 1));
	assert_int_equal(x->replies[0], 1);
	rconn_close(down);
}

static void test_a_link_lost_between_the_two(void **state)
{
	struct fixture *x = *state;

	x->fake.on_command = knows_no_script;
	hang_up_at_eval = true;
	fixture_ready(x);
	assert_int_equal(send_claim(x), 0);
	assert_true(run_until(x->loop, &x->n_down, 1));
	assert_int_equal(x->n_replies, 1);
	assert_int_equal(x->replies[0], FIXTURE_LOST);
	assert_int_equal(send_claim(x), -1);
}

static void drop_at_noscript(struct fake *f, redisReply *r)
{
	(void)r;
	fake_say(f, ":5\r\n-NOSCRIPT No matching script. Please use EVAL.\r\n");
}

static void drop_first(void *arg, const redisReply *r)
{
	struct fixture *x = arg;

	if (r)
		rconn_drop(x->link, "test");
}

static void test_a_link_that_falls_answers_once(void **state)
{
	struct fixture *x = *state;
	struct rconn_arg argv[] = {{"PING1", 5}};

	x->fake.on_command = drop_at_noscript;
	fixture_ready(x);
	assert_int_equal(rconn_send(x->link, 1, argv, 0, drop_first, x), 0);
	assert_int_equal(send_claim(x), 0);
	assert_true(run_until(x->loop, &x->n_down, 1));
	assert_int_equal(x->n_replies, 1);
	assert_int_equal(x->replies[0], FIXTURE_LOST);
}

static void say_error(struct fake *f, redisReply *r)
{
	(void)r;
	fake_say(f, "-WRONGTYPE something else\r\n");
}

static void test_other_errors_are_the_reply(void **state)
{
	struct fixture *x = *state;

	x->fake.on_command = say_error;
	fixture_ready(x);
	assert_int_equal(send_claim(x), 0);
	assert_true(run_until(x->loop, &x->n_replies, 1));
	assert_int_equal(x->fake.n_commands, 1);
}

/* ------------------------------------------------------------------ a real server */

struct real {
	struct fixture x; /* without a fake */
	struct child server;
};

static int start_server(void **state)
{
	struct real *real = xcalloc(1, sizeof(*real));
	struct fixture *x = &real->x;
	char *socket_path, *url;
	char *argv[] = {(char[]){"redis-server"},
			(char[]){"--port"},
			(char[]){"0"},
			(char[]){"--unixsocket"},
			NULL,
			(char[]){"--save"},
			(char[]){""},
			NULL};
	char *envp[] = {(char[]){"PATH=/usr/local/bin:/usr/bin:/bin"}, NULL};
	const int fds[] = {-1, -1, 2};
	struct spawn s = {.argv = argv,
			  .envp = envp,
			  .fds = fds,
			  .n_fds = 3,
			  .group = SPAWN_GROUP,
			  .pdeathsig = SIGKILL,
			  .cwd = x->dir};
	enum spawn_step step;

	*state = real;
	snprintf(x->dir, sizeof(x->dir), "/tmp/t_script.XXXXXX");
	if (!mkdtemp(x->dir))
		return -1;
	socket_path = xasprintf("%s/r.sock", x->dir);
	url = xasprintf("unix://%s", socket_path);
	snprintf(x->url, sizeof(x->url), "%s", url);
	argv[4] = socket_path;
	x->conf.url = x->url;
	x->conf.connect_timeout = x->conf.command_timeout = 5000;
	x->loop = ev_loop_new(EVFLAG_AUTO);
	if (spawn_run(&s, &real->server, &step) < 0)
		real->server.pid = -1;
	free(socket_path);
	free(url);
	return 0;
}

static int stop_server(void **state)
{
	struct real *real = *state;
	struct child_exit how;
	char path[64];

	rconn_close(real->x.link);
	ev_loop_destroy(real->x.loop);
	if (real->server.pid > 0) {
		kill(real->server.pid, SIGKILL);
		while (child_reap(real->server.pid, &how) < 0 && errno == EAGAIN)
			;
		close(real->server.pidfd);
	}
	snprintf(path, sizeof(path), "%s/r.sock", real->x.dir);
	unlink(path);
	rmdir(real->x.dir);
	free(real);
	return 0;
}

static enum script_id loading;

static void check_sha1(void *arg, const redisReply *r)
{
	struct fixture *x = arg;

	assert_non_null(r);
	if (r->type == REDIS_REPLY_ERROR)
		print_error("%s: %s\n", script_name(loading), r->str);
	assert_string_equal(r->str, script_sha1(loading));
	x->n_replies++;
}

static void test_redis_compiles_each_script_and_agrees_about_its_sha1(void **state)
{
	struct real *real = *state;
	struct fixture *x = &real->x;

	if (real->server.pid < 0)
		skip();
	fixture_ready(x); /* however long the server takes to start */
	for (int i = 0; i < (int)N_SCRIPTS; i++) {
		struct rconn_arg argv[] = {{"SCRIPT", 6}, {"LOAD", 4}, {NULL, 0}};

		loading = (enum script_id)i;
		argv[2] = (struct rconn_arg){script_text(loading), strlen(script_text(loading))};
		assert_int_equal(rconn_send(x->link, 3, argv, 0, check_sha1, x), 0);
		assert_true(run_until(x->loop, &x->n_replies, i + 1));
	}
}

static void check_not_noscript(void *arg, const redisReply *r)
{
	struct fixture *x = arg;

	assert_non_null(r);
	if (r->type == REDIS_REPLY_ERROR)
		assert_int_not_equal(strncmp(r->str, "NOSCRIPT", 8), 0);
	x->n_replies++;
}

static void test_a_script_runs_on_a_server_that_does_not_know_it(void **state)
{
	struct real *real = *state;
	struct fixture *x = &real->x;
	struct rconn_arg flush[] = {{"SCRIPT", 6}, {"FLUSH", 5}};

	if (real->server.pid < 0)
		skip();
	fixture_ready(x);
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(rconn_send(x->link, 2, flush, 0, NULL, NULL), 0);
		assert_int_equal(script_send(x->link, x->link, SCRIPT_CLAIM, 1, 3, args, 0,
					     check_not_noscript, x),
				 0);
		assert_true(run_until(x->loop, &x->n_replies, i));
	}
}

#define T(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)
#define R(f) cmocka_unit_test_setup_teardown(f, start_server, stop_server)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_an_unknown_script_is_sent_again_by_eval),
		T(test_a_detour_that_is_not_ready_is_not_taken),
		T(test_a_link_lost_between_the_two),
		T(test_a_link_that_falls_answers_once),
		T(test_other_errors_are_the_reply),
		R(test_redis_compiles_each_script_and_agrees_about_its_sha1),
		R(test_a_script_runs_on_a_server_that_does_not_know_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
