/* t_pipe_plan.c - children: their states, who gets a task, how many there are, which are replaced.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "worker/pipe_plan.h"

static void test_states(void **state)
{
	static const struct {
		enum pipe_state from;
		enum pipe_event ev;
		enum pipe_state to;
	} steps[] = {
		{PIPE_STARTING, PIPE_ON_READY, PIPE_READY},
		{PIPE_STARTING, PIPE_ON_DRAIN, PIPE_DRAINING},
		{PIPE_READY, PIPE_ON_DRAIN, PIPE_DRAINING},
		{PIPE_READY, PIPE_ON_TERM, PIPE_TERMED},
		{PIPE_DRAINING, PIPE_ON_TERM, PIPE_TERMED},
		{PIPE_TERMED, PIPE_ON_KILL, PIPE_KILLED},
		/* Cannot happen. */
		{PIPE_READY, PIPE_ON_READY, PIPE_N_STATES},
		{PIPE_DRAINING, PIPE_ON_READY, PIPE_N_STATES},
		{PIPE_DRAINING, PIPE_ON_DRAIN, PIPE_N_STATES},
		{PIPE_TERMED, PIPE_ON_TERM, PIPE_N_STATES},
		{PIPE_KILLED, PIPE_ON_TERM, PIPE_N_STATES},
		{PIPE_KILLED, PIPE_ON_KILL, PIPE_N_STATES},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		assert_int_equal(pipe_next(steps[i].from, steps[i].ev), steps[i].to);
	for (int s = 0; s < PIPE_GONE; s++) {
		assert_int_equal(pipe_next((enum pipe_state)s, PIPE_ON_DEATH), PIPE_GONE);
		if (s != PIPE_KILLED)
			assert_int_equal(pipe_next((enum pipe_state)s, PIPE_ON_KILL), PIPE_KILLED);
		assert_string_not_equal(pipe_state_word((enum pipe_state)s), "?");
	}
	for (int ev = 0; ev < PIPE_N_EVENTS; ev++) {
		assert_int_equal(pipe_next(PIPE_GONE, (enum pipe_event)ev), PIPE_N_STATES);
		assert_string_not_equal(pipe_event_word((enum pipe_event)ev), "?");
	}
}

