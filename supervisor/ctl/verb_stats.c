/*
 * verb_stats.c - where the tasks of a queue are, read from the structures in one transaction.
 *
 *   waiting        in the stream, handed to nobody       running   pending for a consumer
 *   delayed, held, dead: what the names say              done, dropped: counted by the scripts
 *   accepted       every task ever taken in: entries added less those we added again ourselves
 *                  (7.0 and later). Of a list, before, with start = $, and where the stream is
 * younger than the counters it cannot be told: JSON has the sum of all places, the table - trimmed
 * accepted, but in no place: somebody's XTRIM, MAXLEN or XDEL (7.0 and later) oldest_age_ms  of the
 * oldest waiting task, 0 when none waits backlog        waiting + delayed: what workers still have
 * to begin
 *
 * Of a queue with partitions each is the sum over all of them, for a task never leaves its own; but
 * for the oldest one's age, and for the consumers: every worker is one in each. One whose node is
 * away is left out, and that is said.
 */
#include <jansson.h>

#include "ctl.h"
#include "entry.h"
#include "keys.h"
#include "out.h"
#include "reach.h"
#include "redis.h"
#include "table.h"

#define LAG_COUNT_MAX "10001" /* where Redis cannot tell the lag, count no further */

struct stats {
	int64_t waiting, running, delayed, held, dead, accepted, done, dropped, trimmed, consumers,
		oldest_age_ms, backlog;
	bool is_guessed; /* accepted */
};

enum { R_TYPE, R_STREAM, R_GROUPS, R_PENDING, R_DELAYED, R_HELD, R_DEAD, R_COUNTS, R_TIME, N_R };

static const redisReply *find_group(const redisReply *groups, const char *name)
{
	for (size_t i = 0; groups && i < groups->elements; i++) {
		const redisReply *g = redis_field(groups->element[i], "name");

		if (g && g->str && strcmp(g->str, name) == 0)
			return groups->element[i];
	}
	return NULL;
}

static int64_t id_ms(const char *id)
{
	return strtoll(id, NULL, 10);
}

/* The oldest entry handed to nobody. */
static int64_t oldest_ms(struct redis *r, const char *stream, const char *last, int64_t now_ms,
			 struct err *e)
{
	char from[ENTRY_ID_MAX] = "-";
	redisReply *first;
	int64_t age = 0;

	if (last)
		entry_next_id(last, from);
	first = redis_ask(r, e, "XRANGE", stream, from, "+", "COUNT", "1");
	if (!first)
		return -1;
	if (first->elements == 1 && first->element[0]->elements == 2)
		age = max_i64(0, now_ms - id_ms(first->element[0]->element[0]->str));
	redis_free(first);
	return age;
}

/* Of a list it is the next in turn; since when a plain item waits nobody knows: 0. */
static int64_t next_ms(const redisReply *group, int64_t now_ms)
{
	const redisReply *next = redis_field(group, "next-id");

	return next && next->len > 0 ? max_i64(0, now_ms - id_ms(next->str)) : 0;
}

/* With on_done = ack done entries stay, so waiting is what lies behind the group's last. */
static int64_t count_behind(struct redis *r, const char *stream, const char *last, struct err *e)
{
	char from[ENTRY_ID_MAX] = "-";
	redisReply *page;
	int64_t n;

	if (last)
		entry_next_id(last, from);
	page = redis_ask(r, e, "XRANGE", stream, from, "+", "COUNT", LAG_COUNT_MAX);
	n = page ? (int64_t)page->elements : -1;
	redis_free(page);
	return n;
}

