/* t_breaker.c - breaker.h: when it opens, whom it tries with, whom it blames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../worker/breaker.h"

#define DELAY 30000

static void opens_and_closes(void **state ATTR_UNUSED)
{
	struct breaker b;

	breaker_init(&b, DELAY, 10);
	assert_int_equal(breaker_limit(&b, 8, 0), 8);
	assert_int_equal(breaker_limit(&b, 0, 0), 0);
	assert_false(breaker_tick(&b, 1000));

	/* A handler that never worked: the whole delay. Only the first to say so opens it. */
	assert_true(breaker_broken(&b, 0, "1-1", "1-1", false, 1000));
	assert_false(breaker_broken(&b, 0, "1-2", "1-2", false, 2000));
	assert_int_equal(b.state, BREAKER_OPEN);
	assert_int_equal(breaker_limit(&b, 8, 0), 0);
	/* A task that was running all along proves nothing. */
	assert_false(breaker_worked(&b, false));
	assert_false(breaker_tick(&b, 1000 + DELAY - 1));
	assert_true(breaker_tick(&b, 1000 + DELAY));
	assert_false(breaker_tick(&b, 1001 + DELAY));

	assert_true(breaker_worked(&b, false));
	assert_int_equal(b.state, BREAKER_CLOSED);
	assert_int_equal(breaker_limit(&b, 8, 0), 8);
	assert_false(breaker_worked(&b, false));
}

/* One probe, beside whatever runs from before; only the probe decides. */
static void old_tasks_decide_nothing(void **state ATTR_UNUSED)
{
	struct breaker b;

	breaker_init(&b, DELAY, 10);
	assert_true(breaker_broken(&b, 0, "1-1", "1-1", false, 0));
	assert_true(breaker_tick(&b, DELAY));
	assert_int_equal(breaker_limit(&b, 8, 0), 1);
	assert_int_equal(breaker_limit(&b, 8, 3), 4);
	assert_int_equal(breaker_limit(&b, 2, 3), 2);
	assert_false(breaker_worked(&b, true));
	assert_false(breaker_broken(&b, 0, "1-2", "1-2", true, DELAY));
	assert_int_equal(b.state, BREAKER_HALF_OPEN);
	assert_false(
		breaker_broken(&b, 0, "1-3", "1-3", false, DELAY)); /* open again, already said */
	assert_int_equal(b.state, BREAKER_OPEN);
	assert_false(breaker_tick(&b, 2 * DELAY - 1));
	assert_true(breaker_tick(&b, 2 * DELAY));
}

/* What has worked before is tried again soon; but not for ever, and not when it is plainly gone. */
static void a_handler_that_worked_is_tried_soon(void **state ATTR_UNUSED)
{
	struct breaker b;

	breaker_init(&b, DELAY, 10);
	breaker_worked(&b, false);
	assert_true(breaker_broken(&b, 0, "1-1", "1-1", false, 0));
	assert_true(breaker_tick(&b, BREAKER_SOON_MS));
	breaker_broken(&b, 0, "1-2", "1-2", false, BREAKER_SOON_MS);
	assert_false(breaker_tick(&b, 2 * BREAKER_SOON_MS));
	assert_true(breaker_tick(&b, BREAKER_SOON_MS + DELAY));

	breaker_worked(&b, false);
	assert_true(breaker_missing(&b, 0));
	assert_false(breaker_missing(&b, 5));
	assert_false(breaker_tick(&b, BREAKER_SOON_MS));
	assert_true(breaker_tick(&b, 5 + DELAY));
}

static void blames_a_task_when_others_work(void **state ATTR_UNUSED)
{
	struct breaker b;

	breaker_init(&b, DELAY, 10);
	breaker_broken(&b, 0, "1-1", "1-1", false, 0);
	assert_true(breaker_blames(&b, 0, "1-1"));
	assert_false(breaker_blames(&b, 0, "1-2"));
	assert_false(breaker_is_to_blame(&b, "1-1"));
	breaker_tick(&b, DELAY);
	breaker_worked(&b, false);
	assert_true(breaker_is_to_blame(&b, "1-1"));
	/* Broken on it once more: now others have to work again first. */
	breaker_broken(&b, 0, "1-1", "1-1", false, DELAY);
	assert_false(breaker_is_to_blame(&b, "1-1"));
}

