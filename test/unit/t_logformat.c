/* t_logformat.c - the two forms of a log line, the worker's frames, file name stems. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>

#include "supervisor/logformat.h"

#define WALL_MS 1795966161123 /* 2026-11-29T15:29:21.123Z */

static struct logline line_of(const char *id, const char *text, size_t len)
{
	return (struct logline){.wall_ms = WALL_MS,
				.queue = "demo",
				.slot = 2,
				.pid = 812,
				.stream = 'O',
				.id = slice_str(id),
				.text = slice_of(text, len)};
}

static void test_text(void **state)
{
	static const struct {
		const char *id, *text;
		bool with_queue;
		const char *want;
	} cases[] = {
		{"1-0", "hello", false, "2026-11-29T15:29:21.123Z 2 812 O [1-0] hello\n"},
		{"-", "hello", false, "2026-11-29T15:29:21.123Z 2 812 O [-] hello\n"},
		{"", "hello", false, "2026-11-29T15:29:21.123Z 2 812 O [-] hello\n"},
		{"1-0", "", false, "2026-11-29T15:29:21.123Z 2 812 O [1-0] \n"},
		{"1-0", "\xff\r\033[1m", false,
		 "2026-11-29T15:29:21.123Z 2 812 O [1-0] \xff\r\033[1m\n"},
		{"1-0", "x", true, "2026-11-29T15:29:21.123Z demo/2 812 O [1-0] x\n"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf out = BUF_INIT;
		struct logline l = line_of(cases[i].id, cases[i].text, strlen(cases[i].text));

		logformat_text(&out, &l, cases[i].with_queue);
		assert_string_equal(out.data, cases[i].want);
		buf_release(&out);
	}
}

static void test_json(void **state)
{
#define HEAD \
	"{\"ts\":\"2026-11-29T15:29:21.123Z\",\"slot\":2,\"pid\":812,\"queue\":\"demo\"," \
	"\"stream\":\"O\",\"id\":\"1-0\","
	static const struct {
		const char *text;
		size_t len;
		const char *want;
	} cases[] = {
		{"hello", 5, HEAD "\"line\":\"hello\"}\n"},
		{"", 0, HEAD "\"line\":\"\"}\n"},
		{"a\"b\\c\td\re", 9, HEAD "\"line\":\"a\\\"b\\\\c\\td\\re\"}\n"},
		{"a\0b\x7f", 4, HEAD "\"line\":\"a\\u0000b\\u007f\"}\n"},
		{"gr\xc3\xbc\xc3\x9f", 6, HEAD "\"line\":\"gr\xc3\xbc\xc3\x9f\"}\n"},
		/* not UTF-8: a lone byte, a cut sequence, a surrogate, an overlong slash */
		{"\xff", 1, HEAD "\"line\":\"\xef\xbf\xbd\"}\n"},
		{"\xc3", 1, HEAD "\"line\":\"\xef\xbf\xbd\"}\n"},
		{"\xed\xa0\x80", 3, HEAD "\"line\":\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"}\n"},
		{"\xc0\xaf", 2, HEAD "\"line\":\"\xef\xbf\xbd\xef\xbf\xbd\"}\n"},
		{"\xf4\x90\x80\x80", 4,
		 HEAD "\"line\":\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"}\n"},
		/* an object is nested as it is; anything else is a line */
		{"{\"n\": 1e2,\"n\":2}", 16, HEAD "\"data\":{\"n\": 1e2,\"n\":2}}\n"},
		{" {\"z\":\"\\u0000\"}\r", 16, HEAD "\"data\": {\"z\":\"\\u0000\"}\r}\n"},
		{"{\"n\": 1", 7, HEAD "\"line\":\"{\\\"n\\\": 1\"}\n"},
		{"{\"n\":\"\xff\"}", 9, HEAD "\"line\":\"{\\\"n\\\":\\\"\xef\xbf\xbd\\\"}\"}\n"},
		{"{} {}", 5, HEAD "\"line\":\"{} {}\"}\n"},
		{"[1]", 3, HEAD "\"line\":\"[1]\"}\n"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf out = BUF_INIT;
		struct logline l = line_of("1-0", cases[i].text, cases[i].len);
		json_t *back;

		logformat_json(&out, &l);
		assert_string_equal(out.data, cases[i].want);
		back = json_loadb(out.data, out.len, JSON_ALLOW_NUL, NULL);
		assert_non_null(back);
		json_decref(back);
		buf_release(&out);
	}
#undef HEAD
}

static void test_json_of_the_worker_has_no_id(void **state)
{
	struct buf out = BUF_INIT;
	struct logline l = line_of("-", "x", 1);

	(void)state;
	l.queue = "q\"\xff";
	logformat_json(&out, &l);
	assert_non_null(strstr(out.data, "\"id\":null"));
	assert_non_null(strstr(out.data, "\"queue\":\"q\\\"\xef\xbf\xbd\""));
	buf_release(&out);
}

static void test_frame(void **state)
{
	static const struct {
		const char *frame;
		bool ok;
		char stream;
		const char *id, *text;
	} cases[] = {
		{"O 1-0 hello world", true, 'O', "1-0", "hello world"},
		{"E - oops", true, 'E', "-", "oops"},
		{"E -  two", true, 'E', "-", " two"},
		{"O 1-0 ", true, 'O', "1-0", ""},
		{"O 1-0", false, 0, "", ""},
		{"O  x", false, 0, "", ""},
		{"X 1-0 x", false, 0, "", ""},
		{"O", false, 0, "", ""},
		{"", false, 0, "", ""},
		{"Oops - x", false, 0, "", ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char stream = 0;
		struct slice id, text;
		bool ok = logformat_parse_frame(slice_str(cases[i].frame), &stream, &id, &text);

		assert_int_equal(ok, cases[i].ok);
		if (!ok)
			continue;
		assert_int_equal(stream, cases[i].stream);
		assert_true(slice_eq_str(id, cases[i].id));
		assert_true(slice_eq_str(text, cases[i].text));
	}
}

static void test_own(void **state)
{
	struct buf out = BUF_INIT;

	(void)state;
	logformat_own_text(&out, WALL_MS, "info", slice_str("ready"));
	logformat_own_json(&out, WALL_MS, "info", slice_str("\"ready\""));
	assert_string_equal(out.data, "2026-11-29T15:29:21.123Z info ready\n"
				      "{\"ts\":\"2026-11-29T15:29:21.123Z\",\"level\":\"info\","
				      "\"line\":\"\\\"ready\\\"\"}\n");
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),  cmocka_unit_test(test_json),
		cmocka_unit_test(test_frame), cmocka_unit_test(test_json_of_the_worker_has_no_id),
		cmocka_unit_test(test_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
