/*
 * doctor_list.c - what can be wrong only where a queue is a list, or should be one; see doctor.h.
 * The rest is looked at as with a stream (doctor_queue.c).
 */
#include "doctor.h"

#define SHOWN 3

/* ------------------------------------------------------------------ is it what it is said to be?
 */

static void look_at_kind(struct doctor *d, const struct conf_queue *q, const struct keys *k)
{
	bool is_list = redis_on_list(d->r);
	struct buf cure = BUF_INIT;

	buf_addf(&cure, "set backend = list; or, if it is empty and to be a stream now, DEL %s",
		 k->last_id);
	if (q->backend == CONF_BACKEND_LIST && !is_list)
		finding_bad(d->f, "backend",
			    "set backend = stream; or move it away with RENAME, if it is none of "
			    "yours",
			    "%s is a stream, and backend = list: workers refuse it", q->name);
	else if (q->backend != CONF_BACKEND_LIST && is_list && conf_queue(d->conf, q->name))
		finding_bad(d->f, "backend", cure.data,
			    "%s was served as a list, and backend = stream", q->name);
	else if (is_list)
		finding_fine(d->f, "backend", "%s is a list", q->name);
	buf_release(&cure);
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
	look_at_kind(d, q, k);
	return redis_on_list(d->r) ? look_at_leftovers(d, q, k) : 0;
}
