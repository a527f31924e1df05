/* t_restart.c - the restart policy of supervisor/restart.h, death by death. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supervisor/restart.h"

static struct restart_policy policy(int limit, enum restart_on_loop on_loop)
{
	return (struct restart_policy){.delay_ms = 200,
				       .delay_max_ms = 30000,
				       .window_ms = 60000,
				       .limit = limit,
				       .on_loop = on_loop};
}

static void first_death_of_a_ready_worker_costs_nothing(void **state)
{
	struct restart_policy p = policy(10, RESTART_LOOP_RETRY);
	struct restart r;
	struct rng rng;
	int64_t delay = -1;

	(void)state;
	rng_seed(&rng, 1);
	restart_init(&r);
	assert_int_equal(restart_decide(&r, &p, RESTART_IDLE, 1000, &rng, &delay), RESTART_NOW);
	assert_int_equal(restart_decide(&r, &p, RESTART_IDLE, 1100, &rng, &delay), RESTART_LATER);
	restart_forget(&r);
	assert_int_equal(restart_decide(&r, &p, RESTART_IDLE, 90000, &rng, &delay), RESTART_NOW);
	restart_release(&r);
}

static void delay_doubles_to_its_cap_and_never_comes_early(void **state)
{
	struct restart_policy p = policy(1000, RESTART_LOOP_RETRY);
	struct restart r;
	struct rng rng;
	int64_t want = 200, delay;

	(void)state;
	rng_seed(&rng, 2);
	restart_init(&r);
	for (int i = 0; i < 40; i++) {
		assert_int_equal(
			restart_decide(&r, &p, RESTART_BEFORE_READY, i * 100000, &rng, &delay),
			RESTART_LATER);
		assert_true(delay >= want && delay <= want + want / 5 + 1);
		want = want * 2 > 30000 ? 30000 : want * 2;
	}
	restart_release(&r);
}

static const struct {
	const char *name;
	int limit;
	int64_t every_ms;
	enum restart_on_loop on_loop;
	int loop_at; /* the death that is one too many, 0 = never */
	enum restart_verdict verdict;
} loops[] = {
	{"fast deaths", 3, 10, RESTART_LOOP_PARK, 4, RESTART_PARK},
	{"old workers die, too", 3, 15000, RESTART_LOOP_PARK, 4, RESTART_PARK},
	{"too rare", 3, 20001, RESTART_LOOP_PARK, 0, RESTART_PARK},
	{"exactly the window", 3, 20000, RESTART_LOOP_PARK, 4, RESTART_PARK},
	{"exit", 1, 10, RESTART_LOOP_EXIT, 2, RESTART_EXIT},
	{"retry", 2, 10, RESTART_LOOP_RETRY, 3, RESTART_LATER},
};

static void more_than_the_limit_in_the_window_is_a_loop(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(loops); i++) {
		struct restart_policy p = policy(loops[i].limit, loops[i].on_loop);
		struct restart r;
		struct rng rng;
		int seen = 0;

		rng_seed(&rng, 3);
		restart_init(&r);
		for (int n = 1; n <= 50 && !seen; n++) {
			int64_t delay;
			enum restart_verdict v = restart_decide(
				&r, &p, RESTART_IDLE, n * loops[i].every_ms, &rng, &delay);

			if (loops[i].on_loop == RESTART_LOOP_RETRY) {
				if (n > 1 && delay == p.delay_max_ms)
					seen = n;
			} else if (v == loops[i].verdict) {
				seen = n;
			}
		}
		if (seen != loops[i].loop_at)
			fail_msg("%s: loop at death %d, not %d", loops[i].name, seen,
				 loops[i].loop_at);
		restart_release(&r);
	}
}

/* One that dies each time it has become stable is in a loop as any other. */
static void being_stable_ends_the_row_but_empties_no_window(void **state)
{
	struct restart_policy p = policy(3, RESTART_LOOP_PARK);
	struct restart r;
	struct rng rng;
	int64_t delay;

	(void)state;
	rng_seed(&rng, 5);
	restart_init(&r);
	for (int n = 1; n <= 3; n++) {
		assert_int_equal(restart_decide(&r, &p, RESTART_IDLE, n * 1000, &rng, &delay),
				 RESTART_NOW);
		assert_false(r.loop);
		restart_stable(&r);
	}
	assert_int_equal(restart_decide(&r, &p, RESTART_IDLE, 4000, &rng, &delay), RESTART_PARK);
	assert_true(r.loop);
	restart_forget(&r);
	assert_false(r.loop);
	assert_int_equal(restart_decide(&r, &p, RESTART_IDLE, 4001, &rng, &delay), RESTART_NOW);
	restart_release(&r);
}

