/* t_rconn_fifo.c - waiting commands: order, growth, and deadlines that never run backwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "rconn_fifo.h"

static const struct rconn_arg verb = {"XREADGROUP", 10};

static void test_order_is_kept_while_it_grows_and_wraps(void **state)
{
	struct rconn_fifo f = {0};
	struct rconn_pending p;
	int64_t in = 0, out = 0;

	(void)state;
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < round % 17; i++)
			fifo_push(&f, in++, 1000, &verb, NULL, NULL);
		for (int i = 0; i < round % 13 && fifo_pop(&f, &p); i++)
			assert_int_equal(p.sent_ms, out++);
	}
	while (fifo_pop(&f, &p))
		assert_int_equal(p.sent_ms, out++);
	assert_int_equal(in, out);
	assert_null(fifo_head(&f));
	fifo_release(&f);
}

static const struct {
	int64_t now, timeout, due;
	int pops; /* before it */
} cases[] = {
	{0, 5000, 5000, 0},    {10, 7000, 7010, 0},  /* a BLOCK */
	{20, 5000, 7010, 0},                         /* behind it: at least its time */
	{2500, 5000, 7500, 0},                       /* later than it anyway */
	{2600, 100, 7500, 0},  {3000, 100, 3100, 5}, /* nobody in front any more */
};

static void test_a_deadline_is_never_before_the_one_in_front(void **state)
{
	struct rconn_fifo f = {0};
	struct rconn_pending p;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (int n = 0; n < cases[i].pops; n++)
			assert_true(fifo_pop(&f, &p));
		assert_int_equal(fifo_push(&f, cases[i].now, cases[i].timeout, &verb, NULL, NULL),
				 cases[i].due);
	}
	assert_int_equal(fifo_head(&f)->due_ms, 3100);
	fifo_release(&f);
}

static void test_long_verbs_are_cut(void **state)
{
	const struct rconn_arg longest = {"A-COMMAND-LONGER-THAN-ANY", 25};
	struct rconn_fifo f = {0};

	(void)state;
	fifo_push(&f, 0, 1, &longest, NULL, NULL);
	assert_string_equal(fifo_head(&f)->verb, "A-COMMAND-LONGER-TH");
	fifo_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_is_kept_while_it_grows_and_wraps),
		cmocka_unit_test(test_a_deadline_is_never_before_the_one_in_front),
		cmocka_unit_test(test_long_verbs_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
