/* t_canary.c - the verdicts of supervisor/canary.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supervisor/canary.h"

#define READY .ready = true, .open = true

/* What is seen from `begin` on, without a change, and when it leads to which verdict. */
static const struct {
	const char *name;
	struct canary_signs signs;
	int64_t at_ms; /* the first look with a verdict */
	enum canary_verdict verdict;
} cases[] = {
	{"a task finished", {READY, .works = true}, 0, CANARY_WORKS},
	{"a task runs long", {READY, .running = 1, .longest_ms = CANARY_LONG_MS}, 0, CANARY_LONG},
	{"a row of no task is none", {READY, .longest_ms = 60000}, CANARY_IDLE_MS, CANARY_IDLE},
	{"an idle queue", {READY}, CANARY_IDLE_MS, CANARY_IDLE},
	{"not even ready", {.open = true}, CANARY_PATIENCE_MS, CANARY_DEAD},
	{"parked", {.parked = true}, 0, CANARY_DEAD},
	{"broken", {READY, .broken = true}, 0, CANARY_BROKEN},
	{"broken, though one task worked",
	 {READY, .broken = true, .works = true},
	 0,
	 CANARY_BROKEN},
	{"no credit", {.ready = true}, CANARY_PATIENCE_MS, CANARY_UNSURE},
	{"failed, and waits for the next", {READY, .failed = 1}, CANARY_PATIENCE_MS, CANARY_UNSURE},
	{"short tasks that tell nothing",
	 {READY, .running = 1, .longest_ms = 20},
	 CANARY_PATIENCE_MS,
	 CANARY_UNSURE},
};

static void every_verdict_comes_at_its_time(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		enum canary_verdict v = CANARY_WAIT;
		struct canary c;
		int64_t t = -1;

		canary_begin(&c, 7000);
		while (v == CANARY_WAIT && t < 20000)
			v = canary_judge(&c, &cases[i].signs, 7000 + ++t);
		if (v != cases[i].verdict || t != cases[i].at_ms)
			fail_msg("%s: verdict %d after %lld ms, not %d after %lld", cases[i].name,
				 (int)v, (long long)t, (int)cases[i].verdict,
				 (long long)cases[i].at_ms);
	}
}

static void a_task_ends_the_idleness(void **state)
{
	struct canary_signs idle = {READY}, busy = {READY, .running = 1};
	struct canary c;

	(void)state;
	canary_begin(&c, 0);
	assert_int_equal(canary_judge(&c, &idle, 0), CANARY_WAIT);
	assert_int_equal(canary_judge(&c, &busy, CANARY_IDLE_MS - 1), CANARY_WAIT);
	assert_int_equal(canary_judge(&c, &idle, CANARY_IDLE_MS), CANARY_WAIT);
	assert_int_equal(canary_judge(&c, &idle, 2 * CANARY_IDLE_MS - 1), CANARY_WAIT);
	assert_int_equal(canary_judge(&c, &idle, 2 * CANARY_IDLE_MS), CANARY_IDLE);
}

/* Killed once and back: it goes on being looked at, with what patience is left. */
static void one_that_comes_back_is_tried_on(void **state)
{
	struct canary_signs ready = {READY, .running = 1}, gone = {0};
	struct canary c;

	(void)state;
	canary_begin(&c, 0);
	assert_int_equal(canary_judge(&c, &ready, 10), CANARY_WAIT);
	assert_int_equal(canary_judge(&c, &gone, 20), CANARY_WAIT);
	assert_int_equal(canary_judge(&c, &ready, 30), CANARY_WAIT);
	ready.works = true;
	assert_int_equal(canary_judge(&c, &ready, 40), CANARY_WORKS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_verdict_comes_at_its_time),
		cmocka_unit_test(a_task_ends_the_idleness),
		cmocka_unit_test(one_that_comes_back_is_tried_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
