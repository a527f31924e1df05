/*
 * parts.h - the streams of a queue, as verbs see them: one, or its partitions (partition.h). Pure.
 *
 * Each is a queue of its own to Redis: what a verb says of a queue is the sum, or the rows, of what
 * it finds in each. The user names one of them by itself by its stream, "jobs:3", and a task by
 * "3:1700000000000-0", its partition and its id there; the ids alone are not unique.
 */
#ifndef REDISQ_CTL_PARTS_H
#define REDISQ_CTL_PARTS_H

#include "buf.h"
#include "conf.h"
#include "err.h"

#define PARTS_ANY (-1)

struct parts {
	const struct conf_queue *queue; /* borrowed: what is meant by the name */
	/* The configuration of each, called as its stream is; otherwise the queue's (borrowed). */
	struct conf_queue *v; /* owned */
	size_t n;
	bool is_spread; /* they are partitions, by number; else there is one, and no more to say, */
	int number;     /* but for this where it is the partition of a queue; else -1 */
	bool is_made;   /* no configuration has the queue: it is what queues are by themselves */
};

/* All of `q`. */
void parts_init(struct parts *p, const struct conf_queue *q);
/* The stream `name` alone, which is a partition of `q`. */
void parts_init_one(struct parts *p, const struct conf_queue *q, const char *name);
void parts_release(struct parts *p);
/* What the user calls it: of one alone its stream. Borrowed. */
const char *parts_name(const struct parts *p);

/* "3:1700000000000-0", or the id alone where there are no partitions. Owned by the caller. */
char *parts_id(const struct parts *p, size_t i, const char *id);
/* What workers call the task of this id, REDISQ_ID: the same, of an entry's id alone. Owned. */
char *parts_label(const struct parts *p, size_t i, const char *id);
/* Which partition `text` names: PARTS_ANY where it names none. `id` is what is behind (borrowed).
 */
int parts_read_id(const struct parts *p, const char *text, const char **id);
/* Of what that took apart: may it all the same be one id, "3:order", that a producer has chosen? */
bool parts_may_be_chosen(const char *text, const char *id);

#endif
