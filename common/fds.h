/*
 * fds.h - the descriptors of this process as a whole: that 0, 1 and 2 are there, and how many there
 * may be. For main() of each program; spawn_run() gives its children the limit back.
 */
#ifndef REDISQ_FDS_H
#define REDISQ_FDS_H

#include <sys/resource.h>

#include "base.h"

/*
 * Before anything else is opened: whichever of 0, 1 and 2 is closed becomes /dev/null, so that no
 * lock, log or epoll gets a number that is written to as stdout, or that a dup2() to it ends.
 * -1 with errno.
 */
int fds_fill_standard(void) ATTR_MUST_CHECK;

/*
 * Raises the soft limit of open files to the hard one. What we were started with is what children
 * get (fds_start_limit): select() in a handler breaks on descriptors of 1024 and more.
 */
void fds_raise_limit(void);
/* The limits before fds_raise_limit(); false: it was not called, children inherit what there is. */
bool fds_start_limit(struct rlimit *out);
/* The hard limit of open files; INT64_MAX = none. */
int64_t fds_hard_limit(void);

#endif
