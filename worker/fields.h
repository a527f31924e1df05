/*
 * fields.h - a task's user fields as one JSON object, for handlers that want them so.
 *
 * The last of several fields with one name wins. A value that is not UTF-8 goes, as base64, under
 * "fields_b64"; bytes of a name that are not are written as %XX. Pure.
 */
#ifndef REDISQ_FIELDS_H
#define REDISQ_FIELDS_H

#include "task.h"

/* `except`: a field left out, or NULL. Appends to `out`. */
void fields_json(const struct task *t, const char *except, struct buf *out);
void base64_add(struct buf *out, struct slice bytes);

#endif
