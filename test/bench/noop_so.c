/* noop_so.c - a shared library that does nothing, but for noting how late a task was started. */
#include <redisq_handler.h>

#include "latency.h"

static int latency = -1;

static int begin(const struct redisq_host *host, char error[REDISQ_ERROR_MAX])
{
	(void)host;
	(void)error;
	latency = latency_open();
	return 0;
}

static int handle(const struct redisq_task *t, struct redisq_result *r)
{
	(void)r;
	if (latency >= 0)
		latency_write(latency, now_ns(), t->payload, t->payload_len);
	return 0;
}

REDISQ_EXPORT const struct redisq_handler redisq_handler = {
	REDISQ_ABI, sizeof(struct redisq_handler), "noop", begin, NULL, handle};
