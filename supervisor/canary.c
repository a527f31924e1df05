/* canary.c - see canary.h. */
#include "canary.h"

void canary_begin(struct canary *c, int64_t now_ms)
{
	*c = (struct canary){.since_ms = now_ms, .idle_ms = -1};
}

/* A task that failed at once may leave the queue idle until its next attempt: that is no proof. */
static bool is_idle(const struct canary_signs *s)
{
	return s->ready && s->open && s->running == 0 && s->failed == 0;
}

enum canary_verdict canary_judge(struct canary *c, const struct canary_signs *s, int64_t now_ms)
{
	if (s->broken)
		return CANARY_BROKEN;
	if (s->parked)
		return CANARY_DEAD;
	if (s->works)
		return CANARY_WORKS;
	if (s->running > 0 && s->longest_ms >= CANARY_LONG_MS)
		return CANARY_LONG;
	if (!is_idle(s))
		c->idle_ms = -1;
	else if (c->idle_ms < 0)
		c->idle_ms = now_ms;
	else if (now_ms - c->idle_ms >= CANARY_IDLE_MS)
		return CANARY_IDLE;
	if (now_ms - c->since_ms < CANARY_PATIENCE_MS)
		return CANARY_WAIT;
	return s->ready ? CANARY_UNSURE : CANARY_DEAD;
}

const char *canary_verdict_text(enum canary_verdict v)
{
	switch (v) {
	case CANARY_WORKS:
		return "it finished a task";
	case CANARY_LONG:
		return "a task runs";
	case CANARY_IDLE:
		return "no task came to try it with";
	case CANARY_UNSURE:
		return "no task could tell so far";
	case CANARY_WAIT:
	case CANARY_BROKEN:
	case CANARY_DEAD:
		break;
	}
	return "";
}
