/*
 * partition.h - a queue that is spread over several streams ("partitions = P"): what they are
 * called, and which of them a key belongs to. Plain code.
 *
 * A queue NAME of P > 1 partitions is the streams NAME:0 ... NAME:<P-1>, each with all that belongs
 * to it in a hash slot of its own (keys.h), so that the queue grows over the nodes of a cluster.
 * With P = 1 it is the stream NAME. Each is a queue of its own to Redis: an order holds within one,
 * and nothing ever crosses from one to another.
 */
#ifndef REDISQ_PARTITION_H
#define REDISQ_PARTITION_H

#include "buf.h"
#include "err.h"

#define PARTITIONS_MAX 64
#define PARTITION_PREFIX_MAX 12

/* The name of partition `i` of `n`; owned by the caller. */
char *partition_stream(const char *queue, int i, int n);
/* Can the queue have `n`? -1: its {hash tag} would put them all into one slot. */
int partition_check(const char *queue, int n, struct err *e) ATTR_MUST_CHECK;
/* Is `name` that of a partition of `queue`, which has `n`? */
bool partition_is_of(const char *name, const char *queue, int n);
/* Does it look like one that Redis gives, "1700000000000-3"? */
bool partition_is_entry_id(struct slice id);
/* What stands in front of `id` where a task is called by it: "3:" of an entry id in partition 3 of
 * several, for two of them may give out the same; "" of one that a producer has chosen, and where
 * there is but one partition. */
void partition_id_prefix(int i, int n, struct slice id, char out[PARTITION_PREFIX_MAX]);
/* Where what belongs to `key` goes: CRC16 (that of Redis Cluster, polynomial 0x1021 from 0) modulo
 * n, so that producers in any language find the same. */
int partition_of(const char *key, size_t len, int n);

#endif
