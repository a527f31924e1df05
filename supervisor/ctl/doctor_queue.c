/* doctor_queue.c - one queue: is everything what and where it should be? See doctor.h. */
#include <inttypes.h>

#include "audit.h"
#include "clock.h"
#include "doctor.h"
#include "out.h"

/* Given back: its idle time was set to decades (worker/protocol.txt). */
#define RELEASED_IDLE_MS INT64_C(100000000000)
#define LOOK_AT_MOST 1000 /* pending entries, and consumers */
#define LOOK_AT_MOST_TEXT "1000"
#define OVERDUE_MS 10000
#define LETTERS_PERCENT 80 /* of dead_max */

/* What is known of the queue so far. */
struct patient {
	struct doctor *d; /* borrowed, as the others */
	const struct conf_queue *q;
	const struct keys *k;
	int64_t n_entries;
	int64_t n_pending;
	int n_alive; /* workers whose claim holds; -1 = not known */
	bool has_group;
};

/* ------------------------------------------------------------------ types */

/* A key that is of another type; it may be what workers of the other kind have made. */
static int say_type(const struct patient *p, const char *key, const char *is, const char *want)
{
	struct kind_found found;
	struct buf what = BUF_INIT, cure = BUF_INIT;
	const char *other = redis_on_list(p->d->r) ? "stream" : "zset";
	bool is_letters = strcmp(key, p->k->dead) == 0 || strcmp(key, p->k->held) == 0;
	bool is_theirs = is_letters ? strcmp(is, other) == 0
				    : strcmp(key, p->k->stream) == 0 && (strcmp(is, "list") == 0 ||
									 strcmp(is, "stream") == 0);

	if (redis_look_at_kind(p->d->r, &found, p->d->e) != 0)
		return -1;
	if (is_theirs && is_letters)
		buf_addf(&cure,
			 "workers for %s made it: ", redis_on_list(p->d->r) ? "streams" : "lists");
	if (!is_theirs || !kind_conflict(&found, redis_on_list(p->d->r), p->k, &what, &cure)) {
		buf_clear(&cure);
		buf_adds(&cure, "move it away with RENAME: workers wait until it is gone");
	}
	finding_bad(p->d->f, "types", cure.data, "%s is a %s, not a %s", key, is, want);
	buf_release(&what);
	buf_release(&cure);
	return 0;
}

/* -1: Redis is gone; 0: something is in the way, and said; 1: all is well. */
static int look_at_types(const struct patient *p)
{
	bool on_list = redis_on_list(p->d->r);
	const char *letters = on_list ? "zset" : "stream";
	const struct {
		const char *key;
		const char *type;
	} rows[] = {
		{p->k->stream, on_list ? "list" : "stream"},
		{p->k->delayed, "zset"},
		{p->k->bodies, "hash"},
		{p->k->dead, letters},
		{p->k->held, letters},
		{p->k->counters, "hash"},
		{p->k->ckpt, "hash"},
		{p->k->progress, "hash"},
		{p->k->crash, "hash"},
		{p->k->names, "hash"},
		{p->k->tasks, "hash"}, /* from here on of a list */
		{p->k->owners, "hash"},
		{p->k->pending, "zset"},
		{p->k->letters, "hash"},
		{p->k->last_id, "string"},
		{p->k->arrived, "list"},
	};
	size_t n_rows = ARRAY_LEN(rows) - (on_list ? 0 : 6);
	int n_bad = 0;
	bool is_told = true;

	for (size_t i = 0; i < n_rows; i++) {
		redisReply *r = DOCTOR_ASK(p->d, "TYPE", rows[i].key);

		if (!r)
			return -1;
		if (r->type != REDIS_REPLY_STATUS) {
			is_told = false;
		} else if (strcmp(r->str, "none") != 0 && strcmp(r->str, rows[i].type) != 0) {
			n_bad++;
			if (say_type(p, rows[i].key, r->str, rows[i].type) != 0) {
				redis_free(r);
				return -1;
			}
		}
		redis_free(r);
	}
	if (!is_told)
		finding_unknown(p->d->f, "types", "TYPE is refused for some keys");
	else if (n_bad == 0)
		finding_fine(p->d->f, "types", "every key is of its type");
	return n_bad == 0;
}

/* ------------------------------------------------------------------ the group, and others */

