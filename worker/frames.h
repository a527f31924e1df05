/*
 * frames.h - the worker's way to the logs: its own words and the output of its handlers, as whole
 * lines.
 *
 * Under a supervisor a line is a frame on fd 1, "O|E <id> <text>\n" (id "-" = the worker itself),
 * and the supervisor's log writer adds the rest. Alone, the line is written as in a log file.
 * Never blocks: what a slow reader leaves lying is kept. Above FRAMES_FULL bytes the owners of
 * handlers' pipes stop reading them for a while (frames_is_full), so that a burst is slowed down to
 * the reader's speed and loses nothing. A reader that takes nothing at all for FRAMES_STALL_S stops
 * no task: then lines beyond FRAMES_MAX are dropped and counted, and the count is said as soon as
 * there is room again.
 */
#ifndef REDISQ_FRAMES_H
#define REDISQ_FRAMES_H

#include <ev.h>

#include "buf.h"
#include "log.h"

#define FRAMES_MAX (1024 * 1024)
#define FRAMES_FULL (256 * 1024)
#define FRAMES_STALL_S 2.0

struct frames;

/* `fd` is borrowed and made non-blocking only when `framed` (a pipe of our own). */
struct frames *frames_new(struct ev_loop *loop, int fd, bool framed, int slot, size_t line_max);
/* Writes what is kept, waiting at most `ms`, and frees. */
void frames_free(struct frames *f, int ms);
/* One line; `stream` is 'O' or 'E'. Longer ones than line_max are cut into pieces. */
void frames_line(struct frames *f, char stream, const char *id, struct slice text);
/* Better read no more output now; `on_room` of frames_on_room() is called when that has passed. */
bool frames_is_full(struct frames *f);
/* One listener; `arg` is borrowed; NULL takes it back. */
void frames_on_room(struct frames *f, void (*on_room)(void *arg), void *arg);
/* Lines dropped so far. */
int64_t frames_dropped(const struct frames *f);
/* For log_set_writer(); arg = the frames. */
void frames_log(void *arg, enum log_level level, const char *text, size_t len);

#endif
