/*
 * restart.h - when a slot whose worker died gets its next one: the restart policy as data.
 *
 * n = deaths in a row; the first death of a worker that had been ready is answered at once, any
 * other after restart_delay doubled at each further death, capped, with jitter added. More than
 * crash_limit deaths within crash_window, whatever their ages, are a crash loop. A worker ready
 * for stable_after ends the row (restart_stable), but its deaths stay in the window: one that dies
 * each time it has become stable is in a loop, too.
 *
 * A death with tasks running is theirs, not the slot's: each is charged with a crash, and
 * max_crashes ends that. It lengthens the row, so that no task can make a storm of starts, but is
 * not in the window: a poison task among good ones parks no slot and ends no supervisor. Pure:
 * `now` comes in.
 */
#ifndef REDISQ_RESTART_H
#define REDISQ_RESTART_H

#include "backoff.h"
#include "base.h"

enum restart_on_loop { RESTART_LOOP_RETRY, RESTART_LOOP_PARK, RESTART_LOOP_EXIT };

struct restart_policy {
	int64_t delay_ms;
	int64_t delay_max_ms;
	int64_t window_ms;
	int limit; /* deaths within the window that are still no loop */
	enum restart_on_loop on_loop;
};

/* Whose fault a death is. */
enum restart_death {
	RESTART_BEFORE_READY, /* the worker's: it never was ready */
	RESTART_IDLE,         /* the worker's: it had been ready, and ran nothing */
	RESTART_CHARGED,      /* of the tasks that it ran: each was charged with a crash */
};

enum restart_verdict { RESTART_NOW, RESTART_LATER, RESTART_PARK, RESTART_EXIT };

/* One slot's memory of its deaths. */
struct restart {
	unsigned n;         /* in a row */
	int64_t *deaths_ms; /* owned: ring of the last `limit` + 1 times */
	size_t cap;
	size_t count; /* used of the ring */
	size_t head;  /* where the next one goes */
	bool loop;    /* the last death was one of a crash loop */
};

void restart_init(struct restart *r);
void restart_release(struct restart *r);
/* The worker was ready for stable_after: the next death is the first of a row. */
void restart_stable(struct restart *r);
/* Forgets every death: the operator asked for a new try, or there is a new program. */
void restart_forget(struct restart *r);
/*
 * A death at `now_ms` (monotonic). `delay_ms` is set for RESTART_LATER. In a crash loop with
 * on_loop = retry the delay is delay_max_ms.
 */
enum restart_verdict restart_decide(struct restart *r, const struct restart_policy *p,
				    enum restart_death death, int64_t now_ms, struct rng *rng,
				    int64_t *delay_ms);
/*
 * The machine had no room for a start (no process, no memory, no descriptor): nobody's crash, so
 * it counts for no loop. Returns the delay until the next try, which grows as for deaths.
 */
int64_t restart_postpone(struct restart *r, const struct restart_policy *p, struct rng *rng);

#endif
