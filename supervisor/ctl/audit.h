/*
 * audit.h - does the account of a queue add up? For verb_audit.c, which makes it, and doctor.
 */
#ifndef REDISQ_CTL_AUDIT_H
#define REDISQ_CTL_AUDIT_H

#include "redis.h"

struct audit {
	/* Called for each line; is_bad: a discrepancy. */
	void (*say)(void *arg, const char *queue, bool is_bad, const char *text);
	void *arg;
	int n_bad; /* out */
};

/* Looks at all of the queue at one moment. -1 with `e`: Redis does not answer, or refuses. */
int audit_queue(struct audit *a, struct redis *r, const struct conf_queue *q, struct err *e);

#endif
