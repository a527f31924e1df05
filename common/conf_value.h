/*
 * conf_value.h - one value: from text to its field and back, by the type of its row. Plain code,
 * no precedence, no origins, no other keys.
 */
#ifndef REDISQ_CONF_VALUE_H
#define REDISQ_CONF_VALUE_H

#include "conf_row.h"

enum conf_parsed {
	CONF_PARSED,
	CONF_BAD,   /* not a value of this type, or out of range */
	CONF_BELOW, /* a number, but below min: INTDEF falls back to its default */
};

/*
 * Replaces `field` by what `text` says. Otherwise `field` is untouched and `e` says what is wrong
 * and what to write, without the key; the value of a SECRET is never shown.
 */
enum conf_parsed conf_value_parse(const struct conf_row *row, const char *text, void *field,
				  struct err *e) ATTR_MUST_CHECK;
/* The default of the row; `field` is overwritten, not released. */
void conf_value_init(const struct conf_row *row, void *field);
/* Text that parses to an equal value; nothing for an empty string or list. */
void conf_value_format(const struct conf_row *row, const void *field, struct buf *out);
bool conf_value_equal(const struct conf_row *row, const void *a, const void *b);
/* `to` is released first; it gets a copy of its own. */
void conf_value_copy(const struct conf_row *row, void *to, const void *from);
void conf_value_release(const struct conf_row *row, void *field);

void conf_format_duration(int64_t ms, struct buf *out); /* 1h30m */
void conf_format_size(int64_t bytes, struct buf *out);  /* 64K */

#endif
