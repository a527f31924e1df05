/*
 * doctor_names.c - streams whose name ends in that of the queue, see doctor.h. Many clients put a
 * prefix in front of every key (Laravel "laravel_database_"): the producer then adds to a stream
 * that nobody reads, while the workers wait on an empty one.
 */
#include "doctor.h"

#define SCAN_COUNT "1000"
#define SCAN_ROUNDS 100 /* a bound: some 100 000 keys */
#define SHOWN 3

struct lookalikes {
	struct buf list; /* "laravel_database_video (12 entries)" */
	int n;
};

/* A glob that finds what ends in `name`, whatever it holds. */
static void pattern_of(const char *name, struct buf *out)
{
	buf_addc(out, '*');
	for (; *name; name++) {
		if (strchr("*?[]\\^", *name))
			buf_addc(out, '\\');
		buf_addc(out, *name);
	}
}

static void add(struct lookalikes *l, const char *key, const char *what)
{
	if (l->n++ < SHOWN)
		buf_addf(&l->list, "%s%s (%s)", l->list.len ? ", " : "", key, what);
}

/* Is it a stream that none of the configured queues is? */
static int add_stream(struct doctor *d, const char *key, struct lookalikes *l)
{
	redisReply *type;
	redisReply *length;
	char entries[40];
	bool is_stream;

	if (conf_queue(d->conf, key))
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
	snprintf(entries, sizeof(entries), "%lld entries", (long long)redis_int(length, 0));
	add(l, key, entries);
	redis_free(length);
	return 0;
}

/* 1: more pages are to come, 0: that was all, -1: Redis is gone, or refuses (said). */
static int scan_page(struct doctor *d, const char *pattern, char cursor[24], struct lookalikes *l,
		     bool *is_refused)
{
	redisReply *r = DOCTOR_ASK(d, "SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT);
	const redisReply *keys;
	int rc = 0;

	if (!r)
		return -1;
	if (r->elements != 2 || !r->element[0]->str) {
		finding_unknown(d->f, "prefixes", "%s",
				doctor_error(r) ? doctor_error(r) : "SCAN answers strangely");
		*is_refused = true;
		redis_free(r);
		return 0;
	}
	snprintf(cursor, 24, "%s", r->element[0]->str);
	keys = r->element[1];
	for (size_t i = 0; i < keys->elements && rc == 0; i++)
		if (keys->element[i]->str && strlen(keys->element[i]->str) == keys->element[i]->len)
			rc = add_stream(d, keys->element[i]->str, l);
	redis_free(r);
	return rc != 0 ? -1 : strcmp(cursor, "0") != 0;
}

/* Where the queue's own stream is in use the others may well be queues of their own. */
static int report(struct doctor *d, const struct conf_queue *q, const struct lookalikes *l,
		  bool is_all)
{
	const char *more = l->n > SHOWN ? ", ..." : "";
	redisReply *own = DOCTOR_ASK(d, "XLEN", q->name);
	int64_t n_own = own ? redis_int(own, 0) : 0;

	if (!own)
		return -1;
	redis_free(own);
	if (l->n == 0 && is_all)
		finding_fine(d->f, "prefixes", "no other stream has a name that ends in this one");
	else if (l->n == 0)
		finding_note(d->f, "prefixes",
			     "none of the first 100 000 keys is a stream whose name ends in this "
			     "one");
	else if (n_own > 0)
		finding_note(d->f, "prefixes", "other streams end in this name: %s%s", l->list.data,
			     more);
	else
		finding_bad(
			d->f, "prefixes",
			"if a producer's client adds a prefix to its keys, switch that off "
			"(Laravel: options.prefix), or call the queue what the stream is called",
			"nothing is here, but in %s%s", l->list.data, more);
	return 0;
}

int doctor_names(struct doctor *d, const struct conf_queue *q)
{
	struct lookalikes l = {.list = BUF_INIT};
	struct buf pattern = BUF_INIT;
	char cursor[24] = "0";
	bool is_refused = false;
	int more = 1;

	pattern_of(q->name, &pattern);
	for (int i = 0; i < SCAN_ROUNDS && more == 1; i++)
		more = scan_page(d, pattern.data, cursor, &l, &is_refused);
	if (more >= 0 && !is_refused)
		more = report(d, q, &l, more == 0);
	buf_release(&pattern);
	buf_release(&l.list);
	return more < 0 ? -1 : 0;
}
