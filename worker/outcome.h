/*
 * outcome.h - how a run of a task ended, in terms that are the same for every kind of handler.
 * The handler fills it in; verdict.h decides what becomes of the task. Plain data.
 */
#ifndef REDISQ_OUTCOME_H
#define REDISQ_OUTCOME_H

#include "buf.h"

#define OUTCOME_KINDS(X) \
	X(DONE, "done")           /* succeeded */ \
	X(FAILED, "failed")       /* an attempt that failed: retried */ \
	X(SNOOZED, "snoozed")     /* not now: retried, no attempt charged */ \
	X(REJECTED, "rejected")   /* never: dead letter at once */ \
	X(BROKEN, "broken")       /* the handler itself cannot work: given back, breaker opens */ \
	X(CRASHED, "crashed")     /* died of a signal that was not ours */ \
	X(TIMED_OUT, "timed out") /* stopped at its timeout */ \
	X(UNSTARTED, "not started") /* this machine is short of something: given back */ \
	X(STOPPED, "stopped")       /* by us, at a drain limit or a lost lease: given back */ \
	X(GUILTY, "guilty")         /* crashed its workers too often: never run again */ \
	X(OVERSIZED, "oversized")   /* more bytes than payload_max: never run */

enum outcome_kind {
#define X(name, word) OUTCOME_##name,
	OUTCOME_KINDS(X)
#undef X
};

#define OUTCOME_ERROR_MAX 256
#define OUTCOME_USAGE_MAX 64
#define OUTCOME_STDERR_MAX 4096
#define OUTCOME_RESULT_MAX (1024 * 1024) /* more is not kept; whoever fills it in looks */

struct outcome {
	enum outcome_kind kind;
	char usage[OUTCOME_USAGE_MAX]; /* what its process took: "cpu 120 ms, memory 45 MB" */
	char error[OUTCOME_ERROR_MAX]; /* for people: "exit 1", "signal 11 SIGSEGV (core dumped)" */
	bool in_company;               /* CRASHED: with others that ran in the same process */
	int exit_code;                 /* -1: did not exit by itself */
	int signal;                    /* 0: none */
	int64_t delay_ms;              /* asked for by the handler; -1: the usual back-off */
	struct buf last_words;         /* end of its stderr, at most OUTCOME_STDERR_MAX; owned */
	struct buf result;             /* what a done task answered: JSON text (pipe, exec) or
					* bytes (so); owned; empty = none */
};

static inline void outcome_init(struct outcome *o)
{
	*o = (struct outcome){.kind = OUTCOME_STOPPED, .exit_code = -1, .delay_ms = -1};
	buf_init(&o->last_words);
	buf_init(&o->result);
}

static inline void outcome_release(struct outcome *o)
{
	buf_release(&o->last_words);
	buf_release(&o->result);
}

#endif
