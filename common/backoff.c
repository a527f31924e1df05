/* backoff.c - see backoff.h. */
#include "backoff.h"

void rng_seed(struct rng *r, uint64_t seed)
{
	r->state = seed;
}

/* splitmix64: one multiply chain, every seed is a good one. */
static uint64_t rng_next(struct rng *r)
{
	uint64_t z = (r->state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

int64_t rng_below(struct rng *r, int64_t bound)
{
	return bound <= 0 ? 0 : (int64_t)(rng_next(r) % (uint64_t)bound);
}

int64_t backoff_ms(int64_t base_ms, int64_t cap_ms, unsigned n)
{
	int64_t d = base_ms;

	for (unsigned i = 1; i < n && d < cap_ms; i++) {
		if (d > INT64_MAX / 2)
			return cap_ms;
		d *= 2;
	}
	return d < cap_ms ? d : cap_ms;
}

int64_t backoff_full_jitter_ms(struct rng *r, int64_t base_ms, int64_t cap_ms, unsigned n)
{
	return rng_below(r, backoff_ms(base_ms, cap_ms, n) + 1);
}

int64_t backoff_add_jitter_ms(struct rng *r, int64_t base_ms, int64_t cap_ms, unsigned n,
			      int percent)
{
	int64_t d = backoff_ms(base_ms, cap_ms, n);

	return d + rng_below(r, d / 100 * percent + d % 100 * percent / 100 + 1);
}
