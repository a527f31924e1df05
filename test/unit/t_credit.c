/* t_credit.c - the pool of supervisor/credit.h: single steps, and a seeded storm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backoff.h"
#include "supervisor/credit.h"

static void grants_what_is_lacking(void **state)
{
	struct credit_pool p = {0};
	struct credit_account a = {0}, b = {0};

	(void)state;
	credit_set_limit(&p, 6);
	assert_int_equal(credit_grant(&p, &a, 4), 4);
	assert_int_equal(credit_grant(&p, &a, 4), 0);
	assert_int_equal(credit_grant(&p, &b, 4), 2);
	assert_int_equal(p.out, 6);
	assert_int_equal(credit_free(&p, &a, 3), 3);
	assert_int_equal(credit_grant(&p, &b, 4), 2);
	assert_int_equal(credit_grant(&p, &b, 4), 0);
	assert_int_equal(p.out, 5);
}

static void lowered_limit_holds_until_freed(void **state)
{
	struct credit_pool p = {0};
	struct credit_account old = {0}, new = {0};

	(void)state;
	credit_set_limit(&p, 4);
	credit_grant(&p, &old, 4);
	credit_set_limit(&p, 2);
	assert_int_equal(p.out, 4);
	assert_int_equal(credit_grant(&p, &new, 2), 0);
	credit_free(&p, &old, 2);
	assert_int_equal(credit_grant(&p, &new, 2), 0);
	credit_free(&p, &old, 1);
	assert_int_equal(credit_grant(&p, &new, 2), 1);
	credit_close(&p, &old);
	assert_int_equal(credit_grant(&p, &new, 2), 1);
}

static void nobody_frees_more_than_he_holds(void **state)
{
	struct credit_pool p = {0};
	struct credit_account a = {0}, b = {0};

	(void)state;
	credit_set_limit(&p, 8);
	credit_grant(&p, &a, 4);
	credit_grant(&p, &b, 4);
	assert_int_equal(credit_free(&p, &a, 100), 4);
	assert_int_equal(credit_free(&p, &a, 1), 0);
	assert_int_equal(credit_free(&p, &b, -5), 0);
	assert_int_equal(p.out, 4);
}

static void grave_keeps_the_credit_out(void **state)
{
	struct credit_pool p = {0};
	struct credit_account dead = {0}, grave = {0}, next = {0};

	(void)state;
	credit_set_limit(&p, 4);
	credit_grant(&p, &dead, 4);
	credit_move(&dead, &grave);
	credit_close(&p, &dead);
	assert_int_equal(credit_grant(&p, &next, 4), 0);
	credit_close(&p, &grave);
	assert_int_equal(credit_grant(&p, &next, 4), 4);
}

static void negative_limit_is_none(void **state)
{
	struct credit_pool p = {0};
	struct credit_account a = {0};

	(void)state;
	credit_set_limit(&p, -3);
	assert_int_equal(credit_grant(&p, &a, 4), 0);
}

/* Whatever happens, a grant never takes the sum above the limit of that moment. */
static void storm_never_exceeds_the_limit(void **state)
{
	enum { N = 24, STEPS = 200000 };
	struct credit_pool p = {0};
	struct credit_account a[N] = {{0}};
	struct rng rng;

	(void)state;
	rng_seed(&rng, 20261129);
	for (int step = 0; step < STEPS; step++) {
		struct credit_account *x = &a[rng_below(&rng, N)];
		int64_t before = p.out, sum = 0, granted;

		switch (rng_below(&rng, 8)) {
		case 0:
			credit_set_limit(&p, rng_below(&rng, 64));
			break;
		case 1:
			credit_close(&p, x);
			break;
		case 2:
			credit_move(x, &a[(x - a + 1 + rng_below(&rng, N - 1)) % N]);
			break;
		case 3:
		case 4:
			credit_free(&p, x, rng_below(&rng, 6));
			break;
		default:
			granted = credit_grant(&p, x, rng_below(&rng, 10));
			assert_true(granted >= 0);
			assert_true(granted == 0 || p.out <= p.limit);
			assert_int_equal(p.out, before + granted);
			break;
		}
		for (int i = 0; i < N; i++) {
			assert_true(a[i].held >= 0);
			sum += a[i].held;
		}
		assert_int_equal(sum, p.out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grants_what_is_lacking),
		cmocka_unit_test(lowered_limit_holds_until_freed),
		cmocka_unit_test(nobody_frees_more_than_he_holds),
		cmocka_unit_test(grave_keeps_the_credit_out),
		cmocka_unit_test(negative_limit_is_none),
		cmocka_unit_test(storm_never_exceeds_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
