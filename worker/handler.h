/*
 * handler.h - what every kind of handler must do. A handler runs tasks; it knows nothing of Redis
 * and decides nothing about their fate: it reports an outcome, once per start().
 */
#ifndef REDISQ_HANDLER_H
#define REDISQ_HANDLER_H

#include "err.h"
#include "task.h"

struct handler;
struct worker;

struct handler_ops {
	const char *name;
	/* start() waits for nothing: any number of tasks are started in one turn of the loop. */
	bool starts_at_once;
	struct handler *(*open)(struct worker *w);
	/* Can it work at all? Looked at before the first fetch and before a breaker's probe. */
	int (*check)(struct handler *h, struct err *e);
	/* Runs the task; worker_finished() is called when it has ended, maybe before this returns.
	 */
	void (*start)(struct handler *h, struct task *t);
	/* Stops it politely, and for good after `grace_ms`. worker_finished() follows. */
	void (*cancel)(struct handler *h, struct task *t, int64_t grace_ms);
	/* Runs the loop, turn by turn, until the worker is over. NULL: ev_run() does. */
	void (*run)(struct handler *h);
	/*
	 * Once per turn of the loop, after the queue's own: what was put off is done together, as
	 * one write for all the tasks that were started. NULL: puts nothing off.
	 */
	void (*turn)(struct handler *h);
	/*
	 * No task is there and none will come: ends, by itself and within kill_grace, what it kept
	 * for further ones. worker_handler_left() follows, maybe before this returns. NULL: keeps
	 * nothing.
	 */
	void (*leave)(struct handler *h);
	/* At once, whatever still runs. */
	void (*free)(struct handler *h);
};

extern const struct handler_ops handler_exec_ops;
extern const struct handler_ops handler_so_ops;
extern const struct handler_ops handler_pipe_ops;

#endif
