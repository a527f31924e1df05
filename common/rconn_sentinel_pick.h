/*
 * rconn_sentinel_pick.h - which Sentinel is asked next, and what its answer is worth. Plain code.
 *
 * The Sentinels stand in a ring, and the one in front is asked first. It stays there as long as
 * what it says leads to a link; whoever is silent, refuses, knows nothing or has sent us to a
 * master that was none goes behind the others. So a dead one costs its time once, and one that has
 * been cut off from the others, and tells old news, is not the only one that is heard.
 */
#ifndef REDISQ_RCONN_SENTINEL_PICK_H
#define REDISQ_RCONN_SENTINEL_PICK_H

#include "redis_url.h"

struct redisReply;

/* Why one has no answer for us; of a round's the highest is what is said. */
enum sentinel_fault {
	SENTINEL_SILENT,  /* nobody there, or not in time */
	SENTINEL_REFUSES, /* a password, an ACL, no Sentinel: a person has to do something */
	SENTINEL_UNAWARE, /* it knows no such master: the name is wrong, or it is told late */
};

struct sentinel_pick {
	size_t n;     /* how many there are */
	size_t front; /* index of the one in front */
	size_t n_asked;
	enum sentinel_fault fault;
	char why[256];
};

/* `n` > 0 Sentinels, in the order of the url. */
void sentinel_pick_init(struct sentinel_pick *p, size_t n);
/* A new round. */
void sentinel_pick_begin(struct sentinel_pick *p);
/* Whom to ask now; false: everybody has been asked. */
bool sentinel_pick_whom(struct sentinel_pick *p, size_t *index);
/* The one in front was asked and has no answer; the next one is in front. */
void sentinel_pick_no_answer(struct sentinel_pick *p, enum sentinel_fault fault, const char *fmt,
			     ...) ATTR_PRINTF(3, 4);
/* What the one in front has said led nowhere, or does not any more. */
void sentinel_pick_rotate(struct sentinel_pick *p);

/* What a Sentinel answers to get-master-addr-by-name; `out` is filled (owned) where it knows. For
 * the other answers -1, with the fault and the words for it, which follow the Sentinel's address.
 */
int sentinel_answer(const struct redisReply *r, const char *master, struct redis_place *out,
		    enum sentinel_fault *fault, char why[160]) ATTR_MUST_CHECK;

#endif
