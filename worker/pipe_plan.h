/*
 * pipe_plan.h - the decisions about the children of a pipe handler: their states, who gets a task,
 * how many there should be, which are to be replaced. Pure.
 *
 *   starting -> ready -> draining -> (gone)       a signal of ours: -> termed -> killed -> (gone)
 *
 * A child is draining once it was told that it gets nothing more: it finishes what it has and
 * leaves. One that dies is gone from any state.
 */
#ifndef REDISQ_PIPE_PLAN_H
#define REDISQ_PIPE_PLAN_H

#include "base.h"

#define PIPE_STATES(X) \
	X(STARTING, "starting") /* has not said ready */ \
	X(READY, "ready") \
	X(DRAINING, "draining") /* gets no more tasks */ \
	X(TERMED, "termed")     /* was sent SIGTERM */ \
	X(KILLED, "killed")     /* was sent SIGKILL */ \
	X(GONE, "gone")

#define PIPE_EVENTS(X) \
	X(READY, "it is ready") \
	X(DRAIN, "told to drain") \
	X(TERM, "SIGTERM") \
	X(KILL, "SIGKILL") \
	X(DEATH, "it died")

enum pipe_state {
#define X(name, word) PIPE_##name,
	PIPE_STATES(X)
#undef X
		PIPE_N_STATES
};

enum pipe_event {
#define X(name, word) PIPE_ON_##name,
	PIPE_EVENTS(X)
#undef X
		PIPE_N_EVENTS
};

/* The state that follows; PIPE_N_STATES: this cannot happen in that state. */
enum pipe_state pipe_next(enum pipe_state s, enum pipe_event ev);
const char *pipe_state_word(enum pipe_state s);
const char *pipe_event_word(enum pipe_event ev);

/* ---- who gets a task */
/* One child, as seen by a task that looks for one. */
struct pipe_view {
	enum pipe_state state;
	int slots;
	int n_runs;
	int64_t n_given;   /* tasks it has had, those included */
	int64_t max_tasks; /* it may have; 0 = any number */
	bool worn;         /* to be replaced: only if nobody else can take it */
	bool apart;        /* has a task that is to be alone */
};

/* It may have the task; `apart`: one that is to be alone in its child. */
bool pipe_fits(const struct pipe_view *v, bool apart);
/* Of two that fit `a` is the better: the one with more free slots, with less to do. */
bool pipe_better(const struct pipe_view *a, const struct pipe_view *b);

/* ---- how many there should be */
struct pipe_census {
	int concurrency;
	int slots;   /* the fewest of those that are ready, else what the last one said; 0 = none
			has said so far */
	int n_apart; /* tasks that wait for a child of their own, or have one */
	int n_fresh; /* starting or ready, and not worn */
	int n_ready; /* of them, ready */
	int n_worn;  /* ready, and to be replaced */
	int n_all;   /* those above, and whatever has not been reaped */
	int n_busy;  /* of those that get nothing more: they still have tasks */
};

/* Enough for all tasks at once; one until a first has told its slots. */
int pipe_wanted(const struct pipe_census *c);
/* One more is to be started: also in place of one that is worn, but one at a time beyond the
 * number that is wanted. One that finishes its last tasks is not counted: it may take hours, and
 * the credit that it has not is to be used meanwhile. */
bool pipe_start_one(const struct pipe_census *c);
/* A worn one is not needed any more: its replacement is ready. */
bool pipe_drain_worn(const struct pipe_census *c);
/* There is one too many that has nothing to do. */
bool pipe_drain_idle(const struct pipe_census *c);

/* ---- replacing */
/* A limit with up to a tenth taken off, so that not all reach it together; `dice` in [0, 1000). */
int64_t pipe_limit(int64_t limit, int dice);

#endif
