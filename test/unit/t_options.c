/* t_options.c - the command line of supervisor/options.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "supervisor/options.h"

#define WORDS_MAX 32

struct line {
	char *words[WORDS_MAX + 1];
	int n;
	char text[256];
};

/* Splits at blanks; the program's name is put in front. */
static void split(struct line *l, const char *text)
{
	char *save = NULL;

	snprintf(l->text, sizeof(l->text), "redisq-supervisor %s", text);
	l->n = 0;
	for (char *w = strtok_r(l->text, " ", &save); w && l->n < WORDS_MAX;
	     w = strtok_r(NULL, " ", &save))
		l->words[l->n++] = w;
	l->words[l->n] = NULL;
}

static const struct {
	const char *line;
	const char *error; /* a part of the text */
} refused[] = {
	{"-x", "-x: no such option"},
	{"--frobnicate", "--frobnicate: no such option"},
	{"--url=redis://:SECRET@h", "--url: no such option"},
	{"redis://:SECRET@h", "a url goes after -s redis.url="},
	{"-n", "-n needs a value"},
	{"--queue", "needs a value"},
	{"-k shell -q a -- x", "no such kind"},
	{"-c f -q a -- x", "with -c"},
	{"-- x", "needs -q"},
	{"-q a --", "-- without a handler"},
	{"-q a sh", "goes after --"},
	{"sh", "goes after --"},
	{"-k exec", "-k goes with -q"},
};

static void usage_errors_say_what_to_do(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		struct options o;
		struct err e = {0};
		struct line l;

		split(&l, refused[i].line);
		if (options_parse(&o, l.n, l.words, &e) == 0)
			fail_msg("%s: accepted", refused[i].line);
		assert_int_equal(e.code, EXIT_USAGE);
		assert_null(strstr(e.text, "SECRET"));
		if (!strstr(e.text, refused[i].error))
			fail_msg("%s: \"%s\" without \"%s\"", refused[i].line, e.text,
				 refused[i].error);
		options_release(&o);
	}
}

static void parse(struct options *o, struct line *l, const char *text)
{
	struct err e = {0};

	split(l, text);
	if (options_parse(o, l->n, l->words, &e) < 0)
		fail_msg("%s: %s", text, e.text);
}

static void everything_is_taken(void **state)
{
	struct options o;
	struct line l;

	(void)state;
	parse(&o, &l, "-n max -j 8 -q demo -k exec -e -D -s a.b=c -s d.e=f=g -- sh -c -x --");
	assert_string_equal(o.workers, "max");
	assert_string_equal(o.concurrency, "8");
	assert_string_equal(o.queue, "demo");
	assert_true(o.private_redis && o.daemon);
	assert_int_equal(o.n_assignments, 2);
	assert_string_equal(o.assignments[1], "d.e=f=g");
	assert_int_equal(o.handler_argc, 4);
	assert_string_equal(o.handler[0], "sh");
	assert_string_equal(o.handler[3], "--");
	assert_int_equal(o.action, OPTIONS_RUN);
	options_release(&o);
}

static const struct {
	const char *line;
	enum options_action action;
} actions[] = {
	{"-t -c x", OPTIONS_TEST},           {"--test", OPTIONS_TEST},
	{"--print-config", OPTIONS_PRINT},   {"--help -x", OPTIONS_HELP},
	{"-n 4 --version", OPTIONS_VERSION}, {"-i 4 -c x -q y", OPTIONS_RUN},
	{"--workers=4", OPTIONS_RUN},
};

static void actions_are_known(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
		struct options o;
		struct line l;

		parse(&o, &l, actions[i].line);
		assert_int_equal(o.action, actions[i].action);
		options_release(&o);
	}
}

static void a_number_is_no_file(void **state)
{
	struct options o;
	struct err e = {0};
	struct line l;

	(void)state;
	parse(&o, &l, "-c 16");
	assert_int_equal(options_find_file(&o, &e), -1);
	assert_int_equal(e.code, EXIT_USAGE);
	assert_string_equal(e.text, "-c takes a file; for tasks per worker use -j 16");
	options_release(&o);
	parse(&o, &l, "-c /nowhere/at/all.ini");
	assert_int_equal(options_find_file(&o, &e), -1);
	assert_int_equal(e.code, EXIT_CONFIG);
	options_release(&o);
}

