/* t_task_table.c - the table of tasks and its index, against a plain array that does the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "backoff.h"
#include "worker/task_table.h"

static struct queue *const Q1 = (struct queue *)(void *)&(char){1};
static struct queue *const Q2 = (struct queue *)(void *)&(char){2};

static struct task *fetch(struct task_table *tt, struct queue *q, const char *id)
{
	struct task *t = task_table_free_row(tt);

	assert_non_null(t);
	task_begin(t, q, slice_str(id), 1);
	assert_true(task_table_event(tt, t, TASK_ON_FETCH));
	return t;
}

static int length(const struct list *l)
{
	const struct list *it;
	int n = 0;

	list_each (it, l)
		n++;
	return n;
}

static void test_state_is_the_list(void **state)
{
	struct task_table tt;
	struct task *a, *b;

	(void)state;
	task_table_init(&tt, 3);
	assert_int_equal(length(&tt.in[TASK_GONE]), 3);
	a = fetch(&tt, Q1, "1-1");
	b = fetch(&tt, Q1, "1-2");
	assert_ptr_equal(list_entry(tt.in[TASK_FETCHED].next, struct task, state_link), a);
	assert_int_equal(length(&tt.in[TASK_FETCHED]), 2);
	assert_int_equal(tt.n_used, 2);
	assert_true(task_table_event(&tt, a, TASK_ON_START));
	assert_true(task_table_event(&tt, b, TASK_ON_FINISH));
	assert_ptr_equal(tt.in[TASK_RUNNING].next, &a->state_link);
	assert_ptr_equal(tt.in[TASK_SETTLING].next, &b->state_link);
	assert_true(list_empty(&tt.in[TASK_FETCHED]));
	assert_ptr_equal(task_table_find(&tt, Q1, "1-1"), a);
	assert_true(task_table_event(&tt, b, TASK_ON_SETTLE));
	assert_null(task_table_find(&tt, Q1, "1-2"));
	assert_ptr_equal(task_table_free_row(&tt), b);
	assert_int_equal(tt.n_used, 1);
	task_table_release(&tt);
}

/* What cannot happen changes nothing: not the lists, nor the index. */
static void test_a_step_that_cannot_happen(void **state)
{
	struct task_table tt;
	struct task *t;

	(void)state;
	task_table_init(&tt, 2);
	t = fetch(&tt, Q1, "1-1");
	assert_false(task_table_event(&tt, t, TASK_ON_SETTLE));
	assert_false(task_table_event(&tt, t, TASK_ON_FETCH));
	assert_ptr_equal(tt.in[TASK_FETCHED].next, &t->state_link);
	assert_ptr_equal(task_table_find(&tt, Q1, "1-1"), t);
	assert_int_equal(tt.n_used, 1);
	task_table_release(&tt);
}

static void test_full(void **state)
{
	struct task_table tt;
	struct task *t;

	(void)state;
	task_table_init(&tt, 2);
	t = fetch(&tt, Q1, "1-1");
	fetch(&tt, Q1, "1-2");
	assert_null(task_table_free_row(&tt));
	assert_true(task_table_event(&tt, t, TASK_ON_DISOWN));
	assert_ptr_equal(task_table_free_row(&tt), t);
	task_table_release(&tt);
}

static void test_two_queues_may_have_the_same_id(void **state)
{
	struct task_table tt;
	struct task *a, *b;

	(void)state;
	task_table_init(&tt, 4);
	a = fetch(&tt, Q1, "1-1");
	b = fetch(&tt, Q2, "1-1");
	assert_ptr_equal(task_table_find(&tt, Q1, "1-1"), a);
	assert_ptr_equal(task_table_find(&tt, Q2, "1-1"), b);
	assert_true(task_table_event(&tt, a, TASK_ON_DISOWN));
	assert_null(task_table_find(&tt, Q1, "1-1"));
	assert_ptr_equal(task_table_find(&tt, Q2, "1-1"), b);
	task_table_release(&tt);
}

#define ROWS 64
#define IDS 160

static void id_of(char id[BOARD_ID_MAX], int k)
{
	snprintf(id, BOARD_ID_MAX, "17000000%05d-%d", k / 7, k % 7);
}

/* Full to the brim most of the time, so that runs of occupied places wrap around and close up. */
static void test_against_a_plain_array(void **state)
{
	struct task_table tt;
	struct task *want[IDS] = {NULL};
	char id[BOARD_ID_MAX];
	struct rng rng;
	int n = 0;

	(void)state;
	rng_seed(&rng, 7);
	task_table_init(&tt, ROWS);
	for (int step = 0; step < 20000; step++) {
		int k = (int)rng_below(&rng, IDS);

		id_of(id, k);
		if (want[k] && rng_below(&rng, 3) > 0) {
			assert_true(task_table_event(&tt, want[k], TASK_ON_DISOWN));
			want[k] = NULL;
			n--;
		} else if (!want[k] && n < ROWS) {
			want[k] = fetch(&tt, Q1, id);
			n++;
		}
		assert_int_equal(tt.n_used, n);
		assert_int_equal(tt.by_id.n, n);
		for (int i = 0; step % 16 == 0 && i < IDS; i++) {
			id_of(id, i);
			assert_ptr_equal(task_table_find(&tt, Q1, id), want[i]);
		}
	}
	assert_int_equal(length(&tt.in[TASK_FETCHED]) + length(&tt.in[TASK_GONE]), ROWS);
	task_table_release(&tt);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_state_is_the_list),
		cmocka_unit_test(test_a_step_that_cannot_happen),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_two_queues_may_have_the_same_id),
		cmocka_unit_test(test_against_a_plain_array),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
