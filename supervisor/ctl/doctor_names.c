/*
 * doctor_names.c - streams whose name ends in that of the queue, see doctor.h. Many clients put a
 * prefix in front of every key (Laravel "laravel_database_"): the producer then adds to a stream
 * that nobody reads, while the workers wait on an empty one.
 */
#include "doctor.h"
#include "partition.h"

#define SHOWN 3

struct lookalikes {
	struct buf list; /* "laravel_database_video (12 entries)" */
	int n;
	int n_empty; /* of others, in which nothing waits for anybody */
};

static void add(struct lookalikes *l, const char *key, const char *what)
{
	if (l->n++ < SHOWN)
		buf_addf(&l->list, "%s%s (%s)", l->list.len ? ", " : "", key, what);
}

/* Is it a stream of a queue that is configured? */
static bool is_known(const struct doctor *d, const char *key)
{
	for (size_t i = 0; i < conf_n_queues(d->conf); i++) {
		const struct conf_queue *q = conf_queue_at(d->conf, i);

		if (strcmp(key, q->name) == 0 || partition_is_of(key, q->name, q->partitions))
			return true;
	}
	return false;
}

/* Is it a stream that none of the configured queues is? */
static int add_stream(struct doctor *d, const char *key, void *arg)
{
	struct lookalikes *l = arg;
	redisReply *type;
	redisReply *length;
	char entries[40];
	bool is_stream;

	if (is_known(d, key))
		return 0;
	type = DOCTOR_ASK(d, "TYPE", key);
	if (!type)
		return -1;
	if (doctor_error(type)) { /* of what is not ours the name may be all that is seen */
		add(l, key, "no access");
		redis_free(type);
		return 0;
	}
	is_stream = type->str && strcmp(type->str, redis_on_list(d->r) ? "list" : "stream") == 0;
	redis_free(type);
	if (!is_stream)
		return 0;
	length = DOCTOR_ASK(d, redis_on_list(d->r) ? "LLEN" : "XLEN", key);
	if (!length)
		return -1;
	snprintf(entries, sizeof(entries), "%lld entr%s", (long long)redis_int(length, 0),
		 redis_int(length, 0) == 1 ? "y" : "ies");
	if (doctor_error(length))
		add(l, key, "no access");
	else if (redis_int(length, 0) > 0)
		add(l, key, entries);
	else
		l->n_empty++;
	redis_free(length);
	return 0;
}

/* ------------------------------------------------------------------ is it this queue's? */

/* 1: there is something, which a queue leaves behind that has ever had a task. -1: Redis is gone.
 */
static int has_traces(struct doctor *d, const struct keys *k)
{
	redisReply *r =
		DOCTOR_ASK(d, "EXISTS", k->counters, k->delayed, k->dead, k->held, k->arrived);
	int rc = r ? redis_int(r, 0) > 0 : -1;

	redis_free(r);
	return rc;
}

/* Likewise: an id was given out. Streams say that from 5.0 on, and lists have a key for it. */
static int has_given_ids(struct doctor *d, const struct keys *k)
{
	bool on_list = redis_on_list(d->r);
	redisReply *r = on_list ? DOCTOR_ASK(d, "GET", k->last_id)
				: DOCTOR_ASK(d, "XINFO", "STREAM", k->stream);
	struct slice id;
	int rc;

	if (!r)
		return -1;
	id = redis_text(on_list ? r : redis_field(r, "last-generated-id"));
	rc = !doctor_error(r) && id.len > 0 && !slice_eq_str(id, "0-0");
	redis_free(r);
	return rc;
}

/* Likewise: something lies there. */
static int has_entries(struct doctor *d, const struct keys *k)
{
	redisReply *r = DOCTOR_ASK(d, "XLEN", k->stream);
	int rc = r ? redis_int(r, 0) > 0 : -1;

	redis_free(r);
	return rc;
}

/* Has the queue ever had a task? What is done is gone: that nothing is there now says nothing. */
static int was_used(struct doctor *d, const struct parts *p)
{
	static int (*const signs[])(struct doctor *,
				    const struct keys *) = {has_entries, has_given_ids, has_traces};
	struct keys k;
	int rc = 0;

	for (size_t i = 0; i < p->n && rc == 0; i++) {
		rc = redis_serve(d->r, &p->v[i], d->e);
		keys_init(&k, p->v[i].name);
		for (size_t s = 0; s < ARRAY_LEN(signs) && rc == 0; s++)
			rc = signs[s](d, &k);
		keys_release(&k);
	}
	return rc;
}

/* Where the queue has been in use the others may well be queues of their own. */
static int report(struct doctor *d, const struct parts *p, const struct lookalikes *l, bool is_all)
{
	const char *more = l->n > SHOWN ? ", ..." : "";
	const char *here =
		redis_is_cluster(d->r) && !d->no_cluster ? " (of those at the same node)" : "";
	int used = was_used(d, p);

	if (used < 0)
		return -1;
	if (l->n == 0 && l->n_empty > 0)
		finding_fine(d->f, "prefixes",
			     "other streams whose name ends in this one are empty%s", here);
	else if (l->n == 0 && is_all)
		finding_fine(d->f, "prefixes", "no other stream has a name that ends in this one%s",
			     here);
	else if (l->n == 0)
		finding_note(d->f, "prefixes",
			     "none of the first 100 000 keys is a stream whose name ends in this "
			     "one%s",
			     here);
	else if (used)
		finding_note(d->f, "prefixes", "other streams end in this name: %s%s", l->list.data,
			     more);
	else
		finding_bad(
			d->f, "prefixes",
			"if a producer's client adds a prefix to its keys, switch that off "
			"(Laravel: options.prefix), or call the queue what the stream is called",
			"nothing was ever here, but in %s%s", l->list.data, more);
	return 0;
}

/* Of partitions the first stands for all: a client that puts a prefix in front does it to each. */
int doctor_names(struct doctor *d, const struct parts *p)
{
	struct lookalikes l = {.list = BUF_INIT};
	struct buf why = BUF_INIT;
	int rc = redis_serve(d->r, &p->v[0], d->e);
	int seen = rc == 0 ? doctor_scan(d, p->v[0].name, false, add_stream, &l, &why) : -1;

	if (seen == SCANNED_NOTHING)
		finding_unknown(d->f, "prefixes", "%s", why.data);
	else if (seen >= 0)
		rc = report(d, p, &l, seen == SCANNED_ALL);
	buf_release(&why);
	buf_release(&l.list);
	return seen < 0 ? -1 : rc;
}
