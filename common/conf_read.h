/*
 * conf_read.h - where configuration comes from: files (the only user of inih), the environment,
 * the command line. Every function reports *all* errors it finds, each one line "where: what;
 * what to do", through `errs`, and returns 0, or -1 when there was one.
 */
#ifndef REDISQ_CONF_READ_H
#define REDISQ_CONF_READ_H

#include "conf.h"

/* An ini file; `path` is what the messages show. */
int conf_read_file(struct conf *c, const char *path, struct buf *errs) ATTR_MUST_CHECK;
/* The same for text in memory, shown as `path`. */
int conf_read_text(struct conf *c, const char *path, struct slice text,
		   struct buf *errs) ATTR_MUST_CHECK;
/* REDISQ_* and the aliases out of `env` (as environ). Unknown REDISQ_* variables: conf_warn(). */
int conf_read_env(struct conf *c, char *const *env, struct buf *errs) ATTR_MUST_CHECK;
/* One -s KEY=VALUE: the text after the last '.' before the first '=' is the key. */
int conf_read_assignment(struct conf *c, const char *assignment, struct buf *errs) ATTR_MUST_CHECK;
/* Whether it has that form at all (else its error is one of usage, not of configuration). */
bool conf_is_assignment(const char *text);
/* What conf_write_snapshot() wrote; the environment plays no part. `fd` is left open. */
int conf_read_snapshot(struct conf *c, int fd, struct buf *errs) ATTR_MUST_CHECK;

/*
 * Checks that touch the machine: the handler is found and executable with the PATH it will have,
 * cwd is a directory, env_file, password_file and the files of TLS can be read. What is only
 * doubtful (a script that is not there, a program that the kernel will not start) becomes a
 * conf_warn(). For -t, at a start and at a reload.
 */
int conf_check_machine(struct conf *c, struct buf *errs) ATTR_MUST_CHECK;

/*
 * The environment a handler starts with: `base` (the supervisor's environment at its start)
 * without the credentials of Redis (REDIS_URL, REDISQ_*, QUEUE_REDIS_*), plus env_file, plus env,
 * plus PYTHONUNBUFFERED=1 unless set. Built from zero each time. -1 when env_file cannot be read.
 */
int conf_handler_env(const struct conf_queue *q, char *const *base, struct strv *out,
		     struct err *e) ATTR_MUST_CHECK;

#endif
