/* t_answer.c - lines on fd 3: what they say, what is ignored, what is said about a bad one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "worker/answer.h"

static int say(struct answer *a, const char *line, char why[128])
{
	why[0] = '\0';
	return answer_line(a, slice_str(line), why);
}

static void test_lines(void **state)
{
	static const struct {
		const char *line;
		enum answer_type type;
		int64_t delay_ms;
		const char *error;
	} cases[] = {
		{"{\"type\":\"done\"}", ANSWER_DONE, -1, ""},
		{"{\"type\":\"done\",\"result\":{\"a\":1}}", ANSWER_DONE, -1, ""},
		{"\t{ \"\\u0074ype\" : \"d\\u006fne\" , \"x\":[1,{}] }\t", ANSWER_DONE, -1, ""},
		{"{\"type\":\"dead\",\"type\":\"done\"}", ANSWER_DONE, -1, ""},
		{"  {\"type\":\"retry\"} \r", ANSWER_RETRY, -1, ""},
		{"{\"type\":\"retry\",\"error\":\"no disk\",\"delay_ms\":1500}", ANSWER_RETRY, 1500,
		 "no disk"},
		{"{\"type\":\"snooze\",\"delay_ms\":0}", ANSWER_SNOOZE, 0, ""},
		{"{\"type\":\"snooze\",\"delay_ms\":1.5e3}", ANSWER_SNOOZE, 1500, ""},
		{"{\"type\":\"snooze\",\"delay_ms\":31622400000}", ANSWER_SNOOZE, 31622400000, ""},
		{"{\"type\":\"dead\",\"error\":\"a\\nb\\rc\"}", ANSWER_DEAD, -1, "a b c"},
		{"{\"type\":\"dead\",\"error\":\"a\\u001b[2Jb\\t\\u007f\"}", ANSWER_DEAD, -1,
		 "a [2Jb  "},
		{"{\"type\":\"dead\",\"error\":17}", ANSWER_DEAD, -1, ""},
		{"{\"type\":\"progress\",\"value\":5}", ANSWER_PROGRESS, -1, ""},
		{"{\"type\":\"checkpoint\",\"value\":{\"at\":9},\"delay_ms\":-1}",
		 ANSWER_CHECKPOINT, -1, ""},
		{"{\"type\":\"ready\"}", ANSWER_READY, -1, ""},
		{"{\"id\":\"7\",\"type\":\"dead\",\"more\":[]}", ANSWER_DEAD, -1, ""},
		/* Fine, and nothing to us: later versions may say more. */
		{"{\"type\":\"later\",\"id\":5,\"delay_ms\":-1}", ANSWER_NONE, -1, ""},
		{"{\"type\":\"\"}", ANSWER_NONE, -1, ""},
		{"", ANSWER_NONE, -1, ""},
		{"  \r", ANSWER_NONE, -1, ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct answer a;
		char why[128];

		answer_init(&a);
		assert_int_equal(say(&a, cases[i].line, why), 0);
		assert_int_equal(a.type, cases[i].type);
		assert_int_equal(a.delay_ms, cases[i].delay_ms);
		assert_string_equal(a.error, cases[i].error);
	}
}

static void test_bad_lines_change_nothing(void **state)
{
	static const char *const lines[] = {
		"done",
		"{",
		"{\"type\":\"done\"",
		"{\"type\":\"done\"}}",
		"{\"type\":\"done\"} {\"type\":\"dead\"}",
		"{}",
		"[]",
		"[\"type\",\"done\"]",
		"{\"type\":1}",
		"{\"type\":null}",
		"{\"type\":\"done\",\"delay_ms\":\"5\"}",
		"{\"type\":\"done\",\"delay_ms\":-1}",
		"{\"type\":\"done\",\"delay_ms\":null}",
		"{\"type\":\"done\",\"delay_ms\":31622400001}",
		"{\"type\":\"done\",\"delay_ms\":1e300}",
		"{\"type\":\"d\xff\"}",
		"{\"type\":\"done\",\"id\":7}",
		"{\"type\":\"done\",\"id\":null}",
		"{\"type\":\"done\",\"x\":\"\\u0000\"}",
		"{\"type\":\"done\",\"x\":\"\\ud800\"}",
		"{\"type\":\"done\",\"x\":\"\t\"}",
		"{\"type\":\"done\",\"x\":01}",
		"{\"type\":\"done\",\"x\":[1,]}",
		"{\"type\":\"done\",}",
		"{\"type\":\"ready\",\"slots\":0}",
		"{\"type\":\"ready\",\"slots\":\"4\"}",
		"{\"type\":\"ready\",\"slots\":10001}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		struct answer a;
		char why[128];

		answer_init(&a);
		assert_int_equal(
			say(&a, "{\"type\":\"retry\",\"error\":\"first\",\"delay_ms\":9}", why), 0);
		assert_int_equal(say(&a, lines[i], why), -1);
		assert_true(strlen(why) > 0);
		assert_int_equal(a.type, ANSWER_RETRY);
		assert_int_equal(a.delay_ms, 9);
		assert_string_equal(a.error, "first");
	}
}

