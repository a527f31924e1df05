/*
 * verb_letters.c - dead letters and held tasks: two streams with the same post-mortem fields, so
 * the same code: list, show, put back on the stream as new (retry, release), drop. Those of
 * partitions are one list, in the order of ids; what is done is done in the partition they are in.
 * One whose node is away is left out, and that is said.
 */
#include <jansson.h>

#include "clock.h"
#include "ctl.h"
#include "entry.h"
#include "keys.h"
#include "out.h"
#include "partition.h"
#include "reach.h"
#include "redis.h"
#include "table.h"

#define LIST_DEFAULT 100
#define BATCH 100 /* ids per script call */

struct letters {
	struct ctl *ctl;     /* borrowed */
	struct redis *redis; /* borrowed */
	struct reach reach;
	const char *word;  /* "dead" or "held" */
	const char *again; /* "retry" or "release" */
	const char *queue; /* borrowed */
	const char **ids;  /* borrowed from the options */
	size_t n_ids;
	bool acts; /* on what it finds: it does not only look */
	struct parts parts;

	/* The one that is looked at, see look_at(): */
	size_t part;
	struct keys keys;
	const char *key; /* borrowed from keys */
};

/* A letter that was looked for. */
struct letter {
	redisReply *reply; /* owned; holds the other */
	const redisReply *entry;
	size_t part;
};

/* Nothing before this is about any stream. */
static enum reach_result look_at(struct letters *l, size_t part, struct err *e)
{
	keys_release(&l->keys);
	keys_init(&l->keys, l->parts.v[part].name);
	l->key = strcmp(l->word, "held") == 0 ? l->keys.held : l->keys.dead;
	l->part = part;
	return reach_turn_to(&l->reach, &l->parts, part, e);
}

static const char *entry_id(const redisReply *entry)
{
	return redis_text(entry->element[0]).data;
}

/* ------------------------------------------------------------------ list, show */

static void add_row(const struct letters *l, struct table *t, const struct entry_row *row,
		    int64_t now_ms)
{
	const redisReply *f = row->reply->element[1];
	struct slice died = entry_field(f, "redisq.died_at");
	struct slice own = entry_field(f, "redisq.id");
	char *id = parts_id(&l->parts, row->part, entry_id(row->reply));
	char *task = xmemdup0(own.data, own.len);
	char *label = parts_label(&l->parts, row->part, task);
	struct buf b = BUF_INIT;

	table_cell(t, id);
	out_bytes(&b, slice_str(label), 32);
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
	free(id);
	free(task);
	free(label);
}

