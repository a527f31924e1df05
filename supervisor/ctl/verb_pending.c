/*
 * verb_pending.c - what has been handed to workers: for whom, since when, for the how-manieth time,
 * and how far it is, where its handler says so. Of partitions the rows of all, in the order of ids;
 * without those of one whose node is away, and that is said.
 */
#include <jansson.h>

#include "ctl.h"
#include "entry.h"
#include "keys.h"
#include "out.h"
#include "reach.h"
#include "redis.h"
#include "table.h"

#define ROWS_DEFAULT 1000
#define PROGRESS_SHOWN 60 /* bytes */

/* Given back: its idle time was set to decades (worker/protocol.txt). */
#define RELEASED_IDLE_MS INT64_C(100000000000)

/* What a queue, or each of its partitions, has handed out. */
struct pending {
	const struct ctl *ctl; /* borrowed */
	struct redis *redis;   /* borrowed */
	struct reach reach;
	struct parts parts;
	struct place {
		redisReply *entries;  /* owned; NULL: there is no group yet */
		redisReply *progress; /* owned; one for each, or NULL: that cannot be told */
	} * places;
	struct entry_row *rows; /* owned, by id */
	size_t n_rows;
};

static void add_row(const struct pending *all, struct table *t, json_t *list,
		    const struct entry_row *row)
{
	const redisReply *p = row->reply;
	const redisReply *progress = row->more;
	int64_t idle = redis_int(p->element[2], 0);
	char *id = parts_id(&all->parts, row->part, redis_text(p->element[0]).data);
	struct buf age = BUF_INIT;
	json_t *o = json_object();

	table_cell(t, id);
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
	if (all->parts.is_spread)
		json_object_set_new(o, "partition", json_integer((json_int_t)row->part));
	json_object_set_new(o, "consumer", entry_string(redis_text(p->element[1])));
	json_object_set_new(o, "idle_ms", json_integer(idle));
	json_object_set_new(o, "deliveries", json_integer(redis_int(p->element[3], 0)));
	if (progress && progress->str)
		json_object_set_new(o, "progress", entry_said(redis_text(progress)));
	json_array_append_new(list, o);
	buf_release(&age);
	free(id);
}

static void print(const struct pending *p)
{
	/* The age is since the last sign of life: a worker renews what it runs within its lease. */
	struct table *t = table_new("id consumer last~sign >deliveries progress");
	json_t *list = json_array();
	struct buf out = BUF_INIT;

	for (size_t i = 0; i < p->n_rows; i++)
		add_row(p, t, list, &p->rows[i]);
	if (p->ctl->options->json) {
		char *text = json_dumps(list, JSON_COMPACT);

		buf_addf(&out, "%s\n", text);
		free(text);
	} else if (p->n_rows == 0) {
		buf_adds(&out, "nothing is pending\n");
	} else {
		table_print(t, 0, &out);
	}
	if (!p->ctl->options->json)
		reach_add_remark(&p->reach, &p->parts, &out);
	out_write(&out);
	buf_release(&out);
	json_decref(list);
	table_free(t);
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

/* What one of the streams has handed out, at most `count`. */
static int ask_place(struct pending *p, size_t i, const char *count, struct err *e)
{
	const struct conf_queue *q = &p->parts.v[i];
	const struct rconn_arg argv[] = {ARG("XPENDING"), ARG(q->name), ARG(q->group),
					 ARG("-"),        ARG("+"),     ARG(count)};
	redisReply *r = redis_try(p->redis, e, ARRAY_LEN(argv), argv);

	if (!r)
		return -1;
	if (r->type != REDIS_REPLY_ERROR) {
		p->places[i].entries = r;
		p->places[i].progress = ask_progress(p->redis, q->name, r);
		p->n_rows += r->elements;
		return 0;
	}
	if (strncmp(r->str, "WRONGTYPE", 9) == 0)
		err_set(e, EXIT_FORCED, "%s is not a stream; is it the right name?", q->name);
	else if (strncmp(r->str, "NOGROUP", 7) != 0)
		err_set(e, EXIT_FORCED, "Redis refuses XPENDING: %s", r->str);
	redis_free(r);
	return e->code ? -1 : 0;
}

/* Of all that was found the first `max`, by id. */
static void merge(struct pending *p, size_t max)
{
	size_t n = 0;

	p->rows = xcalloc(p->n_rows + 1, sizeof(*p->rows));
	for (size_t i = 0; i < p->parts.n; i++) {
		const redisReply *entries = p->places[i].entries;
		const redisReply *progress = p->places[i].progress;

		for (size_t k = 0; entries && k < entries->elements; k++)
			if (entries->element[k]->elements == 4)
				p->rows[n++] = (struct entry_row){
					.reply = entries->element[k],
					.more = progress ? progress->element[k] : NULL,
					.part = i};
	}
	entry_sort(p->rows, n);
	p->n_rows = n < max ? n : max;
}

static int run(struct pending *p, struct err *e)
{
	int64_t n = p->ctl->options->n_lines >= 0 ? p->ctl->options->n_lines : ROWS_DEFAULT;
	bool has_group = false;
	char count[24];

	snprintf(count, sizeof(count), "%lld", (long long)n);
	redis_link_all(p->redis, &p->parts);
	for (size_t i = 0; i < p->parts.n; i++) {
		enum reach_result got = reach_turn_to(&p->reach, &p->parts, i, e);

		if (got == REACH_THERE && ask_place(p, i, count, e) != 0)
			got = reach_failed(&p->reach, &p->parts, i, e);
		if (got == REACH_END)
			return -1;
		has_group |= p->places[i].entries != NULL;
	}
	if (!has_group && p->reach.lost.n)
		return reach_end(&p->reach, e);
	if (!has_group)
		return err_set(e, EXIT_FORCED,
			       "no group \"%s\" on %s yet: no worker has served it; see redisqctl "
			       "stats",
			       p->parts.queue->group, parts_name(&p->parts));
	merge(p, (size_t)n);
	print(p);
	return reach_end(&p->reach, e);
}

int verb_pending(struct ctl *c, struct err *e)
{
	struct pending p = {.ctl = c};
	int rc;

	p.redis = redis_open_parts(&c->target, c->options->args[0], &p.parts, e);
	if (!p.redis)
		return -1;
	p.reach.redis = p.redis;
	p.places = xcalloc(p.parts.n, sizeof(*p.places));
	rc = run(&p, e);
	for (size_t i = 0; i < p.parts.n; i++) {
		redis_free(p.places[i].entries);
		redis_free(p.places[i].progress);
	}
	free(p.places);
	reach_release(&p.reach);
	free(p.rows);
	parts_release(&p.parts);
	redis_close(p.redis);
	return rc;
}
