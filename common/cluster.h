/*
 * cluster.h - what a node of a Redis Cluster says about where a key is. Plain code.
 *
 * The keys are spread over 16384 slots, and each slot is at one master. A node that is asked about
 * a key that it has not answers with an error that names the one that has ("MOVED 3999 host:port"),
 * or, while a slot is on its way from one to another, that this one key is there already ("ASK").
 */
#ifndef REDISQ_CLUSTER_H
#define REDISQ_CLUSTER_H

#include "redis_url.h"

#define CLUSTER_SLOTS 16384

/* The slot of a key: of what is between its first '{' and the next '}', if anything is. */
int cluster_slot(const char *key);

enum cluster_says {
	CLUSTER_OTHER, /* nothing of this kind, or not in a shape that is understood */
	CLUSTER_MOVED, /* it is at another node, for good */
	CLUSTER_ASK,   /* its slot is on its way there, and the key has arrived, or is nowhere */
};

/*
 * Takes the text of an error apart. Where it is MOVED or ASK `place` (owned) is the node it names,
 * and `slot` which slot it is about. A node that does not say its host is at `same_host`.
 */
enum cluster_says cluster_says(const char *error, const char *same_host, struct redis_place *place,
			       int *slot);
/* The host that a node is said to have: `same_host` where it does not say; NULL: not known, or no
 * host. Borrowed from either. */
const char *cluster_host(const char *said, size_t len, const char *same_host);

/* For people, where MOVED came and the url is that of one server: what to write instead. */
void cluster_advice(const char *error, const char *same_host, bool tls, struct buf *out);
/* Likewise, where the url names a database, which a cluster has not. */
void cluster_advice_db(const struct redis_addr *a, struct buf *out);

#endif
