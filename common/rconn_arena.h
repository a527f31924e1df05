/*
 * rconn_arena.h - where the replies of one link lie: hiredis would allocate and free two or three
 * pieces for every string in them, which is a third of what a worker of short tasks computes. Here
 * a reply is laid down piece after piece, and forgotten as a whole.
 *
 * One reply at a time: from the first of its bytes until rconn_arena_done(). The reader may go
 * while its reply is still looked at (a callback that closes its link): then the arena goes when
 * that is done with.
 */
#ifndef REDISQ_RCONN_ARENA_H
#define REDISQ_RCONN_ARENA_H

#include "base.h"

struct rconn_arena;
struct redisReader;

/* Arrays with more elements than `array_max` are refused. */
struct rconn_arena *rconn_arena_new(size_t array_max);
/* From now on what `r` reads lies in `a`. */
void rconn_arena_serve(struct rconn_arena *a, struct redisReader *r);
/* A whole reply is looked at; until done(). */
void rconn_arena_look(struct rconn_arena *a);
void rconn_arena_done(struct rconn_arena *a);
/* With its reader. NULL is fine. */
void rconn_arena_free(struct rconn_arena *a);

#endif
