/*
 * suggest.h - "did you mean": the candidate nearest to a mistyped word; and how much of such a word
 * may be shown. Plain code.
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

/* With how many bytes `typed`, in the place of a name, is shown to people: a name ends at a blank,
 * and at = : / and @, behind which a secret may be. Of a url, which may hold one, none. */
size_t suggest_shown(const char *typed);

#endif
