/* t_ctl_options.c - the command line of redisqctl: options anywhere, counts that look like ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "supervisor/ctl/options.h"

#define ARGS_MAX 12

static int parse(struct options *o, const char *const *words, struct err *e)
{
	char *argv[ARGS_MAX + 1] = {0};
	int argc = 0;

	for (; words[argc]; argc++)
		argv[argc] = (char *)(uintptr_t)words[argc];
	return options_parse(o, argc, argv, e);
}

static void test_accepted(void **state)
{
	static const struct {
		const char *words[ARGS_MAX];
		const char *verb;
		const char *args[4];
	} cases[] = {
		{{"ctl"}, NULL, {0}},
		{{"ctl", "status"}, "status", {0}},
		{{"ctl", "scale", "-1"}, "scale", {"-1"}},
		{{"ctl", "scale", "demo", "+2"}, "scale", {"demo", "+2"}},
		{{"ctl", "push", "demo", "-"}, "push", {"demo", "-"}},
		{{"ctl", "push", "demo", "--", "--json"}, "push", {"demo", "--json"}},
		{{"ctl", "--", "push"}, "push", {0}},
		{{"ctl", "-c", "x.ini", "show", "-s", "a.b=c", "demo", "1-0"},
		 "show",
		 {"demo", "1-0"}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct options o;
		struct err e;
		size_t n = 0;

		assert_int_equal(parse(&o, cases[i].words, &e), 0);
		if (cases[i].verb)
			assert_string_equal(o.verb, cases[i].verb);
		else
			assert_null(o.verb);
		while (cases[i].args[n]) {
			assert_string_equal(o.args[n], cases[i].args[n]);
			n++;
		}
		assert_int_equal(o.n_args, n);
		options_release(&o);
	}
}

static void test_values(void **state)
{
	static const char *const words[] = {"ctl",        "logs",    "-fn3", "-n7",
					    "--task=1-0", "--field", "a=b",  "--config=x",
					    "--no-wait",  NULL};
	struct options o;
	struct err e;

	(void)state;
	assert_int_equal(
		parse(&o,
		      (const char *const[]){"ctl", "-f", "-n7", "--task=1-0", "--field", "a=b=c",
					    "--config=x", "--no-wait", "logs", NULL},
		      &e),
		0);
	assert_true(o.follow);
	assert_true(o.no_wait);
	assert_int_equal(o.n_lines, 7);
	assert_string_equal(o.task, "1-0");
	assert_string_equal(o.conf_file, "x");
	assert_int_equal(o.n_fields, 1);
	assert_string_equal(o.fields[0], "a=b=c");
	options_release(&o);
	assert_int_equal(parse(&o, words, &e), -1); /* options are not bundled */
	options_release(&o);
}

static void test_an_option_that_a_verb_does_not_take_is_refused(void **state)
{
	static const struct {
		const char *words[ARGS_MAX];
		uint32_t takes;
		const char *says; /* NULL = it is taken */
	} cases[] = {
		{{"ctl", "ping", "-c", "x", "-s", "a.b=c"}, 0, NULL},
		{{"ctl", "audit", "q", "--json"}, 0, "audit takes no --json"},
		{{"ctl", "push", "q", "--no-wait"}, 0, "push takes no --no-wait"},
		{{"ctl", "logs", "-f", "-n", "3"},
		 OPT_BIT(OPT_FOLLOW) | OPT_BIT(OPT_N_LINES),
		 NULL},
		{{"ctl", "logs", "--lines", "3"}, OPT_BIT(OPT_N_LINES), NULL},
		{{"ctl", "logs", "--lines", "3"}, 0, "logs takes no --lines; see"},
		{{"ctl", "dead", "drop", "q", "--all", "--partition", "2"},
		 OPT_BIT(OPT_ALL),
		 "takes no --partition; one partition by itself is called QUEUE:2"},
		{{"ctl", "push", "q", "--lines"}, 0, "push takes no --lines"},
		{{"ctl", "ping", "-w"}, 0, "ping takes no -w"},
		{{"ctl", "ping", "--key=a"}, 0, "ping takes no --key"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct options o;
		struct err e = {0};

		assert_int_equal(parse(&o, cases[i].words, &e), 0);
		assert_int_equal(options_check(&o, o.verb, cases[i].takes, &e),
				 cases[i].says ? -1 : 0);
		if (cases[i].says) {
			assert_non_null(strstr(e.text, cases[i].says));
			assert_int_equal(e.code, EXIT_USAGE);
		}
		options_release(&o);
	}
}

/* --lines is a word of push, and has a number in pm2's logs. */
static void test_lines(void **state)
{
	struct options o;
	struct err e;

	(void)state;
	assert_int_equal(
		parse(&o, (const char *const[]){"ctl", "push", "demo", "--lines", NULL}, &e), 0);
	assert_true(o.by_line);
	options_release(&o);
	assert_int_equal(parse(&o, (const char *const[]){"ctl", "logs", "--lines", "50", NULL}, &e),
			 0);
	assert_int_equal(o.n_lines, 50);
	assert_false(o.by_line);
	options_release(&o);
}

static void test_refused(void **state)
{
	static const struct {
		const char *words[ARGS_MAX];
		const char *want;
	} cases[] = {
		{{"ctl", "status", "--jsonn"}, "unknown option --jsonn; did you mean --json?"},
		{{"ctl", "push", "--kye=k"}, "unknown option --kye; did you mean --key?"},
		{{"ctl", "--quux"}, "unknown option --quux; see redisqctl --help"},
		{{"ctl", "-x"}, "unknown option -x; see redisqctl --help"},
		{{"ctl", "status", "-c"}, "-c needs a value; see redisqctl --help"},
		{{"ctl", "status", "--json=1"}, "--json takes no value"},
		{{"ctl", "push", "demo", "--field", "x"},
		 "--field x: no '='; say --field name=value"},
		{{"ctl", "logs", "-n", "many"}, "-n many: not a number of lines; say -n 100"},
		{{"ctl", "push", "q", "--partition", "two"},
		 "--partition two: not a number; they are counted from 0"},
		{{"ctl", "push", "q", "--partition", "-1"},
		 "--partition -1: not a number; they are counted from 0"},
		{{"ctl", "push", "q", "--partition="},
		 "--partition : not a number; they are counted from 0"},
		{{"ctl", "push", "q", "--key"}, "--key needs a value; see redisqctl --help"},
		{{"ctl", "stats", "--partitions=3"}, "--partitions takes no value"},
		{{"ctl", "logs", "-n", "-3"}, "-n -3: not a number of lines; say -n 100"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct options o;
		struct err e;

		assert_int_equal(parse(&o, cases[i].words, &e), -1);
		assert_int_equal(e.code, EXIT_USAGE);
		assert_string_equal(e.text, cases[i].want);
		options_release(&o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accepted),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_an_option_that_a_verb_does_not_take_is_refused),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
