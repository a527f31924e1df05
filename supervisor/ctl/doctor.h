/*
 * doctor.h - the rooms of doctor: each looks at one thing and adds what it finds.
 *
 *   doctor_server.c  this Redis: version, memory, persistence, replicas, distance, clock, clients
 *   doctor_queue.c   one queue, or one of its partitions: types, group, what is stuck, who is dead,
 *                    the account
 *   doctor_list.c    what can be wrong only where it is a list, or should be one
 *   doctor_parts.c   its partitions: are they served, what is in others that are not
 *   doctor_spread.c  which nodes of the cluster they are at
 *   doctor_cluster.c is the cluster well, and is the queue's slot where it stays?
 *   doctor_names.c   other streams whose name ends in the queue's: a client's prefix
 *   doctor_scan.c    which keys have names like that of a queue
 *   doctor_needs.c   is everything permitted that a worker and redisqctl need?
 *
 * Nothing is ever changed, and no CONFIG, COMMAND, CLIENT or ACL is needed: what cannot be asked is
 * a finding of its own, "not known". -1 with `e`: Redis does not answer any more.
 */
#ifndef REDISQ_CTL_DOCTOR_H
#define REDISQ_CTL_DOCTOR_H

#include "audit.h"
#include "findings.h"
#include "keys.h"
#include "reach.h"
#include "redis.h"

struct doctor {
	struct redis *r;         /* borrowed */
	const struct conf *conf; /* borrowed: the effective one */
	struct findings *f;      /* borrowed */
	struct err *e;           /* borrowed */
	struct audit audit;      /* of the queue that is looked at, as the next */
	bool is_made;            /* no configuration has it (parts.h) */
	bool is_audited;         /* all of it */
	bool no_cluster;         /* the url says cluster://, and it is a single server */
	struct strv seen;        /* the servers that were looked at, as redis_where() */
	struct reach reach;      /* the streams whose node cannot be asked: that was said */
};

int doctor_server(struct doctor *d);
int doctor_queue(struct doctor *d, const struct conf_queue *q, const struct keys *k);
int doctor_list(struct doctor *d, const struct conf_queue *q, const struct keys *k);
/* Does the url say so, and the server not? It is said once. */
int doctor_is_cluster(struct doctor *d);
/* Nothing where it is none. */
int doctor_cluster(struct doctor *d, const struct conf_queue *q, const struct keys *k);
int doctor_names(struct doctor *d, const struct parts *p);
int doctor_parts(struct doctor *d, const struct parts *p);
/* In a cluster, where there are several. */
int doctor_spread(struct doctor *d, const struct parts *p);
int doctor_needs(struct doctor *d, const struct conf_queue *q, const struct keys *k);
/* Of Redis as a whole: what a worker does without. `k` are those of any queue. */
int doctor_options(struct doctor *d, const struct conf_queue *q, const struct keys *k);

/* -1: Redis is gone, and that ends the scan. */
typedef int doctor_key_fn(struct doctor *d, const char *key, void *arg);
enum doctor_scanned { SCANNED_ALL, SCANNED_SOME, SCANNED_NOTHING };
/*
 * Calls `fn` with the keys whose name ends in `name`, or has it anywhere; none that holds a NUL.
 * SOME: of the first 100 000 keys there are. NOTHING: it is refused, and `why` (not NULL) says so.
 * -1 as `fn`.
 */
int doctor_scan(struct doctor *d, const char *name, bool anywhere, doctor_key_fn *fn, void *arg,
		struct buf *why);

/* redis_try() with words up to NULL: NULL when Redis is gone. */
redisReply *doctor_ask(struct doctor *d, const char *const *words);
#define DOCTOR_ASK(d, ...) doctor_ask(d, (const char *const[]){__VA_ARGS__, NULL})
/* The text of an error reply, else NULL. */
const char *doctor_error(const redisReply *reply);

#endif