static int look_at_groups(struct patient *p)
{
	redisReply *length = DOCTOR_ASK(p->d, "XLEN", p->k->stream);
	redisReply *r = length ? DOCTOR_ASK(p->d, "XINFO", "GROUPS", p->k->stream) : NULL;
	bool keeps = p->q->on_done == CONF_DONE_ACK;
	struct slice other = slice_of("", 0);
	const char *why = r ? doctor_error(r) : NULL;

	p->n_entries = length ? redis_int(length, 0) : 0;
	redis_free(length);
	if (!r)
		return -1;
	if (why && !strstr(why, "no such key")) {
		finding_unknown(p->d->f, "group", "%s", why);
		redis_free(r);
		return 0;
	}
	for (size_t i = 0; i < r->elements; i++) {
		struct slice name = redis_text(redis_field(r->element[i], "name"));

		if (slice_eq_str(name, p->q->group)) {
			p->has_group = true;
			p->n_pending = redis_int(redis_field(r->element[i], "pending"), 0);
		} else {
			other = name;
		}
	}
	if (p->has_group)
		finding_fine(p->d->f, "group", "%s, on a %s of %" PRId64 " entr%s", p->q->group,
			     redis_on_list(p->d->r) ? "list" : "stream", p->n_entries,
			     p->n_entries == 1 ? "y" : "ies");
	else if (p->n_entries == 0)
		finding_note(p->d->f, "group",
			     "none yet: neither a worker nor a producer was here");
	else
		finding_bad(p->d->f, "group", "start its workers; are they on this Redis?",
			    "%" PRId64 " entr%s, and no group \"%s\": no worker has ever served it",
			    p->n_entries, p->n_entries == 1 ? "y" : "ies", p->q->group);
	if (other.len && !keeps)
		finding_bad(p->d->f, "other groups",
			    "set on_done = ack (or group to that one, if it is to be continued)",
			    "the group \"%.*s\" reads this stream, too, and done entries would be "
			    "deleted from under it",
			    (int)other.len, other.data);
	else if (other.len)
		finding_note(p->d->f, "other groups",
			     "\"%.*s\" reads this stream, too; a retry is a new entry to it",
			     (int)other.len, other.data);
	redis_free(r);
	return 0;
}

/* ------------------------------------------------------------------ workers */

/* Does the claim of that worker hold? 1, 0, or -1: Redis is gone. */
static int has_claim(const struct patient *p, const char *name)
{
	struct buf key = BUF_INIT;
	redisReply *r;
	int there;

	buf_addf(&key, "%s%s", p->k->claim, name);
	r = DOCTOR_ASK(p->d, "GET", key.data);
	there = !r ? -1 : r->type == REDIS_REPLY_STRING && strncmp(r->str, "dead:", 5) != 0;
	redis_free(r);
	buf_release(&key);
	return there;
}

static bool is_name(const redisReply *names, const char *name)
{
	for (size_t i = 0; i < names->elements; i++)
		if (names->element[i]->str && strcmp(names->element[i]->str, name) == 0)
			return true;
	return false;
}

/* Consumers of the group that were never workers of ours. */
static int look_at_strangers(const struct patient *p, const redisReply *names)
{
	redisReply *r = DOCTOR_ASK(p->d, "XINFO", "CONSUMERS", p->k->stream, p->q->group);
	struct buf text = BUF_INIT;
	struct buf wait = BUF_INIT;

	if (!r)
		return -1;
	for (size_t i = 0; i < r->elements; i++) {
		const redisReply *name = redis_field(r->element[i], "name");
		int64_t pending = redis_int(redis_field(r->element[i], "pending"), 0);

		if (name && name->str && pending > 0 && !is_name(names, name->str))
			buf_addf(&text, "%s%s has %" PRId64, text.len ? ", " : "", name->str,
				 pending);
	}
	out_age(&wait, p->q->foreign_idle);
	if (doctor_error(r) && p->has_group)
		finding_unknown(p->d->f, "strangers", "%s", doctor_error(r));
	else if (text.len)
		finding_bad(
			p->d->f, "strangers",
			"end that program; workers take them over when foreign_idle has passed",
			"consumers that are no workers have pending tasks: %s (foreign_idle %s)",
			text.data, wait.data);
	buf_release(&text);
	buf_release(&wait);
	redis_free(r);
	return 0;
}

static int look_at_workers(struct patient *p)
{
	redisReply *names = DOCTOR_ASK(p->d, "HKEYS", p->k->names);
	int n_dead = 0;
	int rc = 0;

	if (!names)
		return -1;
	p->n_alive = doctor_error(names) ? -1 : 0;
	for (size_t i = 0; i < names->elements && i < LOOK_AT_MOST && rc == 0; i++) {
		int claim = names->element[i]->str ? has_claim(p, names->element[i]->str) : 0;

		rc = claim < 0 ? -1 : 0;
		p->n_alive += claim == 1;
		n_dead += claim == 0;
	}
	if (rc == 0 && p->n_alive < 0)
		finding_unknown(p->d->f, "workers", "%s", doctor_error(names));
	else if (rc == 0 && p->n_alive == 0 && p->n_entries > 0)
		finding_bad(p->d->f, "workers", "start them: redisq-supervisor -c FILE",
			    "%" PRId64 " task%s, and no worker is alive", p->n_entries,
			    p->n_entries == 1 ? "" : "s");
	else if (rc == 0 && n_dead > 0)
		finding_note(p->d->f, "workers", "%d alive; %d dead, which the next pass removes",
			     p->n_alive, n_dead);
	else if (rc == 0)
		finding_fine(p->d->f, "workers", "%d alive", p->n_alive);
	if (rc == 0 && !doctor_error(names))
		rc = look_at_strangers(p, names);
	redis_free(names);
	return rc;
}

