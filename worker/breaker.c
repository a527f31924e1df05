/* breaker.c - see breaker.h. */
#include "breaker.h"

void breaker_init(struct breaker *b, int64_t delay_ms)
{
	*b = (struct breaker){.state = BREAKER_CLOSED, .delay_ms = delay_ms};
}

bool breaker_broken(struct breaker *b, int64_t now_ms)
{
	bool opened = b->state == BREAKER_CLOSED;

	b->state = BREAKER_OPEN;
	b->probe_at_ms = now_ms + b->delay_ms;
	return opened;
}

bool breaker_worked(struct breaker *b)
{
	/* A task that was running when the breaker opened proves nothing: only the probe closes it.
	 */
	if (b->state != BREAKER_HALF_OPEN)
		return false;
	b->state = BREAKER_CLOSED;
	return true;
}

bool breaker_tick(struct breaker *b, int64_t now_ms)
{
	if (b->state != BREAKER_OPEN || now_ms < b->probe_at_ms)
		return false;
	b->state = BREAKER_HALF_OPEN;
	return true;
}

int breaker_limit(const struct breaker *b, int credit)
{
	switch (b->state) {
	case BREAKER_CLOSED:
		break;
	case BREAKER_OPEN:
		return 0;
	case BREAKER_HALF_OPEN:
		return credit < 1 ? credit : 1;
	}
	return credit;
}
