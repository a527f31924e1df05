/*
 * reply.h - what Redis said, taken apart: the only place in the worker that looks inside a
 * redisReply. Strict about shape: what does not look as expected is refused, never guessed. Pure.
 */
#ifndef REDISQ_REPLY_H
#define REDISQ_REPLY_H

#include "buf.h"

struct redisReply;

/* What a reply asks the caller to do, not what it is called. */
enum reply_kind {
	REPLY_OK,        /* not an error */
	REPLY_LOST,      /* no reply: the link went down; the command may have been executed */
	REPLY_NOGROUP,   /* group or stream is gone: create the group at 0, then renew */
	REPLY_AGAIN,     /* the stream went away under a read that blocked, deleted or to another
			  * node: read again, the answer to that tells which */
	REPLY_REDIRECT,  /* READONLY, demoted master: drop the link, connect again */
	REPLY_MOVED,     /* the queue is at another node of the cluster; nothing was done */
	REPLY_MOVING,    /* it is on its way there, or the cluster is down (ASK, TRYAGAIN,
			  * CLUSTERDOWN): try again soon; nothing was done */
	REPLY_WAIT,      /* LOADING, BUSY, MASTERDOWN, NOREPLICAS, MISCONF ...: try later */
	REPLY_OOM,       /* out of memory for writes: try later; settlements go on */
	REPLY_DENIED,    /* NOAUTH, NOPERM: try much later, say so */
	REPLY_WRONGTYPE, /* a key of ours is something else (or in another slot, CROSSSLOT): the
			  * queue cannot be served */
	REPLY_BUSYGROUP,
	REPLY_UNKNOWN, /* no such command or option on this server */
	REPLY_BAD,     /* any other error */
};

enum reply_kind reply_kind(const struct redisReply *r);
/* The error text, or "no answer"; borrowed from `r`. */
const char *reply_error_text(const struct redisReply *r);

/* Integer, or a string that is one; `otherwise` for anything else. */
int64_t reply_int(const struct redisReply *r, int64_t otherwise);
/* A string, be it empty; nil is none. */
bool reply_is_string(const struct redisReply *r);
/* Bytes of a string reply; empty for anything else. Borrowed. */
struct slice reply_slice(const struct redisReply *r);
/* Number of elements; 0 for anything but an array. */
size_t reply_len(const struct redisReply *r);
/* Element `i`, NULL when there is none. Borrowed. */
const struct redisReply *reply_at(const struct redisReply *r, size_t i);

/* One entry: its id and its fields (NULL for an entry deleted meanwhile). */
typedef void reply_entry_fn(void *arg, struct slice id, const struct redisReply *fields);
/*
 * The reply of XREADGROUP on one stream: calls `fn` for each entry and returns their number; 0 for
 * nil and for a stream without entries; -1 when it does not look like that.
 */
int reply_entries(const struct redisReply *r, reply_entry_fn *fn, void *arg);
/* Calls `fn` for each (name, value) of an entry's fields; -1 when it is no such list. */
int reply_fields(const struct redisReply *fields,
		 void (*fn)(void *arg, struct slice name, struct slice value), void *arg);

#endif