static void forgetting_empties_the_window(void **state)
{
	struct restart_policy p = policy(2, RESTART_LOOP_PARK);
	struct restart r;
	struct rng rng;
	int64_t delay;

	(void)state;
	rng_seed(&rng, 4);
	restart_init(&r);
	restart_decide(&r, &p, RESTART_IDLE, 1, &rng, &delay);
	restart_decide(&r, &p, RESTART_IDLE, 2, &rng, &delay);
	restart_forget(&r);
	assert_int_equal(restart_decide(&r, &p, RESTART_IDLE, 3, &rng, &delay), RESTART_NOW);
	assert_int_equal(restart_decide(&r, &p, RESTART_IDLE, 4, &rng, &delay), RESTART_LATER);
	assert_int_equal(restart_decide(&r, &p, RESTART_IDLE, 5, &rng, &delay), RESTART_PARK);
	restart_release(&r);
}

static void another_limit_starts_a_new_count(void **state)
{
	struct restart_policy p = policy(5, RESTART_LOOP_PARK);
	struct restart r;
	struct rng rng;
	int64_t delay;

	(void)state;
	rng_seed(&rng, 5);
	restart_init(&r);
	for (int i = 0; i < 5; i++)
		restart_decide(&r, &p, RESTART_IDLE, i, &rng, &delay);
	p.limit = 1;
	assert_int_equal(restart_decide(&r, &p, RESTART_IDLE, 6, &rng, &delay), RESTART_LATER);
	assert_int_equal(restart_decide(&r, &p, RESTART_IDLE, 7, &rng, &delay), RESTART_PARK);
	restart_release(&r);
}

static void a_shortage_is_no_crash(void **state)
{
	struct restart_policy p = policy(2, RESTART_LOOP_EXIT);
	struct restart r;
	struct rng rng;
	int64_t want = 200;

	(void)state;
	rng_seed(&rng, 6);
	restart_init(&r);
	for (int i = 0; i < 30; i++) {
		int64_t delay = restart_postpone(&r, &p, &rng);

		assert_true(delay >= want && delay <= want + want / 5 + 1);
		want = want * 2 > 30000 ? 30000 : want * 2;
	}
	assert_int_equal(r.count, 0);
	restart_release(&r);
}

/* Each of them is charged to the tasks that ran, and max_crashes ends that. */
static void deaths_of_poison_tasks_are_no_crash_loop(void **state)
{
	struct restart_policy p = policy(2, RESTART_LOOP_EXIT);
	struct restart r;
	struct rng rng;
	int64_t want = 400, delay;

	(void)state;
	rng_seed(&rng, 7);
	restart_init(&r);
	assert_int_equal(restart_decide(&r, &p, RESTART_CHARGED, 1, &rng, &delay), RESTART_NOW);
	for (int i = 0; i < 30; i++) {
		assert_int_equal(restart_decide(&r, &p, RESTART_CHARGED, 2 + i, &rng, &delay),
				 RESTART_LATER);
		assert_true(delay >= want && delay <= want + want / 5 + 1); /* no storm of starts */
		want = want * 2 > 30000 ? 30000 : want * 2;
	}
	assert_int_equal(r.count, 0);
	/* The worker's own count as before, whatever came between. */
	assert_int_equal(restart_decide(&r, &p, RESTART_IDLE, 40, &rng, &delay), RESTART_LATER);
	assert_int_equal(restart_decide(&r, &p, RESTART_BEFORE_READY, 41, &rng, &delay),
			 RESTART_LATER);
	assert_int_equal(restart_decide(&r, &p, RESTART_CHARGED, 42, &rng, &delay), RESTART_LATER);
	assert_int_equal(restart_decide(&r, &p, RESTART_IDLE, 43, &rng, &delay), RESTART_EXIT);
	restart_release(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_death_of_a_ready_worker_costs_nothing),
		cmocka_unit_test(delay_doubles_to_its_cap_and_never_comes_early),
		cmocka_unit_test(more_than_the_limit_in_the_window_is_a_loop),
		cmocka_unit_test(being_stable_ends_the_row_but_empties_no_window),
		cmocka_unit_test(forgetting_empties_the_window),
		cmocka_unit_test(another_limit_starts_a_new_count),
		cmocka_unit_test(a_shortage_is_no_crash),
		cmocka_unit_test(deaths_of_poison_tasks_are_no_crash_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
