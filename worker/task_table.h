/*
 * task_table.h - the tasks of a worker: as many rows as the ledger can ever need, made once. A
 * task's state is the list it is on (the free rows are those that are gone), and what is not gone
 * is found by its entry id. All of it is O(1); nothing is allocated per task. Pure.
 *
 * Whoever does something for one state walks its list; what is rare, or may change many tasks on
 * its way, walks the rows: they do not move.
 */
#ifndef REDISQ_TASK_TABLE_H
#define REDISQ_TASK_TABLE_H

#include "task.h"
#include "task_index.h"

struct task_table {
	struct task *rows; /* owned */
	int n_rows;
	int n_used; /* not gone */
	struct list
		in[TASK_N_STATES]; /* of task.state_link, in the order in which they got there */
	struct task_index by_id;
};

void task_table_init(struct task_table *tt, int n_rows);
void task_table_release(struct task_table *tt);
/* A row that is free, the one freed last; NULL when there is none. It is taken by TASK_ON_FETCH. */
struct task *task_table_free_row(struct task_table *tt);
/* The task of this queue with this entry id that is not gone, or NULL. */
struct task *task_table_find(const struct task_table *tt, const struct queue *q, const char *id);
/* task_event(), and the lists and the index with it. */
bool task_table_event(struct task_table *tt, struct task *t, enum task_event ev) ATTR_MUST_CHECK;

#endif
