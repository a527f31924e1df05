/*
 * logformat.h - one line of a log in its text or JSON form. Pure: no clock, no fd.
 *
 * text   2026-11-29T15:26:01.123Z SLOT WORKERPID O|E [ID] text        bytes of the text unchanged
 * json   {"ts":"2026-11-29T15:26:01.123Z","slot":0,"pid":812,"queue":"demo","stream":"O"|"E",
 *        "id":"1-0"|null,"line":"text"} - a text that is itself a JSON object is nested, byte for
 *        byte, as "data" in the place of "line". Bytes that are not UTF-8 become U+FFFD, one each,
 *        so that the line stays valid JSON whatever a task prints.
 */
#ifndef REDISQ_LOGFORMAT_H
#define REDISQ_LOGFORMAT_H

#include "buf.h"

struct logline {
	int64_t wall_ms;   /* Unix time */
	const char *queue; /* borrowed */
	unsigned slot;
	pid_t pid;         /* of the worker, 0 = none */
	char stream;       /* 'O' or 'E' */
	struct slice id;   /* of the task; "-" or empty = the worker itself */
	struct slice text; /* one line, without its newline */
};

/* Appends the line and a newline. `with_queue`: the slot is said as QUEUE/SLOT. */
void logformat_text(struct buf *out, const struct logline *l, bool with_queue);
void logformat_json(struct buf *out, const struct logline *l);

/* A line of the supervisor about itself: "TIME level text", or {"ts","level","line"}. */
void logformat_own_text(struct buf *out, int64_t wall_ms, const char *level, struct slice text);
void logformat_own_json(struct buf *out, int64_t wall_ms, const char *level, struct slice text);

/* A worker's frame "O <id> <text>" taken apart; false: it is none. The slices point into `frame`.
 */
bool logformat_parse_frame(struct slice frame, char *stream, struct slice *id, struct slice *text);

#endif
