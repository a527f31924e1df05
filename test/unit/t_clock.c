/* t_clock.c - the clocks run forward, and the stamp of a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "clock.h"

static void test_forward(void **state)
{
	int64_t mono = clock_mono_ms(), boot = clock_boot_ms();

	(void)state;
	for (int i = 0; i < 1000; i++) {
		int64_t m = clock_mono_ms(), b = clock_boot_ms();

		assert_true(m >= mono);
		assert_true(b >= boot);
		mono = m;
		boot = b;
	}
	assert_true(boot >= mono); /* it goes on while the machine sleeps */
	assert_true(clock_wall_ms() > 1700000000000);
}

static void test_stamp(void **state)
{
	static const struct {
		int64_t ms;
		const char *want;
	} cases[] = {
		{0, "1970-01-01T00:00:00.000Z"},
		{1, "1970-01-01T00:00:00.001Z"},
		{1795966161123, "2026-11-29T15:29:21.123Z"},
		{951782400999, "2000-02-29T00:00:00.999Z"},
	};
	char out[CLOCK_STAMP_LEN + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		clock_stamp(cases[i].ms, out);
		assert_string_equal(out, cases[i].want);
		assert_int_equal(strlen(out), CLOCK_STAMP_LEN);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forward),
		cmocka_unit_test(test_stamp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
