/* t_conf.c - precedence, queues, the diff, the snapshot. Rules across keys: t_conf_finish.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conf_doc.h"
#include "conf_row.h"
#include "conf_snapshot.h"

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

/* Whichever order two origins come in, the higher one stays; of equals the later one. */
static void test_precedence(void **state)
{
	static const char *const values[CONF_N_ORIGINS] = {"0", "11", "12", "13", "14"};

	(void)state;
	for (int first = CONF_FROM_FILE; first < CONF_N_ORIGINS; first++)
		for (int second = CONF_FROM_FILE; second < CONF_N_ORIGINS; second++) {
			struct conf *c = conf_with_queue();
			int want = 10 + (first > second ? first : second);

			set(c, "queue.concurrency", values[first], (enum conf_origin)first);
			set(c, "queue.concurrency", values[second], (enum conf_origin)second);
			assert_int_equal(conf_queue(c, "q")->concurrency, want);
			set(c, "queue.concurrency", "99", (enum conf_origin)second);
			assert_int_equal(conf_queue(c, "q")->concurrency,
					 second >= first ? 99 : want);
			conf_free(c);
		}
}

/* REDIS_URL alone ranks below the file, in either order. */
static void test_redis_url_alias(void **state)
{
	static const struct {
		enum conf_origin origin;
		bool alias_wins;
	} cases[] = {{CONF_FROM_FILE, false},
		     {CONF_FROM_ENV, false},
		     {CONF_FROM_FLAG, false},
		     {CONF_FROM_DEFAULT, true}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (int alias_first = 0; alias_first < 2; alias_first++) {
			struct conf *c = conf_new();
			struct buf errs = BUF_INIT;

			if (alias_first)
				set(c, "redis.url", "redis://alias", CONF_FROM_ENV_ALIAS);
			if (cases[i].origin != CONF_FROM_DEFAULT)
				set(c, "redis.url", "redis://mine", cases[i].origin);
			if (!alias_first)
				set(c, "redis.url", "redis://alias", CONF_FROM_ENV_ALIAS);
			assert_string_equal(conf_redis(c)->url,
					    cases[i].alias_wins ? "redis://alias" : "redis://mine");
			assert_int_equal(conf_resolve(c, &errs), 0);
			conf_free(c);
		}
}

/* It is judged only where it counts. */
static void test_bad_redis_url_alias(void **state)
{
	struct conf *c = conf_new();
	struct buf errs = BUF_INIT;

	(void)state;
	set(c, "redis.url", "redis-sentinel://cache", CONF_FROM_ENV_ALIAS);
	assert_int_equal(conf_resolve(c, &errs), -1);
	assert_non_null(strstr(errs.data, "Sentinel"));
	set(c, "redis.url", "redis://h", CONF_FROM_FILE);
	assert_int_equal(conf_resolve(c, &errs), 0);
	buf_release(&errs);
	conf_free(c);
}

static void test_queues(void **state)
{
	struct conf *c = conf_new();
	struct err e = {0};

	(void)state;
	assert_int_equal(conf_n_queues(c), 0);
	assert_null(conf_queue(c, "a"));
	set(c, "queue.max_attempts", "7", CONF_FROM_ENV); /* before there is any queue */
	assert_int_equal(conf_add_queue(c, "a", &e), 0);
	assert_int_equal(conf_add_queue(c, "a", &e), 0);
	assert_int_equal(conf_add_queue(c, "b]\xff c", &e), 0);
	assert_int_equal(conf_n_queues(c), 2);
	assert_string_equal(conf_queue_at(c, 1)->name, "b]\xff c");
	assert_int_equal(conf_queue(c, "a")->max_attempts, 7);
	assert_int_equal(
		conf_set(c, CONF_QUEUE, "a", "max_attempts", "8", CONF_FROM_FLAG, "-s", &e), 0);
	assert_int_equal(conf_queue(c, "a")->max_attempts, 8);
	assert_int_equal(conf_queue_at(c, 1)->max_attempts, 7);
	set(c, "queue.max_attempts", "9", CONF_FROM_ENV);
	assert_int_equal(conf_queue(c, "a")->max_attempts, 8);
	assert_int_equal(conf_queue_at(c, 1)->max_attempts, 9);
	assert_string_equal(conf_where(c, CONF_QUEUE, "a", "max_attempts"), "-s");
	assert_string_equal(conf_where(c, CONF_QUEUE, "a", "lease"), "default");
	assert_int_equal(conf_origin_of(c, CONF_QUEUE, "a", "max_attempts"), CONF_FROM_FLAG);
	assert_int_equal(conf_add_queue(c, "a}b", &e), -1);
	assert_int_equal(conf_add_queue(c, "", &e), -1);
	assert_int_equal(conf_keep_queue(c, "video", &e), -1);
	assert_string_equal(e.text, "no queue \"video\"; there is \"a\" and others");
	assert_int_equal(conf_keep_queue(c, "b]\xff c", &e), 0);
	assert_int_equal(conf_n_queues(c), 1);
	assert_null(conf_queue(c, "a"));
	conf_free(c);
}

static void test_refused(void **state)
{
	static const struct {
		enum conf_section s;
		const char *queue, *key, *value, *says;
	} cases[] = {
		{CONF_SUPERVISOR, NULL, "wrokers", "4",
		 "f:1: [supervisor] wrokers: unknown key; did you mean workers?"},
		{CONF_SUPERVISOR, NULL, "timeout", "4s", "unknown key"}, /* of another section */
		{CONF_QUEUE, NULL, "backed", "list", "unknown key; did you mean backend?"},
		{CONF_QUEUE, NULL, "partitons", "3", "did you mean partitions?"},
		{CONF_QUEUE, NULL, "child max memory", "1G", "did you mean child_max_memory?"},
		{CONF_QUEUE, NULL, "partitions", "65", "64"},
		{CONF_QUEUE, "z", "lease", "9s", "f:1: no queue \"z\""},
		{CONF_QUEUE, "q", "lease", "9", "f:1: [queue q] lease = 9: has no unit; write 9s"},
		{CONF_QUEUE, "q", "lease", "9s\n", "line break"},
		{CONF_QUEUE, "q", "cwd", "/a\r", "line break"},
		{CONF_QUEUE, "q", "cwd", "/a\x01", "control character 0x01"},
		{CONF_SUPERVISOR, NULL, "name", "a/b", "cannot be a directory"},
		{CONF_SUPERVISOR, NULL, "name", "..", "cannot be a directory"},
		{CONF_QUEUE, "q", "consumer", "worker", "has no %p"},
		{CONF_QUEUE, "q", "consumer", "%p%x", "write %% for one %"},
		{CONF_QUEUE, "q", "consumer", "%p%", "write %% for one %"},
		{CONF_QUEUE, "q", "consumer", "a %p", "one word"},
		{CONF_QUEUE, "q", "consumer", "100%%p", "has no %p"},
		{CONF_QUEUE, "q", "payload_field", "redisq.id", "choose another name"},
		{CONF_REDIS, NULL, "url", "redis://SECRET@h", "user or a password"},
		{CONF_REDIS, NULL, "url", "", "leave the key out"},
		{CONF_REDIS, NULL, "password", "SECRET\n", "line break"},
		{CONF_QUEUE, "q", "env", "A=SECRET B", "word 2"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct conf *c = conf_with_queue();
		struct err e = {0};

		if (conf_set(c, cases[i].s, cases[i].queue, cases[i].key, cases[i].value,
			     CONF_FROM_FLAG, "f:1", &e) == 0)
			fail_msg("%s = %s was taken", cases[i].key, cases[i].value);
		if (!strstr(e.text, cases[i].says))
			fail_msg("says \"%s\", not \"%s\"", e.text, cases[i].says);
		assert_null(strstr(e.text, "SECRET"));
		assert_int_equal(strncmp(e.text, "f:1: ", 5), 0);
		assert_int_equal(e.code, EXIT_CONFIG);
		conf_free(c);
	}
}

/* concurrency and read_count fall back: not positive anywhere, junk only from the environment. */
static void test_fallback(void **state)
{
	static const struct {
		const char *value;
		enum conf_origin origin;
		int want; /* 0 = an error */
		bool warns;
	} cases[] = {
		{"0", CONF_FROM_FILE, 4, true},        {"-3", CONF_FROM_FILE, 4, true},
		{"x", CONF_FROM_FILE, 0, false},       {"8", CONF_FROM_FILE, 8, false},
		{"0", CONF_FROM_ENV, 4, true},         {"x", CONF_FROM_ENV, 4, true},
		{"4x", CONF_FROM_ENV_ALIAS, 4, true},  {"2.5", CONF_FROM_ENV_ALIAS, 4, true},
		{"-99", CONF_FROM_ENV_ALIAS, 4, true}, {"8", CONF_FROM_ENV_ALIAS, 8, false},
		{"x", CONF_FROM_FLAG, 0, false},       {"0", CONF_FROM_FLAG, 4, true},
		{"10001", CONF_FROM_FILE, 0, false},   {"10001", CONF_FROM_ENV, 0, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct conf *c = conf_with_queue();
		struct err e = {0};
		int rc = conf_set(c, CONF_QUEUE, NULL, "concurrency", cases[i].value,
				  cases[i].origin, "w", &e);

		assert_int_equal(rc, cases[i].want ? 0 : -1);
		assert_int_equal(conf_queue(c, "q")->concurrency,
				 cases[i].want ? cases[i].want : 4);
		assert_int_equal(conf_warnings(c)[0] != NULL, cases[i].warns);
		if (cases[i].warns)
			assert_non_null(strstr(conf_warnings(c)[0], "using 4"));
		conf_free(c);
	}
}

/* A fallback from the environment still beats the file: 4, not the file's 8. */
static void test_fallback_ranks(void **state)
{
	struct conf *c = conf_with_queue();

	(void)state;
	set(c, "queue.concurrency", "8", CONF_FROM_FILE);
	set(c, "queue.concurrency", "none", CONF_FROM_ENV_ALIAS);
	assert_int_equal(conf_queue(c, "q")->concurrency, 4);
	set(c, "queue.concurrency", "6", CONF_FROM_ENV);
	set(c, "queue.concurrency", "0", CONF_FROM_ENV_ALIAS); /* beaten: no second warning */
	assert_int_equal(conf_queue(c, "q")->concurrency, 6);
	assert_non_null(conf_warnings(c)[0]);
	assert_null(conf_warnings(c)[1]);
	conf_free(c);
}

/* The warning says what is used instead, and what that replaces. */
static void test_fallback_says_what_it_replaces(void **state)
{
	struct conf *c = conf_with_queue();
	struct err e = {0};

	(void)state;
	assert_int_equal(conf_add_queue(c, "r", &e), 0);
	assert_int_equal(
		conf_set(c, CONF_QUEUE, "q", "concurrency", "8", CONF_FROM_FILE, "f:5", &e), 0);
	set(c, "queue.concurrency", "none", CONF_FROM_ENV);
	assert_non_null(strstr(conf_warnings(c)[0],
			       "= none: not a positive number; using 4, in place of 8 (f:5)"));
	assert_int_equal(conf_set(c, CONF_QUEUE, "r", "concurrency", "0", CONF_FROM_FLAG, "-s", &e),
			 0);
	assert_non_null(strstr(conf_warnings(c)[1], "using 4, in place of 4 ("));
	assert_null(strstr(conf_warnings(c)[1], "f:5"));
	conf_free(c);
}

static void test_handler_argv(void **state)
{
	static char sh[] = "sh", dash[] = "-c", script[] = "a | b\nc", empty[] = "";
	char *argv[] = {sh, dash, script, NULL}, *none[] = {empty, NULL};
	struct conf *c = conf_with_queue();
	struct err e = {0};

	(void)state;
	assert_int_equal(
		conf_set_handler_argv(c, "q", CONF_HANDLER_EXEC, 0, argv, CONF_FROM_FLAG, "--", &e),
		-1);
	assert_int_equal(
		conf_set_handler_argv(c, "q", CONF_HANDLER_EXEC, 1, none, CONF_FROM_FLAG, "--", &e),
		-1);
	assert_int_equal(
		conf_set_handler_argv(c, "z", CONF_HANDLER_EXEC, 3, argv, CONF_FROM_FLAG, "--", &e),
		-1);
	assert_int_equal(
		conf_set_handler_argv(c, "q", CONF_HANDLER_EXEC, 3, argv, CONF_FROM_FLAG, "--", &e),
		0);
	assert_int_equal(conf_queue(c, "q")->handler.kind, CONF_HANDLER_EXEC);
	assert_int_equal(conf_queue(c, "q")->handler.argv.n, 3);
	assert_string_equal(conf_queue(c, "q")->handler.argv.v[2], "a | b\nc");
	assert_int_equal(
		conf_set_handler_argv(c, "q", CONF_HANDLER_SO, 3, argv, CONF_FROM_FLAG, "--", &e),
		-1);
	assert_int_equal(
		conf_set_handler_argv(c, "q", CONF_HANDLER_PIPE, 3, argv, CONF_FROM_FLAG, "--", &e),
		0);
	assert_int_equal(conf_queue(c, "q")->handler.kind, CONF_HANDLER_PIPE);
	set(c, "queue.handler", "exec other", CONF_FROM_FILE);
	assert_int_equal(conf_queue(c, "q")->handler.argv.n, 3);
	conf_free(c);
}

static void boot_keys_keep_what_is_in_force(void **state)
{
	struct conf *running = conf_with_queue(), *now = conf_with_queue();
	struct err e = {0};

	(void)state;
	set(running, "supervisor.log_to", "files", CONF_FROM_FILE);
	assert_int_equal(
		conf_set(now, CONF_SUPERVISOR, NULL, "name", "other", CONF_FROM_FILE, "f:2", &e),
		0);
	set(now, "supervisor.user", "nobody", CONF_FROM_FILE);
	set(now, "supervisor.crash_limit", "3", CONF_FROM_FILE);
	set(now, "queue.lease", "2m", CONF_FROM_FILE);
	conf_keep_boot(now, running);
	assert_string_equal(conf_supervisor(now)->name, "redisq");
	assert_string_equal(conf_where(now, CONF_SUPERVISOR, NULL, "name"), "default");
	assert_int_equal(conf_supervisor(now)->log_to, CONF_LOG_TO_FILES);
	assert_null(conf_supervisor(now)->user);
	assert_int_equal(conf_supervisor(now)->crash_limit, 3);
	assert_int_equal(conf_queue(now, "q")->lease, 120000);
	conf_free(running);
	conf_free(now);
}

static void add_key(void *arg, const char *key)
{
	buf_addf(arg, "%s ", key);
}

static void test_diff(void **state)
{
	static const struct {
		const char *key, *value;
		enum conf_section s;
		enum conf_change want;
		const char *boot;
	} cases[] = {
		{"supervisor.log_keep", "5", CONF_SUPERVISOR, CONF_SAME,
		 ""}, /* said, not changed */
		{"supervisor.log_keep", "6", CONF_SUPERVISOR, CONF_LIVE_CHANGED, ""},
		{"supervisor.log_line_max", "1K", CONF_SUPERVISOR, CONF_ROLL_CHANGED, ""},
		{"supervisor.name", "x", CONF_SUPERVISOR, CONF_BOOT_CHANGED, "supervisor.name "},
		{"redis.url", "redis://x", CONF_REDIS, CONF_ROLL_CHANGED, ""},
		{"queue.workers", "9", CONF_QUEUE, CONF_LIVE_CHANGED, ""},
		{"queue.env", "A=1", CONF_QUEUE, CONF_ROLL_CHANGED, ""},
		{"queue.handler", "exec false", CONF_QUEUE, CONF_ROLL_CHANGED, ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct conf *was = conf_with_queue(), *now = conf_with_queue();
		struct buf boot = BUF_INIT;

		set(now, cases[i].key, cases[i].value, CONF_FROM_FLAG);
		for (enum conf_section s = 0; s < CONF_N_SECTIONS; s++)
			assert_int_equal(conf_diff(was, now, s, "q"),
					 s == cases[i].s ? cases[i].want : CONF_SAME);
		conf_diff_boot(was, now, add_key, &boot);
		assert_string_equal(boot.data, cases[i].boot);
		buf_release(&boot);
		conf_free(was);
		conf_free(now);
	}
}

/* Everything at once: what was written is read back equal, byte for byte written again. */
static void test_snapshot(void **state)
{
	static char sh[] = "sh", dash[] = "-c", script[] = "a | b\n\t'c' \"d\" \\ %41 # ; [x]";
	static char nothing[] = "", raw[] = "\xff\x01";
	static const char *const names[] = {"plain", "a]b [c", " lead # ; % =", "{tag}x",
					    "\xfe\xff"};
	char *argv[] = {sh, dash, script, nothing, raw, NULL};
	struct conf *c = conf_new(), *back = conf_new();
	struct buf text = BUF_INIT, again = BUF_INIT, errs = BUF_INIT;
	struct err e = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		assert_int_equal(conf_add_queue(c, names[i], &e), 0);
	assert_int_equal(conf_set_handler_argv(c, NULL, CONF_HANDLER_EXEC, 5, argv, CONF_FROM_FLAG,
					       "--", &e),
			 0);
	set(c, "redis.password", " a ; b # c %20\t", CONF_FROM_FILE);
	set(c, "redis.url", "redis://u:p%40#;w@[::1]:7/3", CONF_FROM_ENV_ALIAS);
	set(c, "queue.env", "A='x y' B=\"'\" C=", CONF_FROM_FILE);
	set(c, "queue.timeout", "1h30m7ms", CONF_FROM_ENV);
	set(c, "queue.payload_max", "12345B", CONF_FROM_FLAG);
	set(c, "supervisor.heartbeat_timeout", "auto", CONF_FROM_FILE);
	set(c, "supervisor.workers", "max", CONF_FROM_FILE);
	assert_int_equal(conf_finish(c, &errs), 0);
	conf_write_snapshot(c, &text);
	if (conf_snapshot_parse(back, slice_of(text.data, text.len), &e) < 0)
		fail_msg("%s", e.text);
	conf_write_snapshot(back, &again);
	assert_string_equal(again.data, text.data);
	assert_int_equal(conf_n_queues(back), ARRAY_LEN(names));
	assert_int_equal(conf_diff(c, back, CONF_SUPERVISOR, NULL), CONF_SAME);
	assert_int_equal(conf_diff(c, back, CONF_REDIS, NULL), CONF_SAME);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		assert_string_equal(conf_queue_at(back, i)->name, names[i]);
		assert_int_equal(conf_diff(c, back, CONF_QUEUE, names[i]), CONF_SAME);
	}
	assert_string_equal(conf_queue(back, "plain")->handler.argv.v[2], script);
	assert_string_equal(conf_redis(back)->password, " a ; b # c %20\t");
	assert_int_equal(conf_origin_of(back, CONF_REDIS, NULL, "url"), CONF_FROM_ENV_ALIAS);
	assert_string_equal(conf_where(back, CONF_QUEUE, "plain", "handler"), "--");
	/* Resolving once more changes nothing. */
	assert_int_equal(conf_finish(back, &errs), 0);
	buf_clear(&again);
	conf_write_snapshot(back, &again);
	assert_string_equal(again.data, text.data);
	buf_release(&text);
	buf_release(&again);
	conf_free(c);
	conf_free(back);
}

static void test_bad_snapshot(void **state)
{
	static const char *const texts[] = {
		"",
		"\n\n",
		"name = x # 0 y\n",
		"[supervisor]\nname\n",
		"[supervisor]\nname = x\n",
		"[supervisor]\nname = x # 9 y\n",
		"[supervisor]\nnope = x # 0 y\n",
		"[supervisor]\nname = %zz # 0 y\n",
		"[other]\n",
		"[queue ]\n",
		"[queue x\n",
		"[queue %00]\n",
		"[queue a}b]\n",
		"[supervisor]\nlog_keep = x # 0 y\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct conf *c = conf_new();
		struct err e = {0};

		if (conf_snapshot_parse(c, slice_str(texts[i]), &e) == 0)
			fail_msg("taken: %s", texts[i]);
		assert_string_not_equal(e.text, "");
		conf_free(c);
	}
}

/* --print-config: every key once, where from, and no secret. */
static void test_print(void **state)
{
	struct conf *c = conf_with_queue();
	struct buf out = BUF_INIT;
	struct err e = {0};

	(void)state;
	assert_int_equal(
		conf_set(c, CONF_REDIS, NULL, "password", "SECRET", CONF_FROM_FILE, "r.ini:3", &e),
		0);
	set(c, "redis.url", "redis://me:SECRET@h:1/2", CONF_FROM_FLAG);
	set(c, "queue.env", "TOKEN=SECRET B=2", CONF_FROM_FLAG);
	conf_doc_print(c, &out);
	assert_null(strstr(out.data, "SECRET"));
	assert_non_null(strstr(out.data, "password = ***  "));
	assert_non_null(strstr(out.data, "# r.ini:3\n"));
	assert_non_null(strstr(out.data, "url = redis://***@h:1/2 "));
	assert_non_null(strstr(out.data, "env = TOKEN=*** B=*** "));
	assert_non_null(strstr(out.data, "\n[queue q]\n"));
	assert_non_null(strstr(out.data, "lease = 1m  "));
	for (size_t i = 0; i < conf_n_rows; i++) {
		char *line = xasprintf("\n%s =", conf_rows[i].key);

		assert_non_null(strstr(out.data, line));
		free(line);
	}
	buf_release(&out);
	conf_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_precedence),
		cmocka_unit_test(test_redis_url_alias),
		cmocka_unit_test(test_bad_redis_url_alias),
		cmocka_unit_test(test_queues),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_fallback),
		cmocka_unit_test(test_fallback_ranks),
		cmocka_unit_test(test_fallback_says_what_it_replaces),
		cmocka_unit_test(test_handler_argv),
		cmocka_unit_test(boot_keys_keep_what_is_in_force),
		cmocka_unit_test(test_diff),
		cmocka_unit_test(test_snapshot),
		cmocka_unit_test(test_bad_snapshot),
		cmocka_unit_test(test_print),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
