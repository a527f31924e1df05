/*
 * line.h - bounded line framing over bytes. Plain code: no fds, no clock.
 *
 * Bytes go in as they arrive, whole lines come out (without their '\n'; a '\r' stays). A line
 * longer than the limit comes out in pieces of the limit, each marked `more`, so that nothing is
 * ever dropped and memory stays bounded. What is left at the end of the stream is given out by
 * line_flush().
 */
#ifndef REDISQ_LINE_H
#define REDISQ_LINE_H

#include "buf.h"

struct line {
	struct buf carry; /* the unfinished line */
	size_t max;       /* bytes; > 0 */
};

/* `text` is valid during the call only. `more`: the same line goes on in the next call. */
typedef void line_fn(void *arg, struct slice text, bool more);

void line_init(struct line *l, size_t max);
void line_release(struct line *l);
/* Calls `fn` for every line (or piece) completed by these bytes. `fn` must not free `l`. */
void line_feed(struct line *l, const char *data, size_t len, line_fn *fn, void *arg);
/* End of the stream: gives out the unfinished line, if there is one. */
void line_flush(struct line *l, line_fn *fn, void *arg);

#endif
