/* link.h - a blocking hiredis link for the benchmark's clients; every error ends the program. */
#ifndef REDISQ_BENCH_LINK_H
#define REDISQ_BENCH_LINK_H

#include <hiredis/hiredis.h>

#include "bench.h"

static inline redisContext *link_open(const char *port)
{
	redisContext *c = redisConnect("127.0.0.1", (int)number(port, 1, 65535));

	if (!c || c->err)
		die("Redis on port %s: %s", port, c ? c->errstr : "no memory");
	return c;
}

/* The next reply; the caller frees it. */
static inline redisReply *link_reply(redisContext *c)
{
	void *reply = NULL;

	if (redisGetReply(c, &reply) != REDIS_OK)
		die("Redis: %s", c->errstr);
	if (((redisReply *)reply)->type == REDIS_REPLY_ERROR)
		die("Redis: %s", ((redisReply *)reply)->str);
	return reply;
}

/* The entries of an answer to XREADGROUP on one stream; NULL when there were none. */
static inline redisReply *link_entries(redisReply *r)
{
	return r->type == REDIS_REPLY_ARRAY ? r->element[0]->element[1] : NULL;
}

#endif
