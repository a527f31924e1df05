/*
 * target.h - whom a command is about: the supervisor (which control socket) and Redis (which url,
 * and the queues' keys).
 *
 * The configuration of redisqctl itself is: built-in < -c FILE (else the default file, if there is
 * one) < environment < -s. The supervisor's own effective one, asked for over the control socket,
 * takes its place for Redis unless -c or `-s redis.` is given: so that one talks to the Redis the
 * workers use, whatever REDIS_URL says in this shell.
 */
#ifndef REDISQ_CTL_TARGET_H
#define REDISQ_CTL_TARGET_H

#include "client.h"
#include "conf.h"
#include "options.h"
#include "parts.h"

/*
 * A faulty file is the supervisor's matter as long as one answers: it says what is wrong with it,
 * and status and kill must work all the same. Only the name and the socket are taken from it then.
 */
struct target {
	const struct options *options; /* borrowed */
	struct conf *conf;             /* owned: redisqctl's own */
	struct conf *effective;        /* owned: what Redis is found by; NULL until asked */
	struct strv sockets;           /* where a supervisor may listen, best first */
	char *redis_from;              /* owned: where the url came from, for messages; or NULL */
	struct buf errs;               /* of the file and the environment; empty = none */
	char *note;                    /* owned: a queue that is not configured; or NULL */
	bool is_warned;                /* of `errs` */
};

/* -1 with `e`; with several errors they were printed already and e->text is empty. */
int target_init(struct target *t, const struct options *o, struct err *e) ATTR_MUST_CHECK;
void target_release(struct target *t);
/*
 * The supervisor that is meant; NULL with `e`: none answers, or, as with target_init(), the
 * configuration that says where it is has errors. Where one answers, these are only warned about.
 */
struct client *target_open(struct target *t, struct err *e);
/* The effective configuration for Redis and queues (borrowed), NULL with `e`. */
const struct conf *target_conf(struct target *t, struct err *e);
/*
 * The same for one queue, made with its defaults if it is nowhere; `note` then says so where others
 * are configured. NULL with `e`: a bad name.
 */
const struct conf_queue *target_queue(struct target *t, const char *name, struct err *e);
/* Its streams; `name` may also be that of one partition of a queue. -1 with `e`. */
int target_parts(struct target *t, const char *name, struct parts *p, struct err *e);

#endif
