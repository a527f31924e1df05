/*
 * out.h - stdout of redisqctl: whole texts, colours on a terminal only, and an exit without a word
 * when the reader is gone.
 */
#ifndef REDISQ_CTL_OUT_H
#define REDISQ_CTL_OUT_H

#include "buf.h"

enum out_colour { OUT_PLAIN, OUT_BOLD, OUT_DIM, OUT_GREEN, OUT_YELLOW, OUT_RED };

/* Writes and empties `b`. Ends the program (exit 0) at EPIPE: `| head` is no error. */
void out_write(struct buf *b);
void out_print(const char *fmt, ...) ATTR_PRINTF(1, 2);
bool out_is_tty(void);
/* Columns of the terminal; 80 without one. */
int out_width(void);
/* Appends the escape for `colour`, or nothing without a terminal or with NO_COLOR set. */
void out_colour(struct buf *b, enum out_colour colour);

/* "3s", "12m", "5h03m", "3d04h": what fits in six columns. */
void out_age(struct buf *b, int64_t ms);
/* "812", "14K", "3.2M": bytes in at most six columns. */
void out_size(struct buf *b, int64_t bytes);
/* Bytes for people: control bytes and what is not UTF-8's business as \xNN; at most `max` bytes. */
void out_bytes(struct buf *b, struct slice s, size_t max);

#endif
