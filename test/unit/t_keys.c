/* t_keys.c - names of keys: one hash slot per queue, and the names that cannot have one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "keys.h"

/* The part of a key that decides its slot, as Redis finds it. */
static void tag_of(const char *key, struct buf *out)
{
	const char *open = strchr(key, '{');
	const char *close = open ? strchr(open + 1, '}') : NULL;

	if (close && close > open + 1)
		buf_add(out, open + 1, (size_t)(close - open) - 1);
	else
		buf_adds(out, key);
}

static void test_names(void **state)
{
	static const struct {
		const char *queue, *delayed, *claim;
	} cases[] = {
		{"video", "{video}:delayed", "{video}:consumer:"},
		{"a{b}c", "a{b}c:delayed", "a{b}c:consumer:"},
		{"{b}", "{b}:delayed", "{b}:consumer:"},
		{"two words", "{two words}:delayed", "{two words}:consumer:"},
		{"a{b", "{a{b}:delayed", "{a{b}:consumer:"},
		{"\xc3\xbc:\xff", "{\xc3\xbc:\xff}:delayed", "{\xc3\xbc:\xff}:consumer:"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct keys k;

		assert_int_equal(keys_check_name(cases[i].queue, NULL), 0);
		keys_init(&k, cases[i].queue);
		assert_string_equal(k.stream, cases[i].queue);
		assert_string_equal(k.delayed, cases[i].delayed);
		assert_string_equal(k.claim, cases[i].claim);
		keys_release(&k);
		keys_release(&k);
	}
}

/* Every accepted name shares its slot with all its keys. */
static void test_one_slot(void **state)
{
	static const char *const names[] = {"q",      "a{b}c", "{x}y{z}", "a{b", "a{}b",
					    "{}",     "a}b",   "}a{b}",   "}{",  "{a}b}",
					    "a{b}}c", "{{a}}", "{",       "}"};
	int accepted = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct buf want = BUF_INIT, got = BUF_INIT;
		struct keys k;

		if (keys_check_name(names[i], NULL) < 0)
			continue;
		accepted++;
		keys_init(&k, names[i]);
		tag_of(k.stream, &want);
		const char *const all[] = {k.delayed,  k.bodies, k.dead,     k.held,
					   k.counters, k.ckpt,   k.progress, k.crash,
					   k.names,    k.claim,  k.result,   k.failed};
		for (size_t j = 0; j < ARRAY_LEN(all); j++) {
			buf_clear(&got);
			tag_of(all[j], &got);
			assert_string_equal(got.data, want.data);
		}
		keys_release(&k);
		buf_release(&want);
		buf_release(&got);
	}
	assert_true(accepted >= 6);
}

static void test_refused(void **state)
{
	static const char *const names[] = {"", "a}b", "a\nb", "a\tb", "\x7f", "a{}b", "}"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct err e = {0};

		assert_int_equal(keys_check_name(names[i], &e), -1);
		assert_int_equal(e.code, EXIT_CONFIG);
		assert_non_null(strchr(e.text, ';')); /* what; what to do */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_one_slot),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
