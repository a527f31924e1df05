/*
 * rconn_sentinel.h - asks Sentinels where the master is, without stopping the loop.
 *
 * Each question is a connection of its own, gone with the answer: there is no link to keep alive
 * and no subscription that could be deaf. One Sentinel after the other (rconn_sentinel_pick.h),
 * each with half a second for connection, TLS, AUTH and answer, and two seconds in front of them
 * where a name has to be looked up: a round ends, whatever they do.
 */
#ifndef REDISQ_RCONN_SENTINEL_H
#define REDISQ_RCONN_SENTINEL_H

#include <ev.h>

#include "conf.h"
#include "rconn_sentinel_pick.h"

struct rconn_sentinel;

/* `master` (valid during the call) and the Sentinel that has told it, "10.0.0.9:26379"; or NULL,
 * and `from` says why nobody has, with `fault`. Not inside: rconn_sentinel_free(). */
typedef void rconn_sentinel_fn(void *arg, const struct redis_place *master, const char *from,
			       enum sentinel_fault fault);

/* `conf` is what TLS is done with; it must outlive the object. `n`: how many Sentinels there are.
 */
struct rconn_sentinel *rconn_sentinel_new(struct ev_loop *loop, const struct conf_redis *conf,
					  size_t n, rconn_sentinel_fn *fn, void *arg);
void rconn_sentinel_free(struct rconn_sentinel *s);

/* Begins a round, in place of one under way; `fn` is called once, perhaps inside. `addr` names the
 * Sentinels, the same at each call, and must live until then or rconn_sentinel_cancel(). */
void rconn_sentinel_ask(struct rconn_sentinel *s, const struct redis_addr *addr);
void rconn_sentinel_cancel(struct rconn_sentinel *s);
/* What was told last led nowhere, or does not any more: somebody else is asked first. */
void rconn_sentinel_doubt(struct rconn_sentinel *s);

#endif
