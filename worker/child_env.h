/*
 * child_env.h - the environment of a handler: the queue's base, what the worker says and, of a
 * process that runs one task, what the task says. Pure.
 */
#ifndef REDISQ_CHILD_ENV_H
#define REDISQ_CHILD_ENV_H

#include "conf.h"
#include "task.h"

struct run_facts {
	const struct conf_queue *queue; /* borrowed */
	const char *consumer;           /* borrowed */
	int slot;
	int64_t deadline_ms; /* Unix ms, 0 = none */
};

#define CHILD_FIELDS_MAX 65536 /* bytes of REDISQ_FIELDS; the payload is left out above that */

/* `out` gets `base` and what is the same for all tasks: of a process that is kept for many.
 * `child`: REDISQ_CHILD. */
void child_env_kept(const struct strv *base, const struct run_facts *f, const char *child,
		    struct strv *out);
/*
 * `out` gets `base` and the REDISQ_* of this run. REDISQ_CHECKPOINT is the content of a checkpoint
 * that is a JSON string, else the checkpoint as it is. -1: it has a NUL and is left out, or is too
 * long for a variable.
 */
int child_env(const struct strv *base, const struct task *t, const struct run_facts *f,
	      struct strv *out) ATTR_MUST_CHECK;

#endif
