/*
 * conf_words.h - a value taken apart into words the way a shell would, without being one. Plain
 * code.
 *
 * Blanks separate words. '...' is taken as it is; in "..." a backslash makes the next '"' or '\'
 * plain. Nothing is ever expanded, so an unquoted character that would mean something to a shell
 * is refused instead of being passed on in silence.
 */
#ifndef REDISQ_CONF_WORDS_H
#define REDISQ_CONF_WORDS_H

#include "conf.h"

enum conf_words_result {
	CONF_WORDS_OK,
	CONF_WORDS_OPEN_QUOTE, /* no closing quote; *bad is it */
	CONF_WORDS_SHELL,      /* an unquoted character of `refuse`; *bad is it */
};

/* Appends the words of `text` to `out`; on an error `out` may hold some. */
enum conf_words_result conf_words_split(const char *text, const char *refuse, struct strv *out,
					char *bad);
/* The words with blanks between, each quoted where it has to be: split again, they are equal. */
void conf_words_join(const struct strv *words, struct buf *out);
/* One word for a shell: as it is, or '...'. */
void conf_words_quote_sh(const char *word, struct buf *out);

#endif
