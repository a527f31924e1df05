/*
 * doctor_list.c - what can be wrong only where a queue is a list, or should be one; see doctor.h.
 * The rest is looked at as with a stream (doctor_queue.c).
 */
#include "doctor.h"

#define SHOWN 3

/* ------------------------------------------------------------------ is it what it is said to be?
 */

/* Those of the rows of kind.h that doctor_queue() looks at with a stream, too: said there. */
#define SAID_AS_TYPES 0x7u

static int look_at_kind(struct doctor *d, const struct conf_queue *q)
{
	bool is_list = redis_on_list(d->r);
	/* Where no configuration has it, it is what it is, unless -s says what it is to be. */
	bool as_list = q->backend == CONF_BACKEND_LIST || (d->is_made && is_list);
	const char *kind = as_list ? "list" : "stream";
	struct kind_found found;
	struct buf what = BUF_INIT, cure = BUF_INIT;
	uint32_t theirs;

	if (redis_look_at_kind(d->r, &found, d->e) != 0)
		return -1;
	theirs = as_list ? found.of_stream : found.of_list;
	if (!kind_conflict(&found, as_list, redis_keys(d->r), &what, &cure)) {
		if (is_list)
			finding_fine(d->f, "backend", "%s is a list", q->name);
	} else if (is_list != as_list || theirs & ~SAID_AS_TYPES) {
		finding_bad(d->f, "backend", cure.data, "%s, and backend = %s: workers refuse it",
			    what.data, kind);
	}
	buf_release(&what);
	buf_release(&cure);
	return 0;
}

/* ------------------------------------------------------------------ lists that are left over */

struct leftovers {
	const struct keys *k;        /* borrowed, as the next */
	const redisReply *consumers; /* who has something, of those that were looked at */
	struct buf list;             /* "{q}:processing:worker_7 (3 ids)" */
	int n;
};

static bool has_tasks(const redisReply *consumers, const char *name)
{
	for (size_t i = 0; i < consumers->elements; i++) {
		struct slice who = redis_text(redis_field(consumers->element[i], "name"));

		if (slice_eq_str(who, name))
			return true;
	}
	return false;
}

/* A list of a consumer that is no worker, and has nothing. */
static int add_leftover(struct doctor *d, const char *key, void *arg)
{
	struct leftovers *l = arg;
	const char *name = key + strlen(l->k->processing);
	redisReply *known;
	redisReply *length;
	int64_t n;

	if (strncmp(key, l->k->processing, strlen(l->k->processing)) != 0 ||
	    has_tasks(l->consumers, name))
		return 0;
	known = DOCTOR_ASK(d, "HEXISTS", l->k->names, name);
	length = known ? DOCTOR_ASK(d, "LLEN", key) : NULL;
	if (!length) {
		redis_free(known);
		return -1;
	}
	n = redis_int(known, 1) == 0 ? redis_int(length, 0) : 0;
	if (n > 0 && l->n++ < SHOWN)
		buf_addf(&l->list, "%s%s (%lld ids)", l->list.len ? ", " : "", key, (long long)n);
	redis_free(known);
	redis_free(length);
	return 0;
}

static int look_at_leftovers(struct doctor *d, const struct conf_queue *q, const struct keys *k)
{
	struct leftovers l = {.k = k, .list = BUF_INIT};
	redisReply *consumers = DOCTOR_ASK(d, "XINFO", "CONSUMERS", k->stream, q->group);
	struct buf why = BUF_INIT;
	int seen;

	if (!consumers)
		return -1;
	l.consumers = consumers;
	seen = doctor_error(consumers)
		       ? SCANNED_NOTHING
		       : doctor_scan(d, k->processing, true, add_leftover, &l, &why);
	if (seen == SCANNED_NOTHING)
		finding_unknown(d->f, "leftovers", "%s",
				doctor_error(consumers) ? doctor_error(consumers) : why.data);
	else if (seen >= 0 && l.n > 0)
		finding_bad(d->f, "leftovers",
			    "remove them with DEL: they only tell what a consumer has, and it has "
			    "nothing",
			    "lists of consumers that are gone: %s%s", l.list.data,
			    l.n > SHOWN ? ", ..." : "");
	else if (seen >= 0)
		finding_fine(d->f, "leftovers", "no list of a consumer that is gone");
	redis_free(consumers);
	buf_release(&l.list);
	buf_release(&why);
	return seen < 0 ? -1 : 0;
}

int doctor_list(struct doctor *d, const struct conf_queue *q, const struct keys *k)
{
	if (look_at_kind(d, q) != 0)
		return -1;
	return redis_on_list(d->r) ? look_at_leftovers(d, q, k) : 0;
}
