/*
 * heartbeat.h - when a worker counts as stuck, and how often to look. Pure: every time is on the
 * boot clock in ms and comes in.
 *
 * A beat that is too old is only a suspicion: the machine may have been paused, or the worker woken
 * a moment after us. It is proof when the next look, a tick later, finds the same beat.
 */
#ifndef REDISQ_HEARTBEAT_H
#define REDISQ_HEARTBEAT_H

#include "base.h"

/* One worker's; zero at the start of its life. */
struct heartbeat {
	int64_t suspect_ms; /* the beat that the last look found too old; 0 = none */
};

/*
 * `beat_ms`: the last one, 0 = not begun. `since_ms`: what happened before proves nothing.
 * `limit_ms`
 * <= 0: never stuck.
 */
bool heartbeat_is_stuck(struct heartbeat *h, int64_t beat_ms, int64_t since_ms, int64_t now_ms,
			int64_t limit_ms);
/*
 * From look to look, for the shortest limit in force (0 = none): a quarter of it, at least 50 ms,
 * at most 2 s: what else rides on the looks waits no longer, and idle costs half a wake-up a
 * second.
 */
int64_t heartbeat_interval_ms(int64_t limit_ms);
/* Whether a look came so late that it is us, or the machine, who stood still. */
bool heartbeat_is_late(int64_t gap_ms, int64_t interval_ms, int64_t limit_ms);

#endif
