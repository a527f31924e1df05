/* t_share.c - which partition reads next: fair, never idle while one has more, and nobody
 * forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "worker/share.h"

#define MAX 16
#define NOW 1000000

static struct share row(enum share_state state, int64_t looked_ms)
{
	return (struct share){.state = state,
			      .more = state == SHARE_MORE,
			      .looked_ms = looked_ms,
			      .asked_ms = NOW};
}

static void alone_it_has_all(void **state)
{
	struct share one = row(SHARE_EMPTY, NOW);
	struct share_grant g = share_ask(&one, 1, 0, 7, NOW);

	(void)state;
	assert_true(g.n == 7 && g.wait && g.wait_ms == INT64_MAX);
	one.state = SHARE_MORE;
	g = share_ask(&one, 1, 0, 7, NOW);
	assert_true(g.n == 7 && !g.wait && !g.end_waits);
	assert_int_equal(share_ask(&one, 1, 0, 0, NOW).n, 0);
}

/* Each in its turn, as partitions_turn() does it; what is asked for is taken off the credit. */
static int ask_all(struct share *all, int n, int free, int64_t now, int got[])
{
	for (int i = 0; i < n; i++) {
		struct share_grant g = share_ask(all, n, i, free, now);

		got[i] = g.n < free ? g.n : free;
		free -= got[i];
		if (got[i] > 0)
			all[i].state = g.wait ? SHARE_WAITING : SHARE_ASKED;
	}
	return free;
}

static void those_with_more_have_equal_parts(void **state)
{
	struct share all[] = {row(SHARE_MORE, NOW), row(SHARE_EMPTY, NOW), row(SHARE_MORE, NOW),
			      row(SHARE_OUT, 0), row(SHARE_MORE, NOW)};
	int got[5];

	(void)state;
	assert_int_equal(ask_all(all, 5, 16, NOW, got), 0);
	assert_true(got[0] == 6 && got[2] == 5 && got[4] == 5 && got[1] == 0 && got[3] == 0);
}

/* Also one that came to it later: what the other frees is not all the other's again. */
static void those_who_have_less_come_first(void **state)
{
	struct share all[] = {row(SHARE_MORE, NOW), row(SHARE_MORE, NOW), row(SHARE_OUT, NOW)};
	struct share_grant g;

	(void)state;
	all[0].n_tasks = 7;
	g = share_ask(all, 3, 0, 1, NOW);
	assert_true(g.n == 0 && g.again);
	assert_int_equal(share_ask(all, 3, 1, 1, NOW).n, 1);
	/* 8 for each. */
	assert_int_equal(share_ask(all, 3, 1, 9, NOW).n, 8);
	assert_int_equal(share_ask(all, 3, 0, 11, NOW).n, 2);
	all[1].state = SHARE_EMPTY;
	all[1].looked_ms = NOW;
	assert_int_equal(share_ask(all, 3, 0, 9, NOW).n, 9);
}

static void with_credit_for_all_each_waits_and_some_is_left(void **state)
{
	struct share all[6];
	int got[6];

	(void)state;
	for (int i = 0; i < 6; i++)
		all[i] = row(SHARE_EMPTY, 0);
	assert_int_equal(ask_all(all, 6, 8, NOW, got), 2);
	for (int i = 0; i < 6; i++)
		assert_true(got[i] == 1 && all[i].state == SHARE_WAITING);
}

static void an_empty_one_is_looked_at_now_and_then_while_others_have_more(void **state)
{
	struct share all[] = {row(SHARE_MORE, NOW), row(SHARE_EMPTY, NOW - SHARE_LOOK_MS),
			      row(SHARE_EMPTY, NOW - SHARE_LOOK_MS + 1)};
	struct share_grant g = share_ask(all, 3, 1, 1, NOW);

	(void)state;
	assert_true(g.n == 1 && !g.wait);
	assert_int_equal(share_ask(all, 3, 2, 1, NOW).n, 0);
}

/* Credit becomes free where tasks end, which is where there is more: it must be let go of there. */
static void what_a_look_takes_is_left_to_the_empty_ones(void **state)
{
	struct share all[] = {row(SHARE_MORE, NOW), row(SHARE_EMPTY, NOW - SHARE_LOOK_MS),
			      row(SHARE_EMPTY, NOW - SHARE_LOOK_MS)};
	struct share_grant g = share_ask(all, 3, 0, 1, NOW);

	(void)state;
	assert_true(g.n == 0 && g.again);
	g = share_ask(all, 3, 0, 5, NOW);
	assert_true(g.n == 3 && g.again);
	all[1].looked_ms = all[2].looked_ms = NOW;
	g = share_ask(all, 3, 0, 1, NOW);
	assert_true(g.n == 1 && !g.again);
}

/* Without it, what a dead worker had in one would wait for the end of a backlog in another. */
static void what_was_let_go_of_comes_before_a_backlog(void **state)
{
	struct share all[] = {row(SHARE_MORE, NOW), row(SHARE_ASKED, NOW), row(SHARE_OUT, NOW)};
	struct share_grant g;

	(void)state;
	all[1].takes = all[2].takes = true;
	g = share_ask(all, 3, 0, 1, NOW);
	assert_true(g.n == 0 && g.again);
	g = share_ask(all, 3, 0, 4, NOW);
	assert_true(g.n == 3 && g.again);
	/* It looks for it already: the turn after the answer is soon enough. */
	all[1].busy = true;
	g = share_ask(all, 3, 0, 1, NOW);
	assert_true(g.n == 0 && !g.again);
	all[1].takes = false;
	assert_int_equal(share_ask(all, 3, 0, 1, NOW).n, 1);
}

