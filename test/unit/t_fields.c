/* t_fields.c - a task's fields as JSON: binary values, NULs, bad UTF-8, duplicates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>

#include "worker/fields.h"

struct pair {
	const char *name;
	size_t name_len;
	const char *value;
	size_t value_len;
};

#define PAIR(n, v) \
	{ \
		n, sizeof(n) - 1, v, sizeof(v) - 1 \
	}

static void check_json(const struct pair *p, size_t n, const char *except, const char *want)
{
	struct task t;
	struct buf out = BUF_INIT;
	json_t *back;

	task_init(&t);
	task_begin(&t, NULL, slice_str("1-1"), 1);
	for (size_t i = 0; i < n; i++)
		task_add_field(&t, slice_of(p[i].name, p[i].name_len),
			       slice_of(p[i].value, p[i].value_len));
	task_parsed(&t);
	fields_json(&t, except, &out);
	assert_string_equal(out.data, want);
	back = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	assert_non_null(back);
	json_decref(back);
	buf_release(&out);
	task_release(&t);
}

#define CHECK(except, want, ...) \
	do { \
		static const struct pair pairs[] = {__VA_ARGS__}; \
		check_json(pairs, ARRAY_LEN(pairs), except, want); \
	} while (0)

static void test_plain(void **state)
{
	(void)state;
	check_json(NULL, 0, NULL, "{}");
	CHECK(NULL, "{\"b\":\"1\",\"a\":\"\"}", PAIR("b", "1"), PAIR("a", ""));
	CHECK(NULL, "{\"\":\"x\"}", PAIR("", "x"));
	CHECK("payload", "{\"a\":\"1\"}", PAIR("payload", "big"), PAIR("a", "1"),
	      PAIR("payload", "again"));
	CHECK(NULL, "{\"a\":\"1\"}", PAIR("redisq.id", "7-7"), PAIR("a", "1"));
	CHECK(NULL, "{\"q\":\"\\\"\\\\\\n\"}", PAIR("q", "\"\\\n"));
}

static void test_last_duplicate_wins(void **state)
{
	(void)state;
	CHECK(NULL, "{\"b\":\"2\",\"a\":\"3\"}", PAIR("a", "1"), PAIR("b", "2"), PAIR("a", "3"));
	/* Also between text and binary: never in both places. */
	CHECK(NULL, "{\"a\":\"3\"}", PAIR("a", "\xff"), PAIR("a", "3"));
	CHECK(NULL, "{\"fields_b64\":{\"a\":\"/w==\"}}", PAIR("a", "3"), PAIR("a", "\xff"));
}

static void test_binary(void **state)
{
	(void)state;
	CHECK(NULL, "{\"t\":\"x\",\"fields_b64\":{\"p\":\"AP8Q\"}}", PAIR("p", "\0\xff\x10"),
	      PAIR("t", "x"));
	/* A NUL alone is text. */
	CHECK(NULL, "{\"p\":\"a\\u0000b\"}", PAIR("p", "a\0b"));
	CHECK(NULL, "{\"p\":\"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\"}",
	      PAIR("p", "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80"));
	/* A cut character, an overlong one, a surrogate, one beyond the last. */
	CHECK(NULL, "{\"fields_b64\":{\"p\":\"4oI=\"}}", PAIR("p", "\xe2\x82"));
	CHECK(NULL, "{\"fields_b64\":{\"p\":\"wIA=\"}}", PAIR("p", "\xc0\x80"));
	CHECK(NULL, "{\"fields_b64\":{\"p\":\"7aCA\"}}", PAIR("p", "\xed\xa0\x80"));
	CHECK(NULL, "{\"fields_b64\":{\"p\":\"9JCAgA==\"}}", PAIR("p", "\xf4\x90\x80\x80"));
}

static void test_names(void **state)
{
	(void)state;
	CHECK(NULL, "{\"\xc3\xbc\":\"1\"}", PAIR("\xc3\xbc", "1"));
	CHECK(NULL, "{\"a%FFb\":\"1\"}",
	      PAIR("a\xff"
		   "b",
		   "1"));
	CHECK(NULL, "{\"a%00b\":\"1\"}", PAIR("a\0b", "1"));
	CHECK(NULL, "{\"fields_b64\":{\"%FF\":\"/g==\"}}", PAIR("\xff", "\xfe"));
}

static void test_base64(void **state)
{
	static const struct {
		const char *in;
		const char *out;
	} cases[] = {{"", ""},
		     {"f", "Zg=="},
		     {"fo", "Zm8="},
		     {"foo", "Zm9v"},
		     {"foob", "Zm9vYg=="},
		     {"fooba", "Zm9vYmE="},
		     {"foobar", "Zm9vYmFy"},
		     {"\xfb\xff\xfe", "+//+"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf out = BUF_INIT;

		base64_add(&out, slice_str(cases[i].in));
		assert_string_equal(out.data, cases[i].out);
		buf_release(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),  cmocka_unit_test(test_last_duplicate_wins),
		cmocka_unit_test(test_binary), cmocka_unit_test(test_names),
		cmocka_unit_test(test_base64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
