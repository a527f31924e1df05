/*
 * verb_pending.c - what has been handed to workers: for whom, since when, for the how-manieth time,
 * and how far it is, where its handler says so.
 */
#include <jansson.h>

#include "ctl.h"
#include "entry.h"
#include "keys.h"
#include "out.h"
#include "redis.h"
#include "table.h"

#define ROWS_DEFAULT 1000
#define PROGRESS_SHOWN 60 /* bytes */

/* Given back: its idle time was set to decades (worker/protocol.txt). */
#define RELEASED_IDLE_MS INT64_C(100000000000)

static void add_row(struct table *t, json_t *list, const redisReply *p, const redisReply *progress)
{
	int64_t idle = redis_int(p->element[2], 0);
	struct buf age = BUF_INIT;
	json_t *o = json_object();

	table_cell(t, redis_text(p->element[0]).data);
	table_cell(t, redis_text(p->element[1]).data);
	if (idle >= RELEASED_IDLE_MS)
		buf_adds(&age, "given back");
	else
		out_age(&age, idle);
	table_cell(t, age.data);
	table_cellf(t, "%lld", (long long)redis_int(p->element[3], 0));
	buf_clear(&age);
	if (progress && progress->str)
		entry_print_said(&age, redis_text(progress), PROGRESS_SHOWN);
	table_cell(t, age.data);
	json_object_set_new(o, "id", entry_string(redis_text(p->element[0])));
	json_object_set_new(o, "consumer", entry_string(redis_text(p->element[1])));
	json_object_set_new(o, "idle_ms", json_integer(idle));
	json_object_set_new(o, "deliveries", json_integer(redis_int(p->element[3], 0)));
	if (progress && progress->str)
		json_object_set_new(o, "progress", entry_said(redis_text(progress)));
	json_array_append_new(list, o);
	buf_release(&age);
}

/* `progress`: one element for each of `pending`, or NULL. */
static int print(struct ctl *c, const redisReply *pending, const redisReply *progress)
{
	/* The age is since the last sign of life: a worker renews what it runs within its lease. */
	struct table *t = table_new("id consumer last~sign >deliveries progress");
	json_t *list = json_array();
	struct buf out = BUF_INIT;

	for (size_t i = 0; i < pending->elements; i++)
		if (pending->element[i]->elements == 4)
			add_row(t, list, pending->element[i],
				progress ? progress->element[i] : NULL);
	if (c->options->json) {
		char *text = json_dumps(list, JSON_COMPACT);

		buf_addf(&out, "%s\n", text);
		free(text);
	} else if (pending->elements == 0) {
		buf_adds(&out, "nothing is pending\n");
	} else {
		table_print(t, 0, &out);
	}
	out_write(&out);
	buf_release(&out);
	json_decref(list);
	table_free(t);
	return 0;
}

/* How far each of them is; NULL when that cannot be told. Owned. */
static redisReply *ask_progress(struct redis *r, const char *queue, const redisReply *pending)
{
	struct rconn_arg *argv = xcalloc(pending->elements + 2, sizeof(*argv));
	struct err ignored = {0};
	redisReply *all = NULL;
	struct keys k;

	keys_init(&k, queue);
	argv[0] = ARG("HMGET");
	argv[1] = ARG(k.progress);
	for (size_t i = 0; i < pending->elements; i++) {
		const redisReply *p = pending->element[i];
		struct slice id = redis_text(p->elements ? p->element[0] : NULL);

		argv[i + 2] = (struct rconn_arg){id.data, id.len};
	}
	if (pending->elements > 0)
		all = redis_try(r, &ignored, (int)pending->elements + 2, argv);
	if (all && all->elements != pending->elements) {
		redis_free(all);
		all = NULL;
	}
	keys_release(&k);
	free(argv);
	return all;
}

int verb_pending(struct ctl *c, struct err *e)
{
	const struct conf_queue *q = target_queue(&c->target, c->options->args[0], e);
	int64_t n = c->options->n_lines >= 0 ? c->options->n_lines : ROWS_DEFAULT;
	char count[24];
	struct redis *r = redis_open_queue(&c->target, q, e);
	redisReply *pending;
	int rc = -1;

	if (!r)
		return -1;
	snprintf(count, sizeof(count), "%lld", (long long)n);
	{
		struct rconn_arg argv[] = {ARG("XPENDING"), ARG(q->name), ARG(q->group),
					   ARG("-"),        ARG("+"),     ARG(count)};

		pending = redis_try(r, e, 6, argv);
	}
	if (pending && pending->type == REDIS_REPLY_ERROR &&
	    strncmp(pending->str, "NOGROUP", 7) == 0) {
		err_set(e, EXIT_FORCED,
			"no group \"%s\" on %s yet: no worker has served it; see redisqctl stats",
			q->group, q->name);
	} else if (pending && pending->type == REDIS_REPLY_ERROR) {
		err_set(e, EXIT_FORCED, "Redis refuses XPENDING: %s", pending->str);
	} else if (pending) {
		redisReply *progress = ask_progress(r, q->name, pending);

		rc = print(c, pending, progress);
		redis_free(progress);
	}
	redis_free(pending);
	redis_close(r);
	return rc;
}
