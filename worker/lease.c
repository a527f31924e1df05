/* lease.c - see lease.h. */
#include "lease.h"

#define RELEASED_IDLE_MS 1000000000000LL /* as in scripts/_prelude.lua */

int64_t lease_evidence(int64_t sent_ms, int64_t lease_ms)
{
	/* The margin covers the start of a handler and the rounding of clocks. */
	return sent_ms + lease_ms - max_i64(lease_ms / 10, 100);
}

bool lease_is_fresh(int64_t evidence_ms, int64_t now_ms, int64_t lease_ms)
{
	return evidence_ms - now_ms > lease_ms / 2;
}

int64_t lease_renew_every(int64_t lease_ms)
{
	return lease_ms / 3;
}

int64_t lease_scan_every(int64_t lease_ms)
{
	return min_i64(max_i64(lease_ms / 4, 250), 5000);
}

void stale_linked(struct stale_guard *g, int64_t now_ms)
{
	if (!g->linked_ms)
		g->linked_ms = now_ms;
}

void stale_unlinked(struct stale_guard *g)
{
	g->linked_ms = 0;
}

void stale_unserved(struct stale_guard *g, int64_t now_ms)
{
	if (g->linked_ms)
		g->linked_ms = now_ms;
}

void stale_other_server(struct stale_guard *g)
{
	g->have_offset = false;
}

void stale_look(struct stale_guard *g, int64_t now_ms, int64_t lease_ms)
{
	bool stalled = g->looked_ms && now_ms - g->looked_ms > lease_ms / 2;

	g->looked_ms = now_ms;
	if (stalled && g->linked_ms)
		g->linked_ms = now_ms;
}

bool stale_redis_time(struct stale_guard *g, int64_t redis_ms, int64_t now_ms, int64_t lease_ms)
{
	int64_t offset = redis_ms - now_ms;
	int64_t moved = g->have_offset ? offset - g->offset_ms : 0;

	g->offset_ms = offset;
	g->have_offset = true;
	if (moved < 0)
		moved = -moved;
	/* A slow answer moves it by the time of a round trip; a step of the clock by more. */
	if (moved <= max_i64(lease_ms / 4, 250))
		return false;
	g->paused_until_ms = now_ms + lease_ms;
	return true;
}

bool stale_allowed(const struct stale_guard *g, int64_t now_ms, int64_t lease_ms)
{
	return g->linked_ms && now_ms - g->linked_ms >= lease_ms && now_ms >= g->paused_until_ms;
}

bool lease_is_released(int64_t idle_ms)
{
	return idle_ms >= RELEASED_IDLE_MS;
}

bool lease_extra_is_lost(int64_t idle_ms, int64_t block_ms, int64_t oldest_read_ms, int64_t now_ms)
{
	if (lease_is_released(idle_ms))
		return true;
	if (idle_ms <= 2 * block_ms)
		return false;
	return !oldest_read_ms || now_ms - idle_ms < oldest_read_ms;
}
