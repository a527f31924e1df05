/*
 * frames.h - the worker's way to the logs: its own words and the output of its handlers, as whole
 * lines.
 *
 * Under a supervisor a line is a frame on fd 1, "O|E <id> <text>\n" (id "-" = the worker itself),
 * and the supervisor's log writer adds the rest. Alone, the line is written as in a log file.
 * Never blocks: what a slow reader leaves lying is kept up to FRAMES_MAX bytes, then lines are
 * dropped and counted, and the count is said as soon as there is room again.
 */
#ifndef REDISQ_FRAMES_H
#define REDISQ_FRAMES_H

#include <ev.h>

#include "buf.h"
#include "log.h"

#define FRAMES_MAX (1024 * 1024)

struct frames;

/* `fd` is borrowed and made non-blocking only when `framed` (a pipe of our own). */
struct frames *frames_new(struct ev_loop *loop, int fd, bool framed, int slot, size_t line_max);
/* Writes what is kept, waiting at most `ms`, and frees. */
void frames_free(struct frames *f, int ms);
/* One line; `stream` is 'O' or 'E'. Longer ones than line_max are cut into pieces. */
void frames_line(struct frames *f, char stream, const char *id, struct slice text);
/* Lines dropped so far. */
int64_t frames_dropped(const struct frames *f);
/* For log_set_writer(); arg = the frames. */
void frames_log(void *arg, enum log_level level, const char *text, size_t len);

#endif
