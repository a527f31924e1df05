/*
 * task_index.h - finds a task by its entry id: a hash table with open addressing and linear
 * probing, made once for as many tasks as there can be. Never more than half full, and what leaves
 * it leaves no mark behind (the entries after it move up), so a search is short however long the
 * worker has run. Nothing is allocated after task_index_init(). Pure.
 */
#ifndef REDISQ_TASK_INDEX_H
#define REDISQ_TASK_INDEX_H

#include "base.h"

struct queue;
struct task;

struct task_index {
	struct task **place; /* owned; the tasks are borrowed; NULL = empty */
	size_t mask;         /* number of places - 1; that is a power of two */
	size_t n;
};

/* For at most `max` tasks at once. */
void task_index_init(struct task_index *ix, size_t max);
void task_index_release(struct task_index *ix);
/* Under its queue and entry id, which stay as they are until it is dropped. It is not in yet. */
void task_index_add(struct task_index *ix, struct task *t);
/* It is in. */
void task_index_drop(struct task_index *ix, const struct task *t);
/* NULL when there is none. */
struct task *task_index_find(const struct task_index *ix, const struct queue *q, const char *id);

#endif
