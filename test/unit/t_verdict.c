/* t_verdict.c - what becomes of a task: every kind of outcome against the queue's keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "worker/task.h"

static struct conf_queue queue_of(void)
{
	return (struct conf_queue){
		.max_attempts = 3,
		.max_snoozes = 2,
		.max_crashes = 3,
		.retry_delay = 1000,
		.retry_delay_max = 8000,
		.retry_jitter = 0,
		.on_timeout = CONF_FOLLOW_RETRY,
		.on_crash = CONF_FOLLOW_RETRY,
	};
}

static struct verdict judge(const struct conf_queue *q, enum outcome_kind kind, int attempt,
			    int snoozes, int64_t delay_ms)
{
	struct task t;
	struct outcome o;
	struct verdict v;
	struct rng rng;

	rng_seed(&rng, 7);
	task_init(&t);
	outcome_init(&o);
	t.attempt = attempt;
	t.snoozes = snoozes;
	o.kind = kind;
	o.delay_ms = delay_ms;
	v = verdict_of(&t, &o, q, &rng);
	outcome_release(&o);
	task_release(&t);
	return v;
}

static void test_table(void **state)
{
	static const struct {
		enum outcome_kind kind;
		int attempt, snoozes;
		int64_t asked;
		enum verdict_op op;
		int64_t delay;
		int next_attempt, next_snoozes;
		const char *reason;
	} cases[] = {
		{OUTCOME_DONE, 1, 0, -1, VERDICT_DONE, 0, 0, 0, NULL},
		{OUTCOME_FAILED, 1, 0, -1, VERDICT_RETRY, 1000, 2, 0, NULL},
		{OUTCOME_FAILED, 2, 1, -1, VERDICT_RETRY, 2000, 3, 1, NULL},
		{OUTCOME_FAILED, 2, 1, 77, VERDICT_RETRY, 77, 3, 1, NULL},
		{OUTCOME_FAILED, 2, 1, 0, VERDICT_RETRY, 0, 3, 1, NULL},
		{OUTCOME_FAILED, 3, 0, 77, VERDICT_DEAD, 0, 0, 0, "attempts"},
		{OUTCOME_FAILED, 9, 0, -1, VERDICT_DEAD, 0, 0, 0, "attempts"},
		{OUTCOME_TIMED_OUT, 1, 0, -1, VERDICT_RETRY, 1000, 2, 0, NULL},
		{OUTCOME_TIMED_OUT, 3, 0, -1, VERDICT_DEAD, 0, 0, 0, "timeout"},
		/* No attempt is charged; the back-off grows with the snoozes. */
		{OUTCOME_SNOOZED, 2, 0, -1, VERDICT_RETRY, 1000, 2, 1, NULL},
		{OUTCOME_SNOOZED, 2, 1, -1, VERDICT_RETRY, 2000, 2, 2, NULL},
		{OUTCOME_SNOOZED, 2, 1, 5, VERDICT_RETRY, 5, 2, 2, NULL},
		/* Too often: a failed attempt. */
		{OUTCOME_SNOOZED, 2, 2, -1, VERDICT_RETRY, 2000, 3, 2, NULL},
		{OUTCOME_SNOOZED, 3, 2, -1, VERDICT_DEAD, 0, 0, 0, "attempts"},
		{OUTCOME_REJECTED, 1, 0, 9, VERDICT_DEAD, 0, 0, 0, "rejected"},
		{OUTCOME_OVERSIZED, 1, 0, -1, VERDICT_DEAD, 0, 0, 0, "payload"},
		{OUTCOME_BROKEN, 3, 9, -1, VERDICT_RELEASE, 0, 0, 0, NULL},
		{OUTCOME_STOPPED, 3, 9, -1, VERDICT_RELEASE, 0, 0, 0, NULL},
		{OUTCOME_CRASHED, 3, 9, -1, VERDICT_CRASH, 1000, 0, 0, "crashes"},
	};
	struct conf_queue q = queue_of();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct verdict v = judge(&q, cases[i].kind, cases[i].attempt, cases[i].snoozes,
					 cases[i].asked);

		assert_int_equal(v.op, cases[i].op);
		assert_int_equal(v.delay_ms, cases[i].delay);
		assert_int_equal(v.attempt, cases[i].next_attempt);
		assert_int_equal(v.snoozes, cases[i].next_snoozes);
		if (cases[i].reason)
			assert_string_equal(v.reason, cases[i].reason);
		else
			assert_null(v.reason);
	}
}

