/*
 * suggest.h - "did you mean": the candidate nearest to a mistyped word. Plain code.
 */
#ifndef REDISQ_SUGGEST_H
#define REDISQ_SUGGEST_H

#include "base.h"

/*
 * Best candidate so far; start with {0}. Only near ones are kept: a third of the word's length. Of
 * those as near, one that begins with what was typed, or has the same letters, comes first.
 */
struct suggest {
	const char *word; /* borrowed; NULL = none near enough */
	size_t rank;
};

void suggest_try(struct suggest *s, const char *typed, const char *candidate);

#endif
