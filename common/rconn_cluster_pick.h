/*
 * rconn_cluster_pick.h - to which node of a cluster a link goes next. Plain code.
 *
 * One try visits nodes until one has the key: first the one that was last known to have it, then
 * whoever a node names (MOVED), else the seeds of the url and what else is known of the cluster, in
 * turn. No node is visited twice in a try, and no more than CLUSTER_VISITS_MAX are: then the link
 * waits; sooner where two name one that could not be used. The next try goes on behind the last one
 * that was asked for want of a better, so that neither dead nodes nor one that tells old news are
 * the only ones that are heard.
 *
 * While one that is visited does not answer another link can be sent to ask the others: it never
 * goes there, whoever names it.
 */
#ifndef REDISQ_RCONN_CLUSTER_PICK_H
#define REDISQ_RCONN_CLUSTER_PICK_H

#include "redis_url.h"

struct redisReply;

#define CLUSTER_NODES_MAX 64
#define CLUSTER_VISITS_MAX 6 /* that is, five hops */

struct cluster_node {
	struct redis_place place; /* owned */
	bool is_seed;             /* stays for ever */
	bool is_told;             /* in the list that is being read */
	bool been;                /* in this try */
};

struct cluster_pick {
	struct cluster_node nodes[CLUSTER_NODES_MAX];
	int n;
	int at;      /* where the link is, -1 = nowhere yet */
	int owner;   /* who was last known to have the key, -1 = nobody */
	int told;    /* whom to visit next, because a node said so; -1 = nobody */
	int next;    /* whose turn it is */
	int shunned; /* whom not to visit in any try, -1 = nobody */
	int n_visits;
	int n_in_vain; /* who named one that we had been to */
};

void cluster_pick_init(struct cluster_pick *p, const struct redis_cluster *seeds);
/* Knows what `of` knows, and shuns the one that is at: for a link that asks the others meanwhile.
 * There must be any. */
void cluster_pick_init_others(struct cluster_pick *p, const struct cluster_pick *of);
void cluster_pick_release(struct cluster_pick *p);
/* A new try. */
void cluster_pick_begin(struct cluster_pick *p);
/* Where to go now (borrowed); NULL: nowhere any more in this try. */
const struct redis_place *cluster_pick_whom(struct cluster_pick *p);
/* Is anybody left to be visited in this try? */
bool cluster_pick_has_more(const struct cluster_pick *p);
/* The key is at `place`, says the one we are at. False: we have been there, to no avail. */
bool cluster_pick_moved(struct cluster_pick *p, const struct redis_place *place);
/* Another link has found that the key is at `place`: it is next, and first in the next try. */
void cluster_pick_found(struct cluster_pick *p, const struct redis_place *place);
/* The one we are at has the key. */
void cluster_pick_proven(struct cluster_pick *p);
/* It has, but cannot serve it now: nobody else need be asked in this try. */
void cluster_pick_stay(struct cluster_pick *p);
/* What CLUSTER SLOTS answers: these are known from now on, and no others but the seeds. An error,
 * or another shape, changes nothing. */
void cluster_pick_learn(struct cluster_pick *p, const struct redisReply *slots,
			const char *same_host);

#endif
