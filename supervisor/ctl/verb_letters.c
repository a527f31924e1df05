/*
 * verb_letters.c - dead letters and held tasks: two streams with the same post-mortem fields, so
 * the same code: list, show, put back on the stream as new (retry, release), drop.
 */
#include <jansson.h>

#include "clock.h"
#include "ctl.h"
#include "entry.h"
#include "keys.h"
#include "out.h"
#include "redis.h"
#include "table.h"

#define LIST_DEFAULT 100
#define BATCH 100 /* ids per script call */

struct letters {
	struct ctl *ctl;     /* borrowed */
	struct redis *redis; /* borrowed */
	const char *word;    /* "dead" or "held" */
	const char *again;   /* "retry" or "release" */
	const char *key;     /* borrowed from keys */
	const char *queue;   /* borrowed */
	const char **ids;    /* borrowed from the options */
	size_t n_ids;
	struct keys keys;
};

static const char *entry_id(const redisReply *entry)
{
	return redis_text(entry->element[0]).data;
}

/* ------------------------------------------------------------------ list, show */

static void add_row(struct table *t, const redisReply *entry, int64_t now_ms)
{
	const redisReply *f = entry->element[1];
	struct slice died = entry_field(f, "redisq.died_at");
	struct buf b = BUF_INIT;

	table_cell(t, entry_id(entry));
	out_bytes(&b, entry_field(f, "redisq.id"), 32);
	table_cell(t, b.data);
	buf_clear(&b);
	out_bytes(&b, entry_field(f, "redisq.reason"), 16);
	table_cell(t, b.data);
	buf_clear(&b);
	out_bytes(&b, entry_field(f, "redisq.attempt"), 8);
	table_cell(t, b.data);
	buf_clear(&b);
	out_age(&b, died.len ? max_i64(0, now_ms - strtoll(died.data, NULL, 10)) : -1);
	table_cell(t, b.data);
	buf_clear(&b);
	out_bytes(&b, entry_field(f, "redisq.error"), 120);
	table_cell(t, b.data);
	buf_release(&b);
}

static json_t *letter_json(const redisReply *entry)
{
	json_t *text = json_object();
	json_t *b64 = json_object();
	json_t *o = json_object();

	entry_json(entry->element[1], text, b64);
	json_object_set_new(o, "entry", json_string(entry_id(entry)));
	json_object_set_new(o, "fields", text);
	if (json_object_size(b64))
		json_object_set_new(o, "fields_b64", b64);
	else
		json_decref(b64);
	return o;
}

static void print_json(json_t *list)
{
	char *text = json_dumps(list, JSON_COMPACT);

	out_print("%s\n", text ? text : "[]");
	free(text);
	json_decref(list);
}

static int list_letters(struct letters *l, struct err *e)
{
	const struct options *o = l->ctl->options;
	int64_t max = o->n_lines >= 0 ? o->n_lines : LIST_DEFAULT;
	struct table *t = table_new("entry task reason >attempt >age error");
	struct buf out = BUF_INIT;
	json_t *list = json_array();
	redisReply *size = redis_ask(l->redis, e, "XLEN", l->key);
	redisReply *r = NULL;
	char count[24];
	int rc = -1;

	snprintf(count, sizeof(count), "%lld", (long long)max_i64(1, max));
	if (size) /* the newest ones, the newest last */
		r = redis_ask(l->redis, e, "XREVRANGE", l->key, "+", "-", "COUNT", count);
	if (r) {
		rc = 0;
		for (size_t i = r->elements; i > 0; i--) {
			add_row(t, r->element[i - 1], clock_wall_ms());
			json_array_append_new(list, letter_json(r->element[i - 1]));
		}
	}
	if (rc == 0 && o->json) {
		print_json(json_incref(list));
	} else if (rc == 0 && r->elements == 0) {
		out_print("no %s tasks in %s\n", l->word, l->queue);
	} else if (rc == 0) {
		table_print(t, out_width() > 80 ? out_width() : 80, &out);
		if (size->integer > (int64_t)r->elements)
			buf_addf(&out, "the newest %zu of %lld; -n for more\n", r->elements,
				 (long long)size->integer);
		out_write(&out);
	}
	redis_free(size);
	redis_free(r);
	json_decref(list);
	buf_release(&out);
	table_free(t);
	return rc;
}

