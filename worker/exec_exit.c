/* exec_exit.c - see exec_exit.h. */
#include <inttypes.h>
#include <signal.h>

#include "exec_exit.h"

/* Codes that do not mean "failed attempt". */
static const struct {
	int code;
	enum outcome_kind kind;
} codes[] = {
	{0, OUTCOME_DONE},       {75, OUTCOME_SNOOZED}, /* EX_TEMPFAIL */
	{65, OUTCOME_REJECTED},                         /* EX_DATAERR */
	{100, OUTCOME_REJECTED},                        /* as in qmail: permanent */
	{78, OUTCOME_BROKEN},                           /* EX_CONFIG */
	{126, OUTCOME_BROKEN},                          /* a shell's "cannot execute" */
	{127, OUTCOME_BROKEN},                          /* a shell's "not found" */
	{134, OUTCOME_CRASHED},                         /* 128 + SIGABRT, told by a shell */
	{137, OUTCOME_CRASHED},                         /* 128 + SIGKILL */
	{139, OUTCOME_CRASHED},                         /* 128 + SIGSEGV */
};

static enum outcome_kind kind_of_code(int code)
{
	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (codes[i].code == code)
			return codes[i].kind;
	return OUTCOME_FAILED;
}

void exec_duration(int64_t ms, char out[32])
{
	if (ms % 60000 == 0)
		snprintf(out, 32, "%" PRId64 "m", ms / 60000);
	else if (ms % 1000 == 0)
		snprintf(out, 32, "%" PRId64 "s", ms / 1000);
	else
		snprintf(out, 32, "%" PRId64 "ms", ms);
}

static void describe(struct outcome *o, const struct child_exit *x)
{
	const char *name = x->signaled ? sigabbrev_np(x->code) : NULL;

	snprintf(o->usage, sizeof(o->usage), "cpu %" PRId64 " ms, memory %.1f MB",
		 x->utime_ms + x->stime_ms, (double)x->maxrss_kb / 1024);
	if (!x->signaled) {
		o->exit_code = x->code;
		snprintf(o->error, sizeof(o->error), "exit %d", x->code);
		return;
	}
	o->signal = x->code;
	snprintf(o->error, sizeof(o->error), "signal %d %s%s%s", x->code, name ? "SIG" : "",
		 name ? name : "", x->core ? " (core dumped)" : "");
}

/*
 * What it said on fd 3 against how it exited: a bad exit beats "done", the other words beat 0, and
 * an exit code that says something of its own (75, 65 ...) is only explained by the same word.
 */
static void apply_answer(struct outcome *o, const struct answer *a)
{
	static const enum outcome_kind kinds[] = {
		[ANSWER_RETRY] = OUTCOME_FAILED,
		[ANSWER_SNOOZE] = OUTCOME_SNOOZED,
		[ANSWER_DEAD] = OUTCOME_REJECTED,
	};
	bool failed = o->kind == OUTCOME_FAILED;
	enum outcome_kind said;

	if (a->type == ANSWER_NONE || a->type == ANSWER_DONE)
		return;
	said = kinds[a->type];
	if (o->kind != OUTCOME_DONE && o->kind != said && !(failed && said == OUTCOME_REJECTED))
		return;
	o->delay_ms = a->delay_ms;
	if (a->error[0])
		snprintf(o->error, sizeof(o->error), "%s", a->error);
	else if (o->kind == OUTCOME_DONE)
		snprintf(o->error, sizeof(o->error), "%s", "asked for on fd 3");
	o->kind = said;
}

void exec_outcome(struct outcome *o, const struct child_exit *x, const struct answer *a,
		  enum exec_stop stop, int64_t timeout_ms)
{
	char limit[32];

	describe(o, x);
	switch (stop) {
	case EXEC_STOP_CANCEL:
		/* One that finished all the same has done its work: say so rather than do it twice.
		 */
		if (!x->signaled && x->code == 0 && a->type <= ANSWER_DONE) {
			o->kind = OUTCOME_DONE;
			return;
		}
		o->kind = OUTCOME_STOPPED;
		snprintf(o->error, sizeof(o->error), "stopped by the worker");
		return;
	case EXEC_STOP_TIMEOUT:
		o->kind = OUTCOME_TIMED_OUT;
		exec_duration(timeout_ms, limit);
		snprintf(o->error, sizeof(o->error), "timed out after %s", limit);
		return;
	case EXEC_NOT_STOPPED:
		break;
	}
	if (x->signaled) {
		o->kind = OUTCOME_CRASHED;
		return;
	}
	o->kind = kind_of_code(x->code);
	apply_answer(o, a);
}

void exec_oom(struct outcome *o)
{
	size_t len = strlen(o->error);

	/* 137: a shell's word for the SIGKILL of what it had started. */
	if (o->kind == OUTCOME_CRASHED && (o->signal == SIGKILL || o->exit_code == 128 + SIGKILL))
		snprintf(o->error + len, sizeof(o->error) - len, " (out of memory)");
}