static void test_who_fits(void **state)
{
	static const struct {
		struct pipe_view v;
		bool fits, fits_apart;
	} cases[] = {
		{{.state = PIPE_READY, .slots = 2}, true, true},
		{{.state = PIPE_READY, .slots = 2, .n_runs = 1}, true, false},
		{{.state = PIPE_READY, .slots = 2, .n_runs = 2}, false, false},
		{{.state = PIPE_STARTING, .slots = 2}, false, false},
		{{.state = PIPE_DRAINING, .slots = 2}, false, false},
		{{.state = PIPE_TERMED, .slots = 2}, false, false},
		{{.state = PIPE_KILLED, .slots = 2}, false, false},
		{{.state = PIPE_READY, .slots = 9, .n_runs = 1, .apart = true}, false, false},
		{{.state = PIPE_READY, .slots = 2, .worn = true}, true, true},
		{{.state = PIPE_READY, .slots = 2, .n_given = 9, .max_tasks = 10}, true, true},
		{{.state = PIPE_READY, .slots = 2, .n_given = 10, .max_tasks = 10}, false, false},
		{{.state = PIPE_READY, .slots = 2, .n_given = 1 << 30, .max_tasks = 0}, true, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(pipe_fits(&cases[i].v, false), cases[i].fits);
		assert_int_equal(pipe_fits(&cases[i].v, true), cases[i].fits_apart);
	}
}

static void test_who_is_better(void **state)
{
	struct pipe_view four_free = {.slots = 4}, three_free = {.slots = 4, .n_runs = 1};
	struct pipe_view three_of_three = {.slots = 3}, worn = {.slots = 9, .worn = true};

	(void)state;
	assert_true(pipe_better(&four_free, &three_free));
	assert_false(pipe_better(&three_free, &four_free));
	assert_true(pipe_better(&three_of_three, &three_free));
	assert_false(pipe_better(&four_free, &four_free)); /* the first stays: the oldest */
	assert_true(pipe_better(&three_free, &worn));
	assert_false(pipe_better(&worn, &three_free));
}

static void test_how_many(void **state)
{
	static const struct {
		struct pipe_census c;
		int wanted;
		bool start, drain_worn, drain_idle;
	} cases[] = {
		/* The first tells how many tasks one can have. */
		{{.concurrency = 8}, 1, true, false, false},
		{{.concurrency = 8, .n_fresh = 1, .n_all = 1}, 1, false, false, false},
		{{.concurrency = 8, .slots = 3, .n_fresh = 1, .n_ready = 1, .n_all = 1},
		 3,
		 true,
		 false,
		 false},
		{{.concurrency = 8, .slots = 3, .n_fresh = 3, .n_ready = 1, .n_all = 3},
		 3,
		 false,
		 false,
		 false},
		{{.concurrency = 8, .slots = 64, .n_fresh = 1, .n_ready = 1, .n_all = 1},
		 1,
		 false,
		 false,
		 false},
		/* What has not been reaped counts: one beyond the number at most. */
		{{.concurrency = 2, .slots = 1, .n_fresh = 1, .n_ready = 1, .n_all = 2},
		 2,
		 true,
		 false,
		 false},
		{{.concurrency = 2, .slots = 1, .n_fresh = 1, .n_ready = 1, .n_all = 3},
		 2,
		 false,
		 false,
		 false},
		/* Those that only finish their last tasks do not: they may take hours. */
		{{.concurrency = 8,
		  .slots = 8,
		  .n_fresh = 0,
		  .n_ready = 0,
		  .n_busy = 3,
		  .n_all = 3},
		 1,
		 true,
		 false,
		 false},
		{{.concurrency = 8,
		  .slots = 8,
		  .n_fresh = 0,
		  .n_ready = 0,
		  .n_busy = 3,
		  .n_all = 5},
		 1,
		 false,
		 false,
		 false},
		/* Tasks that are to be alone have children of their own. */
		{{.concurrency = 8,
		  .slots = 8,
		  .n_apart = 2,
		  .n_fresh = 1,
		  .n_ready = 1,
		  .n_all = 1},
		 3,
		 true,
		 false,
		 false},
		{{.concurrency = 2,
		  .slots = 8,
		  .n_apart = 2,
		  .n_fresh = 2,
		  .n_ready = 2,
		  .n_all = 2},
		 2,
		 false,
		 false,
		 false},
		{{.concurrency = 8, .slots = 8, .n_fresh = 3, .n_ready = 3, .n_all = 3},
		 1,
		 false,
		 false,
		 true},
		{{.concurrency = 8, .slots = 8, .n_fresh = 2, .n_ready = 1, .n_all = 2},
		 1,
		 false,
		 false,
		 false},
		/* A worn one stays until another is ready in its place. */
		{{.concurrency = 2,
		  .slots = 1,
		  .n_fresh = 1,
		  .n_ready = 1,
		  .n_worn = 1,
		  .n_all = 2},
		 2,
		 true,
		 false,
		 false},
		{{.concurrency = 2,
		  .slots = 1,
		  .n_fresh = 2,
		  .n_ready = 1,
		  .n_worn = 1,
		  .n_all = 3},
		 2,
		 false,
		 false,
		 false},
		{{.concurrency = 2,
		  .slots = 1,
		  .n_fresh = 2,
		  .n_ready = 2,
		  .n_worn = 1,
		  .n_all = 3},
		 2,
		 false,
		 true,
		 false},
		{{.concurrency = 2, .slots = 1, .n_worn = 2, .n_all = 2}, 2, true, false, false},
		{{.concurrency = 2,
		  .slots = 1,
		  .n_fresh = 1,
		  .n_ready = 1,
		  .n_worn = 2,
		  .n_all = 3},
		 2,
		 false,
		 true,
		 false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(pipe_wanted(&cases[i].c), cases[i].wanted);
		assert_int_equal(pipe_start_one(&cases[i].c), cases[i].start);
		assert_int_equal(pipe_drain_worn(&cases[i].c), cases[i].drain_worn);
		assert_int_equal(pipe_drain_idle(&cases[i].c), cases[i].drain_idle);
	}
}

static void test_limits_are_spread_by_a_tenth(void **state)
{
	static const int64_t limits[] = {1, 9, 10, 1000, 99999, 1LL << 40};

	(void)state;
	assert_int_equal(pipe_limit(0, 999), 0);
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		for (int dice = 0; dice < 1000; dice += 111) {
			int64_t n = pipe_limit(limits[i], dice);

			assert_true(n > 0 && n <= limits[i] && n >= limits[i] - limits[i] / 10);
		}
	}
	assert_int_equal(pipe_limit(1000, 0), 1000);
	assert_int_equal(pipe_limit(1000, 999), 901);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_who_fits),
		cmocka_unit_test(test_who_is_better),
		cmocka_unit_test(test_how_many),
		cmocka_unit_test(test_limits_are_spread_by_a_tenth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
