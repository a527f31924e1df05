/*
 * findings.h - what doctor has found: a list in the order in which it was found, and its print.
 *
 * Every finding is one line: of which queue (or of Redis itself), what was looked at, what is so
 * and, unless it is fine, what to do. Of a queue with partitions that is said once of all those of
 * which it is so.
 */
#ifndef REDISQ_CTL_FINDINGS_H
#define REDISQ_CTL_FINDINGS_H

#include <jansson.h>

#include "buf.h"
#include "parts.h"

enum finding_state {
	FINDING_FINE,
	FINDING_NOTE, /* worth knowing, no fault */
	FINDING_BAD,
	FINDING_UNKNOWN, /* it could not be asked */
};

struct findings;

struct findings *findings_new(void);
void findings_free(struct findings *f);
/* Of which queue what follows is (borrowed until the end); NULL = of Redis. */
void findings_about(struct findings *f, const char *queue);
/* Of which of its partitions; PARTS_ANY again: of it as a whole. */
void findings_about_partition(struct findings *f, int partition);
size_t findings_n(const struct findings *f);
/*
 * What was found in each of `n` partitions since `from` findings were there becomes one finding
 * where it is the same, or where many are, but for numbers in it. A check that is fine in all of
 * them that could be `asked` (bit by bit) is one line; one that is fine in some says nothing of
 * these.
 */
void findings_fold(struct findings *f, size_t from, size_t n, uint64_t asked);
void finding_fine(struct findings *f, const char *check, const char *fmt, ...) ATTR_PRINTF(3, 4);
void finding_note(struct findings *f, const char *check, const char *fmt, ...) ATTR_PRINTF(3, 4);
/* `what_to_do` is a whole clause: "set it to noeviction". */
void finding_bad(struct findings *f, const char *check, const char *what_to_do, const char *fmt,
		 ...) ATTR_PRINTF(4, 5);
/* "not known: why" */
void finding_unknown(struct findings *f, const char *check, const char *fmt, ...) ATTR_PRINTF(3, 4);
size_t findings_n_bad(const struct findings *f);
/* Aligned lines, those of a queue under its name, of one of its partitions under "NAME:3". */
void findings_print(const struct findings *f, struct buf *out);
/* [{"queue":null|NAME,"check":..,"state":"fine|note|bad|unknown","text":..,"do":..}], with
 * "partitions":[3,..] where it was found in those of a queue; owned. */
json_t *findings_json(const struct findings *f);

#endif
