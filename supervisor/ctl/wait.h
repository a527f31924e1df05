/*
 * wait.h - the end of one task, waited for by whoever pushed it: its result, or why there is none.
 *
 * A worker leaves it under the task's id (in one of many partitions, "3:<id>") when the task asked
 * for it (redisq.result_ttl), so a look is one command whatever the queue holds; there are four
 * looks a second. Redis may go away meanwhile for WAIT_LOST_MS. SIGINT and SIGTERM end the waiting,
 * not the task: it is said how to look, and the program dies of the signal; a second one ends it at
 * once.
 */
#ifndef REDISQ_CTL_WAIT_H
#define REDISQ_CTL_WAIT_H

#include "redis.h"

#define WAIT_RESULT_TTL_MS "3600000"
#define WAIT_LOST_MS 30000
/* A result that is gone when Redis is back would be waited for in vain. */
#define WAIT_TTL_MIN_MS (2 * WAIT_LOST_MS)

struct waited {
	const struct parts *parts; /* all borrowed */
	size_t part;               /* where it is */
	const char *id;            /* the task's */
	const char *entry;         /* its first entry's */
};

/* The task is about to be pushed: from now on signals find somebody who says how to look at it. */
void wait_begin(void);
/* Forgets the end of an earlier task of that id. */
int wait_forget(struct redis *r, const struct waited *w, struct err *e) ATTR_MUST_CHECK;
/* After wait_begin(): waits, with progress on stderr if that is a terminal. 0: done, `result` has
 * what it answered (ended by nothing); -1 with `e`: a dead letter or held, or Redis is lost. */
int wait_for_end(struct redis *r, const struct waited *w, struct buf *result,
		 struct err *e) ATTR_MUST_CHECK;

#endif
