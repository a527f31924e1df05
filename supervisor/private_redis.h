/*
 * private_redis.h - the redis-server of -e: a child of the supervisor on a unix socket, with AOF
 * in <state_dir>/redis, started first, restarted when it dies, stopped last.
 *
 * The supervisor does not speak Redis: it only sees whether the socket accepts connections. A lock
 * file, inherited by the server, keeps a second one off the same data while the first lives. The
 * server gets SIGTERM when the supervisor dies; a new supervisor finds the data and goes on.
 */
#ifndef REDISQ_PRIVATE_REDIS_H
#define REDISQ_PRIVATE_REDIS_H

#include "err.h"
#include "house.h"

struct private_redis;

/*
 * Where it will listen, as a url for [redis] url; the socket lies in `state_dir`/redis, or in
 * `run_dir` where that path is too long for a socket. Owned. NULL with `e`: too long as well.
 */
char *private_redis_url(const char *state_dir, const char *run_dir, struct err *e);
/*
 * Makes the directory, starts the server and waits until it accepts connections (10 s at most).
 * NULL with `e`: there is no redis-server, it ended at once, the data are in use.
 */
struct private_redis *private_redis_start(struct house *house, const char *state_dir,
					  const char *run_dir, struct err *e);
/* SIGTERM, waits for its end (it saves), SIGKILL after 10 s. Frees. NULL is fine. */
void private_redis_stop(struct private_redis *r);

#endif
