/*
 * canary.h - whether the first worker of a new generation has shown that its handler works.
 *
 * Proof is a task: one that it finished other than by failing at once (the worker says "works"),
 * or one that has run for longer than a broken handler would. Where no task comes there is nothing
 * to prove it with, and nobody should wait long for that: an idle queue delays a reload by
 * CANARY_IDLE_MS. One that could not be tried (its predecessor's long tasks have all the credit),
 * or whose tasks neither prove nor condemn it, is let pass after CANARY_PATIENCE_MS; its generation
 * is watched on (roll_fsm.h). Pure: what is seen of it and `now` come in.
 */
#ifndef REDISQ_CANARY_H
#define REDISQ_CANARY_H

#include "base.h"

/* Ready, able to take a task, and without one, for as long: the queue is idle. */
#define CANARY_IDLE_MS 1000
/* A task that runs this long has a handler that started (the worker's BREAKER_FAST_MS, and some).
 */
#define CANARY_LONG_MS 1250
/* The longest that a reload waits for a verdict. */
#define CANARY_PATIENCE_MS 5000

/* What there is to see of it at one moment. */
struct canary_signs {
	bool ready;
	bool parked;     /* it has died, and will not be started again */
	bool broken;     /* its breaker is open */
	bool works;      /* it said so */
	bool open;       /* its handler has started, as far as that shows without a task, and it may
			  * take one, or none is to be taken at all (quiet) */
	int64_t running; /* tasks */
	int64_t failed;  /* ... that failed so far */
	int64_t longest_ms;
};

enum canary_verdict {
	CANARY_WAIT,
	CANARY_WORKS,  /* it finished a task */
	CANARY_LONG,   /* a task runs long */
	CANARY_IDLE,   /* no task came */
	CANARY_UNSURE, /* it is alive, and that is all that is known */
	CANARY_BROKEN,
	CANARY_DEAD, /* it was ready, died, and is not back */
};

struct canary {
	int64_t since_ms; /* in charge since */
	int64_t idle_ms;  /* without a task since; -1 = it has one, or cannot take any */
};

void canary_begin(struct canary *c, int64_t now_ms);
/* Monotonic time; to be asked at each change and every CANARY_LOOK_MS. */
#define CANARY_LOOK_MS 50
enum canary_verdict canary_judge(struct canary *c, const struct canary_signs *s, int64_t now_ms);
/* For people: "it finished a task"; of the verdicts that let it pass. */
const char *canary_verdict_text(enum canary_verdict v);

#endif
