/*
 * noop.c - the least a library handler can be: every task is done at once. For measuring.
 *
 *	cc -O2 -fPIC -shared -I worker -o noop.so etc/handlers/noop.c
 *	redisq-supervisor -e -q demo -j 64 -k so -- ./noop.so
 */
#include <redisq_handler.h>

static int handle(const struct redisq_task *t, struct redisq_result *r)
{
	(void)t;
	(void)r;
	return 0;
}

REDISQ_EXPORT const struct redisq_handler redisq_handler = {
	REDISQ_ABI, sizeof(struct redisq_handler), "noop", NULL, NULL, handle};
