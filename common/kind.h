/*
 * kind.h - is a queue a stream or a list? Which of its keys tell, and what to do where they tell
 * otherwise than the configuration: its letters, and what only a list has, would be of no use, or
 * in the way, and tasks would be stuck. Plain code: who asks Redis for the TYPE of each row notes
 * it.
 */
#ifndef REDISQ_KIND_H
#define REDISQ_KIND_H

#include "keys.h"

#define KIND_KEYS 9 /* rows 0 ... 8; the first is the queue itself */

struct kind_found {
	uint32_t of_stream,
		of_list;  /* the rows in which lies what only that kind makes, bit by bit */
	bool has_delayed; /* of either */
	char other[16];   /* the type of the queue itself, where it is neither; else "" */
};

/* The key to ask the TYPE of. Borrowed from `k`. */
const char *kind_key(const struct keys *k, size_t row);
/* Redis said so; "" where it was not told. */
void kind_note(struct kind_found *f, size_t row, struct slice type);
/*
 * Something else lies there than what a stream, or a list, would have: what it is, and what to do
 * (a clause each, for people; appended). False: nothing, and nothing is said.
 */
bool kind_conflict(const struct kind_found *f, bool as_list, const struct keys *k, struct buf *what,
		   struct buf *cure);

#endif
