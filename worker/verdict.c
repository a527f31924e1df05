/* verdict.c - see verdict.h. */
#include "task.h"
#include "verdict.h"

static int64_t retry_delay(const struct outcome *o, const struct conf_queue *q, struct rng *rng,
			   int tries)
{
	if (o->delay_ms >= 0)
		return o->delay_ms;
	return backoff_add_jitter_ms(rng, q->retry_delay, q->retry_delay_max,
				     (unsigned)(tries < 1 ? 1 : tries), q->retry_jitter);
}

static struct verdict letter(enum conf_follow follow, const char *reason)
{
	return (struct verdict){.op = follow == CONF_FOLLOW_HOLD ? VERDICT_HOLD : VERDICT_DEAD,
				.reason = reason};
}

/* An attempt that failed: another one, or none left. */
static struct verdict failed(const struct task *t, const struct outcome *o,
			     const struct conf_queue *q, struct rng *rng, const char *reason)
{
	if (t->attempt >= q->max_attempts)
		return letter(CONF_FOLLOW_DEAD, reason);
	return (struct verdict){.op = VERDICT_RETRY,
				.delay_ms = retry_delay(o, q, rng, t->attempt),
				.attempt = t->attempt + 1,
				.snoozes = t->snoozes};
}

/* Not now: the same attempt again, until that has been said too often. */
static struct verdict snoozed(const struct task *t, const struct outcome *o,
			      const struct conf_queue *q, struct rng *rng)
{
	if (t->snoozes >= q->max_snoozes)
		return failed(t, o, q, rng, "attempts");
	return (struct verdict){.op = VERDICT_RETRY,
				.delay_ms = retry_delay(o, q, rng, t->snoozes + 1),
				.attempt = t->attempt,
				.snoozes = t->snoozes + 1};
}

struct verdict verdict_of(const struct task *t, const struct outcome *o, const struct conf_queue *q,
			  struct rng *rng)
{
	switch (o->kind) {
	case OUTCOME_DONE:
		return (struct verdict){.op = VERDICT_DONE};
	case OUTCOME_FAILED:
		return failed(t, o, q, rng, "attempts");
	case OUTCOME_SNOOZED:
		return snoozed(t, o, q, rng);
	case OUTCOME_REJECTED:
		return letter(CONF_FOLLOW_DEAD, "rejected");
	case OUTCOME_OVERSIZED:
		return letter(CONF_FOLLOW_DEAD, "payload");
	case OUTCOME_GUILTY:
		return letter(q->on_crash == CONF_FOLLOW_HOLD ? CONF_FOLLOW_HOLD : CONF_FOLLOW_DEAD,
			      "crashes");
	case OUTCOME_TIMED_OUT:
		if (q->on_timeout == CONF_FOLLOW_RETRY)
			return failed(t, o, q, rng, "timeout");
		return letter((enum conf_follow)q->on_timeout, "timeout");
	case OUTCOME_CRASHED:
		if (o->in_company)
			return (struct verdict){.op = VERDICT_SUSPECT};
		return (struct verdict){.op = VERDICT_CRASH,
					.delay_ms =
						backoff_ms(q->retry_delay, q->retry_delay_max, 1),
					.jitter_percent = (int)rng_below(rng, q->retry_jitter + 1),
					.follow = (enum conf_follow)q->on_crash,
					.reason = "crashes"};
	case OUTCOME_BROKEN:
	case OUTCOME_UNSTARTED:
	case OUTCOME_STOPPED:
		break;
	}
	return (struct verdict){.op = VERDICT_RELEASE};
}
