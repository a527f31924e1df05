/*
 * conf.h - the effective configuration: a struct made from the table in conf.def, how its values
 * are set, where each came from, and how two configurations differ.
 *
 * Plain code: files and environment are read by conf_read.h, which calls conf_set(). Precedence is
 * kept here: a value is only replaced by one of the same or a higher origin.
 */
#ifndef REDISQ_CONF_H
#define REDISQ_CONF_H

#include "base.h"
#include "buf.h"
#include "err.h"

enum conf_section { CONF_SUPERVISOR, CONF_REDIS, CONF_QUEUE, CONF_N_SECTIONS };

/* Low to high: a later one replaces an earlier one. ENV_ALIAS: QUEUE_REDIS_* and REDIS_URL. */
enum conf_origin {
	CONF_FROM_DEFAULT,
	CONF_FROM_FILE,
	CONF_FROM_ENV_ALIAS,
	CONF_FROM_ENV,
	CONF_FROM_FLAG,
	CONF_N_ORIGINS
};

enum conf_reload { CONF_LIVE, CONF_ROLL, CONF_BOOT };

/* The words of the ENUM rows, in the table's order. */
enum conf_log_to { CONF_LOG_TO_AUTO, CONF_LOG_TO_FILES, CONF_LOG_TO_STDOUT, CONF_LOG_TO_BOTH };
enum conf_log_format { CONF_LOG_FORMAT_TEXT, CONF_LOG_FORMAT_JSON };
enum conf_tls_verify { CONF_TLS_VERIFY_YES, CONF_TLS_VERIFY_NO };
enum conf_on_crash_loop { CONF_LOOP_RETRY, CONF_LOOP_PARK, CONF_LOOP_EXIT };
enum conf_stdin { CONF_STDIN_PAYLOAD, CONF_STDIN_FIELDS };
enum conf_follow { CONF_FOLLOW_RETRY, CONF_FOLLOW_DEAD, CONF_FOLLOW_HOLD };
enum conf_on_lost_lease { CONF_LOST_CANCEL, CONF_LOST_FINISH };
enum conf_start { CONF_START_AUTO, CONF_START_BEGIN, CONF_START_END };
/* What the queue's key is. */
enum conf_backend { CONF_BACKEND_STREAM, CONF_BACKEND_LIST };
enum conf_on_done { CONF_DONE_DELETE, CONF_DONE_ACK };

/* A vector of heap strings. */
struct strv {
	char **v; /* owned, each string too; ends with a NULL for exec; NULL when n == 0 */
	size_t n;
};

/* How a handler is run: a process per task; long-lived children that speak JSON lines; a shared
 * library in the worker. Its word in files and after -k is conf_handler_word(). */
enum conf_handler_kind {
	CONF_HANDLER_NONE,
	CONF_HANDLER_EXEC,
	CONF_HANDLER_PIPE,
	CONF_HANDLER_SO,
	CONF_HANDLER_N_KINDS
};

struct conf_handler {
	enum conf_handler_kind kind;
	struct strv argv; /* without the kind's word; of a library its path alone */
};

#define CONF_CT_STR(f) char *f;
#define CONF_CT_PATH(f) char *f;
#define CONF_CT_SECRET(f) char *f;
#define CONF_CT_INT(f) int f;
#define CONF_CT_INTDEF(f) int f;
#define CONF_CT_WORKERS(f) int f;
#define CONF_CT_DUR(f) int64_t f;
#define CONF_CT_AUTODUR(f) int64_t f;
#define CONF_CT_SIZE(f) int64_t f;
#define CONF_CT_PERCENT(f) int f;
#define CONF_CT_ENUM(f) int f;
#define CONF_CT_HANDLER(f) struct conf_handler f;
#define CONF_CT_ENVLIST(f) struct strv f;

#define CONF(section, key, TYPE, ...) CONF_IN_##section(key, TYPE)

/* [supervisor]; durations in ms, sizes in bytes, strings owned and NULL when empty. */
struct conf_supervisor {
#define CONF_IN_SUPERVISOR(key, TYPE) CONF_CT_##TYPE(key)
#define CONF_IN_REDIS(key, TYPE)
#define CONF_IN_QUEUE(key, TYPE)
#include "conf.def"
#undef CONF_IN_SUPERVISOR
#undef CONF_IN_REDIS
#undef CONF_IN_QUEUE
};

/* [redis] */
struct conf_redis {
#define CONF_IN_SUPERVISOR(key, TYPE)
#define CONF_IN_REDIS(key, TYPE) CONF_CT_##TYPE(key)
#define CONF_IN_QUEUE(key, TYPE)
#include "conf.def"
#undef CONF_IN_SUPERVISOR
#undef CONF_IN_REDIS
#undef CONF_IN_QUEUE
};

/* [queue NAME]; `workers` is resolved by conf_finish(). */
struct conf_queue {
	char *name; /* owned; the stream's key itself */
#define CONF_IN_SUPERVISOR(key, TYPE)
#define CONF_IN_REDIS(key, TYPE)
#define CONF_IN_QUEUE(key, TYPE) CONF_CT_##TYPE(key)
#include "conf.def"
#undef CONF_IN_SUPERVISOR
#undef CONF_IN_REDIS
#undef CONF_IN_QUEUE
};
#undef CONF

