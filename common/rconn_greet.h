/*
 * rconn_greet.h - the first words on a new link, and what the answers mean. Plain code: commands
 * come out as bytes, replies go in one by one.
 *
 * AUTH (if there is a user or a password), ROLE (if Sentinel has told the place: it must be a
 * master), SELECT (if not 0), CLIENT SETNAME, CLIENT ID, INFO server, PING, and in a cluster
 * CLUSTER SLOTS and EXISTS of the key (if there is one: the answer shows whether this node has it),
 * all in one write. All but the first three may be refused by a managed service or an ACL; PING is
 * there because the others are answered while Redis is LOADING.
 */
#ifndef REDISQ_RCONN_GREET_H
#define REDISQ_RCONN_GREET_H

#include "rconn_resp.h"
#include "redis_url.h"

enum greet_step {
	GREET_AUTH,
	GREET_ROLE,
	GREET_SELECT,
	GREET_SETNAME,
	GREET_ID,
	GREET_INFO,
	GREET_PING,
	GREET_NODES,
	GREET_KEY,
};
#define GREET_N_STEPS 9

enum greet_verdict {
	GREET_MORE,      /* another reply is to come */
	GREET_DONE,      /* the link can be used */
	GREET_SENT_AWAY, /* this node sends us to another one, for good (MOVED) or while a slot is
			  * on its way (ASK): `why` is the error as it came */
	GREET_WAIT,      /* not now (LOADING, BUSY, ...): try again soon */
	GREET_DENIED,    /* not like this (password, ACL, database): try again, slowly */
	GREET_NO_DB,     /* a node of a cluster: it has no other database than 0, and never will */
};

struct greet {
	enum greet_step steps[GREET_N_STEPS];
	size_t n;
	size_t at;            /* whose reply is next */
	const char *password; /* borrowed until the greeting is over; NULL = none */
	int64_t client_id;    /* 0 = unknown */
	char run_id[44];      /* "" = unknown */
};

/* Writes the greeting to `out`. `a` must live until the last reply. `key`: NULL = none. */
void greet_begin(struct greet *g, const struct redis_addr *a, const char *name, const char *key,
		 struct buf *out);
/* What the next reply is to. */
enum greet_step greet_next(const struct greet *g);
/* The next reply. For WAIT, DENIED and NO_DB `why` says what Redis said, without secrets. */
enum greet_verdict greet_reply(struct greet *g, const struct redisReply *r,
			       char why[RCONN_WHY_MAX]);
/* The command whose reply is awaited. */
const char *greet_waiting_for(const struct greet *g);

#endif