static json_t *letter_json(const struct letters *l, size_t part, const redisReply *entry)
{
	json_t *text = json_object();
	json_t *b64 = json_object();
	json_t *o = json_object();

	entry_json(entry->element[1], text, b64);
	json_object_set_new(o, "entry", json_string(entry_id(entry)));
	if (l->parts.is_spread)
		json_object_set_new(o, "partition", json_integer((json_int_t)part));
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

/* The newest of all partitions. */
struct newest {
	redisReply **replies;   /* owned, one of each partition that could be asked; they hold what
				   the   rows borrow */
	struct entry_row *rows; /* owned, the newest last */
	size_t n_rows;
	int64_t n_all;
};

/* Of the partition that is looked at. */
static int ask_newest(struct letters *l, struct newest *all, const char *count, struct err *e)
{
	redisReply *size = redis_ask(l->redis, e, "XLEN", l->key);
	redisReply *r = NULL;

	if (size)
		r = redis_ask(l->redis, e, "XREVRANGE", l->key, "+", "-", "COUNT", count);
	if (r)
		all->n_all += redis_int(size, 0);
	all->replies[l->part] = r;
	redis_free(size);
	return r ? 0 : -1;
}

static int find_newest(struct letters *l, struct newest *all, int64_t max, struct err *e)
{
	size_t n = 0;
	char count[24];

	snprintf(count, sizeof(count), "%lld", (long long)max);
	redis_link_all(l->redis, &l->parts);
	for (size_t i = 0; i < l->parts.n; i++) {
		enum reach_result got = look_at(l, i, e);

		if (got == REACH_THERE && ask_newest(l, all, count, e) != 0)
			got = reach_failed(&l->reach, &l->parts, i, e);
		if (got == REACH_END)
			return -1;
		if (got == REACH_THERE && all->replies[i])
			n += all->replies[i]->elements;
	}
	all->rows = xcalloc(n + 1, sizeof(*all->rows));
	for (size_t i = 0; i < l->parts.n; i++)
		for (size_t k = 0; all->replies[i] && k < all->replies[i]->elements; k++)
			all->rows[all->n_rows++] =
				(struct entry_row){.reply = all->replies[i]->element[k], .part = i};
	entry_sort(all->rows, all->n_rows);
	if (n > (size_t)max) {
		memmove(all->rows, all->rows + n - max, (size_t)max * sizeof(*all->rows));
		all->n_rows = (size_t)max;
	}
	return 0;
}

static void print_newest(const struct letters *l, const struct newest *all)
{
	struct table *t = table_new("entry task reason >attempt >age error");
	struct buf out = BUF_INIT;
	json_t *list = json_array();

	for (size_t i = 0; i < all->n_rows; i++) {
		add_row(l, t, &all->rows[i], clock_wall_ms());
		json_array_append_new(list, letter_json(l, all->rows[i].part, all->rows[i].reply));
	}
	if (l->ctl->options->json) {
		print_json(json_incref(list));
	} else if (all->n_rows == 0) {
		buf_addf(&out, "no %s tasks in %s\n", l->word, l->queue);
	} else {
		table_print(t, out_width() > 80 ? out_width() : 80, &out);
		if (all->n_all > (int64_t)all->n_rows)
			buf_addf(&out, "the newest %zu of %lld; -n for more\n", all->n_rows,
				 (long long)all->n_all);
	}
	if (!l->ctl->options->json)
		reach_add_remark(&l->reach, &l->parts, &out);
	out_write(&out);
	json_decref(list);
	buf_release(&out);
	table_free(t);
}

static int list_letters(struct letters *l, struct err *e)
{
	const struct options *o = l->ctl->options;
	struct newest all = {.replies = xcalloc(l->parts.n, sizeof(*all.replies))};
	int rc = find_newest(l, &all, o->n_lines >= 0 ? max_i64(1, o->n_lines) : LIST_DEFAULT, e);

	if (rc == 0) {
		if (reach_n_lost(&l->reach, &l->parts) < l->parts.n)
			print_newest(l, &all);
		rc = reach_end(&l->reach, e);
	}
	for (size_t i = 0; i < l->parts.n; i++)
		redis_free(all.replies[i]);
	free(all.replies);
	free(all.rows);
	return rc;
}

/* ------------------------------------------------------------------ finding one */

/* Notes what was found; a second one, in another partition, is an error: -1 with `e`. */
static int found(struct letters *l, struct letter *letter, redisReply *reply,
		 const redisReply *entry, const char *id, struct err *e)
{
	if (letter->entry) {
		redis_free(reply);
		return err_set(e, EXIT_FORCED,
			       "%s is in the partitions %zu and %zu, maybe more; say which: %zu:%s",
			       id, letter->part, l->part, letter->part, id);
	}
	*letter = (struct letter){.reply = reply, .entry = entry, .part = l->part};
	return 0;
}

static int find_entry(struct letters *l, const char *id, struct letter *letter, struct err *e)
{
	redisReply *r = redis_ask(l->redis, e, "XRANGE", l->key, id, id);

	if (!r)
		return -1;
	if (r->elements)
		return found(l, letter, r, r->element[0], id, e);
	redis_free(r);
	return 0;
}

static int find_task(struct letters *l, const char *id, struct letter *letter, struct err *e)
{
	char from[ENTRY_ID_MAX] = "-";
	redisReply *r;

	for (;;) {
		r = redis_ask(l->redis, e, "XRANGE", l->key, from, "+", "COUNT", "500");
		if (!r)
			return -1;
		for (size_t i = 0; i < r->elements; i++) {
			struct slice task = entry_field(r->element[i]->element[1], "redisq.id");

			if (slice_eq_str(task, id))
				return found(l, letter, r, r->element[i], id, e);
		}
		if (r->elements == 0)
			break;
		entry_next_id(entry_id(r->element[r->elements - 1]), from);
		redis_free(r);
	}
	redis_free(r);
	return 0;
}

typedef int find_fn(struct letters *l, const char *id, struct letter *letter, struct err *e);

/* In the partition that is named, else in all of them: the same id may be in several. */
static int find_in(struct letters *l, find_fn *find, int part, const char *id,
		   struct letter *letter, struct err *e)
{
	if (part == PARTS_ANY)
		redis_link_all(l->redis, &l->parts);
	for (size_t i = 0; i < l->parts.n; i++) {
		enum reach_result got;

		if (part != PARTS_ANY && i != (size_t)part)
			continue;
		got = look_at(l, i, e);
		if (got == REACH_THERE && find(l, id, letter, e) != 0)
			got = reach_failed(&l->reach, &l->parts, i, e);
		if (got == REACH_END) {
			redis_free(letter->reply);
			return -1;
		}
	}
	return 0;
}

/* Nothing of that name was found, or there might be a second one where nothing can be asked: then
 * it is not guessed which is meant. -1. */
static int not_sure(const struct letters *l, int part, const char *text, const char *id,
		    const struct letter *letter, struct err *e)
{
	char what[24];

	snprintf(what, sizeof(what), "%s task", l->word);
	if (letter->entry) {
		err_set(e, EXIT_UNREACHABLE,
			"%s is in partition %zu, and may be in one that cannot be reached; say "
			"which: %zu:%s",
			id, letter->part, letter->part, id);
		redis_free(letter->reply);
		return -1;
	}
	if (part != PARTS_ANY && reach_is_lost(&l->reach, &l->parts, (size_t)part))
		return reach_end(&l->reach, e);
	if (part == PARTS_ANY && l->reach.lost.n)
		return reach_not_found(&l->reach, what, text, e);
	return err_set(e, EXIT_FORCED, "no %s %s in %s; see redisqctl %s list %s", what, text,
		       l->queue, l->word, l->queue);
}

/* The letter that is meant: by its entry's id, else by its task id. It is looked at then. -1 with
 * `e`; else letter->reply is the caller's. */
static int find_letter(struct letters *l, const char *text, struct letter *letter, struct err *e)
{
	const char *id;
	int part = parts_read_id(&l->parts, text, &id);

	*letter = (struct letter){0};
	if (partition_is_entry_id(slice_str(id)) &&
	    find_in(l, find_entry, part, id, letter, e) != 0)
		return -1;
	if (!letter->entry && find_in(l, find_task, part, id, letter, e) != 0)
		return -1;
	if (!letter->entry && parts_may_be_chosen(text, id) &&
	    find_in(l, find_task, PARTS_ANY, text, letter, e) != 0)
		return -1;
	if (!letter->entry || (part == PARTS_ANY && l->acts && l->reach.lost.n))
		return not_sure(l, part, text, id, letter, e);
	if (look_at(l, letter->part, e) == REACH_THERE)
		return 0;
	redis_free(letter->reply);
	return e->code ? -1 : reach_end(&l->reach, e);
}

static int show_letters(struct letters *l, struct err *e)
{
	struct buf out = BUF_INIT;
	json_t *list = json_array();
	int rc = 0;

	for (size_t i = 0; i < l->n_ids && rc == 0; i++) {
		struct letter one;
		char *id;

		rc = find_letter(l, l->ids[i], &one, e);
		if (rc != 0)
			break;
		INVARIANT(one.entry);
		json_array_append_new(list, letter_json(l, one.part, one.entry));
		id = parts_id(&l->parts, one.part, entry_id(one.entry));
		buf_addf(&out, "%s  %s\n", id, l->word);
		entry_print(&out, one.entry->element[1], 0);
		free(id);
		redis_free(one.reply);
	}
	if (rc == 0 && l->ctl->options->json)
		print_json(json_incref(list));
	else
		out_write(&out);
	json_decref(list);
	buf_release(&out);
	return rc == 0 ? reach_end(&l->reach, e) : rc;
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
		struct letter one;
		struct rconn_arg id;
		int rc;

		if (find_letter(l, l->ids[i], &one, e) != 0)
			return -1;
		id = ARG(entry_id(one.entry));
		rc = act_on(l, drop, &id, 1, sum, e);
		redis_free(one.reply);
		if (rc != 0)
			return -1;
	}
	return 0;
}

