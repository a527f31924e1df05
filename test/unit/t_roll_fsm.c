/* t_roll_fsm.c - every cell of the table of supervisor/roll_fsm.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supervisor/roll_fsm.h"

/* One line a phase, one letter an event, in the order of ROLL_EVENTS; "-" cannot happen. */
static const char *const expected[ROLL_N_PHASES] = {
	/*               reload restart tried untried broke over */
	[ROLL_IDLE] = "cr----",  [ROLL_CANARY] = "ccr-bi", [ROLL_REST] = "cr-wbi",
	[ROLL_WATCH] = "cr--bi", [ROLL_BACK] = "cb---i",
};

static void every_cell_is_as_written(void **state)
{
	(void)state;
	for (unsigned p = 0; p < ROLL_N_PHASES; p++) {
		for (unsigned e = 0; e < ROLL_N_EVENTS; e++) {
			enum roll_phase next;
			bool can = roll_fsm_step((enum roll_phase)p, (enum roll_event)e, &next);
			char got = can ? roll_phase_word(next)[0] : '-';

			if (got != expected[p][e])
				fail_msg("%s + %s: %c, not %c", roll_phase_word((enum roll_phase)p),
					 roll_event_word((enum roll_event)e), got, expected[p][e]);
			if (!can)
				assert_int_equal(next, p);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_cell_is_as_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
