/*
 * worker.h - the worker: one event loop, one credit ledger, a table of tasks, a queue (or the
 * partitions of one) to fetch from and settle with, a handler to run tasks.
 *
 * One task's way: the queue's read brings it (stream_adopt) -> on_task starts the handler ->
 * worker_finished() asks verdict.h -> the queue settles it -> on_gone frees the slot. The ledger
 * bounds all of it; the queue's turn, once per turn of the loop, drives it on.
 *
 * Phases: running -> draining (nothing new; what runs is finished, at the limit stopped and given
 * back) -> leaving (the consumer is removed) -> over (the loop ends).
 */
#ifndef REDISQ_WORKER_H
#define REDISQ_WORKER_H

#include <ev.h>

#include "backoff.h"
#include "breaker.h"
#include "chan.h"
#include "complaint.h"
#include "conf.h"
#include "frames.h"
#include "handler.h"
#include "ledger.h"
#include "partitions.h"
#include "queue.h"
#include "scoreboard.h"
#include "sig.h"
#include "starts.h"
#include "task_table.h"

enum worker_phase { WORKER_RUNNING, WORKER_DRAINING, WORKER_LEAVING, WORKER_OVER };

struct worker {
	struct ev_loop *loop;        /* borrowed; set before worker_init() */
	const struct conf *conf;     /* borrowed */
	const struct conf_queue *qc; /* borrowed, of `conf` */
	int slot;                    /* of the supervisor; 0 when alone */
	enum worker_phase phase;
	bool quiet;
	bool quarantine;       /* set aside: suspects only, one at a time */
	bool worn_out;         /* a task cannot be stopped: nothing new, another takes our place */
	bool abandons_threads; /* a handler's threads were stopped for good: nothing is taken
				* down, the process just ends */
	bool stopping;         /* past the limit of the drain: nothing is started any more */
	bool ready;
	bool said_works;   /* the supervisor knows that the handler has run a task */
	bool alone;        /* no supervisor ever was */
	bool refused;      /* the queue cannot be served: exit 78 */
	bool queue_left;   /* all of its partitions */
	bool handler_left; /* both: the loop ends */
	char host[64];

	struct ledger ledger;
	struct breaker breaker;
	struct rng rng;
	struct task_table tasks; /* as many as ledger.most */
	int *free_rows;          /* owned: stack of scoreboard rows */
	int n_free_rows;
	struct starts starts; /* of this turn */

	const struct queue_ops *qops;
	struct partitions partitions;
	struct complaint complaint; /* of all its links */
	const struct handler_ops *hops;
	struct handler *handler; /* owned */

	struct chan *chan;     /* owned; NULL when alone, or when the supervisor is gone */
	struct board *board;   /* borrowed */
	struct frames *frames; /* borrowed: the way to the logs */
	struct sig_watch sig;

	ev_prepare turn;
	ev_idle again; /* active while a turn left work for the next */
	ev_timer heartbeat;
	int64_t beat_put_off_ms; /* when a turn next pushes it back */
	ev_timer limit;          /* drain: stop what still runs */
	ev_timer worn;           /* worn out: says so again */
	char worn_why[OUTCOME_ERROR_MAX];
	ev_timer give_up;    /* drain: leave whatever the state */
	ev_timer probe;      /* breaker */
	ev_timer first_task; /* says what it waits for */
	/* Set before worker_run(): takes it down and ends the process, should worker_run() not be
	 * able to come back. */
	void (*leave)(struct worker *w);
	bool forced;    /* a handler was signalled at a limit */
	int n_released; /* given back since the others were told */
	int64_t n_done;
	struct obituary order; /* being read, word by word */
};

/* `chan_fd` is -1 when alone, else taken over. The rest is borrowed. */
void worker_init(struct worker *w, const struct conf *conf, const struct conf_queue *qc, int slot,
		 int chan_fd, struct board *board, struct frames *frames);
/* Runs until the worker has left. */
void worker_run(struct worker *w);
int worker_exit_code(const struct worker *w);
void worker_release(struct worker *w);

/* ---- words of the supervisor, or signals when alone (orders.c) */
void worker_grant(struct worker *w, int n);
/* `limit_ms` < 0: no limit. A second drain only ever shortens the first. */
void worker_drain(struct worker *w, int64_t limit_ms, const char *why);
/* Stops the handlers now and gives their tasks back. */
void worker_stop_fast(struct worker *w, const char *why);
void worker_set_quiet(struct worker *w, bool quiet);
/* Until no suspect is left. */
void worker_set_quarantine(struct worker *w);
void worker_end_quarantine(struct worker *w, const char *why);
/* First thing in main(), before any thread. */
void orders_block_signals(void);
void orders_open(struct worker *w, int chan_fd);
void orders_close(struct worker *w);

extern const struct queue_events worker_queue_events;

/* ---- for the queue */
/* How many tasks may be asked for now: the ledger, the breaker and the phase agree on it. */
int worker_may_ask(const struct worker *w);
/* The breaker is trying the handler, and not with this task. */
bool worker_avoids(const struct worker *w, int partition, const char *id);
/* There is more to do: another turn without waiting for an event. */
void worker_turn_again(struct worker *w);
/* A free row of the table; never NULL while the ledger holds. */
struct task *worker_free_task(struct worker *w);
/* The task with this entry id that is not gone, or NULL. */
struct task *worker_find_task(struct worker *w, const struct queue *q, const char *id);
/* Moves a task on; a step its table does not know is a bug. */
void worker_task_event(struct worker *w, struct task *t, enum task_event ev);

/* The task's token has changed: so on the scoreboard, by which a crash is charged. */
void worker_republish(struct worker *w, struct task *t);

/* ---- for the handler */
/* What the run of `t` says about itself: soon in Redis, the newest of a kind in place of the one
 * before. -1: too long (TASK_CHECKPOINT_MAX, TASK_PROGRESS_MAX), not kept; the handler says so. */
int worker_note(struct worker *w, struct task *t, enum task_note what,
		struct slice value) ATTR_MUST_CHECK;
/* The run of `t` has ended; t->outcome says how. */
void worker_finished(struct worker *w, struct task *t);
/* It plainly cannot work (`what`): the breaker opens, without a task that was tried. */
void worker_handler_missing(struct worker *w, const char *what);
/* Nothing of the handler is left to wait for: the answer to its leave(). */
void worker_handler_left(struct worker *w);
/*
 * A task does not stop, and only the end of the process can stop it (`why`, for people): nothing
 * new is taken, and another worker is asked for in our place; what else runs is finished.
 */
void worker_wear_out(struct worker *w, const char *why);
/* The handler's process group, for the scoreboard; 0 = none any more. */
void worker_set_pgid(struct worker *w, struct task *t, pid_t pgid);

#endif