static void test_each_line_begins_anew(void **state)
{
	struct answer a;
	char why[128];

	(void)state;
	answer_init(&a);
	assert_int_equal(
		say(&a, "{\"type\":\"dead\",\"id\":\"7\",\"error\":\"x\",\"delay_ms\":5}", why), 0);
	assert_true(answer_is_end(&a) && a.has_id);
	assert_int_equal(say(&a, "{\"type\":\"done\"}", why), 0);
	assert_true(answer_is_end(&a) && !a.has_id);
	assert_int_equal(a.type, ANSWER_DONE);
	assert_int_equal(a.delay_ms, -1);
	assert_string_equal(a.error, "");
	assert_int_equal(say(&a, "{\"type\":\"progress\",\"error\":\"y\"}", why), 0);
	assert_false(answer_is_end(&a));
	assert_int_equal(say(&a, "{\"type\":\"ready\",\"slots\":64}", why), 0);
	assert_false(answer_is_end(&a));
	assert_int_equal(a.slots, 64);
}

static void test_ids(void **state)
{
	struct buf line = BUF_INIT;
	struct answer a;
	char why[128];

	(void)state;
	answer_init(&a);
	assert_int_equal(say(&a, "{\"type\":\"done\",\"id\":\"17-0\"}", why), 0);
	assert_string_equal(a.id, "17-0");
	assert_int_equal(a.id_len, 4);
	assert_int_equal(
		say(&a, "{\"type\":\"done\",\"id\":\"\\u00e4\\\"\xc3\xa4\\ud83d\\ude00\"}", why),
		0);
	assert_string_equal(a.id, "\xc3\xa4\"\xc3\xa4\xf0\x9f\x98\x80");
	assert_int_equal(a.id_len, strlen(a.id));
	buf_adds(&line, "{\"type\":\"done\",\"id\":\"");
	for (int i = 0; i < ANSWER_ID_MAX; i++)
		buf_addc(&line, 'i');
	buf_adds(&line, "\"}");
	assert_int_equal(answer_line(&a, slice_of(line.data, line.len), why), 0);
	assert_int_equal(a.id_len, ANSWER_ID_MAX);
	assert_int_equal(strlen(a.id), ANSWER_ID_MAX - 1);
	buf_release(&line);
}

static void test_values(void **state)
{
	static const struct {
		const char *line;
		const char *value; /* NULL: none */
	} cases[] = {
		{"{\"type\":\"done\",\"result\": {\"a\" :[1,\"x\"]} }", "{\"a\" :[1,\"x\"]}"},
		{"{\"type\":\"done\",\"result\":null}", "null"},
		{"{\"type\":\"done\",\"value\":1}", NULL},
		{"{\"type\":\"progress\",\"value\":0.5}", "0.5"},
		{"{\"type\":\"progress\"}", NULL},
		{"{\"type\":\"checkpoint\",\"value\":\"a\\nb\"}", "\"a\\nb\""},
		{"{\"type\":\"checkpoint\",\"value\":\"a\",\"value\":true}", "true"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct answer a;
		char why[128];

		assert_int_equal(say(&a, cases[i].line, why), 0);
		if (cases[i].value)
			assert_true(slice_eq_str(a.value, cases[i].value));
		else
			assert_null(a.value.data);
	}
}

static void test_hostile(void **state)
{
	struct buf line = BUF_INIT;
	struct answer a;
	char why[128];

	(void)state;
	answer_init(&a);
	buf_adds(&line, "{\"type\":\"dead\",\"error\":\"");
	for (int i = 0; i < 5000; i++)
		buf_addc(&line, 'e');
	buf_adds(&line, "\"}");
	assert_int_equal(answer_line(&a, slice_of(line.data, line.len), why), 0);
	assert_int_equal(strlen(a.error), OUTCOME_ERROR_MAX - 1);

	buf_clear(&line);
	for (int i = 0; i < 130000; i++)
		buf_addc(&line, '[');
	assert_int_equal(answer_line(&a, slice_of(line.data, line.len), why), -1);
	assert_int_equal(answer_line(&a, slice_of("{\"type\":\"done\"}\0", 16), why), -1);
	assert_int_equal(a.type, ANSWER_DEAD);
	buf_release(&line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_bad_lines_change_nothing),
		cmocka_unit_test(test_each_line_begins_anew),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
