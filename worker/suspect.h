/*
 * suspect.h - what the crash record of a task says about running it again. Pure.
 *
 * A record is "count:token:cause". A worker that dies takes all its tasks with it, so each of them
 * is charged, and of several only one can be to blame: those that died in company are suspects.
 * They run again one at a time, alone in a worker set aside; who crashes alone did it, and after
 * max_crashes of them (or at the first, as on_crash says) is not run any more. The rest are cleared
 * by being settled. Likewise a child of a handler that dies of one of several tasks: they run
 * again, each in a child of its own; the worker and its other children go on meanwhile.
 */
#ifndef REDISQ_SUSPECT_H
#define REDISQ_SUSPECT_H

#include "conf.h"

enum suspicion {
	SUSPECT_NONE,   /* run it like any other */
	SUSPECT_APART,  /* run it, but with no other in its child */
	SUSPECT_ALONE,  /* run it, but alone in its worker */
	SUSPECT_GUILTY, /* do not run it: on_crash */
};

/* `record` may be empty. `cause` (size bytes) gets "worker signal 9 SIGKILL, crash 3". */
enum suspicion suspect_judge(struct slice record, const struct conf_queue *q, char *cause,
			     size_t size);

#endif
