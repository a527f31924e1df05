/* t_breaker.c - closed, open, half open; only the probe closes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "worker/breaker.h"

static void test_life(void **state)
{
	struct breaker b;

	(void)state;
	breaker_init(&b, 30000);
	assert_int_equal(breaker_limit(&b, 8), 8);
	assert_int_equal(breaker_limit(&b, 0), 0);
	assert_false(breaker_tick(&b, 1000));
	assert_false(breaker_worked(&b));

	assert_true(breaker_broken(&b, 1000));
	assert_int_equal(b.state, BREAKER_OPEN);
	assert_int_equal(b.probe_at_ms, 31000);
	assert_int_equal(breaker_limit(&b, 8), 0);
	/* Others that were running fail, too: it is said once, and the delay starts anew. */
	assert_false(breaker_broken(&b, 2000));
	assert_int_equal(b.probe_at_ms, 32000);
	/* One that was running and worked proves nothing. */
	assert_false(breaker_worked(&b));
	assert_int_equal(b.state, BREAKER_OPEN);

	assert_false(breaker_tick(&b, 31999));
	assert_true(breaker_tick(&b, 32000));
	assert_false(breaker_tick(&b, 32001));
	assert_int_equal(breaker_limit(&b, 8), 1);
	assert_int_equal(breaker_limit(&b, 1), 1);
	assert_int_equal(breaker_limit(&b, 0), 0);

	/* The probe fails: open again, without saying so again. */
	assert_false(breaker_broken(&b, 33000));
	assert_int_equal(b.state, BREAKER_OPEN);
	assert_true(breaker_tick(&b, 63000));
	assert_true(breaker_worked(&b));
	assert_int_equal(b.state, BREAKER_CLOSED);
	assert_int_equal(breaker_limit(&b, 8), 8);
	assert_false(breaker_worked(&b));
	assert_true(breaker_broken(&b, 70000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_life)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
