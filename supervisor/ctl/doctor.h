/*
 * doctor.h - the rooms of doctor: each looks at one thing and adds what it finds.
 *
 *   doctor_server.c  this Redis: version, memory, persistence, replicas, distance, clock, clients
 *   doctor_queue.c   one queue: types, group, what is stuck, who is dead, the account
 *   doctor_names.c   other streams whose name ends in the queue's: a client's prefix
 *   doctor_needs.c   is everything permitted that a worker and redisqctl need?
 *
 * Nothing is ever changed, and no CONFIG, COMMAND, CLIENT or ACL is needed: what cannot be asked is
 * a finding of its own, "not known". -1 with `e`: Redis does not answer any more.
 */
#ifndef REDISQ_CTL_DOCTOR_H
#define REDISQ_CTL_DOCTOR_H

#include "findings.h"
#include "keys.h"
#include "redis.h"

struct doctor {
	struct redis *r;         /* borrowed */
	const struct conf *conf; /* borrowed: the effective one */
	struct findings *f;      /* borrowed */
	struct err *e;           /* borrowed */
};

int doctor_server(struct doctor *d);
int doctor_queue(struct doctor *d, const struct conf_queue *q, const struct keys *k);
int doctor_names(struct doctor *d, const struct conf_queue *q);
int doctor_needs(struct doctor *d, const struct conf_queue *q, const struct keys *k);
/* Of Redis as a whole: what a worker does without. `k` are those of any queue. */
int doctor_options(struct doctor *d, const struct conf_queue *q, const struct keys *k);

/* redis_try() with words up to NULL: NULL when Redis is gone. */
redisReply *doctor_ask(struct doctor *d, const char *const *words);
#define DOCTOR_ASK(d, ...) doctor_ask(d, (const char *const[]){__VA_ARGS__, NULL})
/* The text of an error reply, else NULL. */
const char *doctor_error(const redisReply *reply);

#endif
