/*
 * keys.h - the names of the Redis keys of a queue (a contract; worker/protocol.txt lists them).
 *
 * The work stream is the queue's name, untouched (that of a partition: partition.h). Everything
 * else shares its hash slot: with a hash tag in the name "<name>:<suffix>", else
 * "{<name>}:<suffix>". Names for which that cannot hold are refused by keys_check_name(). Plain
 * code.
 */
#ifndef REDISQ_KEYS_H
#define REDISQ_KEYS_H

#include "buf.h"
#include "err.h"

struct keys {
	char *stream;     /* the queue's name; all owned */
	char *prefix;     /* what all other keys begin with */
	char *delayed;    /* ZSET entry id -> due time, Unix ms */
	char *bodies;     /* HASH entry id -> packed body of a delayed task */
	char *dead;       /* stream, or what stands for one (common/scripts/_list.lua) */
	char *held;       /* likewise */
	char *counters;   /* HASH done, dropped, retried, died, readded */
	char *ckpt;       /* HASH entry id -> checkpoint */
	char *progress;   /* HASH entry id -> progress of what runs */
	char *crash;      /* HASH entry id -> count:token:cause */
	char *names;      /* HASH consumer -> nonce */
	char *tasks;      /* of a list: HASH entry id -> fields, packed */
	char *owners;     /* of a list: HASH entry id -> who has it */
	char *pending;    /* of a list: ZSET of the same ids */
	char *letters;    /* of a list: HASH entry id -> fields of a letter, packed */
	char *processing; /* of a list: prefix of what consumers have */
	char *last_id;    /* of a list: the last id that was given out */
	char *arrived;    /* of a list: LIST of what reads have moved there, nobody's yet */
	char *claim;      /* prefix of the claim records: <claim><consumer> */
	char *result;     /* prefix of the results: <result><task id> */
	char *failed;     /* prefix of what there is instead of a result */
};

/* -1 with what is wrong with the name: empty, unprintable, or its slot cannot be shared. */
int keys_check_name(const char *queue, struct err *e) ATTR_MUST_CHECK;
/* It says itself which part of it decides its slot. */
bool keys_has_tag(const char *queue);
void keys_init(struct keys *k, const char *queue);
/* What the scripts for lists use besides their own KEYS, and the lists of consumers. Borrowed. */
#define KEYS_OF_LIST 11
void keys_of_list(const struct keys *k, const char *out[KEYS_OF_LIST]);
void keys_release(struct keys *k);

#endif
