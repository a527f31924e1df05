/*
 * children.h - which of our child processes are ours by intent, and what becomes of the others.
 *
 * The supervisor is a subreaper (and may be PID 1): what a dead worker leaves behind, also what
 * escaped by setsid, becomes our child. Workers and the private Redis are on record here; children
 * that were there before us are left alone; what else shows up is a stray: killed by
 * children_sweep(), reaped by either function. As PID 1 we also inherit what strangers in the
 * container leave behind: only processes with a handler's environment are killed then.
 */
#ifndef REDISQ_CHILDREN_H
#define REDISQ_CHILDREN_H

#include "list.h"

struct children {
	struct list known; /* of struct child_ref */
	pid_t *earlier;    /* owned: children we had at the start */
	size_t n_earlier;
	bool pid_one;
	int64_t n_killed; /* strays signalled so far */
};

/* A child on record, embedded in its owner. */
struct child_ref {
	struct list link;
	pid_t pid;
};

/* Makes this process a subreaper; -1 with errno. */
int children_init(struct children *c) ATTR_MUST_CHECK;
void children_release(struct children *c);
void children_add(struct children *c, struct child_ref *ref, pid_t pid);
/* Harmless on one that is not on record but was initialised (list_init). */
void children_remove(struct child_ref *ref);
/* Kills every stray and reaps the dead ones. Returns how many were signalled. */
int children_sweep(struct children *c);
/* Reaps dead strays, kills none. */
void children_reap(struct children *c);

#endif
