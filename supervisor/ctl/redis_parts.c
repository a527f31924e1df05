/* redis_parts.c - a queue with its partitions, see redis.h. */
#include "partition.h"
#include "redis.h"

void redis_note_parts(struct redis *r, struct target *t, const struct parts *p)
{
	struct conf_queue first = p->v[0];
	struct err ignored = {0};
	redisReply *there = NULL;

	if (!p->is_made || p->is_spread || t->note)
		return;
	first.name = partition_stream(p->queue->name, 0, PARTITIONS_MAX);
	if (redis_serve(r, &first, &ignored) == 0)
		there = redis_ask(r, &ignored, "EXISTS", first.name);
	if (redis_int(there, 0) > 0)
		t->note =
			xasprintf("%s is there: if %s has partitions, say the file that tells so: "
				  "-c FILE",
				  first.name, p->queue->name);
	redis_free(there);
	free(first.name);
}

struct redis *redis_open_parts(struct target *t, const char *name, struct parts *p, struct err *e)
{
	struct redis *r = NULL;

	if (target_parts(t, name, p, e) == 0)
		r = redis_open(t, e);
	if (r)
		redis_note_parts(r, t, p);
	else
		parts_release(p);
	return r;
}
