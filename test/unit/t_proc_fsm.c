/* t_proc_fsm.c - every cell of the table of supervisor/proc_fsm.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supervisor/proc_fsm.h"

/*
 * One line a state, one word an event, in the order of PROC_EVENTS: the next state's first letter
 * pair, "--" where the event cannot happen.
 */
static const char *const expected[PROC_N_STATES] = {
	/*                start wait ready drain stop stuck cut tmo gone again back park */
	[PROC_STOPPED] = "ST -- -- SO SO -- -- -- -- -- -- --",
	[PROC_STARTING] = "ST ST RE DR DR KI KI KI SO ST BA PA",
	[PROC_READY] = "RE RE RE DR DR KI KI RE SO ST BA PA",
	[PROC_DRAINING] = "DR DR DR DR DR KI DR KI SO ST BA PA",
	[PROC_KILLING] = "KI KI KI KI KI KI KI KI SO ST BA PA",
	[PROC_BACKOFF] = "ST -- -- SO SO -- -- ST -- -- -- --",
	[PROC_PARKED] = "ST -- -- SO SO -- -- -- -- -- -- --",
};

static const char *const letters[PROC_N_STATES] = {
	[PROC_STOPPED] = "SO", [PROC_STARTING] = "ST", [PROC_READY] = "RE",  [PROC_DRAINING] = "DR",
	[PROC_KILLING] = "KI", [PROC_BACKOFF] = "BA",  [PROC_PARKED] = "PA",
};

static void every_cell_is_as_written(void **state)
{
	(void)state;
	for (unsigned s = 0; s < PROC_N_STATES; s++) {
		for (unsigned e = 0; e < PROC_N_EVENTS; e++) {
			struct proc_step step;
			bool can = proc_fsm_step((enum proc_state)s, (enum proc_event)e, &step);
			const char *want = expected[s] + (size_t)e * 3;
			const char *got = can ? letters[step.next] : "--";

			if (strncmp(got, want, 2) != 0)
				fail_msg("%s + %s: %s, not %.2s",
					 proc_state_word((enum proc_state)s),
					 proc_event_word((enum proc_event)e), got, want);
			if (!can) {
				assert_int_equal(step.next, s);
				assert_int_equal(step.effects, 0);
			}
		}
	}
}

/* What must hold for the effects of every possible step. */
static void effects_fit_the_states(void **state)
{
	const unsigned arms = PROC_DO_ARM_READY | PROC_DO_ARM_STABLE | PROC_DO_ARM_DRAIN |
			      PROC_DO_ARM_STOP | PROC_DO_ARM_KILL | PROC_DO_ARM_BACKOFF |
			      PROC_DO_NO_TIMER;

	(void)state;
	for (unsigned s = 0; s < PROC_N_STATES; s++) {
		for (unsigned e = 0; e < PROC_N_EVENTS; e++) {
			struct proc_step t;
			enum proc_state from = (enum proc_state)s;
			unsigned n_arms = 0;

			if (!proc_fsm_step(from, (enum proc_event)e, &t))
				continue;
			for (unsigned bit = 1; bit <= PROC_DO_ARM_BACKOFF; bit <<= 1)
				n_arms += (t.effects & arms & bit) != 0;
			/* one timer a state; a new state sets its own or none */
			assert_true(n_arms <= 1);
			assert_true(t.next == from || n_arms == 1);
			/* a start needs that there is no process, or that it has just died */
			if (t.effects & PROC_DO_SPAWN)
				assert_true(!proc_state_has_process(from) ||
					    e == PROC_EV_DIED_AGAIN);
			/* nobody is spoken to or signalled who is not there */
			if (t.effects &
			    (PROC_DO_SAY_DRAIN | PROC_DO_SAY_STOP | PROC_DO_ABORT | PROC_DO_KILL))
				assert_true(proc_state_has_process(from));
			/* killing always ends by a timer */
			if (t.next == PROC_KILLING && from != PROC_KILLING)
				assert_true(t.effects & PROC_DO_ARM_KILL);
		}
	}
}

static unsigned effects(enum proc_state s, enum proc_event e)
{
	struct proc_step t;

	assert_true(proc_fsm_step(s, e, &t));
	return t.effects;
}

static void the_promises(void **state)
{
	(void)state;
	/* fails closed ... */
	assert_true(effects(PROC_STARTING, PROC_EV_TIMEOUT) & PROC_DO_KILL);
	/* ... but not for Redis' sake */
	assert_int_equal(effects(PROC_STARTING, PROC_EV_REDIS_WAIT), PROC_DO_NO_TIMER);
	/* a trace first, then the end */
	assert_true(effects(PROC_READY, PROC_EV_STUCK) & PROC_DO_ABORT);
	assert_false(effects(PROC_READY, PROC_EV_STUCK) & PROC_DO_KILL);
	assert_true(effects(PROC_KILLING, PROC_EV_TIMEOUT) & PROC_DO_KILL);
	/* stable: earlier deaths are forgotten */
	assert_true(effects(PROC_READY, PROC_EV_TIMEOUT) & PROC_DO_STABLE);
	assert_false(effects(PROC_PARKED, PROC_EV_START) & PROC_DO_STABLE);
	/* a drain never signals */
	assert_false(effects(PROC_READY, PROC_EV_DRAIN) & (PROC_DO_KILL | PROC_DO_ABORT));
}

static void words_are_there(void **state)
{
	(void)state;
	assert_string_equal(proc_state_word(PROC_STOPPED), "stopped");
	assert_string_equal(proc_state_word(PROC_PARKED), "parked");
	for (unsigned e = 0; e < PROC_N_EVENTS; e++)
		assert_non_null(proc_event_word((enum proc_event)e));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_cell_is_as_written),
		cmocka_unit_test(effects_fit_the_states),
		cmocka_unit_test(the_promises),
		cmocka_unit_test(words_are_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
