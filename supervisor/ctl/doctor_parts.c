/*
 * doctor_parts.c - the partitions of a queue, and what lies in streams that would be some if their
 * number were another: nobody runs that. See doctor.h.
 */
#include <inttypes.h>

#include "doctor.h"
#include "partition.h"

#define WHOLE PARTITIONS_MAX /* the stream that is called as the queue is, from before */
#define N_PLACES (PARTITIONS_MAX + 1)
#define SHOWN 5

/* Tasks that wait, are handed out or delayed; and the two kinds that wait for a person. */
enum sort { TASKS, DEAD, HELD, N_SORTS };

/* What is in streams that are not served. */
struct leftover {
	const struct conf_queue *queue; /* borrowed */
	bool is_all;                    /* none was overlooked */
	struct place {
		bool is_there;
		bool is_refused; /* it cannot be asked */
		int64_t n[N_SORTS];
	} places[N_PLACES];
};

/* Owned by the caller. */
static char *name_of(const struct conf_queue *q, int i)
{
	return i == WHOLE ? xstrdup(q->name) : partition_stream(q->name, i, PARTITIONS_MAX);
}

static bool is_served(const struct conf_queue *q, int i)
{
	if (i == WHOLE)
		return q->partitions == 1;
	return q->partitions > 1 && i < q->partitions;
}

/* ------------------------------------------------------------------ which there are */

/* The stream a key belongs to, itself, or what has its tasks beside it; "" when none. */
static void stream_of(const char *key, struct buf *name)
{
	static const char *const suffixes[] = {"delayed", "dead", "held"};
	const char *end = strstr(key, "}:");

	if (key[0] != '{' || !end)
		buf_adds(name, key);
	for (size_t i = 0; key[0] == '{' && end && i < ARRAY_LEN(suffixes); i++)
		if (strcmp(end + 2, suffixes[i]) == 0)
			buf_add(name, key + 1, (size_t)(end - key - 1));
}

/* Which of the places it is; -1: none. */
static int place_of(const struct conf_queue *q, const char *name)
{
	size_t n = strlen(q->name);
	char *end;
	long i;

	if (strncmp(name, q->name, n) != 0 || (name[n] && name[n] != ':'))
		return -1;
	if (!name[n])
		return WHOLE;
	i = strtol(name + n + 1, &end, 10);
	if (*end || i < 0 || i >= PARTITIONS_MAX)
		return -1;
	return partition_is_of(name, q->name, PARTITIONS_MAX) ? (int)i : -1;
}

static int note_key(struct doctor *d, const char *key, void *arg)
{
	struct leftover *l = arg;
	struct buf name = BUF_INIT;
	int i;

	stream_of(key, &name);
	i = name.len ? place_of(l->queue, name.data) : -1;
	if (i >= 0 && !is_served(l->queue, i) && (i == WHOLE || !conf_queue(d->conf, name.data)))
		l->places[i].is_there = true;
	buf_release(&name);
	return 0;
}

static int find_keys(struct doctor *d, struct leftover *l)
{
	struct buf why = BUF_INIT;
	int seen = doctor_scan(d, l->queue->name, true, note_key, l, &why);

	buf_release(&why); /* doctor_names.c says it */
	l->is_all = seen == SCANNED_ALL;
	return seen < 0 ? -1 : 0;
}

/* A scan sees one node of a cluster: there each of them is asked for by its name. */
static void find_names(const struct doctor *d, struct leftover *l)
{
	for (int i = 0; i < N_PLACES; i++) {
		char *name = name_of(l->queue, i);

		l->places[i].is_there =
			!is_served(l->queue, i) && (i == WHOLE || !conf_queue(d->conf, name));
		free(name);
	}
	l->is_all = true;
}

/* ------------------------------------------------------------------ what is in them */

