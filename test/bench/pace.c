/*
 * pace.c - adds tasks one at a time, so far apart that each finds an idle worker. The payload is
 * the moment at which XADD was written, in nanoseconds of CLOCK_MONOTONIC.
 *
 *   pace PORT STREAM N GAP_US
 */
#include <inttypes.h>

#include "link.h"

static void wait_till(int64_t at_ns)
{
	struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

int main(int argc, char **argv)
{
	redisContext *c;
	int64_t gap_ns, next;
	long n;

	if (argc != 5)
		die("usage: pace PORT STREAM N GAP_US");
	n = number(argv[3], 1, 10000000);
	gap_ns = number(argv[4], 0, 10000000) * 1000;
	c = link_open(argv[1]);
	next = now_ns();
	for (long i = 0; i < n; i++) {
		wait_till(next);
		if (redisAppendCommand(c, "XADD %s * payload %" PRId64, argv[2], now_ns()) !=
		    REDIS_OK)
			die("no memory");
		freeReplyObject(link_reply(c));
		next = now_ns() + gap_ns;
	}
	redisFree(c);
	return 0;
}
