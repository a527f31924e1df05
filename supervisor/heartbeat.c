/* heartbeat.c - see heartbeat.h. */
#include "heartbeat.h"

#define INTERVAL_MIN_MS 50
#define INTERVAL_MAX_MS 2000

bool heartbeat_is_stuck(struct heartbeat *h, int64_t beat_ms, int64_t since_ms, int64_t now_ms,
			int64_t limit_ms)
{
	bool stuck = false;

	if (beat_ms == 0 || limit_ms <= 0 || now_ms - max_i64(beat_ms, since_ms) <= limit_ms) {
		h->suspect_ms = 0;
		return false;
	}
	stuck = h->suspect_ms == beat_ms;
	h->suspect_ms = beat_ms;
	return stuck;
}

int64_t heartbeat_interval_ms(int64_t limit_ms)
{
	if (limit_ms <= 0)
		return INTERVAL_MAX_MS;
	return max_i64(INTERVAL_MIN_MS, min_i64(limit_ms / 4, INTERVAL_MAX_MS));
}

bool heartbeat_is_late(int64_t gap_ms, int64_t interval_ms, int64_t limit_ms)
{
	return gap_ms - interval_ms > max_i64(interval_ms, limit_ms / 4);
}
