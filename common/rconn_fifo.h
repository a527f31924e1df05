/*
 * rconn_fifo.h - the commands of a link that wait for their replies, oldest first, in a ring.
 * Plain code: no clock.
 *
 * Replies come in order, so nobody can be answered before the one in front: a command's deadline
 * is never earlier than that of the command before it, and the first one's is the earliest of all.
 */
#ifndef REDISQ_RCONN_FIFO_H
#define REDISQ_RCONN_FIFO_H

#include "rconn.h"

#define RCONN_VERB_MAX 20

struct rconn_pending {
	rconn_reply_fn *fn; /* NULL: nobody wants the reply */
	void *arg;          /* borrowed */
	int64_t sent_ms;
	int64_t due_ms;
	char verb[RCONN_VERB_MAX]; /* the command's first word, for messages */
};

struct rconn_fifo {
	struct rconn_pending *ring; /* owned */
	size_t cap;                 /* a power of two, or 0 */
	size_t first;
	size_t n;
	int64_t last_due_ms;
};

void fifo_release(struct rconn_fifo *f);
/* Appends; returns the deadline, `now_ms + timeout_ms` or later. */
int64_t fifo_push(struct rconn_fifo *f, int64_t now_ms, int64_t timeout_ms,
		  const struct rconn_arg *verb, rconn_reply_fn *fn, void *arg);
/* The oldest, NULL when empty. Valid until the next call. */
const struct rconn_pending *fifo_head(const struct rconn_fifo *f);
/* Takes the oldest off; false when empty. */
bool fifo_pop(struct rconn_fifo *f, struct rconn_pending *out);

#endif
