/*
 * queue.h - what every queue back end must do, and what it tells the worker. One of them serves one
 * partition of the worker's queue (partitions.h).
 *
 * A queue instance owns its links to Redis and everything it has asked for there. It works in
 * turns: the worker calls turn() once per turn of the event loop, and the back end then sends what
 * belongs together - settlements and the next read in one write - for the credit that is free.
 * Nothing here blocks; every answer comes back through the events.
 */
#ifndef REDISQ_QUEUE_H
#define REDISQ_QUEUE_H

#include "obituary.h"
#include "share.h"
#include "task.h"

struct ev_loop;
struct queue;
struct worker;

/* What the worker lends to a queue; implemented in worker.c. */
struct queue_events {
	/* Consuming under this name, or able to as soon as there is credit. Said once. */
	void (*on_ready)(struct worker *w, struct queue *q, const char *consumer);
	/* Connected to the Redis at `where` (for people, no secrets): at first, or after a loss. */
	void (*on_linked)(struct worker *w, struct queue *q, const char *where);
	/* Whether tasks come, or would, changes; may be said again. */
	void (*on_consuming)(struct worker *w, struct queue *q, bool consuming);
	/* Redis cannot be used (why). */
	void (*on_wait)(struct worker *w, struct queue *q, const char *why);
	/* It is open, and cannot be read as it is (why), until somebody mends it; NULL: no more. */
	void (*on_hindered)(struct worker *w, struct queue *q, const char *why);
	/* The queue cannot be served as configured. Final. */
	void (*on_refused)(struct worker *w, struct queue *q, const char *why);
	/* A task of ours with fresh evidence: start it. */
	void (*on_task)(struct worker *w, struct queue *q, struct task *t);
	/* The task is not ours any more (why, for people); its handler may still run. */
	void (*on_lost)(struct worker *w, struct queue *q, struct task *t, const char *why);
	/* Our name is another's: no handler may go on. on_lost was said of each task. */
	void (*on_fenced)(struct worker *w, struct queue *q);
	/* The task's slot is free: settled, or disowned without a handler. */
	void (*on_gone)(struct worker *w, struct queue *q, struct task *t);
	/* Entries that were not in the table were given back: others should look for them. */
	void (*on_released)(struct worker *w, struct queue *q, int n);
	/* Entries that only a worker set aside may take (suspect.h) lie there. */
	void (*on_suspects)(struct worker *w, struct queue *q, int n);
	/* We are that worker, and none is left. */
	void (*on_cleared)(struct worker *w, struct queue *q);
	/* An order's entries may be taken now; `n_charged` crashes were charged. */
	void (*on_handed)(struct worker *w, struct queue *q, const struct obituary *who,
			  int64_t n_moved, int64_t n_charged);
	/* An order is done. */
	void (*on_swept)(struct worker *w, struct queue *q, const struct obituary *who);
	/* The queue has left Redis (or gave up trying); nothing of it is used any more. */
	void (*on_left)(struct worker *w, struct queue *q);
};

struct queue_ops {
	/* Starts connecting. */
	struct queue *(*open)(struct worker *w, int partition, const struct queue_events *events);
	/* What there is to read, as far as it knows. */
	struct share (*look)(const struct queue *q, int64_t now_ms);
	/* Sends what the ledger, the settlements and the clock ask for. */
	void (*turn)(struct queue *q);
	/* `t` has a verdict: it will be settled, and resent until Redis has answered. */
	void (*settle)(struct queue *q, struct task *t);
	/* `t`, which runs, has a new note (t->notes): to be kept soon, and until Redis has it. */
	void (*note)(struct queue *q, struct task *t);
	/* Nothing new: ends a blocked read. The ledger or the breaker decides when reading goes on.
	 */
	void (*hold)(struct queue *q);
	/* The breaker is half open: try with something new before what it broke on. */
	void (*probe)(struct queue *q);
	/* Somebody released entries: look for them now. */
	void (*scan)(struct queue *q);
	/* Lets everyone have what a dead worker had pending; takes over `who` (left empty). */
	void (*hand_over)(struct queue *q, struct obituary *who);
	/* Logs what it waits for, and how many entries there are. */
	void (*describe)(struct queue *q);
	/* Leaves: the consumer is removed if nothing is pending for it. on_left follows. */
	void (*leave)(struct queue *q);
	void (*free)(struct queue *q);
};

extern const struct queue_ops queue_stream_ops;

#endif