/* The letter that is meant: by its entry's id, else by its task id. Owned reply; NULL with `e`. */
static redisReply *find_letter(struct letters *l, const char *id, const redisReply **entry,
			       struct err *e)
{
	char from[ENTRY_ID_MAX] = "-";
	redisReply *r;

	*entry = NULL;
	if (strspn(id, "0123456789-") == strlen(id)) {
		r = redis_ask(l->redis, e, "XRANGE", l->key, id, id);
		if (!r)
			return NULL;
		if (r->elements) {
			*entry = r->element[0];
			return r;
		}
		redis_free(r);
	}
	for (;;) {
		r = redis_ask(l->redis, e, "XRANGE", l->key, from, "+", "COUNT", "500");
		if (!r)
			return NULL;
		for (size_t i = 0; i < r->elements; i++) {
			struct slice task = entry_field(r->element[i]->element[1], "redisq.id");

			if (slice_eq_str(task, id)) {
				*entry = r->element[i];
				return r;
			}
		}
		if (r->elements == 0)
			break;
		entry_next_id(entry_id(r->element[r->elements - 1]), from);
		redis_free(r);
	}
	redis_free(r);
	err_set(e, EXIT_FORCED, "no %s task %s in %s; see redisqctl %s list %s", l->word, id,
		l->queue, l->word, l->queue);
	return NULL;
}

static int show_letters(struct letters *l, struct err *e)
{
	struct buf out = BUF_INIT;
	json_t *list = json_array();
	int rc = 0;

	for (size_t i = 0; i < l->n_ids && rc == 0; i++) {
		const redisReply *entry;
		redisReply *r = find_letter(l, l->ids[i], &entry, e);

		if (!r) {
			rc = -1;
			break;
		}
		json_array_append_new(list, letter_json(entry));
		buf_addf(&out, "%s  %s\n", entry_id(entry), l->word);
		entry_print(&out, entry->element[1], 0);
		redis_free(r);
	}
	if (rc == 0 && l->ctl->options->json)
		print_json(json_incref(list));
	else
		out_write(&out);
	json_decref(list);
	buf_release(&out);
	return rc;
}

/* ------------------------------------------------------------------ retry, release, drop */

struct totals {
	int64_t n_done;
	int64_t n_missing;
	int64_t n_refused;
	char refused[160]; /* the first reason */
};

/* The script over at most BATCH ids. */
static int act_on(struct letters *l, bool drop, const struct rconn_arg *ids, size_t n,
		  struct totals *sum, struct err *e)
{
	struct rconn_arg argv[4 + BATCH];
	int argc = 0;
	redisReply *r;

	argv[argc++] = ARG(l->key);
	if (!drop)
		argv[argc++] = ARG(l->keys.stream);
	argv[argc++] = ARG(l->keys.counters);
	if (!drop)
		argv[argc++] = ARG(l->keys.ckpt);
	for (size_t i = 0; i < n; i++)
		argv[argc++] = ids[i];
	r = redis_script(l->redis, e, drop ? SCRIPT_DEAD_DROP : SCRIPT_DEAD_RETRY, drop ? 2 : 4,
			 argc, argv);
	if (!r)
		return -1;
	if (drop) {
		sum->n_done += redis_int(r, 0);
		sum->n_missing += (int64_t)n - redis_int(r, 0);
	}
	for (size_t i = 0; !drop && i < r->elements; i++) {
		const redisReply *one = r->element[i];

		if (one->type == REDIS_REPLY_ERROR) {
			if (sum->n_refused++ == 0)
				snprintf(sum->refused, sizeof(sum->refused), "%.150s",
					 strncmp(one->str, "ERR ", 4) == 0 ? one->str + 4
									   : one->str);
		} else if (one->len > 0) {
			sum->n_done++;
		} else {
			sum->n_missing++;
		}
	}
	redis_free(r);
	return 0;
}

static int act_on_named(struct letters *l, bool drop, struct totals *sum, struct err *e)
{
	for (size_t i = 0; i < l->n_ids; i++) {
		const redisReply *entry;
		redisReply *r = find_letter(l, l->ids[i], &entry, e);
		struct rconn_arg id;
		int rc;

		if (!r)
			return -1;
		id = ARG(entry_id(entry));
		rc = act_on(l, drop, &id, 1, sum, e);
		redis_free(r);
		if (rc != 0)
			return -1;
	}
	return 0;
}

