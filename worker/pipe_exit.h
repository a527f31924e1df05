/*
 * pipe_exit.h - how the answer of a child, or its death, reads as the outcome of a task. Pure.
 */
#ifndef REDISQ_PIPE_EXIT_H
#define REDISQ_PIPE_EXIT_H

#include "answer.h"
#include "exec_exit.h"

/* It ended its task by `a`. What was stopped in between does not fail by what it says then; what
 * was done all the same is done. */
void pipe_answered(struct outcome *o, const struct answer *a, enum exec_stop stop,
		   int64_t timeout_ms);

/* What a child that died leaves behind. */
struct pipe_death {
	struct child_exit how;
	const char *fault; /* what we killed it for: it broke the protocol; NULL = it did not */
	bool killed;       /* by us, for another reason */
	int n_charged;     /* tasks that may be to blame: it had read them, and none was stopped */
	bool any_stopped;  /* one of its tasks was: that may be why */
};

/*
 * A task that it had. `unread`: it had not read a byte of it. A child takes only its own tasks with
 * it, and of those only the ones that may be to blame are charged: crashed, in_company where there
 * were several. The others are given back.
 */
void pipe_died(struct outcome *o, const struct pipe_death *d, enum exec_stop stop, bool unread,
	       int64_t timeout_ms);

/* It died before it was ready in a way that says that no other would do better. */
bool pipe_is_broken(const struct child_exit *how);

#endif
