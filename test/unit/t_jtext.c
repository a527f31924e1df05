/*
 * t_jtext.c - JSON as text: what is written reads back as it was; what is no JSON is refused; the
 * same verdicts as jansson's over every line of a list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>

#include "jtext.h"

static void test_strings_read_back(void **state)
{
	struct buf text = BUF_INIT;
	char bytes[1024], back[2048];
	size_t n = 0;

	(void)state;
	for (int c = 1; c < 0x80; c++)
		bytes[n++] = (char)c;
	memcpy(bytes + n, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xed\x9f\xbf\xf4\x8f\xbf\xbf", 16);
	n += 16;
	assert_true(jtext_add_string(&text, slice_of(bytes, n)));
	assert_int_equal(jtext_value(slice_of(text.data, text.len)), text.len);
	assert_int_equal(jtext_text(slice_of(text.data, text.len), back, sizeof(back)), n);
	assert_memory_equal(back, bytes, n);
	/* No byte that could end a line. */
	assert_null(memchr(text.data, '\n', text.len));
	buf_release(&text);
}

static void test_a_nul_is_written_and_not_read(void **state)
{
	struct buf text = BUF_INIT;

	(void)state;
	assert_true(jtext_add_string(&text, slice_of("a\0b", 3)));
	assert_string_equal(text.data, "\"a\\u0000b\"");
	assert_int_equal(jtext_value(slice_of(text.data, text.len)), 0);
	buf_release(&text);
}

static void test_what_is_not_utf8(void **state)
{
	static const char *const bad[] = {
		"\x80",
		"\xc0\x80",
		"\xc1\xbf",
		"\xc3",
		"\xe0\x9f\xbf",
		"\xe2\x82",
		"\xed\xa0\x80",
		"\xf0\x8f\xbf\xbf",
		"\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80",
		"\xff",
		"\xe2\x28\xa1",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct buf text = BUF_INIT;

		buf_adds(&text, "before");
		assert_false(jtext_is_utf8(slice_str(bad[i])));
		assert_false(jtext_add_string(&text, slice_str(bad[i])));
		assert_string_equal(text.data, "before");
		buf_release(&text);
	}
	assert_true(jtext_is_utf8(slice_str("a\xc3\xa4")));
	assert_true(jtext_is_utf8(slice_of(NULL, 0)));
}

static void test_as_jansson_sees_it(void **state)
{
	static const char *const texts[] = {
		"{}",
		" {\t} ",
		"{\"a\":1}",
		"{\"a\":1,}",
		"{,}",
		"{\"a\"}",
		"{\"a\":}",
		"{a:1}",
		"{\"a\":1 \"b\":2}",
		"{\"a\":[]}",
		"{\"a\":[1,2,[3]]}",
		"{\"a\":[1,]}",
		"{\"a\":[,1]}",
		"{\"a\":{\"b\":{}}}",
		"{\"a\":tru}",
		"{\"a\":true}",
		"{\"a\":false}",
		"{\"a\":null}",
		"{\"a\":nul}",
		"{\"a\":-0}",
		"{\"a\":-}",
		"{\"a\":01}",
		"{\"a\":1.}",
		"{\"a\":.5}",
		"{\"a\":1.5e3}",
		"{\"a\":1e}",
		"{\"a\":1e+}",
		"{\"a\":1E-7}",
		"{\"a\":+1}",
		"{\"a\":0x1}",
		"{\"a\":\"\\q\"}",
		"{\"a\":\"\\u12\"}",
		"{\"a\":\"\\u00e4\"}",
		"{\"a\":\"\\ud83d\"}",
		"{\"a\":\"\\ud83d\\ude00\"}",
		"{\"a\":\"\\ude00\"}",
		"{\"a\":\"\\ud83dx\"}",
		"{\"a\":\"\\u0000\"}",
		"{\"a\":\"\x01\"}",
		"{\"a\":\"\x7f\"}",
		"{\"a\":\"\xff\"}",
		"{\"a\":\"\xed\xa0\x80\"}",
		"{\"a\":\"b}",
		"{\"a\":'b'}",
		"{}x",
		"{} {}",
		"{\"a\":1}}",
		"{\"a\":NaN}",
		"{\"a\":/* */1}",
		"\xef\xbb\xbf{}",
		"{\"\":1}",
		"{\"a\":\"\\/\"}",
		"",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		json_t *theirs = json_loads(texts[i], 0, NULL);
		struct jtext_members m;

		if (jtext_object(slice_str(texts[i]), &m) != (theirs != NULL))
			fail_msg("%s", texts[i]);
		json_decref(theirs);
	}
}

static void test_members(void **state)
{
	static const char text[] = " { \"a\" : 1 , \"b\":[{\"a\":2}], \"c\\u0064\":\"x\" } ";
	static const struct {
		const char *name, *value;
	} expected[] = {{"a", "1"}, {"b", "[{\"a\":2}]"}, {"cd", "\"x\""}};
	struct jtext_members m;
	struct slice key, value;

	(void)state;
	assert_true(jtext_object(slice_str(text), &m));
	for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
		assert_true(jtext_member(&m, &key, &value));
		assert_true(jtext_is(key, expected[i].name));
		assert_true(slice_eq_str(value, expected[i].value));
	}
	assert_false(jtext_member(&m, &key, &value));
	assert_false(jtext_is(slice_str("\"a\""), "ab"));
	assert_false(jtext_is(slice_str("\"\\u0061b\""), "a"));
}

static void test_only_objects(void **state)
{
	static const char *const texts[] = {"1", "[]", "\"{}\"", "null", " "};
	struct jtext_members m;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		assert_false(jtext_object(slice_str(texts[i]), &m));
}

static void test_too_deep(void **state)
{
	struct buf text = BUF_INIT;

	(void)state;
	for (int i = 0; i < JTEXT_DEPTH_MAX; i++)
		buf_addc(&text, '[');
	for (int i = 0; i < JTEXT_DEPTH_MAX; i++)
		buf_addc(&text, ']');
	assert_int_equal(jtext_value(slice_of(text.data, text.len)), text.len);
	buf_clear(&text);
	for (int i = 0; i < 1000000; i++)
		buf_addc(&text, '[');
	assert_int_equal(jtext_value(slice_of(text.data, text.len)), 0);
	buf_release(&text);
}

static void test_text_is_cut_between_characters(void **state)
{
	char out[4];

	(void)state;
	assert_int_equal(jtext_text(slice_str("\"ab\xc3\xa4z\""), out, sizeof(out)), 5);
	assert_string_equal(out, "ab");
	assert_int_equal(jtext_text(slice_str("\"\""), out, sizeof(out)), 0);
	assert_string_equal(out, "");
}

static void test_numbers(void **state)
{
	double n;

	(void)state;
	assert_true(jtext_number(slice_str("-1.5e2"), &n) && n == -150);
	assert_false(jtext_number(slice_str("\"1\""), &n));
	assert_false(jtext_number(slice_str("null"), &n));
	assert_false(jtext_number(slice_of(NULL, 0), &n));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strings_read_back),
		cmocka_unit_test(test_a_nul_is_written_and_not_read),
		cmocka_unit_test(test_what_is_not_utf8),
		cmocka_unit_test(test_as_jansson_sees_it),
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_only_objects),
		cmocka_unit_test(test_too_deep),
		cmocka_unit_test(test_text_is_cut_between_characters),
		cmocka_unit_test(test_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
