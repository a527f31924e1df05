/*
 * obituary.h - what the supervisor knows of a dead worker, in one partition of its queue, and tells
 * the one that hands over its tasks: the words "dead", "ran" and "handover" of chan.h, built and
 * read. Plain code.
 */
#ifndef REDISQ_OBITUARY_H
#define REDISQ_OBITUARY_H

#include "buf.h"
#include "scoreboard.h"

/*
 * The first word of a cause, which stays with the crash record of each task that it is charged to:
 * whether the task was the only one of its worker, or one of several, of which any may be to blame.
 * scripts/settle.lua and take.lua look for them, too.
 */
#define OBITUARY_ALONE "alone "
#define OBITUARY_COMPANY "company "
/* The same of a handler's child that had several: the worker lived on. */
#define OBITUARY_BESIDE "beside "

struct obituary_task {
	char id[BOARD_ID_MAX];
	uint64_t token;
};

struct obituary {
	uint32_t order;            /* number of the supervisor's, for the answers */
	int partition;             /* of the queue: each has names and tasks of its own, */
	int n_partitions;          /* of how many: of one it is the queue's own stream */
	char *consumer;            /* owned; NULL = nobody */
	char nonce[36];            /* of its claim */
	char run_id[44];           /* of the server its links belonged to, "" = unknown */
	int64_t client_id[2];      /* of its links, 0 = unknown */
	bool charge;               /* it crashed: what it ran is charged with a crash */
	char cause[96];            /* "alone worker signal 9 SIGKILL", see above */
	struct obituary_task *ran; /* owned */
	int n_ran;
};

void obituary_init(struct obituary *o);
void obituary_release(struct obituary *o);
void obituary_add(struct obituary *o, const char *id, uint64_t token);

/* Puts what it ran in the order of Redis, which is that of the numbers in the ids; what is no entry
 * id (a board may be torn) is left out. */
void obituary_sort(struct obituary *o);
/* <0, 0, >0: as strcmp(), of two entry ids. */
int obituary_compare_ids(const char *a, const char *b);

/* The lines of an order, each with its '\n' and within CHAN_LINE_MAX; all of it, of as many tasks
 * as a worker can run, within CHAN_BACKLOG_MAX. */
void obituary_write(const struct obituary *o, struct buf *lines);
/* Reads what follows the word "dead" (into an empty one) or "ran" (into the one of its order);
 * false: not in that form, and nothing that counts was read. */
bool obituary_read_dead(struct obituary *o, const char *rest) ATTR_MUST_CHECK;
bool obituary_read_ran(struct obituary *o, const char *rest) ATTR_MUST_CHECK;

#endif
