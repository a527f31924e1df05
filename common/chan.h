/*
 * chan.h - the words between the supervisor and one worker: short lines over a socketpair.
 *
 * A line is a word and its arguments, blanks between; the last argument of some words is free text
 * to the end of the line. Either side seeing end-of-file knows that the other is gone. An unknown
 * word is logged and ignored, so that old and new binaries can talk during a deploy.
 *
 * worker -> supervisor
 *   redis-wait TEXT      Redis cannot be used (why); said again when the reason changes
 *   hindered TEXT        ready, but what lies in Redis keeps me from fetching (why); without TEXT:
 *                        no more
 *   redis-at URL         my links stand there (no password in it); said at each change
 *   ready NAME           consuming under this consumer name, or able to as soon as it has credit
 *   freed N              lowered my credit by N for good; those tasks may run elsewhere
 *   refused TEXT         this queue cannot be served as configured; exit 78 follows
 *   breaker open TEXT    the handler is broken; not fetching      breaker closed
 *   started              a child of my pipe handler is ready for tasks
 *   works                the handler has run a task: done, or not, but it did not fail at once
 *   released N           gave N entries back: other workers should look for them
 *   handed N MOVED CHARGED   order N: MOVED entries may be taken now, CHARGED crashes charged
 *   swept N              order N is done: nothing of the dead worker is left, or it is about a
 *                        partition that the queue has no more
 *   suspects N           N entries lie there that only a worker set aside may run
 *   cleared              I was set aside; none is left
 *   replace TEXT         a task does not stop, and only my end can stop it: I take nothing new;
 *                        said again until I am told to drain
 *   again PARTITION ID   an entry that another had before runs here now
 * supervisor -> worker
 *   credit N             N more tasks may run at once here
 *   drain MS             fetch nothing new, finish, leave; stop handlers after MS (0 = no limit)
 *   stop                 stop handlers now, give tasks back, leave
 *   quiet                fetch nothing new, stay            resume
 *   scan                 somebody released entries: look for them now
 *   quarantine           you are set aside: run suspects, one at a time, until none is left
 *   ordinary             you are not set aside any more: take any task again
 *   dead N PARTITION PARTITIONS NAME NONCE RUN-ID FETCH-ID CMD-ID CHARGE CAUSE    order N: a worker
 *   ran N ID TOKEN ...   died, and its handlers are gone; this is what it ran of that partition, of
 *                        so many, of the queue (as many a line as fit);
 *   handover N           now let everyone have what it had pending there (common/obituary.h)
 */
#ifndef REDISQ_CHAN_H
#define REDISQ_CHAN_H

#include <ev.h>

#include "buf.h"
#include "line.h"

#define CHAN_LINE_MAX 4096

struct chan;

/* One whole line: the word, and the rest of the line ("" if none). */
typedef void chan_word_fn(void *arg, const char *word, const char *rest);
/* The other side is gone. The last call; chan_free() is allowed inside. */
typedef void chan_eof_fn(void *arg);

/* Takes over `fd` (non-blocking, CLOEXEC are set here). */
struct chan *chan_new(struct ev_loop *loop, int fd, chan_word_fn *on_word, chan_eof_fn *on_eof,
		      void *arg);
void chan_free(struct chan *c);
/* Queues one line; newlines in the text become blanks. Never blocks; bounded: a peer that reads
 * nothing for CHAN_BACKLOG_MAX bytes counts as gone. */
#define CHAN_BACKLOG_MAX (1024 * 1024)
void chan_say(struct chan *c, const char *fmt, ...) ATTR_PRINTF(2, 3);
/* Bytes that wait because the peer has not read what came before. */
size_t chan_unsent(const struct chan *c);
/* Writes what is queued, waiting at most `ms`; for last words before exit. */
void chan_flush(struct chan *c, int ms);

/* A number at the start of `rest`; -1 when there is none. */
int64_t chan_number(const char *rest);

#endif
