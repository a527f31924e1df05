/* t_conf_finish.c - what one key cannot decide alone: conf_resolve() and conf_finish(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conf.h"

static void set(struct conf *c, const char *dotted, const char *value, enum conf_origin origin)
{
	const char *key = strchr(dotted, '.') + 1;
	enum conf_section s = dotted[0] == 's'   ? CONF_SUPERVISOR
			      : dotted[0] == 'r' ? CONF_REDIS
						 : CONF_QUEUE;
	struct err e;

	if (conf_set(c, s, NULL, key, value, origin, "test", &e) < 0)
		fail_msg("%s", e.text);
}

/* One with a queue "q" that could run. */
static struct conf *conf_with_queue(void)
{
	struct conf *c = conf_new();

	assert_int_equal(conf_add_queue(c, "q", NULL), 0);
	set(c, "queue.handler", "exec true", CONF_FROM_FILE);
	return c;
}

/* Rules across keys: what is set, and what conf_finish() says ("" = fine). */
static void test_finish(void **state)
{
	static const struct {
		const char *key, *value, *key2, *value2, *says, *warns;
	} cases[] = {
		{"queue.lease", "60s", NULL, NULL, "", NULL},
		{"queue.retry_delay", "20m", NULL, NULL,
		 "[queue q] retry_delay = 20m exceeds retry_delay_max = 15m", NULL},
		{"queue.retry_delay", "20m", "queue.retry_delay_max", "20m", "", NULL},
		{"supervisor.restart_delay", "31s", NULL, NULL,
		 "[supervisor] restart_delay = 31s exceeds restart_delay_max = 30s", NULL},
		{"redis.password", "a", "redis.password_file", "/x", "keep one of them", NULL},
		{"supervisor.group", "g", NULL, NULL, "set user as well", NULL},
		{"supervisor.control_socket",
		 "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		 "aaaaaaaaaaaaaaaaaaaaaaaaaaa",
		 NULL, NULL, "unix sockets allow 107", NULL},
		{"queue.lease", "20s", NULL, NULL, "", NULL},
		{"queue.lease", "6s", NULL, NULL, "", "(1s500ms) + kill_timeout (5s)"},
		{"queue.lease", "25s", "supervisor.heartbeat_timeout", "20s", "",
		 "heartbeat_timeout (20s) + kill_timeout (5s)"},
		{"queue.lease", "5s", "supervisor.heartbeat_timeout", "0", "",
		 "heartbeat_timeout (0)"},
		{"queue.lease", "6s", "supervisor.heartbeat_timeout", "0", "", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct conf *c = conf_with_queue();
		struct buf errs = BUF_INIT;
		int rc;

		set(c, cases[i].key, cases[i].value, CONF_FROM_FILE);
		if (cases[i].key2)
			set(c, cases[i].key2, cases[i].value2, CONF_FROM_FILE);
		rc = conf_finish(c, &errs);
		if (rc != (cases[i].says[0] ? -1 : 0) || !strstr(errs.data, cases[i].says))
			fail_msg("%s = %s: says \"%s\"", cases[i].key, cases[i].value, errs.data);
		buf_release(&errs);
		assert_int_equal(conf_warnings(c)[0] != NULL, cases[i].warns != NULL);
		if (cases[i].warns)
			assert_non_null(strstr(conf_warnings(c)[0], cases[i].warns));
		conf_free(c);
	}
}

static void test_finish_queues(void **state)
{
	struct conf *c = conf_new();
	struct buf errs = BUF_INIT;
	struct err e = {0};

	(void)state;
	assert_int_equal(conf_resolve(c, &errs), 0); /* enough for a client */
	assert_int_equal(conf_finish(c, &errs), -1);
	assert_non_null(strstr(errs.data, "no queue; "));
	assert_int_equal(conf_add_queue(c, "video", &e), 0);
	buf_clear(&errs);
	assert_int_equal(conf_finish(c, &errs), -1);
	assert_non_null(strstr(errs.data, "[queue video] has no handler; "));
	buf_release(&errs);
	conf_free(c);
}

/* Not one at a time: whoever mends a file wants to run -t twice, not six times. */
static void every_error_across_keys_is_said_at_once(void **state)
{
	static const char *const says[] = {
		"restart_delay = 31s exceeds",
		"Sentinel",
		"[redis] tls_cert_file without tls_key_file; set both or neither",
		"keep one of them",
		"set user as well",
		"[queue a] has no handler",
		"[queue b] retry_delay = 20m exceeds",
	};
	struct conf *c = conf_new();
	struct buf errs = BUF_INIT;
	struct err e = {0};
	size_t lines = 0;

	(void)state;
	assert_int_equal(conf_add_queue(c, "a", &e), 0);
	assert_int_equal(conf_add_queue(c, "b", &e), 0);
	set(c, "supervisor.restart_delay", "31s", CONF_FROM_FILE);
	set(c, "supervisor.group", "g", CONF_FROM_FILE);
	set(c, "redis.url", "redis-sentinel://cache", CONF_FROM_ENV_ALIAS);
	set(c, "redis.password", "a", CONF_FROM_FILE);
	set(c, "redis.password_file", "/x", CONF_FROM_FILE);
	set(c, "redis.tls_cert_file", "/x", CONF_FROM_FILE);
	set(c, "queue.retry_delay", "20m", CONF_FROM_FILE);
	assert_int_equal(conf_finish(c, &errs), -1);
	for (size_t i = 0; i < ARRAY_LEN(says); i++)
		if (!strstr(errs.data, says[i]))
			fail_msg("\"%s\" is not in:\n%s", says[i], errs.data);
	for (size_t i = 0; i < errs.len; i++)
		lines += errs.data[i] == '\n';
	assert_int_equal(lines, 9); /* no handler and retry_delay: both queues */
	buf_release(&errs);
	conf_free(c);
}

/* Of password and password_file the one said with more weight is used. */
/* Partitions need hash slots, and names, of their own. */
static void test_partitions(void **state)
{
	static const struct {
		const char *queue, *other, *says;
	} cases[] = {
		{"q", "r", ""},
		{"q", "q:6", ""},
		{"q", "q:5", "\"q:5\" is one of them, and a queue of its own"},
		{"{q}", "r", "choose a name without, or partitions = 1"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf errs = BUF_INIT;
		struct conf *c = conf_new();

		assert_int_equal(conf_add_queue(c, cases[i].queue, NULL), 0);
		set(c, "queue.partitions", "6", CONF_FROM_FILE);
		set(c, "queue.handler", "exec true", CONF_FROM_FILE);
		assert_int_equal(conf_add_queue(c, cases[i].other, NULL), 0);
		if (cases[i].says[0]) {
			assert_int_equal(conf_set(c, CONF_QUEUE, cases[i].other, "partitions", "1",
						  CONF_FROM_FILE, "test", NULL),
					 0);
			assert_int_equal(conf_finish(c, &errs), -1);
			if (!strstr(errs.data, cases[i].says))
				fail_msg("%s: %s", cases[i].queue, errs.data);
			assert_null(strchr(strchr(errs.data, '\n') + 1, '\n'));
		} else if (conf_finish(c, &errs) < 0) {
			fail_msg("%s", errs.data);
		}
		buf_release(&errs);
		conf_free(c);
	}
}

static void test_passwords(void **state)
{
	struct conf *c = conf_with_queue();
	struct buf errs = BUF_INIT;

	(void)state;
	set(c, "redis.password_file", "/file", CONF_FROM_FILE);
	set(c, "redis.password", "env", CONF_FROM_ENV);
	assert_int_equal(conf_finish(c, &errs), 0);
	assert_null(conf_redis(c)->password_file);
	assert_string_equal(conf_redis(c)->password, "env");
	conf_free(c);
}

static void test_workers_and_heartbeat(void **state)
{
	struct conf *c = conf_with_queue();
	struct buf errs = BUF_INIT;
	struct err e = {0};

	(void)state;
	assert_int_equal(conf_add_queue(c, "own", &e), 0);
	assert_int_equal(conf_set(c, CONF_QUEUE, "own", "workers", "2", CONF_FROM_FILE, "f", &e),
			 0);
	set(c, "supervisor.workers", "7", CONF_FROM_FILE);
	assert_int_equal(conf_finish(c, &errs), 0);
	assert_int_equal(conf_queue(c, "q")->workers, 7);
	assert_int_equal(conf_queue(c, "own")->workers, 2);
	set(c, "supervisor.workers", "3", CONF_FROM_FLAG); /* -n, and once more */
	assert_int_equal(conf_finish(c, &errs), 0);
	assert_int_equal(conf_queue(c, "q")->workers, 3);
	set(c, "supervisor.workers", "max", CONF_FROM_FLAG);
	assert_int_equal(conf_finish(c, &errs), 0);
	assert_true(conf_supervisor(c)->workers >= 1);
	assert_int_equal(conf_queue(c, "q")->workers, conf_supervisor(c)->workers);
	assert_int_equal(conf_queue(c, "own")->workers, 2);

	assert_int_equal(conf_heartbeat_ms(c, conf_queue(c, "q")), 15000);
	set(c, "queue.lease", "8s", CONF_FROM_FILE);
	assert_int_equal(conf_heartbeat_ms(c, conf_queue(c, "q")), 2000);
	set(c, "supervisor.heartbeat_timeout", "20s", CONF_FROM_FILE);
	assert_int_equal(conf_heartbeat_ms(c, conf_queue(c, "q")), 20000);
	set(c, "supervisor.heartbeat_timeout", "0", CONF_FROM_FILE);
	assert_int_equal(conf_heartbeat_ms(c, conf_queue(c, "q")), 0);
	conf_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_finish),
		cmocka_unit_test(test_finish_queues),
		cmocka_unit_test(every_error_across_keys_is_said_at_once),
		cmocka_unit_test(test_partitions),
		cmocka_unit_test(test_passwords),
		cmocka_unit_test(test_workers_and_heartbeat),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
