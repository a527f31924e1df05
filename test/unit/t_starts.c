/* t_starts.c - starts.h: one turn of the loop starts so many, however many partitions there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/starts.h"

#define NOW 1000

/* Each had a bound of its own: 64 of them could hold the loop for more than half a second. */
static void partitions_have_one_bound_together(void **state ATTR_UNUSED)
{
	struct starts s = {0};
	int n = 0;

	for (int partition = 0; partition < 64; partition++)
		for (int i = 0; i < STARTS_PER_TURN; i++)
			n += starts_take(&s, NOW);
	assert_int_equal(n, STARTS_PER_TURN);
	starts_turn(&s);
	assert_true(starts_take(&s, NOW));
}

static void slow_starts_end_the_turn_sooner(void **state ATTR_UNUSED)
{
	struct starts s = {0};
	int n = 0;

	for (int i = 0; i < 64; i++)
		n += starts_take(&s, NOW + 4 * n);
	assert_int_equal(n, 3);
	/* The next turn has its own time, and starts one, however long that took. */
	starts_turn(&s);
	assert_true(starts_take(&s, NOW + 500));
	assert_false(starts_take(&s, NOW + 500 + STARTS_PER_TURN_MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(partitions_have_one_bound_together),
		cmocka_unit_test(slow_starts_end_the_turn_sooner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
