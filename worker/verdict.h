/*
 * verdict.h - what becomes of a task, given how its run ended and what the queue's configuration
 * says. Pure: the jitter is drawn from a generator that is handed in.
 */
#ifndef REDISQ_VERDICT_H
#define REDISQ_VERDICT_H

#include "backoff.h"
#include "conf.h"
#include "outcome.h"

struct task;

/* Letters of common/scripts/settle.lua. */
enum verdict_op {
	VERDICT_DONE = 'D',
	VERDICT_RETRY = 'R',
	VERDICT_CRASH = 'K', /* the script counts crashes and decides between retry and `follow` */
	VERDICT_SUSPECT = 'S', /* crashed, but maybe of another: charged and given back */
	VERDICT_DEAD = 'X',
	VERDICT_HOLD = 'H',
	VERDICT_RELEASE = 'L',
};

struct verdict {
	enum verdict_op op;
	int64_t delay_ms;        /* RETRY: with jitter; CRASH: of the first crash, without */
	int jitter_percent;      /* CRASH: drawn, to be added by the script */
	int attempt;             /* RETRY: the number of the next one */
	int snoozes;             /* RETRY: as of the next one */
	enum conf_follow follow; /* CRASH */
	const char *reason;      /* DEAD, HOLD, CRASH: redisq.reason; static */
};

struct verdict verdict_of(const struct task *t, const struct outcome *o, const struct conf_queue *q,
			  struct rng *rng);

#endif