/* Any of several may be to blame: none is buried, all run again, whatever on_crash says. */
static void test_a_crash_in_company_only_makes_suspects(void **state)
{
	struct conf_queue q = queue_of();
	struct task t;
	struct outcome o;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 7);
	task_init(&t);
	outcome_init(&o);
	o.kind = OUTCOME_CRASHED;
	o.in_company = true;
	for (int follow = CONF_FOLLOW_RETRY; follow <= CONF_FOLLOW_HOLD; follow++) {
		q.on_crash = follow;
		assert_int_equal(verdict_of(&t, &o, &q, &rng).op, VERDICT_SUSPECT);
	}
	outcome_release(&o);
	task_release(&t);
}

static void test_backoff_is_capped(void **state)
{
	struct conf_queue q = queue_of();

	(void)state;
	q.max_attempts = 1000000;
	assert_int_equal(judge(&q, OUTCOME_FAILED, 4, 0, -1).delay_ms, 8000);
	assert_int_equal(judge(&q, OUTCOME_FAILED, 5, 0, -1).delay_ms, 8000);
	assert_int_equal(judge(&q, OUTCOME_FAILED, 999999, 0, -1).delay_ms, 8000);
	/* What the handler asks for is neither capped nor jittered. */
	q.retry_jitter = 100;
	assert_int_equal(judge(&q, OUTCOME_FAILED, 5, 0, 3600000).delay_ms, 3600000);
}

static void test_jitter_only_adds(void **state)
{
	struct conf_queue q = queue_of();
	struct rng rng;
	struct task t;
	struct outcome o;
	int64_t low = INT64_MAX, high = 0;
	int most = 0;

	(void)state;
	q.retry_jitter = 25;
	rng_seed(&rng, 1);
	task_init(&t);
	outcome_init(&o);
	t.attempt = 1;
	for (int i = 0; i < 2000; i++) {
		struct verdict v;

		o.kind = OUTCOME_FAILED;
		v = verdict_of(&t, &o, &q, &rng);
		low = min_i64(low, v.delay_ms);
		high = max_i64(high, v.delay_ms);
		o.kind = OUTCOME_CRASHED;
		v = verdict_of(&t, &o, &q, &rng);
		assert_int_equal(v.delay_ms, 1000); /* the script adds the jitter */
		assert_in_range(v.jitter_percent, 0, 25);
		most = v.jitter_percent > most ? v.jitter_percent : most;
	}
	assert_in_range(low, 1000, 1010);
	assert_in_range(high, 1240, 1250);
	assert_int_equal(most, 25);
	outcome_release(&o);
	task_release(&t);
}

static void test_follow(void **state)
{
	struct conf_queue q = queue_of();

	(void)state;
	q.on_timeout = CONF_FOLLOW_DEAD;
	assert_int_equal(judge(&q, OUTCOME_TIMED_OUT, 1, 0, -1).op, VERDICT_DEAD);
	assert_string_equal(judge(&q, OUTCOME_TIMED_OUT, 1, 0, -1).reason, "timeout");
	q.on_timeout = CONF_FOLLOW_HOLD;
	assert_int_equal(judge(&q, OUTCOME_TIMED_OUT, 3, 0, -1).op, VERDICT_HOLD);
	assert_string_equal(judge(&q, OUTCOME_TIMED_OUT, 3, 0, -1).reason, "timeout");
	for (int f = CONF_FOLLOW_RETRY; f <= CONF_FOLLOW_HOLD; f++) {
		q.on_crash = f;
		assert_int_equal(judge(&q, OUTCOME_CRASHED, 1, 0, -1).follow, f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_a_crash_in_company_only_makes_suspects),
		cmocka_unit_test(test_backoff_is_capped),
		cmocka_unit_test(test_jitter_only_adds),
		cmocka_unit_test(test_follow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
