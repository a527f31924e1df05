/*
 * log.h - what the process says about itself, one line an event. Payloads never, ids always.
 *
 * Lines go to a writer: stderr with a time stamp by default, a frame on the log pipe in a worker
 * (worker/frames.h), supervisor.log or stderr in the supervisor. errno survives every call. A
 * message of one kind that comes in a storm is cut to log_limited()'s rate, with a count.
 */
#ifndef REDISQ_LOG_H
#define REDISQ_LOG_H

#include <stdarg.h>

#include "base.h"

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/* `text` has no newline and no time stamp. Must not block and must not log. */
typedef void log_writer_fn(void *arg, enum log_level level, const char *text, size_t len);

void log_set_level(enum log_level level);
bool log_enabled(enum log_level level);
/* NULL restores the default writer. `arg` is borrowed. */
void log_set_writer(log_writer_fn *fn, void *arg);
const char *log_level_word(enum log_level level); /* "error" ... */

void log_error(const char *fmt, ...) ATTR_PRINTF(1, 2);
void log_warning(const char *fmt, ...) ATTR_PRINTF(1, 2);
void log_info(const char *fmt, ...) ATTR_PRINTF(1, 2);
void log_debug(const char *fmt, ...) ATTR_PRINTF(1, 2);

/* The one voice of every state machine: "<what>: <from> -> <to> (<why>)", at debug level. */
void log_state(const char *what, const char *from, const char *to, const char *why);

/* At most one line per `every_ms`; the next one says how many were left out. */
struct log_limit {
	int64_t every_ms;
	int64_t next_ms;
	unsigned left_out;
};
void log_limited(struct log_limit *l, int64_t now_ms, enum log_level level, const char *fmt, ...)
	ATTR_PRINTF(4, 5);

#endif