/* An attempt is another entry, but the same task. */
static void blames_every_attempt_of_a_task(void **state ATTR_UNUSED)
{
	struct breaker b;

	breaker_init(&b, DELAY, 10);
	breaker_broken(&b, 0, "1-1", "order 7", false, 0);
	breaker_tick(&b, DELAY);
	breaker_worked(&b, false);
	assert_true(breaker_is_to_blame(&b, "order 7"));
	assert_false(breaker_is_to_blame(&b, "1-1"));
	assert_true(breaker_blames(&b, 0, "1-1"));
	breaker_broken(&b, 0, "2-1", "order 7", false, DELAY);
	assert_true(breaker_blames(&b, 0, "2-1"));
	assert_false(breaker_blames(&b, 0, "1-1"));
	assert_int_equal(b.n_blamed, 1);
}

static void entries_of_the_same_id_in_two_partitions_are_two(void **state ATTR_UNUSED)
{
	struct breaker b;

	breaker_init(&b, DELAY, 10);
	breaker_broken(&b, 2, "1-1", "2:1-1", false, 0);
	assert_true(breaker_blames(&b, 2, "1-1"));
	assert_false(breaker_blames(&b, 0, "1-1"));
	breaker_broken(&b, 0, "1-1", "0:1-1", false, 0);
	assert_true(breaker_blames(&b, 2, "1-1") && breaker_blames(&b, 0, "1-1"));
}

static void remembers_the_last_few(void **state ATTR_UNUSED)
{
	struct breaker b;
	char id[BOARD_ID_MAX];

	breaker_init(&b, DELAY, 10);
	for (int i = 0; i <= BREAKER_BLAMED; i++) {
		snprintf(id, sizeof(id), "%d-0", i);
		breaker_broken(&b, 0, id, id, false, 0);
	}
	assert_false(breaker_blames(&b, 0, "0-0"));
	assert_true(breaker_blames(&b, 0, "1-0"));
	assert_true(breaker_blames(&b, 0, id));
}

static void fast_failures_in_a_row_open_it(void **state ATTR_UNUSED)
{
	struct breaker b;

	breaker_init(&b, DELAY, 3);
	breaker_failed_fast(&b, false, 0);
	breaker_failed_fast(&b, false, 0);
	breaker_worked(&b, false); /* not in a row */
	assert_false(breaker_failed_fast(&b, false, 0));
	assert_false(breaker_failed_fast(&b, false, 0));
	assert_true(breaker_failed_fast(&b, false, 0));
	assert_false(breaker_failed_fast(&b, false, 0)); /* of those that ran meanwhile */
	assert_false(breaker_tick(&b, BREAKER_SOON_MS));
	assert_true(breaker_tick(&b, DELAY));
	/* The probe alone decides, and one is enough. */
	assert_false(breaker_failed_fast(&b, true, DELAY));
	assert_int_equal(b.state, BREAKER_HALF_OPEN);
	breaker_failed_fast(&b, false, DELAY);
	assert_int_equal(b.state, BREAKER_OPEN);

	breaker_init(&b, DELAY, 0);
	for (int i = 0; i < 100; i++)
		assert_false(breaker_failed_fast(&b, false, 0));
}

/* A good task behind many bad ones is reached: each try may have twice as many. */
static void tries_grow_while_tasks_only_fail(void **state ATTR_UNUSED)
{
	struct breaker b;
	int64_t now = 0;

	breaker_init(&b, DELAY, 1);
	breaker_failed_fast(&b, false, now);
	for (int size = 1; size <= 64; size *= 2) {
		now += DELAY;
		assert_true(breaker_tick(&b, now));
		assert_int_equal(breaker_limit(&b, 1000, 0), size);
		breaker_failed_fast(&b, false, now);
	}
	/* One that cannot be run at all is tried with one again. */
	breaker_tick(&b, now += DELAY);
	breaker_broken(&b, 0, "1-1", "1-1", false, now);
	breaker_tick(&b, now += DELAY);
	assert_int_equal(breaker_limit(&b, 1000, 0), 1);
	breaker_worked(&b, false);
	assert_int_equal(breaker_limit(&b, 1000, 0), 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opens_and_closes),
		cmocka_unit_test(old_tasks_decide_nothing),
		cmocka_unit_test(a_handler_that_worked_is_tried_soon),
		cmocka_unit_test(blames_a_task_when_others_work),
		cmocka_unit_test(blames_every_attempt_of_a_task),
		cmocka_unit_test(entries_of_the_same_id_in_two_partitions_are_two),
		cmocka_unit_test(remembers_the_last_few),
		cmocka_unit_test(fast_failures_in_a_row_open_it),
		cmocka_unit_test(tries_grow_while_tasks_only_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