static int fill(struct redis *r, const struct conf_queue *q, const struct keys *k,
		const redisReply *all, struct stats *s, struct err *e)
{
	const redisReply *stream = all->element[R_STREAM];
	const redisReply *group = find_group(all->element[R_GROUPS], q->group);
	const redisReply *pending = all->element[R_PENDING];
	const redisReply *counts = all->element[R_COUNTS];
	const redisReply *lag = redis_field(group, "lag");
	const redisReply *added = redis_field(stream, "entries-added");
	const redisReply *last = redis_field(group, "last-delivered-id");
	int64_t length = redis_int(redis_field(stream, "length"), 0);
	int64_t now_ms = redis_int(all->element[R_TIME]->element[0], 0) * 1000 +
			 redis_int(all->element[R_TIME]->element[1], 0) / 1000;
	int64_t readded = 0;
	int64_t sum;

	memset(s, 0, sizeof(*s));
	if (pending->type == REDIS_REPLY_ARRAY && pending->elements > 0)
		s->running = redis_int(pending->element[0], 0);
	s->delayed = redis_int(all->element[R_DELAYED], 0);
	s->held = redis_int(all->element[R_HELD], 0);
	s->dead = redis_int(all->element[R_DEAD], 0);
	s->consumers = redis_int(redis_field(group, "consumers"), 0);
	if (counts->type == REDIS_REPLY_ARRAY && counts->elements == 3) {
		s->done = redis_int(counts->element[0], 0);
		s->dropped = redis_int(counts->element[1], 0);
		readded = redis_int(counts->element[2], 0);
	}
	if (q->on_done == CONF_DONE_DELETE || !group)
		s->waiting = max_i64(0, length - s->running);
	else if (lag && lag->type == REDIS_REPLY_INTEGER)
		s->waiting = lag->integer;
	else
		s->waiting = count_behind(r, k->stream, last ? last->str : NULL, e);
	if (s->waiting < 0)
		return -1;
	if (s->waiting > 0 && redis_on_list(r))
		s->oldest_age_ms = next_ms(group, now_ms);
	else if (s->waiting > 0)
		s->oldest_age_ms = oldest_ms(r, k->stream, last ? last->str : NULL, now_ms, e);
	if (s->oldest_age_ms < 0)
		return -1;
	sum = s->waiting + s->running + s->delayed + s->held + s->dead + s->done + s->dropped;
	s->accepted = sum;
	s->is_guessed = sum > 0;
	if (added && q->start != CONF_START_END && redis_int(added, 0) >= readded) {
		s->accepted = redis_int(added, 0) - readded;
		s->trimmed = max_i64(0, s->accepted - sum);
		s->is_guessed = false;
	}
	s->backlog = s->waiting + s->delayed;
	return 0;
}

static bool is_wrong_type(const redisReply *r)
{
	return r->type == REDIS_REPLY_ERROR && strstr(r->str, "WRONGTYPE");
}

static int read_stats(struct redis *r, const struct conf_queue *q, struct stats *s, struct err *e)
{
	struct keys k;
	redisReply *all;
	int rc = -1;

	keys_init(&k, q->name);
	{
		const char *const commands[N_R][REDIS_MULTI_WORDS] = {
			[R_TYPE] = {"TYPE", k.stream},
			[R_STREAM] = {"XINFO", "STREAM", k.stream},
			[R_GROUPS] = {"XINFO", "GROUPS", k.stream},
			[R_PENDING] = {"XPENDING", k.stream, q->group},
			[R_DELAYED] = {"ZCARD", k.delayed},
			[R_HELD] = {"XLEN", k.held},
			[R_DEAD] = {"XLEN", k.dead},
			[R_COUNTS] = {"HMGET", k.counters, "done", "dropped", "readded"},
			[R_TIME] = {"TIME"},
		};

		all = redis_multi(r, e, commands, N_R);
	}
	if (all && (all->elements != N_R || all->element[R_TIME]->elements != 2)) {
		err_set(e, EXIT_FORCED, "Redis at %s answers strangely; is it Redis 5 or later?",
			redis_where(r));
	} else if (all) {
		const char *type = all->element[R_TYPE]->str;
		bool is_other = type && strcmp(type, redis_on_list(r) ? "list" : "stream") != 0 &&
				strcmp(type, "none") != 0;

		if ((is_other || is_wrong_type(all->element[R_HELD]) ||
		     is_wrong_type(all->element[R_DEAD])) &&
		    redis_say_kind(r, redis_on_list(r), e))
			rc = -1;
		else if (is_other)
			err_set(e, EXIT_FORCED, "%s is a %s, not a stream; is it the right name?",
				q->name, type);
		else
			rc = fill(r, q, &k, all, s, e);
	}
	redis_free(all);
	keys_release(&k);
	return rc;
}

