/*
 * t_ledger.c - the credit ledger: single steps, and a storm of random ones against a link that
 * answers in order and is lost now and then. At every step: held + asked <= credit <= concurrency,
 * never more handlers than credit, never more tasks than the table can hold.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "backoff.h"
#include "worker/ledger.h"

static void test_grant(void **state)
{
	struct ledger l;

	(void)state;
	ledger_init(&l, 4, 8);
	assert_int_equal(ledger_free(&l), 0);
	assert_int_equal(ledger_ask(&l, LEDGER_READ, 4), 0);
	assert_int_equal(ledger_grant(&l, 3), 0);
	assert_int_equal(ledger_free(&l), 3);
	assert_int_equal(ledger_grant(&l, 3), 2); /* not wanted */
	assert_int_equal(l.credit, 4);
	assert_int_equal(ledger_grant(&l, 1), 1);
	ledger_drain(&l);
	assert_int_equal(ledger_grant(&l, 2), 2);
}

static void test_ask_and_got(void **state)
{
	struct ledger l;

	(void)state;
	ledger_init(&l, 4, 8);
	ledger_grant(&l, 4);
	assert_int_equal(ledger_ask(&l, LEDGER_READ, 3), 3);
	assert_int_equal(ledger_ask(&l, LEDGER_CLAIM, 9), 1);
	assert_int_equal(ledger_ask(&l, LEDGER_CLAIM, 1), 0);
	assert_int_equal(ledger_ask(&l, LEDGER_CLAIM, -1), 0);
	assert_int_equal(ledger_in_use(&l), 4);
	ledger_got(&l, LEDGER_READ, 3, 2); /* what it did not bring is free again */
	assert_int_equal(l.held, 2);
	assert_int_equal(ledger_free(&l), 1);
	ledger_got(&l, LEDGER_CLAIM, 1, 0);
	assert_int_equal(ledger_free(&l), 2);
	assert_false(ledger_is_idle(&l));
	ledger_gone(&l, LEDGER_HELD);
	ledger_gone(&l, LEDGER_HELD);
	assert_true(ledger_is_idle(&l));
}

static void test_leave_and_return(void **state)
{
	struct ledger l;
	enum ledger_place p = LEDGER_HELD;

	(void)state;
	ledger_init(&l, 1, 2);
	ledger_grant(&l, 1);
	ledger_ask(&l, LEDGER_READ, 1);
	ledger_got(&l, LEDGER_READ, 1, 1);
	ledger_leave(&l, &p);
	assert_int_equal(p, LEDGER_LEAVING);
	assert_false(ledger_is_idle(&l));
	/* The read behind it counts on its credit, ... */
	assert_int_equal(ledger_ask(&l, LEDGER_READ, 1), 1);
	ledger_got(&l, LEDGER_READ, 1, 1);
	/* ... and then the settlement is refused: more in use than there is, nothing is asked for.
	 */
	ledger_return(&l, &p);
	assert_int_equal(p, LEDGER_RETURNED);
	assert_int_equal(ledger_in_use(&l), 2);
	assert_int_equal(ledger_free(&l), 0);
	assert_int_equal(ledger_ask(&l, LEDGER_READ, 1), 0);
	ledger_return(&l, &p);
	ledger_leave(&l, &p); /* sent again: it keeps its credit */
	assert_int_equal(p, LEDGER_RETURNED);
	ledger_gone(&l, LEDGER_HELD);
	assert_int_equal(ledger_free(&l), 0);
	ledger_gone(&l, p);
	assert_int_equal(ledger_free(&l), 1);
	assert_true(ledger_is_idle(&l));
}

/* Tasks that end at once, and reads of other partitions that overtake their settlements: there was
 * no row left in the table. */
