/*
 * ceiling.c - what Redis can serve at best: a client that does nothing with its tasks. XACK and
 * XDEL of all of them go out in the same write as the next read, one round trip per batch.
 *
 *   ceiling PORT STREAM CONSUMER COUNT
 *
 * Says "ready", waits for a line, drains the stream through the group "redisq" and says how many.
 */
#include "link.h"

#define COUNT_MAX 4096

static void append(redisContext *c, const char **argv, int n)
{
	if (redisAppendCommandArgv(c, n, argv, NULL) != REDIS_OK)
		die("no memory");
}

/* XACK and XDEL of what the last read brought. */
static void append_settlement(redisContext *c, const char *stream, const redisReply *entries)
{
	const char *argv[COUNT_MAX + 3];
	int n = (int)entries->elements;

	for (int i = 0; i < n; i++)
		argv[i + 3] = entries->element[i]->element[0]->str;
	argv[0] = "XACK";
	argv[1] = stream;
	argv[2] = "redisq";
	append(c, argv, n + 3);
	argv[1] = "XDEL";
	argv[2] = stream;
	append(c, argv + 1, n + 2);
}

static void append_read(redisContext *c, const char *stream, const char *consumer,
			const char *count)
{
	const char *argv[] = {"XREADGROUP", "GROUP",   "redisq", consumer, "COUNT",
			      count,        "STREAMS", stream,   ">"};

	append(c, argv, 9);
}

int main(int argc, char **argv)
{
	redisReply *read = NULL;
	redisContext *c;
	size_t n_done = 0;

	if (argc != 5)
		die("usage: ceiling PORT STREAM CONSUMER COUNT");
	number(argv[4], 1, COUNT_MAX);
	c = link_open(argv[1]);
	wait_for_go();
	for (;;) {
		redisReply *entries = read ? link_entries(read) : NULL;

		if (read && !entries)
			break;
		if (entries) {
			append_settlement(c, argv[2], entries);
			n_done += entries->elements;
		}
		append_read(c, argv[2], argv[3], argv[4]);
		if (entries) {
			freeReplyObject(read);
			freeReplyObject(link_reply(c));
			freeReplyObject(link_reply(c));
		}
		read = link_reply(c);
	}
	freeReplyObject(read);
	redisFree(c);
	printf("%zu\n", n_done);
	return 0;
}