/* ------------------------------------------------------------------ what is stuck */

static int look_at_pending(const struct patient *p)
{
	redisReply *r;
	int64_t longest = 0;
	int n_released = 0;
	struct buf age = BUF_INIT;
	const char *of = "";

	if (!p->has_group)
		return 0;
	r = DOCTOR_ASK(p->d, "XPENDING", p->k->stream, p->q->group, "-", "+", LOOK_AT_MOST_TEXT);
	if (!r)
		return -1;
	for (size_t i = 0; i < r->elements; i++) {
		const redisReply *e = r->element[i];
		int64_t idle = e->elements == 4 ? redis_int(e->element[2], 0) : 0;

		n_released += idle >= RELEASED_IDLE_MS;
		if (idle < RELEASED_IDLE_MS && idle > longest && e->element[1]->str) {
			longest = idle;
			of = e->element[1]->str;
		}
	}
	out_age(&age, longest);
	if (doctor_error(r))
		finding_unknown(p->d->f, "pending", "%s", doctor_error(r));
	else if (longest >= 3 * p->q->lease)
		finding_bad(p->d->f, "pending",
			    p->n_alive == 0 ? "start workers, they take it over"
					    : "look at the workers' logs: redisqctl logs",
			    "a task of %s has had no sign of life for %s", of, age.data);
	else if (n_released > 0 && p->n_alive == 0)
		finding_bad(p->d->f, "pending", "start workers, they take them over",
			    "%d task%s given back and %s for a worker", n_released,
			    n_released == 1 ? " was" : "s were",
			    n_released == 1 ? "waits" : "wait");
	else
		finding_fine(p->d->f, "pending",
			     "%" PRId64 " task%s, last sign of life at most %s ago", p->n_pending,
			     p->n_pending == 1 ? "" : "s", age.data);
	buf_release(&age);
	redis_free(r);
	return 0;
}

static int look_at_delayed(const struct patient *p)
{
	redisReply *r = DOCTOR_ASK(p->d, "ZRANGEBYSCORE", p->k->delayed, "-inf", "+inf",
				   "WITHSCORES", "LIMIT", "0", "1");
	struct buf age = BUF_INIT;
	int64_t late;

	if (!r)
		return -1;
	if (doctor_error(r)) {
		finding_unknown(p->d->f, "delayed", "%s", doctor_error(r));
	} else if (r->elements == 2) {
		late = clock_wall_ms() - redis_int(r->element[1], 0);
		out_age(&age, late > 0 ? late : -late);
		if (late > OVERDUE_MS)
			finding_bad(p->d->f, "delayed",
				    "workers put it back: are they alive, is Redis out of memory?",
				    "the first one was due %s ago", age.data);
		else
			finding_fine(p->d->f, "delayed", "the first one is due %s %s",
				     late > 0 ? age.data : "in", late > 0 ? "ago" : age.data);
	}
	buf_release(&age);
	redis_free(r);
	return 0;
}

static int look_at_letters(const struct patient *p)
{
	redisReply *r = DOCTOR_ASK(p->d, "XLEN", p->k->dead);
	int64_t n;

	if (!r)
		return -1;
	n = redis_int(r, 0);
	if (doctor_error(r))
		finding_unknown(p->d->f, "dead letters", "%s", doctor_error(r));
	else if (n * 100 >= (int64_t)p->q->dead_max * LETTERS_PERCENT)
		finding_bad(p->d->f, "dead letters",
			    "retry or drop them: redisqctl dead retry|drop QUEUE",
			    "%" PRId64 " of %" PRId64
			    " (dead_max): the oldest are thrown away then",
			    n, (int64_t)p->q->dead_max);
	else if (n > 0)
		finding_note(p->d->f, "dead letters", "%" PRId64 ": redisqctl dead list %s", n,
			     p->q->name);
	else
		finding_fine(p->d->f, "dead letters", "none");
	redis_free(r);
	return 0;
}

/* ------------------------------------------------------------------ the account */

static int look_at_account(const struct patient *p)
{
	struct err e = {0};

	if (audit_queue(&p->d->audit, p->d->r, p->q, &e) == 0)
		return 0;
	if (e.code == EXIT_UNREACHABLE) {
		*p->d->e = e;
		return -1;
	}
	finding_unknown(p->d->f, "account", "%s", e.text);
	p->d->is_audited = false;
	return 0;
}

int doctor_queue(struct doctor *d, const struct conf_queue *q, const struct keys *k)
{
	struct patient p = {.d = d, .q = q, .k = k};
	int types = look_at_types(&p);

	/* What is asked of a key of the wrong type would only answer WRONGTYPE. */
	if (types <= 0) {
		d->is_audited = false;
		return types;
	}
	if (look_at_groups(&p) != 0 || look_at_workers(&p) != 0 || look_at_pending(&p) != 0 ||
	    look_at_delayed(&p) != 0 || look_at_letters(&p) != 0)
		return -1;
	return look_at_account(&p);
}