/* A backlog in one partition must not be held up by credit that waits at the empty ones. */
static void waits_end_when_a_backlog_needs_their_credit(void **state)
{
	struct share all[] = {row(SHARE_MORE, NOW), row(SHARE_WAITING, 0)};

	(void)state;
	assert_false(share_ask(all, 2, 0, 0, NOW).end_waits); /* nobody knows that it is one */
	all[0].full = true;
	assert_true(share_ask(all, 2, 0, 0, NOW).end_waits);
	assert_false(share_ask(all, 2, 0, 1, NOW).end_waits);
	all[1].state = SHARE_EMPTY;
	assert_false(share_ask(all, 2, 0, 0, NOW).end_waits);
}

/* Its links stand, so nothing else wakes the worker: it slept until they were given up. */
static void one_that_hangs_makes_no_other_deaf(void **state)
{
	struct share all[] = {row(SHARE_ASKED, 0), row(SHARE_EMPTY, NOW - 30), row(SHARE_OUT, 0)};
	struct share_grant g = share_ask(all, 3, 1, 4, NOW);

	(void)state;
	/* Its answer may still be near; if it is not the other is asked again by itself. */
	assert_true(g.n == 0 && !g.again && g.again_ms == SHARE_LOOK_MS - 30);
	g = share_ask(all, 3, 1, 4, NOW + g.again_ms);
	assert_true(g.n == 1 && !g.wait && g.again_ms == 0);
	/* It is late: a wait wakes us by itself. */
	all[1].looked_ms = NOW + SHARE_LOOK_MS;
	g = share_ask(all, 3, 1, 4, NOW + SHARE_LOOK_MS);
	assert_true(g.n == 1 && g.wait && g.again_ms == 0);
	/* One that is about to ask owes nothing yet. */
	all[0].asked_ms = INT64_MAX;
	assert_true(share_ask(all, 3, 1, 4, NOW + SHARE_LOOK_MS).again_ms == SHARE_LOOK_MS);
}

static void for_what_waits_at_one_that_hangs_no_place_is_left(void **state)
{
	struct share all[] = {row(SHARE_MORE, NOW), row(SHARE_ASKED, NOW)};

	(void)state;
	all[1].takes = all[1].busy = true;
	assert_int_equal(share_ask(all, 2, 0, 1, NOW + SHARE_LOOK_MS - 1).n, 0);
	assert_int_equal(share_ask(all, 2, 0, 1, NOW + SHARE_LOOK_MS).n, 1);
}

/* Another was due for a look, and what had come went back. */
static void what_a_wait_has_brought_has_the_credit_of_the_wait(void **state)
{
	struct share all[] = {row(SHARE_EMPTY, 0), row(SHARE_MORE, 0), row(SHARE_EMPTY, 0),
			      row(SHARE_MORE, NOW)};

	(void)state;
	all[1].brought = true;
	assert_int_equal(share_ask(all, 4, 1, 1, NOW).n, 1);
	assert_int_equal(share_ask(all, 4, 1, 0, NOW).n, 0);
	assert_int_equal(share_ask(all, 4, 0, 1, NOW).n, 0);
	assert_int_equal(share_ask(all, 4, 3, 1, NOW).n, 0);
	assert_int_equal(share_ask(all, 4, 0, 2, NOW).n, 1);
	all[1].brought = false;
	assert_int_equal(share_ask(all, 4, 0, 1, NOW).n, 1);
	assert_int_equal(share_ask(all, 4, 1, 1, NOW).n, 0);
}

/* With less credit than partitions: within one turn of waiting each has been looked at. */
static void nobody_is_forgotten_with_little_credit(void **state)
{
	for (int n = 2; n <= MAX; n++)
		for (int credit = 1; credit <= n; credit++) {
			struct share all[MAX];
			int64_t until[MAX];
			int free = credit, first = 0;

			(void)state;
			for (int i = 0; i < n; i++)
				all[i] = row(SHARE_EMPTY, NOW);
			for (int64_t now = NOW; now < NOW + 4000; now++) {
				for (int k = 0; k < n; k++) {
					int i = (first + k) % n;
					struct share_grant g;

					if ((all[i].state == SHARE_WAITING && now >= until[i]) ||
					    all[i].state == SHARE_ASKED) {
						all[i] = row(SHARE_EMPTY, now);
						free++;
					}
					g = share_ask(all, n, i, free, now);
					if (g.n == 0 || free == 0)
						continue;
					assert_int_equal(g.n, 1);
					free--;
					all[i].state = g.wait ? SHARE_WAITING : SHARE_ASKED;
					all[i].asked_ms = now;
					until[i] = now + min_i64(g.wait_ms, 5000);
				}
				first = (first + 1) % n;
				for (int i = 0; i < n; i++)
					if (all[i].state != SHARE_WAITING)
						assert_true(now - all[i].looked_ms <=
							    2 * SHARE_TURN_MS + n);
			}
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alone_it_has_all),
		cmocka_unit_test(those_with_more_have_equal_parts),
		cmocka_unit_test(those_who_have_less_come_first),
		cmocka_unit_test(with_credit_for_all_each_waits_and_some_is_left),
		cmocka_unit_test(an_empty_one_is_looked_at_now_and_then_while_others_have_more),
		cmocka_unit_test(what_a_look_takes_is_left_to_the_empty_ones),
		cmocka_unit_test(what_was_let_go_of_comes_before_a_backlog),
		cmocka_unit_test(waits_end_when_a_backlog_needs_their_credit),
		cmocka_unit_test(one_that_hangs_makes_no_other_deaf),
		cmocka_unit_test(for_what_waits_at_one_that_hangs_no_place_is_left),
		cmocka_unit_test(what_a_wait_has_brought_has_the_credit_of_the_wait),
		cmocka_unit_test(nobody_is_forgotten_with_little_credit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
