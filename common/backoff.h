/*
 * backoff.h - how long to wait before the n-th try. Plain code: no clock, the randomness is a
 * seeded generator the caller owns.
 *
 * Two shapes of jitter, because two things are wanted:
 *  - full jitter, rand(0, d): reconnects, where the herd must be spread as widely as possible;
 *  - additive jitter, d + rand(0, percent of d): retries and restarts, which must never come
 *    earlier than what was asked for.
 */
#ifndef REDISQ_BACKOFF_H
#define REDISQ_BACKOFF_H

#include "base.h"

struct rng {
	uint64_t state;
};

/* Any seed will do; two processes must not share one (pid mixed with a clock is enough). */
void rng_seed(struct rng *r, uint64_t seed);
/* Uniform in [0, bound); 0 when bound <= 0. */
int64_t rng_below(struct rng *r, int64_t bound);

/* base * 2^(n-1), n >= 1, capped at cap; all in ms; saturates instead of overflowing. */
int64_t backoff_ms(int64_t base_ms, int64_t cap_ms, unsigned n);
/* Uniform in [0, backoff_ms(...)]. */
int64_t backoff_full_jitter_ms(struct rng *r, int64_t base_ms, int64_t cap_ms, unsigned n);
/* backoff_ms(...) plus up to `percent` of it. */
int64_t backoff_add_jitter_ms(struct rng *r, int64_t base_ms, int64_t cap_ms, unsigned n,
			      int percent);

#endif