static const struct stats nothing;

/* -1: the queue as a whole. NULL: it could not be asked, so that there is no number. */
static json_t *as_json(const char *queue, int partition, const struct stats *known)
{
	const struct stats *s = known ? known : &nothing;
	json_t *o = json_object();
	const struct {
		const char *key;
		int64_t n;
	} rows[] = {
		{"waiting", s->waiting}, {"running", s->running},
		{"delayed", s->delayed}, {"held", s->held},
		{"dead", s->dead},       {"accepted", s->accepted},
		{"done", s->done},       {"dropped", s->dropped},
		{"trimmed", s->trimmed}, {"consumers", s->consumers},
		{"backlog", s->backlog}, {"oldest_age_ms", s->oldest_age_ms},
	};

	if (json_object_set_new(o, "queue", json_string(queue)) != 0)
		json_object_set_new(o, "queue", json_null()); /* not UTF-8 */
	if (partition >= 0)
		json_object_set_new(o, "partition", json_integer(partition));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		json_object_set_new(o, rows[i].key, known ? json_integer(rows[i].n) : json_null());
	return o;
}

/* NULL: as above. */
static void add_row(struct table *t, const char *queue, const struct stats *known)
{
	const struct stats *s = known ? known : &nothing;
	const int64_t numbers[] = {s->waiting, s->running, s->delayed, s->held, s->dead, s->done};
	struct buf age = BUF_INIT;

	table_cell(t, queue);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		known ? table_cellf(t, "%lld", (long long)numbers[i]) : table_cell(t, "?");
	if (s->is_guessed)
		table_cell(t, "-");
	else
		known ? table_cellf(t, "%lld", (long long)s->accepted) : table_cell(t, "?");
	if (!known)
		buf_addc(&age, '?');
	else if (s->waiting)
		out_age(&age, s->oldest_age_ms);
	else
		buf_adds(&age, "-");
	table_cell(t, age.data);
	buf_release(&age);
}

/* What deserves a line of its own because it should be 0. */
static void add_remarks(struct buf *out, const char *queue, const struct stats *s)
{
	if (s->dropped)
		buf_addf(out, "%s: %lld dropped (dead letters beyond dead_max, or by drop)\n",
			 queue, (long long)s->dropped);
	if (s->trimmed)
		buf_addf(out,
			 "%s: %lld were removed from the stream by somebody else (XTRIM, MAXLEN, "
			 "XDEL) before they ran\n",
			 queue, (long long)s->trimmed);
}

/* What is printed, as far as it is known. */
struct report {
	struct ctl *ctl;     /* borrowed */
	struct redis *redis; /* borrowed */
	struct reach reach;
	struct table *table;
	json_t *list;
	struct buf remarks;
};

static void add_up(struct stats *sum, const struct stats *s)
{
	sum->waiting += s->waiting;
	sum->running += s->running;
	sum->delayed += s->delayed;
	sum->held += s->held;
	sum->dead += s->dead;
	sum->accepted += s->accepted;
	sum->done += s->done;
	sum->dropped += s->dropped;
	sum->trimmed += s->trimmed;
	sum->is_guessed |= s->is_guessed;
	sum->backlog += s->backlog;
	sum->consumers = max_i64(sum->consumers, s->consumers);
	sum->oldest_age_ms = max_i64(sum->oldest_age_ms, s->oldest_age_ms);
}

/* What each of them says, where it can be asked. */
static int ask_all(struct report *r, const struct parts *p, struct stats *each, struct err *e)
{
	enum reach_result got = REACH_THERE;

	redis_link_all(r->redis, p);
	for (size_t i = 0; i < p->n && got != REACH_END; i++) {
		got = reach_turn_to(&r->reach, p, i, e);
		if (got == REACH_THERE && read_stats(r->redis, &p->v[i], &each[i], e) != 0)
			got = reach_failed(&r->reach, p, i, e);
	}
	return got == REACH_END ? -1 : 0;
}