static void test_settlements_that_are_overtaken(void **state)
{
	enum ledger_place p[8];
	struct ledger l;

	(void)state;
	ledger_init(&l, 4, 8);
	ledger_grant(&l, 4);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(ledger_ask(&l, LEDGER_READ, 9), 4);
		ledger_got(&l, LEDGER_READ, 4, 4);
		for (int i = 0; i < 4; i++) {
			p[4 * round + i] = LEDGER_HELD;
			ledger_leave(&l, &p[4 * round + i]);
		}
	}
	assert_int_equal(ledger_ask(&l, LEDGER_READ, 9), 0);
	ledger_gone(&l, p[7]);
	assert_int_equal(ledger_ask(&l, LEDGER_READ, 9), 1);
	ledger_got(&l, LEDGER_READ, 1, 0);
	for (int i = 0; i < 7; i++)
		ledger_return(&l, &p[i]);
	assert_int_equal(ledger_free(&l), 0);
	for (int i = 0; i < 7; i++)
		ledger_gone(&l, p[i]);
	assert_int_equal(ledger_free(&l), 4);
	assert_true(ledger_is_idle(&l));
}

/* They had the credit of all partitions for as long as the node of theirs was away. */
static void test_what_cannot_be_settled_takes_no_credit(void **state)
{
	enum ledger_place p[4] = {LEDGER_HELD, LEDGER_HELD, LEDGER_HELD, LEDGER_HELD};
	struct ledger l;

	(void)state;
	ledger_init(&l, 2, 4);
	ledger_grant(&l, 2);
	ledger_ask(&l, LEDGER_READ, 2);
	ledger_got(&l, LEDGER_READ, 2, 2);
	ledger_leave(&l, &p[0]);
	ledger_return(&l, &p[0]); /* sent, and the answer lost; the other one not sent at all */
	assert_int_equal(ledger_free(&l), 0);
	for (int i = 0; i < 2; i++) {
		ledger_put_off(&l, &p[i]);
		ledger_put_off(&l, &p[i]);
		assert_int_equal(p[i], LEDGER_PUT_OFF);
	}
	ledger_leave(&l, &p[0]); /* tried again, in vain: that changes nothing */
	ledger_return(&l, &p[0]);
	assert_int_equal(p[0], LEDGER_PUT_OFF);
	assert_int_equal(ledger_in_use(&l), 0);
	assert_false(ledger_is_idle(&l));
	/* Others run instead; should they be put off, too, the table is full. */
	assert_int_equal(ledger_ask(&l, LEDGER_READ, 9), 2);
	ledger_got(&l, LEDGER_READ, 2, 2);
	ledger_put_off(&l, &p[2]);
	ledger_put_off(&l, &p[3]);
	assert_int_equal(ledger_free(&l), 0);
	for (int i = 0; i < 4; i++)
		ledger_gone(&l, p[i]);
	assert_int_equal(ledger_free(&l), 2);
	assert_true(ledger_is_idle(&l));
}

/* What a read had brought beside them was put off, too, and then no other partition had room. */
static void test_what_is_put_off_leaves_room_for_others(void **state)
{
	enum ledger_place p[8];
	struct ledger l;

	(void)state;
	ledger_init(&l, 2, 12);
	ledger_grant(&l, 2);
	for (int i = 0; i < 8; i += 2) {
		assert_int_equal(ledger_ask(&l, LEDGER_READ, 9), 2);
		ledger_got(&l, LEDGER_READ, 2, 2);
		for (int k = i; k < i + 2; k++) {
			p[k] = LEDGER_HELD;
			ledger_leave(&l, &p[k]);
		}
		/* Two under way at the most, beside those two. */
		if (i % 4 == 0)
			continue;
		assert_int_equal(ledger_free(&l), 0);
		for (int k = i - 2; k < i + 2; k++)
			ledger_put_off(&l, &p[k]);
	}
	assert_int_equal(ledger_free(&l), 2);
	for (int i = 0; i < 8; i++)
		ledger_gone(&l, p[i]);
	assert_true(ledger_is_idle(&l));
}

