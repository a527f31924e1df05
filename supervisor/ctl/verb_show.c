/*
 * verb_show.c - one task, wherever it is: in the stream (waiting, or running for whom), delayed,
 * dead or held; by its entry's id there, or by its task id (redisq.id), which stays the same
 * through retries. With what it has left: checkpoint, progress, result; of one that is done and
 * gone the result alone, by its task id. It may be in any partition, and the same id in several:
 * then the one that is meant has to be said.
 */
#include <jansson.h>

#include "ctl.h"
#include "entry.h"
#include "keys.h"
#include "out.h"
#include "partition.h"
#include "reach.h"
#include "redis.h"

#define PAGE "500"
#define VALUE_MAX 2048
#define BODY_CHECKPOINT 8 /* of what show_body answers */

enum { CHECKPOINT, PROGRESS, RESULT, FAILED, N_LEFT };

/* In one partition. */
struct search {
	struct redis *redis;           /* borrowed */
	struct reach *reach;           /* borrowed */
	const struct parts *parts;     /* borrowed */
	const struct conf_queue *conf; /* borrowed: of them the one */
	size_t part;                   /* its number */
	struct keys keys;
	const char *id; /* borrowed */
	bool is_entry_id;
	struct err *e; /* borrowed */

	/* what was found */
	const char *place; /* "stream", "delayed", "dead", "held"; NULL = nothing yet */
	redisReply *reply; /* owned; holds what the others borrow */
	const char *entry; /* its id in that place */
	const redisReply *fields;
	const redisReply *body; /* delayed: what show_body answers */
	struct left {
		const char *name;
		redisReply *reply; /* owned; NULL or nil: there is none */
		struct slice text; /* borrowed; .data NULL: none */
	} left[N_LEFT];
};

static void found(struct search *s, const char *place, redisReply *reply, const redisReply *entry)
{
	s->place = place;
	s->reply = reply;
	s->entry = entry->element[0]->str;
	s->fields = entry->element[1];
}

/* 0: looked (s->place tells), -1: error. */
static int by_entry_id(struct search *s, const char *place, const char *key)
{
	redisReply *r = redis_ask(s->redis, s->e, "XRANGE", key, s->id, s->id);

	if (!r)
		return -1;
	if (r->elements && r->element[0]->elements == 2)
		found(s, place, r, r->element[0]);
	else
		redis_free(r);
	return 0;
}

/* Page by page through a whole stream. */
static int by_task_id(struct search *s, const char *place, const char *key)
{
	char from[ENTRY_ID_MAX] = "-";

	for (;;) {
		redisReply *r = redis_ask(s->redis, s->e, "XRANGE", key, from, "+", "COUNT", PAGE);

		if (!r)
			return -1;
		for (size_t i = 0; i < r->elements; i++) {
			const redisReply *entry = r->element[i];

			if (entry->elements == 2 &&
			    slice_eq_str(entry_field(entry->element[1], "redisq.id"), s->id)) {
				found(s, place, r, entry);
				return 0;
			}
		}
		if (r->elements == 0) {
			redis_free(r);
			return 0;
		}
		entry_next_id(r->element[r->elements - 1]->element[0]->str, from);
		redis_free(r);
	}
}

static int in_delayed(struct search *s)
{
	char cursor[32] = "0";

	do {
		struct rconn_arg argv[] = {ARG(s->keys.delayed), ARG(s->keys.bodies), ARG(s->id),
					   ARG(cursor)};
		redisReply *r = redis_script(s->redis, s->e, SCRIPT_SHOW_BODY, 2, 4, argv);

		if (!r)
			return -1;
		if (r->elements == 2 && r->element[1]->elements >= 5) {
			s->place = "delayed";
			s->reply = r;
			s->body = r->element[1];
			s->entry = s->body->element[0]->str;
			s->fields = s->body->element[2];
			return 0;
		}
		snprintf(cursor, sizeof(cursor), "%s",
			 r->elements ? redis_text(r->element[0]).data : "0");
		redis_free(r);
	} while (strcmp(cursor, "0") != 0);
	return 0;
}

enum { STREAM, DEAD, HELD, N_PLACES };

static const char *const places[N_PLACES] = {"stream", "dead", "held"};

static const char *key_of(const struct search *s, int place)
{
	const char *const keys[N_PLACES] = {s->keys.stream, s->keys.dead, s->keys.held};

	return keys[place];
}