/* All that are there now: up to the last id of this moment, or what dies again would go round. */
static int act_on_all(struct letters *l, bool drop, struct totals *sum, struct err *e)
{
	redisReply *r = redis_ask(l->redis, e, "XREVRANGE", l->key, "+", "-", "COUNT", "1");
	char from[ENTRY_ID_MAX] = "-";
	char last[ENTRY_ID_MAX];
	bool is_over = false;

	if (!r)
		return -1;
	if (r->elements == 0) {
		redis_free(r);
		return 0;
	}
	snprintf(last, sizeof(last), "%s", entry_id(r->element[0]));
	redis_free(r);
	while (!is_over) {
		struct rconn_arg ids[BATCH];
		size_t n = 0;

		r = redis_ask(l->redis, e, "XRANGE", l->key, from, last, "COUNT", "100");
		if (!r)
			return -1;
		for (size_t i = 0; i < r->elements && n < BATCH; i++)
			ids[n++] = ARG(entry_id(r->element[i]));
		is_over = n == 0;
		if (n > 0 && act_on(l, drop, ids, n, sum, e) != 0) {
			redis_free(r);
			return -1;
		}
		if (n > 0) /* what was refused stays: go on behind it */
			entry_next_id(ids[n - 1].data, from);
		redis_free(r);
	}
	return 0;
}

static int act(struct letters *l, bool drop, struct err *e)
{
	const struct options *o = l->ctl->options;
	struct totals sum = {0};
	int rc;

	if (o->all == (l->n_ids > 0))
		return err_set(e, EXIT_USAGE, "%s %s %s: which ones? Say their ids, or --all",
			       l->word, drop ? "drop" : l->again, l->queue);
	rc = o->all ? act_on_all(l, drop, &sum, e) : act_on_named(l, drop, &sum, e);
	if (sum.n_done > 0 || rc == 0)
		out_print(drop ? "dropped %lld %s task%s of %s\n"
			       : "%lld %s task%s put back on %s, as attempt 1\n",
			  (long long)sum.n_done, l->word, sum.n_done == 1 ? "" : "s", l->queue);
	if (rc == 0 && sum.n_refused)
		return err_set(e, EXIT_FORCED, "%lld could not be put back: %s",
			       (long long)sum.n_refused, sum.refused);
	return rc;
}

/* ------------------------------------------------------------------ the two verbs */

static int run(struct letters *l, const char *what, struct err *e)
{
	if (strcmp(what, "list") == 0)
		return list_letters(l, e);
	if (strcmp(what, "show") == 0)
		return l->n_ids ? show_letters(l, e)
				: err_set(e, EXIT_USAGE, "%s show %s: which one? Say its id",
					  l->word, l->queue);
	return act(l, strcmp(what, "drop") == 0, e);
}

static int verb_letters(struct ctl *c, bool held, struct err *e)
{
	const struct options *o = c->options;
	struct letters l = {.ctl = c,
			    .word = held ? "held" : "dead",
			    .again = held ? "release" : "retry",
			    .queue = o->args[1],
			    .ids = o->args + 2,
			    .n_ids = o->n_args - 2};
	const char *what = o->args[0];
	int rc;

	if (strcmp(what, "list") != 0 && strcmp(what, "show") != 0 && strcmp(what, "drop") != 0 &&
	    strcmp(what, l.again) != 0)
		return err_set(e, EXIT_USAGE, "usage: redisqctl %s list|show|%s|drop QUEUE [ID...]",
			       l.word, l.again);
	l.redis = redis_open_queue(&c->target, target_queue(&c->target, l.queue, e), e);
	if (!l.redis)
		return -1;
	keys_init(&l.keys, l.queue);
	l.key = held ? l.keys.held : l.keys.dead;
	rc = run(&l, what, e);
	keys_release(&l.keys);
	redis_close(l.redis);
	return rc;
}

int verb_dead(struct ctl *c, struct err *e)
{
	return verb_letters(c, false, e);
}

int verb_held(struct ctl *c, struct err *e)
{
	return verb_letters(c, true, e);
}