/* All that are there in one partition now: up to the last id of this moment, or what dies again
 * would go round. */
static int act_on_place(struct letters *l, bool drop, struct totals *sum, struct err *e)
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

static int act_on_all(struct letters *l, bool drop, struct totals *sum, struct err *e)
{
	redis_link_all(l->redis, &l->parts);
	for (size_t i = 0; i < l->parts.n; i++) {
		enum reach_result got = look_at(l, i, e);

		/* What becomes of a script whose answer is lost is not known: that is the end. */
		if (got == REACH_END || (got == REACH_THERE && act_on_place(l, drop, sum, e) != 0))
			return -1;
	}
	return 0;
}

static int act(struct letters *l, bool drop, struct err *e)
{
	const struct options *o = l->ctl->options;
	struct totals sum = {0};
	struct buf without = BUF_INIT;
	struct err away = {0};
	int rc;

	if (o->all == (l->n_ids > 0))
		return err_set(e, EXIT_USAGE, "%s %s %s: which ones? Say their ids, or --all",
			       l->word, drop ? "drop" : l->again, l->queue);
	rc = o->all ? act_on_all(l, drop, &sum, e) : act_on_named(l, drop, &sum, e);
	if (sum.n_done > 0 || rc == 0)
		out_print(drop ? "dropped %lld %s task%s of %s\n"
			       : "%lld %s task%s put back on %s, as attempt 1\n",
			  (long long)sum.n_done, l->word, sum.n_done == 1 ? "" : "s", l->queue);
	if (rc != 0)
		return rc;
	reach_add_remark(&l->reach, &l->parts, &without);
	out_write(&without);
	buf_release(&without);
	rc = reach_end(&l->reach, &away);
	if (sum.n_refused)
		return err_set(e, rc ? away.code : EXIT_FORCED,
			       "%lld could not be put back: %s%s%.300s", (long long)sum.n_refused,
			       sum.refused, rc ? "; " : "", away.text);
	*e = away;
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
	l->acts = true;
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
	uint32_t takes = strcmp(what, "list") == 0   ? OPT_BIT(OPT_N_LINES) | OPT_BIT(OPT_JSON)
			 : strcmp(what, "show") == 0 ? OPT_BIT(OPT_JSON)
						     : OPT_BIT(OPT_ALL);
	char verb[16];
	int rc;

	if (strcmp(what, "list") != 0 && strcmp(what, "show") != 0 && strcmp(what, "drop") != 0 &&
	    strcmp(what, l.again) != 0)
		return err_set(e, EXIT_USAGE, "usage: redisqctl %s list|show|%s|drop QUEUE [ID...]",
			       l.word, l.again);
	snprintf(verb, sizeof(verb), "%s %s", l.word, what);
	if (options_check(o, verb, takes, e) != 0)
		return -1;
	l.redis = redis_open_parts(&c->target, l.queue, &l.parts, e);
	if (!l.redis)
		return -1;
	l.reach.redis = l.redis;
	rc = run(&l, what, e);
	reach_release(&l.reach);
	keys_release(&l.keys);
	parts_release(&l.parts);
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
