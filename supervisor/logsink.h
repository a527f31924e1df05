/*
 * logsink.h - where the output of workers and their tasks goes: it reads the pipes of every worker,
 * makes lines of the bytes and writes them to one file per slot, to stdout, or to both. Also the
 * writer of the supervisor's own log. It knows no process: pids are numbers in a line.
 *
 * Invariants: one writer per file; a pipe is always drained, whatever the disk does; bytes are
 * carried over to the next read, never split there, and a longer line than line_max comes out in
 * several lines; nothing is lost but what logfile.h and outlet.h say and count; at most one write
 * per file and loop turn.
 */
#ifndef REDISQ_LOGSINK_H
#define REDISQ_LOGSINK_H

#include <ev.h>

#include "base.h"
#include "conf.h"
#include "err.h"

struct logsink;
struct slotlog;

struct logsink_conf {
	const char *dir; /* borrowed for the call; must exist where files are asked for */
	bool files;
	bool to_stdout;
	enum conf_log_format format;
	int64_t max_size; /* bytes */
	int keep;
	size_t line_max; /* bytes; of workers attached from now on */
};

/* NULL with `e`: the directory cannot be written. */
struct logsink *logsink_new(struct ev_loop *loop, const struct logsink_conf *conf, struct err *e);
/* HUP: format, max_size, keep, line_max. The places (dir, files, to_stdout) stay. */
void logsink_configure(struct logsink *s, const struct logsink_conf *conf);
/* USR1: every file is closed after its last line and opened again by name. */
void logsink_reopen(struct logsink *s);
/*
 * Reads what is readable, gives out unfinished lines, flushes and closes all, slot logs too; the
 * process's log goes back to its default writer. NULL is fine.
 */
void logsink_free(struct logsink *s);

/*
 * The log of QUEUE/slot: the same object for every worker of that slot, owned by the sink; made,
 * and its file opened, at the first call.
 */
struct slotlog *slotlog_get(struct logsink *s, const char *queue, unsigned slot);
/*
 * For each slotlog_get() when the slot is no more: with the last one the file is closed, once no
 * pipe of its workers is open.
 */
void slotlog_put(struct slotlog *l);
/*
 * Takes over the read ends of a new worker's pipes; they are read until EOF, also after the
 * worker's death. -1 = there is none.
 */
void slotlog_attach(struct slotlog *l, pid_t pid, int frames_fd, int raw_fd);
/*
 * The worker has been reaped: reads what is in its pipes right now and gives out its unfinished
 * lines, the last words. Pipes that something still holds open stay attached.
 */
void slotlog_drain(struct slotlog *l, pid_t pid);
/* A line of the supervisor about this slot ("worker 812 started"), as E [-]. */
void slotlog_say(struct slotlog *l, pid_t pid, const char *fmt, ...) ATTR_PRINTF(3, 4);

/* Lines dropped since the start, in all places. */
int64_t logsink_dropped(const struct logsink *s);
/* Writes what has been collected now instead of at the end of the turn. */
void logsink_flush(struct logsink *s);

/*
 * From now on log_info() and its kin go to stderr, without ever blocking on it, or to
 * <dir>/supervisor.log with the same rotation and reopening; each line at once.
 */
void logsink_own_log(struct logsink *s, bool to_file);

#endif
