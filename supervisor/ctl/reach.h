/*
 * reach.h - from one partition of a queue to the next, where in a cluster the node of one may be
 * away: what is asked of the others is asked all the same, and what could not be is said. From one
 * queue to the next likewise, for verbs that are about several.
 *
 * A failover, or a slot that moves, is waited for once (redis.h); from the first partition that
 * stays away on the others are asked without patience. A queue alone without partitions, and
 * whatever has only one Redis, has nothing to go on with: that fails as it always did.
 */
#ifndef REDISQ_CTL_REACH_H
#define REDISQ_CTL_REACH_H

#include "redis.h"

struct reach {
	struct redis *redis; /* borrowed */
	bool takes_single;   /* a queue without partitions is as one of several, too */
	/* Out. */
	struct strv lost;   /* the streams that cannot be asked; reach_release() */
	bool lost_a_single; /* one of them is no partition */
	char why[400];      /* of the first of them */
};

enum reach_result {
	REACH_THERE = 0, /* what is asked from now on is about it */
	REACH_LOST,      /* it cannot be asked: that is new; */
	REACH_AWAY,      /* that was told before */
	REACH_END = -1,  /* with the error */
};

/* redis_serve() for partition `i`. */
enum reach_result reach_turn_to(struct reach *x, const struct parts *p, size_t i,
				struct err *e) ATTR_MUST_CHECK;
/* What was asked there, and changes nothing, has failed with `e`: LOST if its node has gone, and
 * then there is no `e` any more; else END. */
enum reach_result reach_failed(struct reach *x, const struct parts *p, size_t i,
			       struct err *e) ATTR_MUST_CHECK;
void reach_release(struct reach *x);

bool reach_is_lost(const struct reach *x, const struct parts *p, size_t i);
/* How many of `p` were lost so far. */
size_t reach_n_lost(const struct reach *x, const struct parts *p);
/* "q: without partition 1, which cannot be reached", a line; nothing where all could be asked. */
void reach_add_remark(const struct reach *x, const struct parts *p, struct buf *out);
/* "partition q:1 cannot be reached: why" ("queue q" where it is no partition), of all that were
 * lost, as an error (69) after all the rest; 0 = none was. */
int reach_end(const struct reach *x, struct err *e) ATTR_MUST_CHECK;
/* "no `what` `id` in the others; " before that: it may be where nothing could be asked. -1. */
int reach_not_found(const struct reach *x, const char *what, const char *id, struct err *e);

#endif
