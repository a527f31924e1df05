/*
 * spread.h - how the partitions of a queue lie on the nodes of a cluster. Pure.
 *
 * The slot of a stream is the hash of its name, so it is chance that puts partitions on nodes: of
 * few of them two may be at one and none at another. Many are spread more evenly, but some more may
 * as well be spread worse: of video:0 to video:5 one of three nodes has four. The node with most
 * bounds what the queue can do, so that is what counts.
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
/* Of the `n_parts` node i of `n_nodes` has n[i]: has some node none, or one more than half as much
 * again as its share? Of three nodes it would have more than half of them all. */
bool spread_is_lopsided(const int *n, int n_nodes, int n_parts);
/* With how many more than `n_parts` partitions the queue would not be lopsided; 0: none. */
int spread_better(const struct spread *s, const char *queue, int n_parts);

#endif
