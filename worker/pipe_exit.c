/* pipe_exit.c - see pipe_exit.h. */
#include "pipe_exit.h"

static void timed_out(struct outcome *o, int64_t timeout_ms)
{
	char limit[32];

	o->kind = OUTCOME_TIMED_OUT;
	exec_duration(timeout_ms, limit);
	snprintf(o->error, sizeof(o->error), "timed out after %s", limit);
}

static void given_back(struct outcome *o, const char *why)
{
	o->kind = OUTCOME_STOPPED;
	snprintf(o->error, sizeof(o->error), "%s", why);
}

void pipe_answered(struct outcome *o, const struct answer *a, enum exec_stop stop,
		   int64_t timeout_ms)
{
	static const enum outcome_kind kinds[] = {
		[ANSWER_DONE] = OUTCOME_DONE,
		[ANSWER_RETRY] = OUTCOME_FAILED,
		[ANSWER_SNOOZE] = OUTCOME_SNOOZED,
		[ANSWER_DEAD] = OUTCOME_REJECTED,
	};

	if (stop == EXEC_STOP_TIMEOUT) {
		timed_out(o, timeout_ms);
		return;
	}
	if (stop == EXEC_STOP_CANCEL && a->type != ANSWER_DONE) {
		given_back(o, "stopped by the worker");
		return;
	}
	o->kind = kinds[a->type];
	o->delay_ms = a->delay_ms;
	if (o->kind != OUTCOME_DONE)
		snprintf(o->error, sizeof(o->error), "%s",
			 a->error[0] ? a->error : "asked for on fd 3");
}

bool pipe_is_broken(const struct child_exit *how)
{
	struct outcome o;
	struct answer a;
	bool broken;

	outcome_init(&o);
	answer_init(&a);
	exec_outcome(&o, how, &a, EXEC_NOT_STOPPED, 0);
	broken = o.kind == OUTCOME_BROKEN;
	outcome_release(&o);
	return broken;
}

/* "signal 9 SIGKILL", "exit 0 before it had answered" */
static void describe(struct outcome *o, const struct pipe_death *d)
{
	struct answer a;

	answer_init(&a);
	exec_outcome(o, &d->how, &a, EXEC_NOT_STOPPED, 0);
	if (!d->how.signaled && d->how.code == 0)
		snprintf(o->error, sizeof(o->error), "exit 0 before it had answered");
}

void pipe_died(struct outcome *o, const struct pipe_death *d, enum exec_stop stop, bool unread,
	       int64_t timeout_ms)
{
	if (stop == EXEC_STOP_TIMEOUT) {
		timed_out(o, timeout_ms);
	} else if (stop == EXEC_STOP_CANCEL) {
		given_back(o, "stopped by the worker");
	} else if (unread) {
		given_back(o, "its child ended before it had read it");
	} else if (d->fault) {
		o->kind = OUTCOME_CRASHED;
		o->in_company = d->n_charged > 1;
		snprintf(o->error, sizeof(o->error), "%s", d->fault);
	} else if (d->killed || d->any_stopped) {
		given_back(o, "its child was stopped for another task");
	} else {
		describe(o, d);
		if (o->kind != OUTCOME_BROKEN) {
			o->kind = OUTCOME_CRASHED;
			o->in_company = d->n_charged > 1;
		}
	}
}
