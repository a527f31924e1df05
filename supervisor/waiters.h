/*
 * waiters.h - requests that are answered when a fact holds: "all stopped", "ready again", "rolled".
 * The facts themselves are in facts.h.
 *
 * Looked at at the end of every loop turn in which something changed. While one waits, it is told
 * what for, at most every 2 s and only when that has changed. Invariant: a waiter whose client
 * has hung up is let go of, at the next look.
 */
#ifndef REDISQ_WAITERS_H
#define REDISQ_WAITERS_H

#include <ev.h>
#include <jansson.h>

#include "buf.h"
#include "control.h"
#include "list.h"

struct supervisor;

enum waiter_answer { WAITER_NOT_YET, WAITER_DONE, WAITER_FAILED };

/* What a waiter is about: a queue (NULL = all) and a slot of it (-1 = all). */
struct target {
	char *queue; /* owned */
	int slot;
};

/* A request that waits, as a fact sees it. */
struct wish {
	struct target target;
	int64_t asked_ms; /* monotonic */
};

/*
 * NOT_YET: `why` may say what it waits for ("demo/0: 2 tasks still run"); FAILED: it says why.
 * Looks only, changes nothing.
 */
typedef enum waiter_answer fact_fn(const struct supervisor *sv, const struct wish *wish,
				   struct buf *why);

struct fact {
	fact_fn *look;
	bool stops;  /* the answer tells whether anything was forced */
	bool at_end; /* never before the supervisor ends */
};

struct waiters {
	struct list list;
	ev_timer progress; /* runs while somebody waits */
};

void waiters_init(struct waiters *w);
/* Takes over `t`'s string. Answered at the next look, if the fact holds by then. */
void waiters_add(struct supervisor *sv, struct control_call *call, struct target *t,
		 const struct fact *fact);
void waiters_look(struct waiters *w, struct supervisor *sv);
/* Ends all, those that waited for this very end with success: the supervisor leaves. */
void waiters_end(struct waiters *w, struct supervisor *sv, const char *why);
void target_release(struct target *t);

#endif
