/*
 * floor.c - the floor of latency: a client that waits in a blocked XREADGROUP and does nothing but
 * note when an entry has come.
 *
 *   BENCH_LATENCY=FILE floor PORT STREAM N
 */
#include "latency.h"
#include "link.h"

int main(int argc, char **argv)
{
	redisContext *c;
	long left;
	int fd = latency_open();

	if (argc != 4 || fd < 0)
		die("usage: BENCH_LATENCY=FILE floor PORT STREAM N");
	left = number(argv[3], 1, 10000000);
	c = link_open(argv[1]);
	puts("ready");
	fflush(stdout);
	while (left > 0) {
		redisReply *read, *entries;
		int64_t now;

		if (redisAppendCommand(c,
				       "XREADGROUP GROUP redisq floor COUNT 1 BLOCK 2000 STREAMS "
				       "%s >",
				       argv[2]) != REDIS_OK)
			die("no memory");
		read = link_reply(c);
		now = now_ns();
		entries = link_entries(read);
		if (entries) {
			const redisReply *payload = entries->element[0]->element[1]->element[1];

			latency_write(fd, now, payload->str, payload->len);
			left--;
		}
		freeReplyObject(read);
	}
	redisFree(c);
	return 0;
}
