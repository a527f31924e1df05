/* t_backoff.c - delays: doubling, caps, saturation, the bounds of both jitters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "backoff.h"

static void test_doubling(void **state)
{
	static const struct {
		int64_t base, cap;
		unsigned n;
		int64_t want;
	} cases[] = {
		{200, 30000, 1, 200},
		{200, 30000, 2, 400},
		{200, 30000, 8, 25600},
		{200, 30000, 9, 30000},
		{200, 30000, 4000000000u, 30000},
		{0, 30000, 5, 0},
		{500, 100, 1, 100},
		{1, INT64_MAX, 63, (int64_t)1 << 62},
		{1, INT64_MAX, 64, INT64_MAX},
		{1, INT64_MAX, 1000, INT64_MAX},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(backoff_ms(cases[i].base, cases[i].cap, cases[i].n),
				 cases[i].want);
}

static void test_full_jitter(void **state)
{
	struct rng r;
	int64_t lowest = INT64_MAX, highest = 0;

	(void)state;
	rng_seed(&r, 1);
	for (int i = 0; i < 10000; i++) {
		int64_t d = backoff_full_jitter_ms(&r, 100, 10000, 4);

		assert_in_range(d, 0, 800);
		lowest = min_i64(lowest, d);
		highest = max_i64(highest, d);
	}
	assert_true(lowest < 20 && highest > 780);
}

static void test_added_jitter(void **state)
{
	struct rng r;
	int64_t lowest = INT64_MAX, highest = 0;

	(void)state;
	rng_seed(&r, 2);
	for (int i = 0; i < 10000; i++) {
		int64_t d = backoff_add_jitter_ms(&r, 1000, 900000, 3, 25);

		assert_in_range(d, 4000, 5000); /* never earlier than asked */
		lowest = min_i64(lowest, d);
		highest = max_i64(highest, d);
	}
	assert_true(lowest < 4020 && highest > 4980);
	assert_int_equal(backoff_add_jitter_ms(&r, 1000, 900000, 1, 0), 1000);
	assert_int_equal(backoff_add_jitter_ms(&r, 0, 900000, 9, 25), 0);
}

static void test_rng(void **state)
{
	struct rng a, b;

	(void)state;
	rng_seed(&a, 3);
	rng_seed(&b, 3);
	for (int i = 0; i < 100; i++)
		assert_int_equal(rng_below(&a, 1000), rng_below(&b, 1000));
	assert_int_equal(rng_below(&a, 0), 0);
	assert_int_equal(rng_below(&a, -5), 0);
	assert_int_equal(rng_below(&a, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_doubling),
		cmocka_unit_test(test_full_jitter),
		cmocka_unit_test(test_added_jitter),
		cmocka_unit_test(test_rng),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