static void test_drain(void **state)
{
	struct ledger l;

	(void)state;
	ledger_init(&l, 8, 16);
	ledger_grant(&l, 8);
	assert_int_equal(ledger_shrink(&l), 0); /* only in a drain */
	ledger_ask(&l, LEDGER_READ, 5);
	ledger_got(&l, LEDGER_READ, 5, 2);
	ledger_ask(&l, LEDGER_READ, 3);
	ledger_drain(&l);
	assert_int_equal(ledger_free(&l), 0);
	assert_int_equal(ledger_ask(&l, LEDGER_READ, 1), 0);
	assert_int_equal(ledger_shrink(&l), 3); /* a read under way keeps what it asked for */
	assert_int_equal(l.credit, 5);
	ledger_got(&l, LEDGER_READ, 3, 1);
	assert_int_equal(ledger_shrink(&l), 2);
	for (int i = 3; i-- > 0;) {
		ledger_gone(&l, LEDGER_HELD);
		assert_int_equal(ledger_shrink(&l), 1);
		assert_int_equal(l.credit, i);
	}
	assert_true(ledger_is_idle(&l));
}

/* ------------------------------------------------------------------ the storm */

#define MAX_C 9
#define MAX_TASKS (6 * MAX_C)
#define MAX_SENT 64

enum stage { FREE, RUNNING, ENDED, SENT };

struct sent {
	bool settle;
	enum ledger_ask what;
	int n;
	int tasks[MAX_TASKS];
};

/* A worker as far as the ledger sees it, and one link in order. */
struct storm {
	struct ledger l;
	struct rng rng;
	enum stage stage[MAX_TASKS];
	enum ledger_place place[MAX_TASKS];
	struct sent fifo[MAX_SENT];
	int n_sent;
	bool asking[LEDGER_N_ASKS];
	int freed;
	int granted;
	int n_over; /* times the table held more than the credit */
};

static int count(const struct storm *s, enum stage stage)
{
	int n = 0;

	for (int i = 0; i < MAX_TASKS; i++)
		n += s->stage[i] == stage;
	return n;
}

static void check(struct storm *s)
{
	const struct ledger *l = &s->l;
	int n_tasks = MAX_TASKS - count(s, FREE);

	assert_true(l->held + l->asked[LEDGER_READ] + l->asked[LEDGER_CLAIM] <= l->credit);
	assert_true(l->credit <= l->concurrency);
	assert_true(count(s, RUNNING) <= l->credit);
	assert_int_equal(n_tasks, l->held + l->leaving + l->returned + l->put_off);
	assert_true(n_tasks <= l->most && n_tasks - l->put_off <= 2 * l->concurrency);
	assert_int_equal(s->granted, l->credit + s->freed);
	if (n_tasks > l->credit)
		s->n_over++;
}

static void new_task(struct storm *s)
{
	for (int i = 0; i < s->l.most; i++) {
		if (s->stage[i] == FREE) {
			s->stage[i] = RUNNING;
			s->place[i] = LEDGER_HELD;
			return;
		}
	}
	fail_msg("no free row in the table");
}

static void ask(struct storm *s, enum ledger_ask what)
{
	struct sent *c = &s->fifo[s->n_sent];

	if (s->asking[what] || s->n_sent == MAX_SENT)
		return;
	c->settle = false;
	c->what = what;
	c->n = ledger_ask(&s->l, what, (int)rng_below(&s->rng, MAX_C + 2));
	if (c->n == 0)
		return;
	s->asking[what] = true;
	s->n_sent++;
}

static void settle(struct storm *s)
{
	struct sent *c = &s->fifo[s->n_sent];

	if (s->n_sent == MAX_SENT)
		return;
	c->settle = true;
	c->n = 0;
	for (int i = 0; i < MAX_TASKS; i++) {
		if (s->stage[i] != ENDED || rng_below(&s->rng, 4) == 0)
			continue;
		c->tasks[c->n++] = i;
		s->stage[i] = SENT;
		ledger_leave(&s->l, &s->place[i]);
	}
	if (c->n > 0)
		s->n_sent++;
}

