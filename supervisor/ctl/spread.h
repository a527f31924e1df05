/*
 * spread.h - how the partitions of a queue lie on the nodes of a cluster. Pure.
 *
 * The slot of a stream is the hash of its name, so it is chance that puts partitions on nodes: of
 * few of them two may be at one and none at another. More are spread more evenly.
 */
#ifndef REDISQ_CTL_SPREAD_H
#define REDISQ_CTL_SPREAD_H

#include "cluster.h"

/* Which node has which slot. */
struct spread {
	int n_nodes;                    /* that have any */
	int16_t node_of[CLUSTER_SLOTS]; /* -1: nobody has it */
};

/* A node more, or one that is known, has the slots `from` to `to`; false: these are none. */
bool spread_add(struct spread *s, int node, int64_t from, int64_t to);
/* Of the `n_parts` node i of `n_nodes` has n[i]: has some node none, or one more than twice its
 * share? */
bool spread_is_lopsided(const int *n, int n_nodes, int n_parts);
/* With how many more than `n_parts` partitions the queue would not be lopsided; 0: none. */
int spread_better(const struct spread *s, const char *queue, int n_parts);

#endif
