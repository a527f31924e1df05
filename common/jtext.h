/*
 * jtext.h - JSON as text: strings written into a buffer, and values read where they lie, without a
 * tree and without an allocation. Plain code.
 *
 * Reading is strict (RFC 8259, UTF-8 checked, no \u0000, lone surrogates refused, at most
 * JTEXT_DEPTH_MAX deep), and a value is looked at only once it is known to be whole and right.
 */
#ifndef REDISQ_JTEXT_H
#define REDISQ_JTEXT_H

#include "buf.h"

#define JTEXT_DEPTH_MAX 2048

/* ---- writing */
bool jtext_is_utf8(struct slice s);
/* Appends `s` in quotes; false, and nothing appended, when it is not UTF-8. */
bool jtext_add_string(struct buf *out, struct slice s) ATTR_MUST_CHECK;

/* ---- reading */
/* Length of the one value that `text` begins with (no blanks before it); 0: it begins with none. */
size_t jtext_value(struct slice text);

/* Goes over the members of an object. */
struct jtext_members {
	struct slice rest;
	bool begun;
};

/* `text` is one object, with blanks around it at most; false: it is not, and cannot be read. */
bool jtext_object(struct slice text, struct jtext_members *m) ATTR_MUST_CHECK;
/* The next member: `key` with its quotes, `value` as it is written. False at the end. */
bool jtext_member(struct jtext_members *m, struct slice *key, struct slice *value);

bool jtext_is_string(struct slice value);
/* A string equals this text, which has no '"' or '\\' in it. */
bool jtext_is(struct slice string, const char *text);
/* Decodes a string into `out`, at most `size` - 1 bytes and a NUL, cut between characters; the
 * length that it has in full. */
size_t jtext_text(struct slice string, char *out, size_t size);
/* False when it is no number. */
bool jtext_number(struct slice value, double *n) ATTR_MUST_CHECK;

#endif