struct conf;

struct conf *conf_new(void); /* every key at its default, no queue */
void conf_free(struct conf *c);

const struct conf_supervisor *conf_supervisor(const struct conf *c);
const struct conf_redis *conf_redis(const struct conf *c);
size_t conf_n_queues(const struct conf *c);
/* In the order of the file; `i` < conf_n_queues(). */
const struct conf_queue *conf_queue_at(const struct conf *c, size_t i);
/* NULL when there is no such queue. Borrowed. */
const struct conf_queue *conf_queue(const struct conf *c, const char *name);
/* The queue NAME, made with its defaults if it was not there; -1: a name that cannot be one. */
int conf_add_queue(struct conf *c, const char *name, struct err *e) ATTR_MUST_CHECK;
/* Keeps only the queue NAME (-q with -c); -1 when there is no such queue. */
int conf_keep_queue(struct conf *c, const char *name, struct err *e) ATTR_MUST_CHECK;

/*
 * Sets one value. `queue`: which one, NULL in [queue] = all of them (kept for queues added later,
 * too). `where` is what an error begins with ("redisq.ini:12", "-s redis.url", "REDISQ_REDIS_URL")
 * and what --print-config shows. A lower origin than the present value's changes nothing and is
 * no error. -1 with `e`: unknown key, bad value, out of range; the value is unchanged.
 */
int conf_set(struct conf *c, enum conf_section s, const char *queue, const char *key,
	     const char *value, enum conf_origin origin, const char *where,
	     struct err *e) ATTR_MUST_CHECK;
/*
 * The handler of a queue (NULL: all) as words that need no quoting: what follows "--" on the
 * command line, argv[0] being the program, or the library.
 */
int conf_set_handler_argv(struct conf *c, const char *queue, enum conf_handler_kind kind, int argc,
			  char *const *argv, enum conf_origin origin, const char *where,
			  struct err *e) ATTR_MUST_CHECK;
/* "exec", "pipe", "so"; of CONF_HANDLER_NONE "". */
const char *conf_handler_word(enum conf_handler_kind kind);
/* The kind with this word (`len` bytes); CONF_HANDLER_NONE when there is no such. */
enum conf_handler_kind conf_handler_kind(const char *word, size_t len);
/* Where a value came from: "redisq.ini:12", "REDIS_URL", "-s redis.url"; "default". Borrowed. */
const char *conf_where(const struct conf *c, enum conf_section s, const char *queue,
		       const char *key);
enum conf_origin conf_origin_of(const struct conf *c, enum conf_section s, const char *queue,
				const char *key);

/* What is worth a warning (a fallback, an unknown REDISQ_ variable); NULL-terminated list. */
const char *const *conf_warnings(const struct conf *c);
void conf_warn(struct conf *c, const char *fmt, ...) ATTR_PRINTF(2, 3);

/*
 * Resolves what depends on other keys and the machine (default paths, "max", workers of a queue)
 * and checks [supervisor] and [redis] across keys. Enough for a client, which may know no queue.
 * Relative paths become absolute. May be called again after further conf_set()s. -1 with every
 * error, a line each, appended to `errs`.
 */
int conf_resolve(struct conf *c, struct buf *errs) ATTR_MUST_CHECK;
/*
 * conf_resolve(), and what a supervisor or worker needs: at least one queue, each with a handler;
 * warns where heartbeat_timeout + kill_timeout >= lease.
 */
int conf_finish(struct conf *c, struct buf *errs) ATTR_MUST_CHECK;

/* How many processes its handler keeps for further tasks, at most: one for each task that may run,
 * one for each that runs in a process which gets no more, and one while it replaces another. */
int conf_kept_children(const struct conf_queue *q);

/* heartbeat_timeout for this queue in ms, with auto resolved; 0 = off. */
int64_t conf_heartbeat_ms(const struct conf *c, const struct conf_queue *q);

/*
 * The whole finished configuration as an ini file that conf_read_snapshot() reads back to an equal
 * one, origins and secrets included: what was validated is what runs. For sealed memory files and
 * the control socket only. Names and values are percent-encoded, so any byte survives.
 */
void conf_write_snapshot(const struct conf *c, struct buf *out);

/* The diff of a reload. */
enum conf_change { CONF_SAME, CONF_LIVE_CHANGED, CONF_ROLL_CHANGED, CONF_BOOT_CHANGED };
/* The strongest change among the keys of a section; queue sections by name (both must have it). */
enum conf_change conf_diff(const struct conf *was, const struct conf *now, enum conf_section s,
			   const char *queue);
/* Gives every BOOT key of `c` the value and origin that it has in `running`: what is in force. */
void conf_keep_boot(struct conf *c, const struct conf *running);
/* Calls `fn` with "section.key" of each BOOT key that differs. */
void conf_diff_boot(const struct conf *was, const struct conf *now,
		    void (*fn)(void *arg, const char *key), void *arg);

void strv_release(struct strv *s);
void strv_add(struct strv *s, const char *text);

#endif
