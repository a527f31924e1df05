/*
 * last_words.h - the end of a handler's stderr, for dead letters: at most OUTCOME_STDERR_MAX bytes.
 * Pure.
 */
#ifndef REDISQ_LAST_WORDS_H
#define REDISQ_LAST_WORDS_H

#include "outcome.h"

static inline void last_words_add(struct buf *b, struct slice text)
{
	if (text.len > OUTCOME_STDERR_MAX)
		text = slice_of(text.data + text.len - OUTCOME_STDERR_MAX, OUTCOME_STDERR_MAX);
	if (b->len + text.len > OUTCOME_STDERR_MAX)
		buf_consume(b, b->len + text.len - OUTCOME_STDERR_MAX);
	buf_add(b, text.data, text.len);
}

#endif
