/*
 * entry.h - an entry of a stream for people and for programs: its fields, the reserved ones apart.
 */
#ifndef REDISQ_CTL_ENTRY_H
#define REDISQ_CTL_ENTRY_H

#include <jansson.h>

#include "redis.h"

#define ENTRY_ID_MAX 64

/* As strcmp(), by time and sequence. */
int entry_id_compare(const char *a, const char *b);
/* The smallest id above `id`. */
void entry_next_id(const char *id, char out[ENTRY_ID_MAX]);
/* An entry, or what else begins with an id, of one of several streams; and all of them in the order
 * of ids, those of one moment by `part`. */
struct entry_row {
	const redisReply *reply; /* borrowed, as the other */
	const redisReply *more;  /* what belongs to it; or NULL */
	size_t part;
};
void entry_sort(struct entry_row *rows, size_t n);
/* The value of a field of `fields` (names and values in turn), "" when there is none. */
struct slice entry_field(const redisReply *fields, const char *name);
/* Text lines "  name  value", user fields first, values cut at `max` bytes (0 = not). */
void entry_print(struct buf *out, const redisReply *fields, size_t max);
/*
 * {name: value}, the last of a repeated name; values that are not UTF-8 are in `b64`, which has the
 * same names, as base64. Both are owned by the caller's object.
 */
void entry_json(const redisReply *fields, json_t *text, json_t *b64);
/* A JSON string; what is not UTF-8 becomes U+FFFD. */
json_t *entry_string(struct slice s);
/* What a handler has said (checkpoint, progress, result): the JSON it is, else a string. */
json_t *entry_said(struct slice s);
/* The same for people, at most `max` bytes: of a JSON string the content. */
void entry_print_said(struct buf *out, struct slice s, size_t max);

#endif
