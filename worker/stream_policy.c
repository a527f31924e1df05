/*
 * stream_policy.c - looks whether Redis is set to evict keys, which would lose tasks: when a link
 * is new, and every minute, with the turn. Somebody has to be told; nothing else depends on it.
 */
#include "clock.h"
#include "info.h"
#include "stream.h"

#define LOOK_EVERY_MS 60000

static void on_info(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;
	char policy[INFO_POLICY_MAX];
	bool threatens;

	/* Refused, or lost: an ACL or a managed service that hides it. */
	if (reply_kind(r) != REPLY_OK)
		return;
	threatens = info_evicts(reply_slice(r), policy);
	if (threatens && !q->evicts)
		log_warning("Redis may throw tasks away when its memory is full: maxmemory-policy "
			    "is %s; set it to noeviction",
			    policy);
	else if (!threatens && q->evicts)
		log_info("Redis throws no tasks away any more");
	q->evicts = threatens;
}

void stream_look_at_policy(struct queue *q, int64_t now)
{
	struct args a;

	if (now < q->policy_at_ms)
		return;
	q->policy_at_ms = now + LOOK_EVERY_MS;
	args_init(&a);
	args_str(&a, "INFO");
	args_str(&a, "memory");
	if (stream_send(q->cmd, &a, 0, on_info, q) < 0)
		q->policy_at_ms = 0;
}