/* Quick: it is asked for by its id. */
static int search_entries(struct search *s)
{
	for (int i = 0; i < N_PLACES && s->is_entry_id && !s->place; i++)
		if (by_entry_id(s, places[i], key_of(s, i)) != 0)
			return -1;
	return 0;
}

/* Page by page. */
static int search_tasks(struct search *s)
{
	if (in_delayed(s) != 0)
		return -1;
	/* The letters first: they are fewer than what may wait in the stream. */
	for (int i = N_PLACES; i > 0 && !s->place; i--)
		if (by_task_id(s, places[i - 1], key_of(s, i - 1)) != 0)
			return -1;
	return 0;
}

/* ------------------------------------------------------------------ what it has left */

/* What the task is called through all its entries. */
static struct slice task_id(const struct search *s)
{
	struct slice id = slice_str("");

	if (s->body)
		id = redis_text(s->body->element[3]);
	else if (s->fields)
		id = entry_field(s->fields, "redisq.id");
	if (id.len == 0)
		id = slice_str(s->entry ? s->entry : s->id);
	return id;
}

static int ask_left(struct search *s, int what, redisReply *reply)
{
	s->left[what].reply = reply;
	if (reply && reply->str)
		s->left[what].text = redis_text(reply);
	return reply ? 0 : -1;
}

/* Under the task's id, else under what workers of several partitions call it. */
static int ask_end(struct search *s, int what, const char *prefix)
{
	struct slice task = task_id(s);
	char *id = xmemdup0(task.data, task.len);
	char *label = parts_label(s->parts, s->part, id);
	char *key = xasprintf("%s%s", prefix, id);
	char *other = xasprintf("%s%s", prefix, label);
	int rc = ask_left(s, what, redis_ask(s->redis, s->e, "GET", key));

	if (rc == 0 && !s->left[what].text.data && strcmp(key, other) != 0) {
		redis_free(s->left[what].reply);
		rc = ask_left(s, what, redis_ask(s->redis, s->e, "GET", other));
	}
	free(id);
	free(label);
	free(key);
	free(other);
	return rc;
}

static int find_left(struct search *s)
{
	bool in_stream = s->place && strcmp(s->place, "stream") == 0;

	s->left[CHECKPOINT].name = "checkpoint";
	s->left[PROGRESS].name = "progress";
	s->left[RESULT].name = "result";
	s->left[FAILED].name = "failed";
	if (in_stream &&
	    (ask_left(s, CHECKPOINT, redis_ask(s->redis, s->e, "HGET", s->keys.ckpt, s->entry)) !=
		     0 ||
	     ask_left(s, PROGRESS, redis_ask(s->redis, s->e, "HGET", s->keys.progress, s->entry)) !=
		     0))
		return -1;
	if (s->body && s->body->elements > BODY_CHECKPOINT)
		s->left[CHECKPOINT].text = redis_text(s->body->element[BODY_CHECKPOINT]);
	else if (s->fields && !in_stream)
		s->left[CHECKPOINT].text = entry_field(s->fields, "redisq.checkpoint");
	if (s->left[CHECKPOINT].text.len == 0)
		s->left[CHECKPOINT].text.data = NULL; /* empty is none */
	return ask_end(s, RESULT, s->keys.result) == 0 ? ask_end(s, FAILED, s->keys.failed) : -1;
}

static void release_left(struct search *s)
{
	for (size_t i = 0; i < N_LEFT; i++)
		redis_free(s->left[i].reply);
}

/* ------------------------------------------------------------------ telling */

struct where {
	const char *state; /* waiting, running, done, delayed, dead, held */
	const char *consumer;
	int64_t idle_ms, deliveries, due_ms;
	redisReply *reply; /* owned; holds `consumer` */
};

/* An entry of the stream: is it handed to somebody, not yet, or done and kept (on_done = ack)? */
static int place_in_stream(struct search *s, struct where *w)
{
	redisReply *groups;
	redisReply *p = NULL;

	w->state = "waiting";
	groups = redis_ask(s->redis, s->e, "XINFO", "GROUPS", s->keys.stream);
	if (!groups)
		return -1;
	for (size_t i = 0; i < groups->elements; i++) {
		const redisReply *g = groups->element[i];
		struct slice last = redis_text(redis_field(g, "last-delivered-id"));

		if (!slice_eq_str(redis_text(redis_field(g, "name")), s->conf->group))
			continue;
		if (entry_id_compare(s->entry, last.data) <= 0)
			w->state = "done";
		p = redis_ask(s->redis, s->e, "XPENDING", s->keys.stream, s->conf->group, s->entry,
			      s->entry, "1");
		if (!p) {
			redis_free(groups);
			return -1;
		}
	}
	redis_free(groups);
	if (p && p->elements == 1 && p->element[0]->elements == 4) {
		w->state = "running";
		w->consumer = p->element[0]->element[1]->str;
		w->idle_ms = redis_int(p->element[0]->element[2], 0);
		w->deliveries = redis_int(p->element[0]->element[3], 0);
	}
	w->reply = p;
	return 0;
}

