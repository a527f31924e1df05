/*
 * percent.h - bytes as %XX where they would be misread: in a configuration snapshot. Plain code.
 */
#ifndef REDISQ_PERCENT_H
#define REDISQ_PERCENT_H

#include "buf.h"

/* Printable ASCII without blank, '%', '#', '[' and ']' stays as it is. */
void percent_encode(const char *text, struct buf *out);
/* false: a bad escape, or one of a NUL. Appends to `out`. */
bool percent_decode(struct slice text, struct buf *out) ATTR_MUST_CHECK;

#endif
