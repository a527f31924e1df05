/*
 * daemon.h - going to the background without lying: the parent waits until the daemon says that
 * it serves, and returns its exit code when it does not come to that.
 */
#ifndef REDISQ_DAEMON_H
#define REDISQ_DAEMON_H

#include "err.h"

struct daemon {
	int fd; /* owned: to the parent, -1 = none or already told */
};

/*
 * Forks; returns 0 in the child, which is in its own session with the parent's stderr still open.
 * The parent never returns: it exits with 0 at daemon_ready(), or as the child did. -1 with `e`.
 * Before any thread, loop or lock.
 */
int daemon_begin(struct daemon *d, struct err *e) ATTR_MUST_CHECK;
/* Lets the parent return 0 and lets go of the terminal. Harmless without daemon_begin(). */
void daemon_ready(struct daemon *d);

#endif