static const char *const body_names[] = {
	"redisq.id",  "redisq.attempt", "redisq.deliveries", "redisq.snoozes", "redisq.enqueued_at",
	"checkpoint", "crashes"};

static void tell_json(const struct search *s, const struct where *w)
{
	json_t *text = json_object();
	json_t *b64 = json_object();
	json_t *o = json_object();
	char *dump;

	entry_json(s->fields, text, b64);
	json_object_set_new(o, "queue", entry_string(slice_str(parts_name(s->parts))));
	if (s->parts->is_spread)
		json_object_set_new(o, "partition", json_integer((json_int_t)s->part));
	if (s->entry)
		json_object_set_new(o, "entry", json_string(s->entry));
	json_object_set_new(o, "state", json_string(w->state));
	for (size_t i = 0; i < N_LEFT; i++)
		if (s->left[i].text.data)
			json_object_set_new(o, s->left[i].name, entry_said(s->left[i].text));
	if (w->consumer) {
		json_object_set_new(o, "consumer", entry_string(slice_str(w->consumer)));
		json_object_set_new(o, "idle_ms", json_integer(w->idle_ms));
		json_object_set_new(o, "deliveries", json_integer(w->deliveries));
	}
	if (s->body) {
		json_object_set_new(o, "due_ms", json_integer(w->due_ms));
		for (size_t i = 0; i < ARRAY_LEN(body_names) && 3 + i < s->body->elements; i++)
			json_object_set_new(text, body_names[i],
					    entry_string(redis_text(s->body->element[3 + i])));
	}
	json_object_set_new(o, "fields", text);
	if (json_object_size(b64))
		json_object_set_new(o, "fields_b64", b64);
	else
		json_decref(b64);
	dump = json_dumps(o, JSON_COMPACT);
	out_print("%s\n", dump ? dump : "{}");
	free(dump);
	json_decref(o);
}

static void tell(const struct search *s, const struct where *w)
{
	struct buf out = BUF_INIT;
	char *id = parts_id(s->parts, s->part, s->entry ? s->entry : s->id);

	buf_addf(&out, "%s  ", id);
	free(id);
	out_colour(&out, OUT_BOLD);
	buf_adds(&out, w->state);
	out_colour(&out, OUT_PLAIN);
	if (w->consumer) {
		buf_adds(&out, "  by ");
		out_bytes(&out, slice_str(w->consumer), VALUE_MAX);
		buf_addf(&out, ", delivery %lld, last sign of life ", (long long)w->deliveries);
		if (w->idle_ms > INT64_C(100000000000)) {
			buf_adds(&out, "never (given back: the next free worker takes it)");
		} else {
			out_age(&out, w->idle_ms);
			buf_adds(&out, " ago");
		}
	}
	if (s->body)
		buf_addf(&out, "  due at %lld (Unix ms)", (long long)w->due_ms);
	buf_addc(&out, '\n');
	for (size_t i = 0; i < N_LEFT; i++) {
		if (!s->left[i].text.data)
			continue;
		buf_addf(&out, "  %-19s ", s->left[i].name);
		out_bytes(&out, s->left[i].text, VALUE_MAX);
		buf_addc(&out, '\n');
	}
	entry_print(&out, s->fields, VALUE_MAX);
	for (size_t i = 0; s->body && i < ARRAY_LEN(body_names) && 3 + i < s->body->elements; i++) {
		struct slice v = redis_text(s->body->element[3 + i]);

		if (v.len == 0 || 3 + i == BODY_CHECKPOINT) /* that one is told above */
			continue;
		buf_addf(&out, "  %-19s ", body_names[i]);
		out_bytes(&out, v, VALUE_MAX);
		buf_addc(&out, '\n');
	}
	out_write(&out);
	buf_release(&out);
}

static int show(struct search *s, bool as_json)
{
	struct where w = {.state = s->place};
	int rc = 0;

	if (strcmp(s->place, "stream") == 0)
		rc = place_in_stream(s, &w);
	if (s->body)
		w.due_ms = redis_int(s->body->element[1], 0);
	if (rc == 0 && as_json)
		tell_json(s, &w);
	else if (rc == 0)
		tell(s, &w);
	redis_free(w.reply);
	return rc;
}

