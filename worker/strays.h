/*
 * strays.h - ends what runs leave behind outside their process group.
 *
 * We are a subreaper: what survives its run comes back to us as a child that is no run's leader. It
 * is killed, unless its environment says that it belongs to a run that still goes on: one variable
 * of it is the run's label. Looked for
 * once per turn of the loop in which a run ended, before anything is settled, and again until none
 * is left: the killed die in their own time, and have children of their own.
 */
#ifndef REDISQ_STRAYS_H
#define REDISQ_STRAYS_H

#include <ev.h>

#include "base.h"

struct stray_run {
	pid_t pid;
	const char *label; /* borrowed */
};

struct strays {
	struct ev_loop *loop; /* borrowed */
	const char *variable; /* static: "REDISQ_ID=" */
	ev_prepare look;      /* active while a look is due in this turn */
	ev_timer again;
	struct stray_run *runs; /* owned; by pid */
	size_t n_runs;
	size_t cap_runs;
};

void strays_init(struct strays *s, struct ev_loop *loop, const char *variable);
void strays_release(struct strays *s);
/* A run began: its leader is known, and what carries its label is spared. */
void strays_add(struct strays *s, pid_t pid, const char *label);
/* It has ended: a look is due. */
void strays_remove(struct strays *s, pid_t pid);

#endif
