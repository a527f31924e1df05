/* restart.c - see restart.h. */
#include "restart.h"

#include "buf.h"

#define JITTER_PERCENT 20
#define N_MAX 1000 /* long past the cap of any delay */

void restart_init(struct restart *r)
{
	*r = (struct restart){0};
}

void restart_release(struct restart *r)
{
	free(r->deaths_ms);
	restart_init(r);
}

void restart_stable(struct restart *r)
{
	r->n = 0;
}

void restart_forget(struct restart *r)
{
	r->n = 0;
	r->count = 0;
	r->head = 0;
	r->loop = false;
}

/* The ring holds one death more than the limit; a new limit (HUP) starts the count anew. */
static void resize(struct restart *r, size_t cap)
{
	if (r->cap == cap)
		return;
	free(r->deaths_ms);
	r->deaths_ms = xcalloc(cap, sizeof(*r->deaths_ms));
	r->cap = cap;
	r->count = 0;
	r->head = 0;
}

static bool note_death(struct restart *r, const struct restart_policy *p, int64_t now_ms)
{
	resize(r, (size_t)p->limit + 1);
	r->deaths_ms[r->head] = now_ms;
	r->head = (r->head + 1) % r->cap;
	if (r->count < r->cap)
		r->count++;
	/* Full: `head` is the oldest of the last limit + 1. */
	return r->count == r->cap && now_ms - r->deaths_ms[r->head] <= p->window_ms;
}

int64_t restart_postpone(struct restart *r, const struct restart_policy *p, struct rng *rng)
{
	if (r->n < N_MAX)
		r->n++;
	return backoff_add_jitter_ms(rng, p->delay_ms, p->delay_max_ms, r->n, JITTER_PERCENT);
}

enum restart_verdict restart_decide(struct restart *r, const struct restart_policy *p,
				    enum restart_death death, int64_t now_ms, struct rng *rng,
				    int64_t *delay_ms)
{
	bool loop = death != RESTART_CHARGED && note_death(r, p, now_ms);

	r->loop = loop;
	*delay_ms = 0;
	if (r->n < N_MAX)
		r->n++;
	if (loop && p->on_loop == RESTART_LOOP_PARK)
		return RESTART_PARK;
	if (loop && p->on_loop == RESTART_LOOP_EXIT)
		return RESTART_EXIT;
	if (loop) {
		*delay_ms = p->delay_max_ms;
		return RESTART_LATER;
	}
	if (r->n == 1 && death != RESTART_BEFORE_READY)
		return RESTART_NOW;
	*delay_ms = backoff_add_jitter_ms(rng, p->delay_ms, p->delay_max_ms, r->n, JITTER_PERCENT);
	return RESTART_LATER;
}
