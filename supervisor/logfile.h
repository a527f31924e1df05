/*
 * logfile.h - one log file with exactly one writer: batching, rotation by size, reopening, and what
 * happens when the file cannot be written. It knows nothing of what a line says.
 *
 * Lines are collected by logfile_add() and written by logfile_flush(), one write per loop turn.
 * Invariants:
 *  - a line is written whole or not at all (a write cut short by a full disk is completed first
 *    thing when there is room again) and never overwritten: O_APPEND, no truncation;
 *  - rotation happens here, in the only writer, by rename: PATH.1 is the youngest of PATH.1 ...
 *    PATH.keep. So "*.log" are the live files, "<stem>.log*" all of them;
 *  - a file that was deleted (looked at before each write) or moved away (once a second, while
 *    writing) is made anew;
 *  - when the file cannot be written (full disk, rights, directory), nothing waits: lines are
 * dropped and counted, there is one try a second, and the first line that can be written again says
 * how many were lost;
 *  - memory is bounded by LOGFILE_BATCH_MAX and one line.
 */
#ifndef REDISQ_LOGFILE_H
#define REDISQ_LOGFILE_H

#include "buf.h"

#define LOGFILE_BATCH_MAX (256 * 1024)

struct logfile;

/* Appends the whole line (with its newline) that says that `n` lines were dropped. */
typedef void logfile_notice_fn(void *arg, int64_t n, struct buf *out);

/*
 * Nothing is opened yet: logfile_flush() does it, even with nothing to write; it also makes the
 * directory anew should that be gone (one level). `max_size` in bytes;
 * `keep` = how many rotated files. `notice` is called inside logfile_flush(); `arg` is borrowed.
 */
struct logfile *logfile_new(const char *path, int64_t max_size, int keep, logfile_notice_fn *notice,
			    void *arg);
/* Flushes and closes. NULL is fine. */
void logfile_free(struct logfile *f, int64_t now_ms);
/* From the next write on. */
void logfile_configure(struct logfile *f, int64_t max_size, int keep);

/* Where the next line goes: append whole lines, each with its newline. Borrowed. */
struct buf *logfile_batch(struct logfile *f);
/* The batch is as big as it should get: flush now. */
bool logfile_is_full(const struct logfile *f);
/*
 * Writes the batch. `now_ms` is monotonic. NULL, or why the file cannot be written: said once at
 * the beginning of a trouble, not at each try; valid until the next call.
 */
const char *logfile_flush(struct logfile *f, int64_t now_ms);
/* Writes the batch to the old file, then opens PATH again. As logfile_flush(). */
const char *logfile_reopen(struct logfile *f, int64_t now_ms);

const char *logfile_path(const struct logfile *f);
/* Lines dropped since the start; and those of them the file does not tell of yet. */
int64_t logfile_dropped(const struct logfile *f);
int64_t logfile_unsaid(const struct logfile *f);

#endif
