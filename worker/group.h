/*
 * group.h - may this queue be served from that stream? Decided from what XINFO GROUPS says and the
 * configuration, so that nobody's entries are taken or deleted by surprise. Pure.
 */
#ifndef REDISQ_GROUP_H
#define REDISQ_GROUP_H

#include "conf.h"

struct redisReply;

enum group_what { GROUP_USE, GROUP_CREATE, GROUP_REFUSE };

struct group_answer {
	enum group_what what;
	bool at_end; /* GROUP_CREATE: at $ instead of 0 */
};

/* `groups`: the reply of XINFO GROUPS, an error reply where there is no stream. `why`: filled for
 * GROUP_REFUSE with what to set. */
struct group_answer group_decide(const struct redisReply *groups, const struct conf_queue *c,
				 int64_t n_entries, struct buf *why);

#endif
