/*
 * audit.h - does the account of a queue add up? For verb_audit.c, which makes it, and doctor.
 */
#ifndef REDISQ_CTL_AUDIT_H
#define REDISQ_CTL_AUDIT_H

#include "redis.h"

/* Where the tasks are, of one queue or, added up, of its partitions. */
struct account {
	int64_t accepted, places;
	int64_t done, dead, dropped, waiting, running, delayed, held;
	bool is_told; /* Redis can tell what was accepted; */
	bool is_vain; /* of some it cannot, and they are not empty */
};

struct audit {
	/* Called for each line; is_bad: a discrepancy. */
	void (*say)(void *arg, const char *queue, bool is_bad, const char *text);
	void *arg;
	struct account sum; /* of what was looked at so far */
	int n_bad;          /* out */
	bool is_apart;      /* out: somewhere the sum is not what it should be */
};

/*
 * Looks at all of the queue, or of one of its partitions, at one moment, and says what does not add
 * up. -1 with `e`: Redis does not answer, or refuses.
 */
int audit_queue(struct audit *a, struct redis *r, const struct conf_queue *q, struct err *e);
/* Says the account of all that was looked at, unless it is apart. */
void audit_say_sum(struct audit *a, const char *queue);

#endif
