/* rconn_retry.c - see rconn_retry.h. */
#include "rconn_retry.h"

static const struct {
	int64_t base_ms;
	int64_t cap_ms;
} delays[] = {
	[TROUBLE_NOBODY] = {100, 2000},  [TROUBLE_CLUSTER] = {100, 2000},
	[TROUBLE_MOVED] = {100, 2000},   [TROUBLE_LINK] = {100, 5000},
	[TROUBLE_DENIED] = {1000, 8000}, [TROUBLE_URL] = {1000, 8000},
};

void retry_reset(struct rconn_retry *r)
{
	r->last = TROUBLE_NONE;
	r->n = 0;
}

int64_t retry_delay_ms(struct rconn_retry *r, enum rconn_trouble trouble, struct rng *rng)
{
	INVARIANT(trouble != TROUBLE_NONE);
	if (trouble != r->last)
		r->n = 0;
	r->last = trouble;
	if (r->n < 1000)
		r->n++;
	return backoff_full_jitter_ms(rng, delays[trouble].base_ms, delays[trouble].cap_ms, r->n);
}
