/* t_rconn_retry.c - delays by kind of trouble. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "rconn_retry.h"

static int64_t longest(struct rconn_retry r, enum rconn_trouble trouble)
{
	struct rng rng;
	int64_t most = 0;

	rng_seed(&rng, 1);
	for (int i = 0; i < 2000; i++) {
		struct rconn_retry copy = r;

		most = max_i64(most, retry_delay_ms(&copy, trouble, &rng));
	}
	return most;
}

static void test_delays_double_up_to_the_cap_of_the_kind(void **state)
{
	static const struct {
		enum rconn_trouble trouble;
		int64_t first, cap;
	} cases[] = {{TROUBLE_NOBODY, 100, 2000},
		     {TROUBLE_LINK, 100, 5000},
		     {TROUBLE_DENIED, 1000, 8000}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct rconn_retry r = {TROUBLE_NONE, 0};
		struct rng rng;

		rng_seed(&rng, 7);
		for (int64_t want = cases[i].first; want < cases[i].cap; want *= 2) {
			int64_t most = longest(r, cases[i].trouble);

			assert_in_range(most, want * 9 / 10, want);
			retry_delay_ms(&r, cases[i].trouble, &rng);
		}
		for (int n = 0; n < 2000; n++)
			assert_true(retry_delay_ms(&r, cases[i].trouble, &rng) <= cases[i].cap);
		assert_true(longest(r, cases[i].trouble) > cases[i].cap * 9 / 10);
	}
}

static void test_another_trouble_and_a_ready_link_begin_anew(void **state)
{
	struct rconn_retry r = {TROUBLE_NONE, 0};
	struct rng rng;

	(void)state;
	rng_seed(&rng, 7);
	for (int i = 0; i < 20; i++)
		retry_delay_ms(&r, TROUBLE_NOBODY, &rng);
	assert_true(longest(r, TROUBLE_LINK) <= 100); /* Redis is back, and LOADING */
	retry_reset(&r);
	assert_true(longest(r, TROUBLE_NOBODY) <= 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_delays_double_up_to_the_cap_of_the_kind),
		cmocka_unit_test(test_another_trouble_and_a_ready_link_begin_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