static void add_partitions(struct report *r, const struct parts *p, const struct stats *each,
			   json_t *queue)
{
	json_t *partitions = json_array();
	json_t *lost = json_array();

	for (size_t i = 0; i < p->n; i++) {
		bool is_lost = reach_is_lost(&r->reach, p, i);

		if (is_lost)
			json_array_append_new(lost, json_integer((json_int_t)i));
		else
			json_array_append_new(partitions, as_json(parts_name(p), (int)i, &each[i]));
		if (r->ctl->options->partitions)
			add_row(r->table, p->v[i].name, is_lost ? NULL : &each[i]);
	}
	json_object_set_new(queue, "partitions", partitions);
	if (json_array_size(lost))
		json_object_set(queue, "unreachable", lost);
	json_decref(lost);
}

static int add_queue(struct report *r, const struct parts *p, struct err *e)
{
	const char *name = parts_name(p);
	struct stats *each = xcalloc(p->n, sizeof(*each));
	struct stats sum = {0};
	int rc = ask_all(r, p, each, e);

	if (rc == 0) {
		bool is_known = reach_n_lost(&r->reach, p) < p->n;
		json_t *queue;

		for (size_t i = 0; i < p->n; i++)
			if (!reach_is_lost(&r->reach, p, i))
				add_up(&sum, &each[i]);
		queue = as_json(name, -1, is_known ? &sum : NULL);
		add_row(r->table, name, is_known ? &sum : NULL);
		if (p->is_spread)
			add_partitions(r, p, each, queue);
		json_array_append_new(r->list, queue);
		add_remarks(&r->remarks, name, &sum);
		reach_add_remark(&r->reach, p, &r->remarks);
	}
	free(each);
	return rc;
}

static void print(const struct report *r)
{
	const struct options *o = r->ctl->options;
	struct buf out = BUF_INIT;

	if (o->json) {
		char *text =
			json_dumps(o->n_args ? json_array_get(r->list, 0) : r->list, JSON_COMPACT);

		buf_addf(&out, "%s\n", text);
		free(text);
	} else {
		table_print(r->table, 0, &out);
		buf_add(&out, r->remarks.data, r->remarks.len);
	}
	out_write(&out);
	buf_release(&out);
}

static int print_stats(struct ctl *c, struct redis *redis, const char *const *names, size_t n,
		       struct err *e)
{
	struct report r = {.ctl = c,
			   .redis = redis,
			   .reach = {.redis = redis, .takes_single = n > 1},
			   .remarks = BUF_INIT};
	int rc = 0;

	r.table = table_new("queue >waiting >running >delayed >held >dead >done >accepted oldest");
	r.list = json_array();
	for (size_t i = 0; i < n && rc == 0; i++) {
		struct parts p;

		rc = target_parts(&c->target, names[i], &p, e);
		if (rc == 0) {
			redis_note_parts(redis, &c->target, &p);
			rc = add_queue(&r, &p, e);
		}
		parts_release(&p);
	}
	if (rc == 0) {
		print(&r);
		rc = reach_end(&r.reach, e);
	}
	reach_release(&r.reach);
	table_free(r.table);
	json_decref(r.list);
	buf_release(&r.remarks);
	return rc;
}

int verb_stats(struct ctl *c, struct err *e)
{
	const struct options *o = c->options;
	const struct conf *conf = target_conf(&c->target, e);
	const char **names;
	struct redis *r;
	size_t n = 0;
	int rc = -1;

	if (!conf)
		return -1;
	names = xcalloc(conf_n_queues(conf) + 1, sizeof(*names));
	if (o->n_args)
		names[n++] = o->args[0];
	else
		for (size_t i = 0; i < conf_n_queues(conf); i++)
			names[n++] = conf_queue_at(conf, i)->name;
	if (n == 0) {
		rc = err_set(e, EXIT_USAGE, "of which queue? Say redisqctl stats QUEUE");
	} else if ((r = redis_open(&c->target, e)) != NULL) {
		rc = print_stats(c, r, names, n, e);
		redis_close(r);
	}
	free(names);
	return rc;
}
