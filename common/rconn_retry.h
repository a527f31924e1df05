/*
 * rconn_retry.h - how long a link waits before it tries again: full jitter, doubled at each further
 * failure of the same kind, capped by kind. No cap is above 8 s: two links of a worker have to come
 * back, and work is to go on within 10 s of a Redis that is well. Plain code: no clock.
 */
#ifndef REDISQ_RCONN_RETRY_H
#define REDISQ_RCONN_RETRY_H

#include "backoff.h"

enum rconn_trouble {
	TROUBLE_NONE,    /* the link was ready in between */
	TROUBLE_NOBODY,  /* nobody listens: trying costs nobody anything, and work is to go on soon
			  * after Redis is back */
	TROUBLE_CLUSTER, /* no node of the cluster has the key now: a failover, or a slot that
			  * moves; work is to go on soon after */
	TROUBLE_MOVED,   /* it is at another node, which is known: no reason to wait */
	TROUBLE_LINK,   /* lost, hung, LOADING, too many clients: somebody there has enough to do */
	TROUBLE_DENIED, /* password, ACL, configuration: a person has to do something */
	TROUBLE_URL,    /* it is not for such a server: another one must be written */
};

struct rconn_retry {
	enum rconn_trouble last;
	unsigned n; /* failures of that kind in a row */
};

/* Notes that the link is ready. */
void retry_reset(struct rconn_retry *r);
/* Notes a failure; returns the delay in ms. A new kind of trouble begins with short delays again.
 */
int64_t retry_delay_ms(struct rconn_retry *r, enum rconn_trouble trouble, struct rng *rng);

#endif