/* ------------------------------------------------------------------ partitions */

/* What it has left, also where there is nothing else of it. */
static int search_left(struct search *s)
{
	if (find_left(s) != 0)
		return -1;
	if (!s->place && s->left[RESULT].text.data)
		s->place = "done"; /* and gone, but somebody wanted to know */
	return 0;
}

/* One step of the search in all partitions. `one`: where it is; NULL still if it is in none. */
static int search_each(struct search *v, size_t n, int (*step)(struct search *s),
		       struct search **one)
{
	if (n > 1)
		redis_link_all(v->redis, v->parts);
	for (size_t i = 0; i < n; i++) {
		struct search *s = &v[i];
		enum reach_result got = reach_turn_to(s->reach, s->parts, s->part, s->e);

		if (got == REACH_THERE && step(s) != 0)
			got = reach_failed(s->reach, s->parts, s->part, s->e);
		if (got == REACH_END)
			return -1;
		if (got != REACH_THERE)
			continue;
		if (s->place && *one)
			return err_set(
				s->e, EXIT_FORCED,
				"%s is in the partitions %zu and %zu, maybe more; say which: "
				"%zu:%s",
				s->id, (*one)->part, s->part, (*one)->part, s->id);
		if (s->place)
			*one = s;
	}
	return 0;
}

static int search_all(struct search *v, size_t n, struct search **one)
{
	if (search_each(v, n, search_entries, one) != 0)
		return -1;
	if (!*one && search_each(v, n, search_tasks, one) != 0)
		return -1;
	if (!*one)
		return search_each(v, n, search_left, one);
	if (redis_serve((*one)->redis, (*one)->conf, (*one)->e) != 0)
		return -1;
	return find_left(*one);
}

/* In one partition or, with PARTS_ANY, a search in each. Owned. */
static struct search *searches_new(struct reach *x, const struct parts *p, int part, const char *id,
				   size_t *n, struct err *e)
{
	struct search *v = xcalloc(p->n, sizeof(*v));

	*n = 0;
	for (size_t i = 0; i < p->n; i++) {
		if (part != PARTS_ANY && i != (size_t)part)
			continue;
		v[*n] = (struct search){.redis = x->redis,
					.reach = x,
					.parts = p,
					.conf = &p->v[i],
					.part = i,
					.id = id,
					.is_entry_id = partition_is_entry_id(slice_str(id)),
					.e = e};
		keys_init(&v[(*n)++].keys, p->v[i].name);
	}
	return v;
}

static void searches_free(struct search *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		release_left(&v[i]);
		redis_free(v[i].reply);
		keys_release(&v[i].keys);
	}
	free(v);
}

static int find_and_show(struct reach *x, const struct parts *p, const struct options *o,
			 struct err *e)
{
	const char *text = o->args[1];
	const char *id;
	int part = parts_read_id(p, text, &id);
	struct search *one = NULL;
	size_t n;
	struct search *v = searches_new(x, p, part, id, &n, e);
	int rc = search_all(v, n, &one);

	if (rc == 0 && !one && parts_may_be_chosen(text, id)) {
		searches_free(v, n);
		v = searches_new(x, p, PARTS_ANY, text, &n, e);
		rc = search_all(v, n, &one);
	}
	if (rc == 0 && !one && x->lost.n)
		rc = part == PARTS_ANY ? reach_not_found(x, "task", text, e) : reach_end(x, e);
	else if (rc == 0 && !one)
		rc = err_set(e, EXIT_FORCED,
			     "no task %s in %s: done, dropped, or never there; see redisqctl "
			     "stats %s",
			     text, parts_name(p), parts_name(p));
	if (rc == 0 && one)
		rc = show(one, o->json);
	if (rc == 0)
		rc = reach_end(x, e);
	searches_free(v, n);
	return rc;
}

int verb_show(struct ctl *c, struct err *e)
{
	const struct options *o = c->options;
	struct reach reach = {0};
	struct redis *r;
	struct parts p;
	int rc = -1;

	if (o->n_args == 1) /* pm2's show */
		return verb_describe(c, e);
	r = redis_open_parts(&c->target, o->args[0], &p, e);
	reach.redis = r;
	if (r)
		rc = find_and_show(&reach, &p, o, e);
	reach_release(&reach);
	parts_release(&p);
	redis_close(r);
	return rc;
}