/* Adds a length; what is of another type is somebody else's. -1: Redis is gone. */
static int count(struct doctor *d, const char *word, const char *key, struct place *p, int64_t *sum)
{
	redisReply *r = DOCTOR_ASK(d, word, key);

	if (!r)
		return -1;
	if (doctor_error(r))
		p->is_refused |= strncmp(r->str, "NOPERM", 6) == 0;
	else
		*sum += redis_int(r, 0);
	redis_free(r);
	return 0;
}

static int look_into(struct doctor *d, const struct conf_queue *q, int i, struct place *p)
{
	struct conf_queue one = *q;
	struct keys k;
	int rc = -1;

	one.name = name_of(q, i);
	keys_init(&k, one.name);
	if (redis_serve(d->r, &one, d->e) == 0 &&
	    count(d, "XLEN", k.stream, p, &p->n[TASKS]) == 0 &&
	    count(d, "ZCARD", k.delayed, p, &p->n[TASKS]) == 0 &&
	    count(d, "XLEN", k.dead, p, &p->n[DEAD]) == 0 &&
	    count(d, "XLEN", k.held, p, &p->n[HELD]) == 0)
		rc = 0;
	if (rc != 0 && redis_is_cluster(d->r) && d->e->code == EXIT_UNREACHABLE) {
		/* Its node is away; that of the queue itself need not be. */
		p->is_refused = true;
		*d->e = (struct err){0};
		rc = 0;
	}
	/* There may be 65 of each queue: not all of them at once. */
	redis_forget(d->r, one.name);
	keys_release(&k);
	free(one.name);
	return rc;
}

/* ------------------------------------------------------------------ saying it */

/* Of the places from `from` on those with something: their names, the sum, the last one. */
struct heap {
	struct buf names;
	int64_t n;
	int n_places, first, last;
};

static void gather(const struct leftover *l, int from, int to, enum sort sort, struct heap *h)
{
	*h = (struct heap){.names = BUF_INIT, .first = -1};
	for (int i = from; i < to; i++) {
		int64_t n = l->places[i].n[sort];
		char *name;

		if (!l->places[i].is_there || n == 0)
			continue;
		name = name_of(l->queue, i);
		if (h->n_places < SHOWN)
			buf_addf(&h->names, "%s%s", h->n_places ? ", " : "", name);
		else if (h->n_places == SHOWN)
			buf_adds(&h->names, ", ...");
		free(name);
		h->n += n;
		h->n_places++;
		h->last = i;
		if (h->first < 0)
			h->first = i;
	}
}

/* A worker that has the old number runs what is there, whatever it is; nothing has to be moved. */
static char *cure(const struct conf_queue *q, int partitions)
{
	struct buf b = BUF_INIT;

	if (partitions > 1)
		buf_addf(&b, "set partitions = %d, or ", partitions);
	buf_addf(&b,
		 "run a worker beside the others, whose tasks come on top of theirs, until nothing "
		 "is left: REDISQ_QUEUE_PARTITIONS=%d redisq-worker -c FILE -q %s",
		 partitions, q->name);
	return buf_detach(&b);
}

/* "1 task is", "3 tasks are" */
static void add_number(struct buf *b, int64_t n, const char *one, const char *several)
{
	buf_addf(b, "%" PRId64 " %s", n, n == 1 ? one : several);
}

static void say_tasks(struct doctor *d, const struct conf_queue *q, const struct heap *h)
{
	char *what_to_do = cure(q, h->last == WHOLE ? 1 : (int)max_i64(2, h->last + 1));
	struct buf n = BUF_INIT;

	add_number(&n, h->n, "task is", "tasks are");
	if (h->last == WHOLE)
		finding_bad(d->f, "partitions", what_to_do,
			    "%s in %s itself, from before it had partitions, and no worker "
			    "serves it",
			    n.data, q->name);
	else if (q->partitions > 1 || h->first == 0)
		finding_bad(d->f, "partitions", what_to_do, "%s in %s, and no worker serves %s",
			    n.data, h->names.data, h->n_places > 1 ? "these" : "it");
	else /* a queue that never had partitions may have a neighbour of such a name */
		finding_note(d->f, "partitions", "%" PRId64 " %s in %s, which is no queue", h->n,
			     h->n == 1 ? "entry is" : "entries are", h->names.data);
	buf_release(&n);
	free(what_to_do);
}

