/*
 * groups.h - the process groups of a dead worker's handlers: killed, waited for, and told from
 * strangers who got the same number.
 *
 * A group number is free for others when its last member has gone, and what the board says may be
 * older than that. But a group never spans sessions and its leader cannot leave one, so a group
 * outside the worker's session is not a handler's. Where the leader has gone and others of the
 * group live, one of those is looked for in /proc: rare, for the worker kills what its handlers
 * leave.
 */
#ifndef REDISQ_GROUPS_H
#define REDISQ_GROUPS_H

#include "base.h"

struct groups {
	pid_t session; /* the worker's pid: it leads its own */
	pid_t *v;      /* owned */
	size_t n;
};

/* Notes one; strangers are dropped at the next look. */
void groups_add(struct groups *g, pid_t pgid);
/* SIGKILL to each that is the session's. */
void groups_kill(struct groups *g);
/* Drops those that are gone, or strangers'; true when none is left. */
bool groups_gone(struct groups *g);
/* Moves all of `from` to `to`, which holds none. */
void groups_move(struct groups *from, struct groups *to);
void groups_release(struct groups *g);

#endif
