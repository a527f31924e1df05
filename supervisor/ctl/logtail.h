/*
 * logtail.h - reading the log of one slot while somebody writes and rotates it: the last lines, and
 * then what follows, across rotations (PATH -> PATH.1 -> ..., logfile.h).
 */
#ifndef REDISQ_CTL_LOGTAIL_H
#define REDISQ_CTL_LOGTAIL_H

#include "buf.h"

struct logtail;

/* One whole line, without its newline. */
typedef void logtail_fn(void *arg, struct slice line);

/* The log at `path` (copied), which may not be there yet. */
struct logtail *logtail_new(const char *path);
void logtail_free(struct logtail *t);
/*
 * Gives out the last `n` lines (of the rotated files, too, where the live one has fewer); with
 * n < 0 all. What follows is given out by logtail_more().
 */
void logtail_last(struct logtail *t, int64_t n, logtail_fn *fn, void *arg);
/* What was written since, also to files that have been rotated away meanwhile. */
void logtail_more(struct logtail *t, logtail_fn *fn, void *arg);

#endif