static void flags_beat_everything(void **state)
{
	char *env[] = {(char[]){"REDISQ_QUEUE_CONCURRENCY=7"}, (char[]){"REDIS_URL=redis://h/1"},
		       NULL};
	struct buf errs = BUF_INIT;
	struct options o;
	struct line l;
	struct conf *c;
	int code = 0;

	(void)state;
	parse(&o, &l, "-e -n 3 -j 5 -q demo -- /bin/cat -u");
	c = options_load(&o, env, "unix:///x.sock", &errs, &code);
	if (!c)
		fail_msg("%s", errs.data);
	assert_int_equal(code, 0);
	assert_int_equal(conf_queue(c, "demo")->workers, 3);
	assert_int_equal(conf_queue(c, "demo")->concurrency, 5);
	assert_string_equal(conf_redis(c)->url, "unix:///x.sock");
	assert_int_equal(conf_queue(c, "demo")->handler.argv.n, 2);
	assert_string_equal(conf_queue(c, "demo")->handler.argv.v[1], "-u");
	conf_free(c);
	options_release(&o);
	buf_release(&errs);
}

static void wrong_flags_are_usage_wrong_keys_configuration(void **state)
{
	static const struct {
		const char *line;
		int code;
	} cases[] = {
		{"-n many -q a -- x", EXIT_USAGE},
		{"-s queue.lease=oops -q a -- x", EXIT_CONFIG},
		{"-s nonsense -q a -- x", EXIT_USAGE},
		{"-s log_level=debug -q a -- x", EXIT_USAGE},
		{"-s other.log_level=debug -q a -- x", EXIT_USAGE},
		{"-s supervisor.log_level=much -q a -- x", EXIT_CONFIG},
		{"-q a", EXIT_CONFIG}, /* no handler */
	};
	char *env[] = {NULL};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf errs = BUF_INIT;
		struct options o;
		struct line l;
		int code = 0;

		parse(&o, &l, cases[i].line);
		assert_null(options_load(&o, env, NULL, &errs, &code));
		if (code != cases[i].code)
			fail_msg("%s: code %d, %s", cases[i].line, code, errs.data);
		assert_true(errs.len > 0);
		buf_release(&errs);
		options_release(&o);
	}
}

/* -e: the password of the file is for another server. */
static void the_private_redis_has_no_password(void **state)
{
	char *env[] = {(char[]){"REDISQ_REDIS_PASSWORD_FILE=/nowhere"}, NULL};
	struct buf errs = BUF_INIT;
	struct options o;
	struct line l;
	struct conf *c;
	int code = 0;

	(void)state;
	parse(&o, &l, "-e -s redis.password=x -s redis.username=y -q demo -- /bin/cat");
	c = options_load(&o, env, "unix:///x.sock", &errs, &code);
	if (!c)
		fail_msg("%s", errs.data);
	assert_null(conf_redis(c)->username);
	assert_null(conf_redis(c)->password);
	assert_null(conf_redis(c)->password_file);
	assert_string_equal(conf_redis(c)->url, "unix:///x.sock");
	conf_free(c);
	options_release(&o);
	buf_release(&errs);
}

static void the_hint_is_six_lines(void **state)
{
	struct buf text = BUF_INIT;
	int lines = 0;

	(void)state;
	options_hint(&text);
	for (size_t i = 0; i < text.len; i++)
		lines += text.data[i] == '\n';
	assert_int_equal(lines, 6);
	assert_non_null(strstr(text.data, "-e -q demo --"));
	buf_release(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usage_errors_say_what_to_do),
		cmocka_unit_test(everything_is_taken),
		cmocka_unit_test(actions_are_known),
		cmocka_unit_test(a_number_is_no_file),
		cmocka_unit_test(flags_beat_everything),
		cmocka_unit_test(wrong_flags_are_usage_wrong_keys_configuration),
		cmocka_unit_test(the_private_redis_has_no_password),
		cmocka_unit_test(the_hint_is_six_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
