/* t_conf_value.c - every type of the table: text to field, field to text, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conf_value.h"
#include "conf_words.h"

union field {
	char *text;
	int number;
	int64_t wide;
	struct conf_handler handler;
	struct strv list;
};

static const struct conf_row *row_of(const char *dotted)
{
	const char *key = strchr(dotted, '.') + 1;
	enum conf_section s = dotted[0] == 's'   ? CONF_SUPERVISOR
			      : dotted[0] == 'r' ? CONF_REDIS
						 : CONF_QUEUE;
	const struct conf_row *row = conf_row(s, key);

	assert_non_null(row);
	return row;
}

/* Taken, and printed back as `shown`, which is taken as the same again. */
static void test_taken(void **state)
{
	static const struct {
		const char *key, *text, *shown;
	} cases[] = {
		{"queue.max_attempts", "12", "12"},
		{"queue.max_attempts", "+7", "7"},
		{"queue.max_attempts", "007", "7"},
		{"queue.concurrency", "10000", "10000"},
		{"supervisor.workers", "max", "max"},
		{"supervisor.workers", "0", "0"},
		{"queue.workers", "", ""},
		{"queue.timeout", "0", "0"},
		{"queue.timeout", "250ms", "250ms"},
		{"queue.timeout", "90s", "1m30s"},
		{"queue.timeout", "1h30m", "1h30m"},
		{"queue.timeout", "1d2h3m4s5ms", "1d2h3m4s5ms"},
		{"queue.timeout", "1800s", "30m"},
		{"queue.timeout", "00s", "0"},
		{"queue.timeout", "106751991167d", "106751991167d"},
		{"supervisor.heartbeat_timeout", "auto", "auto"},
		{"supervisor.heartbeat_timeout", "0", "0"},
		{"supervisor.heartbeat_timeout", "1500ms", "1s500ms"},
		{"queue.payload_max", "1M", "1M"},
		{"queue.payload_max", "1024K", "1M"},
		{"queue.payload_max", "1500B", "1500B"},
		{"queue.payload_max", "1M1B", "1048577B"},
		{"supervisor.log_max_size", "1T", "1T"},
		{"supervisor.max_memory", "0", "0"},
		{"queue.retry_jitter", "25%", "25%"},
		{"queue.retry_jitter", "0", "0%"},
		{"queue.start", "$", "$"},
		{"queue.start", "0", "0"},
		{"supervisor.on_crash_loop", "exit", "exit"},
		{"redis.password", "a ; b # c", "a ; b # c"},
		{"redis.username", "", ""},
		{"queue.cwd", "/a b", "/a b"},
		{"queue.handler", "", ""},
		{"queue.handler", "exec cat", "exec cat"},
		{"queue.handler", "exec  a\tb  'c d'", "exec a b 'c d'"},
		{"queue.handler", "exec sh -c 'cat | wc -l > /x; echo $X'",
		 "exec sh -c 'cat | wc -l > /x; echo $X'"},
		{"queue.handler", "exec a \"it's\"", "exec a \"it's\""},
		{"queue.handler", "exec a \"\\\"\\\\ '\\n\"", "exec a \"\\\"\\\\ '\\\\n\""},
		{"queue.handler", "exec a''b'c'\"d\" '' \"\"", "exec abcd '' ''"},
		{"queue.handler", "exec a #b", "exec a '#b'"},
		{"queue.handler", "pipe node x.js 'c d'", "pipe node x.js 'c d'"},
		{"queue.handler", "so '/a b.so'", "so '/a b.so'"},
		{"queue.env", "A=1 B='x y' C= _d9=\"'\"", "A=1 'B=x y' C= \"_d9='\""},
		{"queue.env", "U=http://h/?a=1&b=2;c", "'U=http://h/?a=1&b=2;c'"},
		{"queue.env", "P='$HOME'", "'P=$HOME'"},
		{"queue.env", "", ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct conf_row *row = row_of(cases[i].key);
		union field a, b, c;
		struct buf shown = BUF_INIT;
		struct err e = {0};

		conf_value_init(row, &a);
		conf_value_init(row, &b);
		conf_value_init(row, &c);
		if (conf_value_parse(row, cases[i].text, &a, &e) != CONF_PARSED)
			fail_msg("%s = %s: %s", cases[i].key, cases[i].text, e.text);
		conf_value_format(row, &a, &shown);
		assert_string_equal(shown.data, cases[i].shown);
		if (conf_value_parse(row, shown.data, &b, &e) != CONF_PARSED)
			fail_msg("%s = %s: %s", cases[i].key, shown.data, e.text);
		assert_true(conf_value_equal(row, &a, &b));
		conf_value_copy(row, &c, &a);
		conf_value_copy(row, &c, &a);
		assert_true(conf_value_equal(row, &a, &c));
		conf_value_release(row, &a);
		conf_value_release(row, &b);
		conf_value_release(row, &c);
		buf_release(&shown);
	}
}

static void test_refused(void **state)
{
	static const struct {
		const char *key, *text, *says;
	} cases[] = {
		{"queue.max_attempts", "0", "out of range; write 1 to 100000"},
		{"queue.max_attempts", "100001", "out of range; write 1 to 100000"},
		{"queue.max_attempts", "99999999999999999999", "write 1 to 100000"},
		{"queue.max_attempts", "", "not a number"},
		{"queue.max_attempts", "x", "not a number"},
		{"queue.max_attempts", "4x", "not a number"},
		{"queue.partitions", "3.5", "not a whole number; write one such as 4"},
		{"queue.max_attempts", "4.5", "not a whole number"},
		{"queue.max_attempts", " 4", "not a number"},
		{"queue.max_attempts", "0x10", "not a number"},
		{"queue.concurrency", "0", "out of range; write 1 to 10000"},
		{"queue.concurrency", "-5", "out of range; write 1 to 10000"},
		{"supervisor.workers", "-1", "out of range; write 0 to 512"},
		{"supervisor.workers", "-2", "out of range"},
		{"supervisor.workers", "", "number"},
		{"supervisor.workers", "all", "or max"},
		{"queue.timeout", "1800", "write 1800s or 30m"},
		{"queue.timeout", "3600", "write 3600s or 1h"},
		{"queue.timeout", "45", "write 45s or 45ms"},
		{"queue.timeout", "-5", "negative"},
		{"queue.timeout", "-5s", "not a duration"},
		{"queue.timeout", "", "not a duration"},
		{"queue.timeout", "s", "not a duration"},
		{"queue.timeout", "5 s", "not a duration"},
		{"queue.timeout", "1.5h", "not a duration"},
		{"queue.timeout", "30m1h", "not a duration"},
		{"queue.timeout", "1m1m", "not a duration"},
		{"queue.timeout", "5M", "not a duration"},
		{"queue.timeout", "5sec", "not a duration"},
		{"queue.timeout", "99999999999999999d", "not a duration"},
		{"queue.timeout", "9223372036854775807ms1s", "not a duration"},
		{"queue.timeout", "auto", "not a duration"},
		{"queue.lease", "999ms", "out of range; write 1s or more"},
		{"queue.lease", "0", "out of range; write 1s or more"},
		{"supervisor.heartbeat_timeout", "-1", "negative"},
		{"supervisor.heartbeat_timeout", "soon", "write auto"},
		{"queue.payload_max", "77", "write 77B, 77K or 77M"},
		{"queue.payload_max", "2048", "write 2048B or 2K"},
		{"queue.payload_max", "1048576", "write 1048576B or 1M"},
		{"queue.payload_max", "1k", "not a size"},
		{"queue.payload_max", "1MB", "not a size"},
		{"queue.payload_max", "0", "out of range; write 1B to 512M"},
		{"queue.payload_max", "1G", "out of range; write 1B to 512M"},
		{"supervisor.log_max_size", "0", "out of range; write 4K to 1T"},
		{"queue.retry_jitter", "25", "write 25%"},
		{"queue.retry_jitter", "101%", "out of range; write 0% to 100%"},
		{"queue.retry_jitter", "-1%", "out of range"},
		{"queue.retry_jitter", "%", "not a percentage"},
		{"queue.on_timeout", "retyr", "did you mean retry?"},
		{"queue.on_timeout", "", "not one of retry|dead|hold"},
		{"queue.on_timeout", "retry|dead", "not one of"},
		{"queue.on_timeout", "Retry", "not one of"},
		{"supervisor.name", "", "leave the key out for its default redisq"},
		{"queue.handler", "cat", "write exec cat"},
		{"queue.handler", "execute cat", "write exec execute cat"},
		{"queue.handler", "pipe", "write pipe PROGRAM"},
		{"queue.handler", "pipe a | b", "write pipe sh -c 'a | b'"},
		{"queue.handler", "so ", "write so PATH"},
		{"queue.handler", "so a b", "so PATH, in '...'"},
		{"queue.handler", "so a$b", "so 'a$b'"},
		{"queue.handler", "exec", "write exec PROGRAM"},
		{"queue.handler", "exec ''", "name is empty"},
		{"queue.handler", "exec 'a", "a ' that is never closed"},
		{"queue.handler", "exec \"a\\\"", "a \" that is never closed"},
		{"queue.handler", "exec cat | wc -l", "write exec sh -c 'cat | wc -l'"},
		{"queue.handler", "exec a > /b", "write exec sh -c 'a > /b'"},
		{"queue.handler", "exec a < /b", "write exec sh -c 'a < /b'"},
		{"queue.handler", "exec a && b", "write exec sh -c 'a && b'"},
		{"queue.handler", "exec a; b", "write exec sh -c 'a; b'"},
		{"queue.handler", "exec a $HOME", "write exec sh -c 'a $HOME'"},
		{"queue.handler", "exec a `b`", "write exec sh -c 'a `b`'"},
		{"queue.handler", "exec echo 'a b' | c",
		 "write exec sh -c 'echo '\"'\"'a b'\"'\"' | c'"},
		{"queue.handler", "exec a\\ b", "a \\ outside quotes"},
		{"queue.env", "A", "word 1 is not NAME=VALUE"},
		{"queue.env", "A=1 two", "word 2 is not NAME=VALUE"},
		{"queue.env", "9A=1", "word 1"},
		{"queue.env", "=1", "word 1"},
		{"queue.env", "A-B=1", "word 1"},
		{"queue.env", "P=$HOME/bin", "nothing is expanded here"},
		{"queue.env", "P='x", "never closed"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct conf_row *row = row_of(cases[i].key);
		union field a, was;
		struct err e = {0};

		conf_value_init(row, &a);
		conf_value_init(row, &was);
		if (conf_value_parse(row, cases[i].text, &a, &e) == CONF_PARSED)
			fail_msg("%s = %s was taken", cases[i].key, cases[i].text);
		if (!strstr(e.text, cases[i].says))
			fail_msg("%s = %s: says \"%s\", not \"%s\"", cases[i].key, cases[i].text,
				 e.text, cases[i].says);
		assert_true(conf_value_equal(row, &a, &was)); /* untouched */
		conf_value_release(row, &a);
		conf_value_release(row, &was);
	}
}

/* What the message shows for a shell's command is itself a handler that is taken. */
static void test_shell_form_is_taken(void **state)
{
	static const char *const commands[] = {
		"cat | wc -l",
		"echo 'a b' \"c\" > x",
		"a && 'b' ; c $D `e`",
		"x '\"' | y \\n",
	};
	const struct conf_row *row = row_of("queue.handler");

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		char *text = xasprintf("exec %s", commands[i]);
		union field f;
		struct err e = {0};
		const char *form;

		conf_value_init(row, &f);
		assert_int_not_equal(conf_value_parse(row, text, &f, &e), CONF_PARSED);
		form = strstr(e.text, "exec sh -c ");
		assert_non_null(form);
		assert_int_equal(conf_value_parse(row, form, &f, &e), CONF_PARSED);
		assert_int_equal(f.handler.argv.n, 3);
		assert_string_equal(f.handler.argv.v[2], commands[i]);
		conf_value_release(row, &f);
		free(text);
	}
}

static void test_below(void **state)
{
	static const struct {
		const char *text;
		enum conf_parsed want;
	} cases[] = {{"0", CONF_BELOW},   {"-1", CONF_BELOW}, {"-99999999999999999999", CONF_BELOW},
		     {"10001", CONF_BAD}, {"abc", CONF_BAD},  {"1", CONF_PARSED}};
	const struct conf_row *row = row_of("queue.concurrency");

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		union field f = {0};
		struct err e;

		assert_int_equal(conf_value_parse(row, cases[i].text, &f, &e), cases[i].want);
	}
}

