/*
 * waiters.h - requests that are answered when a fact holds: "all stopped", "ready again", "rolled".
 * Looked at at the end of every loop turn in which something changed.
 */
#ifndef REDISQ_WAITERS_H
#define REDISQ_WAITERS_H

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

/* WAITER_FAILED: `why` holds the text. */
typedef enum waiter_answer waiter_fn(struct supervisor *sv, const struct target *t,
				     struct buf *why);

void waiters_init(struct list *waiters);
/*
 * Takes over `t`'s string. Answers at once when the fact holds already (at the next look). `stops`:
 * the answer tells whether anything was forced.
 */
void waiters_add(struct list *waiters, struct control_call *call, const struct target *t,
		 waiter_fn *fn, bool stops);
void waiters_look(struct list *waiters, struct supervisor *sv);
/* Ends all: the supervisor leaves. */
void waiters_end(struct list *waiters, const char *why);
void target_release(struct target *t);

#endif
