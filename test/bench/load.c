/*
 * load.c - fills a stream as fast as Redis takes it: XADD in pipelines.
 *
 *   load PORT STREAM N BYTES        N entries with the one field "payload" of so many 'x'
 */
#include "link.h"

#define PIPELINE_BYTES 65536

int main(int argc, char **argv)
{
	redisContext *c;
	size_t bytes;
	char *payload;
	long left;
	long window;

	if (argc != 5)
		die("usage: load PORT STREAM N BYTES");
	left = number(argv[3], 0, 1000000000);
	bytes = (size_t)number(argv[4], 0, 1 << 30);
	payload = malloc(bytes + 1);
	if (!payload)
		die("no memory");
	memset(payload, 'x', bytes);
	c = link_open(argv[1]);
	window = 1 + PIPELINE_BYTES / ((long)bytes + 64);
	while (left > 0) {
		long n = left < window ? left : window;

		for (long i = 0; i < n; i++)
			if (redisAppendCommand(c, "XADD %s * payload %b", argv[2], payload,
					       bytes) != REDIS_OK)
				die("no memory");
		for (long i = 0; i < n; i++)
			freeReplyObject(link_reply(c));
		left -= n;
	}
	free(payload);
	redisFree(c);
	return 0;
}
