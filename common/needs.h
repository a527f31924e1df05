/*
 * needs.h - what a worker and redisqctl need of Redis, row by row (needs.def), and whether this
 * Redis lets them: each row is asked for in a form that does nothing.
 *
 * No CONFIG, COMMAND or ACL is needed for that: permissions and old or renamed commands are found
 * out by trying, one pipeline of some 90 short commands. Plain code: commands come out as words,
 * answers go in as text.
 */
#ifndef REDISQ_NEEDS_H
#define REDISQ_NEEDS_H

#include "buf.h"
#include "keys.h"

enum need_who { NEED_WORKER, NEED_OPTION, NEED_CTL };

/* Fields of struct keys. */
enum need_key {
	NEED_NONE,
	NEED_STREAM,
	NEED_DELAYED,
	NEED_BODIES,
	NEED_DEAD,
	NEED_HELD,
	NEED_COUNTERS,
	NEED_CKPT,
	NEED_PROGRESS,
	NEED_CRASH,
	NEED_NAMES,
	NEED_CLAIM,
	NEED_RESULT,
	NEED_FAILED,
	NEED_TASKS,
	NEED_OWNERS,
	NEED_PENDING,
	NEED_LETTERS,
	NEED_LAST_ID,
	NEED_PROCESSING,
};

#define NEED_WORDS_MAX 10

struct need {
	const char *acl;
	enum need_who who;
	enum need_key key;
	const char *without;
	const char *words[NEED_WORDS_MAX + 1]; /* ends with NULL */
	bool list_only;
	bool in_multi; /* its form does what it says, unless it is queued and discarded */
};

enum need_answer {
	NEED_HAVE,
	NEED_NO_COMMAND, /* a permission is missing: for the command */
	NEED_NO_KEY,     /* for the key */
	NEED_UNKNOWN,    /* this Redis has no such command, or it was renamed */
	NEED_NOT_TOLD,   /* it says something else: loading, no password, ... */
};

size_t needs_count(void);
/* Static. */
const struct need *needs_at(size_t i);
/* Is it needed for a queue that is a stream, or a list? */
bool needs_is_for(const struct need *n, bool on_list);
/* The key that row is for, "" = none. Borrowed from `k`, or from `store`. */
const char *needs_key(const struct need *n, const struct keys *k, struct buf *store);
/* The words to send; returns how many. Borrowed from the table, `k`, `group` and `store`. */
int needs_words(const struct need *n, const struct keys *k, const char *group, struct buf *store,
		const char *words[NEED_WORDS_MAX]);
/* MULTI: what is sent next must be EXEC or DISCARD, which may not be permitted either. */
bool needs_is_multi(const struct need *n);
/* `error`: the text of an error reply, NULL for any other reply. */
enum need_answer needs_judge(const char *error);

/* What was found missing: collects rows, each command and each key once. */
struct needs_missing {
	struct buf commands; /* "xack, hset" */
	struct buf keys;     /* "{q}:bodies, q" */
	struct buf tried;    /* the commands once more, as in grants */
	struct buf grants;   /* what ACL SETUSER has to be given: "+xack +hset ~{q}:*" */
	size_t n;
};

#define NEEDS_MISSING_INIT \
	{ \
		.commands = BUF_INIT, .keys = BUF_INIT, .tried = BUF_INIT, .grants = BUF_INIT, \
		.n = 0 \
	}

void needs_missing_add(struct needs_missing *m, const struct need *n, enum need_answer answer,
		       const struct keys *k);
/* "may not use xack on q, and has no access to {q}:bodies" */
void needs_missing_text(const struct needs_missing *m, struct buf *out);
/* "grant it: ACL SETUSER ... +xack ~{q}:*", or what to do where that does not help. */
void needs_missing_cure(const struct needs_missing *m, struct buf *out);
void needs_missing_release(struct needs_missing *m);

#endif