/* Every default of the table is a value of its own type and range, and prints as it is written. */
static void test_defaults(void **state)
{
	(void)state;
	for (size_t i = 0; i < conf_n_rows; i++) {
		const struct conf_row *row = &conf_rows[i];
		union field f = {0}, again = {0};
		struct buf shown = BUF_INIT;
		struct err e;

		conf_value_init(row, &f);
		conf_value_format(row, &f, &shown);
		if (row->def[0] && shown.len == 0)
			fail_msg("%s: default is lost", row->key);
		if (!row->def[0])
			assert_string_equal(shown.data, "");
		assert_int_equal(conf_value_parse(row, row->def, &again, &e), CONF_PARSED);
		assert_true(conf_value_equal(row, &f, &again));
		conf_value_release(row, &f);
		conf_value_release(row, &again);
		buf_release(&shown);
	}
}

/* Any words survive being joined and split, whatever is in them. */
static void test_words_round_trip(void **state)
{
	static const char *const words[] = {"",      " ",   "a",  "'",    "\"",          "\\",
					    "\\\"'", "a b", "$x", "|",    "line\nbreak", "\t",
					    "\xff",  "#",   "''", "\"\"", "~",           "*"};
	struct strv all = {0}, back = {0};
	struct buf text = BUF_INIT;
	char bad;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		strv_add(&all, words[i]);
	conf_words_join(&all, &text);
	assert_int_equal(conf_words_split(text.data, "|><&;$`\\", &back, &bad), CONF_WORDS_OK);
	assert_int_equal(back.n, all.n);
	for (size_t i = 0; i < all.n; i++)
		assert_string_equal(back.v[i], all.v[i]);
	strv_release(&all);
	strv_release(&back);
	buf_release(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taken),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_shell_form_is_taken),
		cmocka_unit_test(test_below),
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_words_round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
