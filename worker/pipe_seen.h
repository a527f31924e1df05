/*
 * pipe_seen.h - which ids a child has had: answers about those that are over are ignored, one that
 * it never had means that the child has lost the thread.
 *
 * Of a bounded size (a Bloom filter): an id that it had is always known; one that it never had is
 * taken for known now and then, once thousands have gone by. Pure.
 */
#ifndef REDISQ_PIPE_SEEN_H
#define REDISQ_PIPE_SEEN_H

#include "base.h"

#define PIPE_SEEN_BITS 65536

struct pipe_seen {
	uint64_t words[PIPE_SEEN_BITS / 64];
};

uint64_t pipe_hash(const char *id, size_t len);
void pipe_seen_add(struct pipe_seen *s, uint64_t hash);
bool pipe_seen_has(const struct pipe_seen *s, uint64_t hash);

#endif
