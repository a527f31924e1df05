/*
 * outlet.h - stdout or stderr as a place for log lines that never makes the supervisor wait,
 * whoever sits at the other end: a stopped terminal, a pipe nobody reads.
 *
 * The descriptor is shared with other programs (the shell, the container's runtime), so O_NONBLOCK
 * must not be set on it. By what it is:
 *   file          written as it is: a disk does not stall on a reader
 *   tty, pipe     opened anew through /proc/self/fd/N with O_NONBLOCK: a description of our own
 *   socket        send() with MSG_DONTWAIT
 *   otherwise     (the new open was refused) poll() before each small write
 * What cannot go out yet waits in a buffer of at most OUTLET_MAX bytes; lines beyond are dropped
 * and counted, and a line at that very place says how many. The same where it cannot be written
 * (a full disk): lines are dropped until outlet_retry() gets through, which first completes the
 * line that was cut. Nobody is there any more only when the descriptor says so: a closed pipe, a
 * terminal that hung up.
 */
#ifndef REDISQ_OUTLET_H
#define REDISQ_OUTLET_H

#include <ev.h>

#include "buf.h"

#define OUTLET_MAX (1024 * 1024)

struct outlet;

/* Appends the whole line (with its newline) that says that `n` lines were dropped. */
typedef void outlet_notice_fn(void *arg, int64_t n, struct buf *out);

/* `fd` is borrowed and must stay open; so is `arg`. SIGPIPE must be ignored. */
struct outlet *outlet_new(struct ev_loop *loop, int fd, outlet_notice_fn *notice, void *arg);
/* Tries to get rid of the rest for at most 200 ms. NULL is fine. */
void outlet_free(struct outlet *o);
/* One whole line with its newline. */
void outlet_add(struct outlet *o, struct slice line);
/*
 * Writes what goes now; the rest follows by itself. NULL, or why it cannot be written: said once
 * at the beginning of a trouble; valid until the next call.
 */
const char *outlet_flush(struct outlet *o);
/* In trouble that may pass: outlet_retry() once a second until it is not. */
bool outlet_is_failing(const struct outlet *o);
void outlet_retry(struct outlet *o);
int64_t outlet_dropped(const struct outlet *o);

#endif
