/* breaker.c - see breaker.h. */
#include "breaker.h"

void breaker_init(struct breaker *b, int64_t delay_ms, int failures_max)
{
	*b = (struct breaker){.state = BREAKER_CLOSED,
			      .delay_ms = delay_ms,
			      .failures_max = failures_max,
			      .probe_size = 1};
}

static int find(const struct breaker *b, const char *label)
{
	for (int i = 0; i < BREAKER_BLAMED; i++)
		if (b->blamed[i].id[0] && strcmp(b->blamed[i].label, label) == 0)
			return i;
	return -1;
}

static void blame(struct breaker *b, int partition, const char *id, const char *label)
{
	int i = find(b, label);

	if (i < 0)
		i = (int)(b->n_blamed++ % BREAKER_BLAMED);
	snprintf(b->blamed[i].id, sizeof(b->blamed[i].id), "%s", id);
	b->blamed[i].partition = partition;
	snprintf(b->blamed[i].label, sizeof(b->blamed[i].label), "%s", label);
	b->blamed[i].others_worked = false;
}

static bool open_it(struct breaker *b, int64_t now_ms)
{
	bool opened = b->state == BREAKER_CLOSED;
	int64_t delay = b->delay_ms;

	if (b->has_worked && delay > BREAKER_SOON_MS)
		delay = BREAKER_SOON_MS;
	b->has_worked = false;
	b->n_failures = 0;
	b->state = BREAKER_OPEN;
	b->probe_at_ms = now_ms + delay;
	return opened;
}

bool breaker_missing(struct breaker *b, int64_t now_ms)
{
	b->has_worked = false;
	return open_it(b, now_ms);
}

bool breaker_broken(struct breaker *b, int partition, const char *id, const char *label,
		    bool is_old, int64_t now_ms)
{
	blame(b, partition, id, label);
	if (b->state == BREAKER_OPEN || (b->state == BREAKER_HALF_OPEN && is_old))
		return false;
	b->probe_size = 1;
	return open_it(b, now_ms);
}

bool breaker_failed_fast(struct breaker *b, bool is_old, int64_t now_ms)
{
	if (b->failures_max == 0)
		return false;
	if (b->state == BREAKER_OPEN || (b->state == BREAKER_HALF_OPEN && is_old))
		return false;
	if (b->state == BREAKER_CLOSED && ++b->n_failures < b->failures_max)
		return false;
	if (b->state == BREAKER_HALF_OPEN)
		b->probe_size *= b->probe_size < BREAKER_PROBE_MAX ? 2 : 1;
	b->has_worked = false; /* that one task after another fails is no single task's fault */
	return open_it(b, now_ms);
}

bool breaker_worked(struct breaker *b, bool is_old)
{
	if (b->state == BREAKER_OPEN || (b->state == BREAKER_HALF_OPEN && is_old))
		return false;
	for (int i = 0; i < BREAKER_BLAMED; i++)
		b->blamed[i].others_worked = true;
	b->has_worked = true;
	b->n_failures = 0;
	if (b->state == BREAKER_CLOSED)
		return false;
	b->state = BREAKER_CLOSED;
	b->probe_size = 1;
	return true;
}

bool breaker_blames(const struct breaker *b, int partition, const char *id)
{
	for (int i = 0; i < BREAKER_BLAMED; i++)
		if (b->blamed[i].id[0] && b->blamed[i].partition == partition &&
		    strcmp(b->blamed[i].id, id) == 0)
			return true;
	return false;
}

bool breaker_is_to_blame(const struct breaker *b, const char *label)
{
	int i = find(b, label);

	return i >= 0 && b->blamed[i].others_worked;
}

bool breaker_tick(struct breaker *b, int64_t now_ms)
{
	if (b->state != BREAKER_OPEN || now_ms < b->probe_at_ms)
		return false;
	b->state = BREAKER_HALF_OPEN;
	return true;
}

int breaker_limit(const struct breaker *b, int credit, int n_old)
{
	switch (b->state) {
	case BREAKER_CLOSED:
		break;
	case BREAKER_OPEN:
		return 0;
	case BREAKER_HALF_OPEN:
		return credit < n_old + b->probe_size ? credit : n_old + b->probe_size;
	}
	return credit;
}
