/*
 * partitions.h - the queue of a worker: one `struct queue` for each of its partitions, with links,
 * a name and leases of its own, all on one credit and one handler. Nearly always there is one.
 *
 * What the worker asks of its queue goes to all of them, and what they answer counts when it is
 * true of all: ready, left, no suspect is left.
 */
#ifndef REDISQ_PARTITIONS_H
#define REDISQ_PARTITIONS_H

#include "queue.h"

struct partition {
	struct queue *queue; /* owned */
	bool ready;
	bool waiting; /* for Redis, and was never ready */
	bool left;
	bool cleared; /* set aside: no suspect was left at the last look */
	bool consuming;
	bool hindered;
	int n_tasks;     /* in the table */
	char where[160]; /* its links stand there, or did last; "" = never yet */
};

struct partitions {
	int n;
	struct partition *v; /* owned */
	int first;           /* whose turn it is to be the first */
};

/* Opens all of them. */
void partitions_open(struct worker *w);
void partitions_free(struct worker *w);
void partitions_turn(struct worker *w);
/* Each of these to all of them, see queue.h. */
void partitions_hold(struct worker *w);
void partitions_scan(struct worker *w);
void partitions_probe(struct worker *w);
void partitions_describe(struct worker *w);
void partitions_leave(struct worker *w);
/* To the one that `who` was written for (left empty then); where the queue has no such any more
 * there is nobody to do it, and it counts as done. */
void partitions_hand_over(struct worker *w, struct obituary *who);

/* Notes of what one of them has said; true when it is true of all by now. */
bool partitions_left(struct worker *w, const struct queue *q);
/*
 * It is ready, or waits for Redis: true when the worker is ready by now. That is when each of them
 * is, or at least one, and the others wait: what one node of a cluster suffers, or a slot that is
 * being moved, keeps neither a start nor a reload.
 */
bool partitions_ready(struct worker *w, const struct queue *q);
bool partitions_waiting(struct worker *w, const struct queue *q);
bool partitions_all_wait(const struct worker *w);
/* The name in the first of them that is ready; "" = none is. */
const char *partitions_consumer(const struct worker *w);
/* Where to say it of one of several: "partition 3: ", else "". */
const char *partitions_label(struct worker *w, const struct queue *q, char out[24]);
/* May any of them that can be read have more? */
bool partitions_have_more(const struct worker *w);
/* Set aside, it is not known of any. */
void partitions_begin_quarantine(struct worker *w);
/* No suspect is left in this one; one that cannot be reached, or where Redis refuses what is
 * needed, has none that could be run. */
bool partitions_cleared(struct worker *w, const struct queue *q, int64_t now_ms);
/* Forgets that it was cleared: something came from it. */
void partitions_not_cleared(struct worker *w, const struct queue *q);
/* An event of the queue (queue.h). */
void partitions_consuming(struct worker *w, struct queue *q, bool consuming);
/* Notes that; is any of them? */
bool partitions_hindered(struct worker *w, const struct queue *q, bool hindered);
/* Where the links of all of them stand, each place once, for people. */
void partitions_where(struct worker *w, const struct queue *q, const char *where, struct buf *out);

/* A task of it has come into the table (+1), or left it (-1). */
void partitions_count(struct worker *w, const struct queue *q, int n);
/* How many this one may ask for now, and how (share.h). */
struct share_grant partitions_share(const struct worker *w, const struct queue *q, int64_t now_ms);

#endif
