/* task_table.c - see task_table.h. */
#include "task_table.h"

void task_table_init(struct task_table *tt, int n_rows)
{
	*tt = (struct task_table){.rows = xcalloc((size_t)n_rows, sizeof(*tt->rows)),
				  .n_rows = n_rows};
	for (int s = 0; s < TASK_N_STATES; s++)
		list_init(&tt->in[s]);
	/* The first row is the last one that was freed. */
	for (int i = n_rows; i-- > 0;) {
		task_init(&tt->rows[i]);
		list_append(&tt->in[TASK_GONE], &tt->rows[i].state_link);
	}
	task_index_init(&tt->by_id, (size_t)n_rows);
}

void task_table_release(struct task_table *tt)
{
	for (int i = 0; i < tt->n_rows; i++)
		task_release(&tt->rows[i]);
	free(tt->rows);
	task_index_release(&tt->by_id);
	*tt = (struct task_table){.rows = NULL};
}

struct task *task_table_free_row(struct task_table *tt)
{
	struct list *free_rows = &tt->in[TASK_GONE];

	return list_empty(free_rows) ? NULL : list_entry(free_rows->prev, struct task, state_link);
}

struct task *task_table_find(const struct task_table *tt, const struct queue *q, const char *id)
{
	return task_index_find(&tt->by_id, q, id);
}

bool task_table_event(struct task_table *tt, struct task *t, enum task_event ev)
{
	bool was_gone = t->state == TASK_GONE;

	if (!task_event(t, ev))
		return false;
	if (was_gone) {
		task_index_add(&tt->by_id, t);
		tt->n_used++;
	} else if (t->state == TASK_GONE) {
		task_index_drop(&tt->by_id, t);
		tt->n_used--;
	}
	list_remove(&t->state_link);
	list_append(&tt->in[t->state], &t->state_link);
	return true;
}