/* The oldest command is answered; `ok` false: refused, or its link is lost. */
static void answer(struct storm *s, bool ok)
{
	struct sent c;

	if (s->n_sent == 0)
		return;
	c = s->fifo[0];
	memmove(s->fifo, s->fifo + 1, (size_t)--s->n_sent * sizeof(c));
	if (!c.settle) {
		int got = ok ? (int)rng_below(&s->rng, c.n + 1) : 0;

		s->asking[c.what] = false;
		ledger_got(&s->l, c.what, c.n, got);
		while (got-- > 0)
			new_task(s);
		return;
	}
	for (int k = 0; k < c.n; k++) {
		int i = c.tasks[k];

		if (ok) {
			ledger_gone(&s->l, s->place[i]);
			s->stage[i] = FREE;
		} else {
			ledger_return(&s->l, &s->place[i]);
			s->stage[i] = ENDED;
		}
	}
}

static void end_one(struct storm *s)
{
	for (int i = (int)rng_below(&s->rng, MAX_TASKS); i < MAX_TASKS; i++) {
		if (s->stage[i] != RUNNING)
			continue;
		s->stage[i] = ENDED;
		if (rng_below(&s->rng, 10) == 0) { /* it was lost: disowned */
			ledger_gone(&s->l, s->place[i]);
			s->stage[i] = FREE;
		}
		return;
	}
}

static void put_off(struct storm *s)
{
	for (int i = 0; i < MAX_TASKS; i++)
		if (s->stage[i] == ENDED && rng_below(&s->rng, 2) == 0)
			ledger_put_off(&s->l, &s->place[i]);
}

static void step(struct storm *s)
{
	int n;

	switch (rng_below(&s->rng, 13)) {
	case 0:
		n = (int)rng_below(&s->rng, 4);
		s->granted += n - ledger_grant(&s->l, n);
		break;
	case 1:
	case 2:
		ask(s, LEDGER_READ);
		break;
	case 3:
		ask(s, LEDGER_CLAIM);
		break;
	case 4:
	case 5:
		settle(s);
		break;
	case 6:
		if (rng_below(&s->rng, 8) == 0)
			while (s->n_sent > 0)
				answer(s, false);
		else
			answer(s, rng_below(&s->rng, 8) != 0);
		break;
	case 7:
	case 8:
		answer(s, true);
		break;
	case 9:
		s->freed += ledger_shrink(&s->l);
		break;
	case 10:
		put_off(s);
		break;
	default:
		end_one(s);
		break;
	}
}

static void test_storm(void **state)
{
	int n_over = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct storm s = {.n_sent = 0};
		int turns = 0, concurrency;

		rng_seed(&s.rng, seed);
		concurrency = 1 + (int)rng_below(&s.rng, MAX_C);
		ledger_init(&s.l, concurrency,
			    concurrency * (2 + (int)rng_below(&s.rng, MAX_TASKS / MAX_C - 1)));
		for (int i = 0; i < 2000; i++) {
			step(&s);
			check(&s);
		}
		ledger_drain(&s.l);
		while (!ledger_is_idle(&s.l) && turns++ < 100000) {
			int held = s.l.held;

			step(&s);
			check(&s);
			/* Nothing new in a drain but what was asked for before. */
			assert_true(s.l.held <= held + MAX_C);
		}
		assert_true(ledger_is_idle(&s.l));
		s.freed += ledger_shrink(&s.l);
		assert_int_equal(s.l.credit, 0);
		assert_int_equal(s.freed, s.granted);
		n_over += s.n_over;
	}
	assert_true(n_over > 1000); /* the storm did reach what "leaving" is for */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grant),
		cmocka_unit_test(test_ask_and_got),
		cmocka_unit_test(test_leave_and_return),
		cmocka_unit_test(test_settlements_that_are_overtaken),
		cmocka_unit_test(test_what_cannot_be_settled_takes_no_credit),
		cmocka_unit_test(test_what_is_put_off_leaves_room_for_others),
		cmocka_unit_test(test_drain),
		cmocka_unit_test(test_storm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