/* `sort` is DEAD or HELD: each has a verb of its own. */
static void say_letters(struct doctor *d, const struct conf_queue *q, enum sort sort,
			const struct heap *h)
{
	const char *verb = sort == DEAD ? "dead" : "held";
	struct buf n = BUF_INIT;

	if (sort == DEAD)
		add_number(&n, h->n, "dead letter is", "dead letters are");
	else
		add_number(&n, h->n, "held task is", "held tasks are");
	if (h->last == WHOLE)
		finding_note(d->f, "partitions",
			     "%s in %s itself: redisqctl -s queue.partitions=1 %s list %s", n.data,
			     q->name, verb, q->name);
	else
		finding_note(d->f, "partitions",
			     "%s in %s, which no worker serves: redisqctl %s list %s:%d", n.data,
			     h->names.data, verb, q->name, h->first);
	buf_release(&n);
}

/* 1: something is there. */
static int say_range(struct doctor *d, const struct leftover *l, int from, int to)
{
	int found = 0;

	for (int sort = TASKS; sort < N_SORTS; sort++) {
		struct heap h;

		gather(l, from, to, (enum sort)sort, &h);
		if (h.n > 0 && sort == TASKS)
			say_tasks(d, l->queue, &h);
		else if (h.n > 0)
			say_letters(d, l->queue, (enum sort)sort, &h);
		found |= h.n > 0;
		buf_release(&h.names);
	}
	return found;
}

static void say_refused(struct doctor *d, struct leftover *l)
{
	struct buf names = BUF_INIT;
	int n = 0;

	for (int i = 0; i < N_PLACES; i++) {
		char *name = name_of(l->queue, i);

		if (l->places[i].is_refused && n++ < SHOWN)
			buf_addf(&names, "%s%s", n > 1 ? ", " : "", name);
		free(name);
	}
	if (n > 0)
		finding_unknown(d->f, "partitions", "what is left in %s%s, no access", names.data,
				n > SHOWN ? ", ..." : "");
	l->is_all &= n == 0;
	buf_release(&names);
}

static int look_at_leftover(struct doctor *d, const struct conf_queue *q)
{
	struct leftover l = {.queue = q};
	int found;

	if (redis_is_cluster(d->r))
		find_names(d, &l);
	else if (find_keys(d, &l) != 0)
		return -1;
	for (int i = 0; i < N_PLACES; i++)
		if (l.places[i].is_there && look_into(d, q, i, &l.places[i]) != 0)
			return -1;
	found = say_range(d, &l, 0, PARTITIONS_MAX) + say_range(d, &l, WHOLE, N_PLACES);
	say_refused(d, &l);
	if (!found && l.is_all && q->partitions > 1)
		finding_fine(d->f, "partitions", "%d, and nothing is left in other streams",
			     q->partitions);
	return 0;
}

int doctor_parts(struct doctor *d, const struct parts *p)
{
	const struct conf_queue *q = p->queue;

	if (p->number >= 0) /* one partition alone: the others are not looked at */
		return 0;
	if (q->concurrency < q->partitions)
		finding_note(d->f, "partitions",
			     "concurrency %d is lower than the %d partitions: a task may wait up "
			     "to a second for a worker to come round",
			     q->concurrency, q->partitions);
	if (p->is_spread && redis_is_cluster(d->r) && !d->no_cluster && doctor_spread(d, p) != 0)
		return -1;
	if (redis_serve(d->r, &p->v[0], d->e) != 0)
		return -1;
	return look_at_leftover(d, q);
}
