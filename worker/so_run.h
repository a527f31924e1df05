/*
 * so_run.h - one task in the hands of a library: what it is shown, what it says, and how that reads
 * as an outcome.
 *
 * Who may touch what. From so_run_begin() until its `done` node is taken the library's side (view,
 * result, returned, said) is the thread's, and read-only to the loop but for `stop`; afterwards all
 * of it is the loop's again. Notes cross at any time, under `lock`. The task itself is never the
 * thread's: the view points to its bytes, which do not change while it runs.
 */
#ifndef REDISQ_SO_RUN_H
#define REDISQ_SO_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "conf.h"
#include "exec_exit.h"
#include "redisq_handler.h"
#include "so_pool.h"
#include "task.h"

struct so_run {
	struct so_node job;   /* there, and back */
	struct so_node note;  /* there are notes; posted once until the loop has looked */
	struct so_pool *pool; /* borrowed */
	struct task *task;    /* borrowed; the loop's */

	/* The library's side. */
	const struct redisq_handler *api; /* borrowed */
	struct redisq_task view;
	struct redisq_field *fields; /* owned */
	size_t cap_fields;
	struct buf checkpoint; /* what `view` shows: the task's own is overwritten by notes */
	struct redisq_result result;
	struct buf said; /* by set_result */
	int returned;
	int stop;           /* atomic: view.cancelled points here */
	_Atomic int thread; /* which runs it; -1 = none yet */

	_Atomic bool noted;
	pthread_mutex_t lock;
	struct buf notes[TASK_N_NOTES]; /* under lock */
	bool has_note[TASK_N_NOTES];    /* under lock */
};

/* Facts that are the same for all runs of a worker, or nearly. */
struct so_facts {
	const struct redisq_handler *api; /* borrowed */
	const struct conf_queue *queue;   /* borrowed */
	int place;
	int64_t deadline_ms; /* Unix ms, 0 = none */
};

void so_run_init(struct so_run *run, struct so_pool *pool);
void so_run_release(struct so_run *run);
/* Makes the view. */
void so_run_begin(struct so_run *run, struct task *t, const struct so_facts *f);
/* In thread `thread`: calls handle(). */
void so_run_work(void *unused, struct so_node *job, int thread);
/* redisq_cancelled() is true from now on. */
void so_run_stop(struct so_run *run);
/* A note of this kind that the loop has not seen: exchanged with `out` (empty), true. */
bool so_run_take_note(struct so_run *run, enum task_note what, struct buf *out);
/* The loop has seen that there are notes, and takes them next. */
void so_run_looked(struct so_run *run);
/* How it ended, after the same table as a program's exit. Moves what it said into `o`. */
void so_run_outcome(struct so_run *run, enum exec_stop why, int64_t timeout_ms, struct outcome *o);
/* The same for one that did not end. */
void so_run_abandoned(enum exec_stop why, int64_t timeout_ms, struct outcome *o);

#endif
