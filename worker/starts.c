/* starts.c - see starts.h. */
#include "starts.h"

void starts_turn(struct starts *s)
{
	s->n = 0;
}

bool starts_take(struct starts *s, int64_t now_ms)
{
	if (s->n == 0)
		s->until_ms = now_ms + STARTS_PER_TURN_MS;
	if (s->n == STARTS_PER_TURN || now_ms >= s->until_ms)
		return false;
	s->n++;
	return true;
}
