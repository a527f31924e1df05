/*
 * generation.h - one accepted configuration and its sealed snapshot, shared by the workers that
 * were started with it. Counted references: a worker that outlives a reload keeps its own.
 *
 * Every worker of a generation reads the same bytes, whatever happens to the file meanwhile. A
 * slot whose roll failed goes on starting workers of its old generation.
 */
#ifndef REDISQ_GENERATION_H
#define REDISQ_GENERATION_H

#include "conf.h"

struct generation {
	int refs;
	int64_t number;    /* 1 = the start, one more at each reload */
	struct conf *conf; /* owned */
	int snapshot_fd;   /* owned: sealed memory file */
};

/* Takes over `conf` (freed also on failure). NULL with errno. */
struct generation *generation_new(struct conf *conf, int64_t number);
struct generation *generation_get(struct generation *g);
/* NULL is fine. */
void generation_put(struct generation *g);
/* `*place`, a reference of the caller's, becomes one to `g`. */
void generation_set(struct generation **place, struct generation *g);

#endif
