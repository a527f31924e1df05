/* partitions.c - see partitions.h. */
#include "partitions.h"
#include "clock.h"
#include "log.h"
#include "worker.h"

void partitions_open(struct worker *w)
{
	struct partitions *ps = &w->partitions;

	ps->n = w->qc->partitions;
	ps->v = xcalloc((size_t)ps->n, sizeof(*ps->v));
	/* Workers that have less credit than there are partitions begin at different ones. */
	ps->first = w->slot * w->qc->concurrency % ps->n;
	for (int i = 0; i < ps->n; i++)
		ps->v[i].queue = w->qops->open(w, i, &worker_queue_events);
}

void partitions_free(struct worker *w)
{
	struct partitions *ps = &w->partitions;

	for (int i = 0; i < ps->n; i++)
		w->qops->free(ps->v[i].queue);
	free(ps->v);
	*ps = (struct partitions){0};
}

void partitions_turn(struct worker *w)
{
	struct partitions *ps = &w->partitions;
	int first = ps->first;

	/* The first has the first grip at the credit: each once. */
	ps->first = (first + 1) % ps->n;
	for (int i = 0; i < ps->n; i++)
		w->qops->turn(ps->v[(first + i) % ps->n].queue);
}

/* None of them is open yet when an order comes early, or any more when it comes late. */
static void each(struct worker *w, void (*fn)(struct queue *q))
{
	for (int i = 0; i < w->partitions.n; i++)
		fn(w->partitions.v[i].queue);
}

void partitions_hold(struct worker *w)
{
	each(w, w->qops->hold);
}

void partitions_scan(struct worker *w)
{
	each(w, w->qops->scan);
}

void partitions_probe(struct worker *w)
{
	each(w, w->qops->probe);
}

void partitions_describe(struct worker *w)
{
	each(w, w->qops->describe);
}

void partitions_leave(struct worker *w)
{
	each(w, w->qops->leave);
}

void partitions_hand_over(struct worker *w, struct obituary *who)
{
	int n = w->qc->partitions;

	if (who->partition < n && (n > 1) == (who->n_partitions > 1)) {
		if (w->partitions.n > 0) /* else it is too early, and we are asked again */
			w->qops->hand_over(w->partitions.v[who->partition].queue, who);
	} else {
		/* Taken away by a reload: no other worker has it, either. */
		char *stream = partition_stream(w->qc->name, who->partition, who->n_partitions);

		log_warning("\"%s\" is not served any more: what dead %s had there stays pending "
			    "until it is, see redisqctl doctor",
			    stream, who->consumer);
		free(stream);
		worker_queue_events.on_swept(w, NULL, who);
		obituary_release(who);
	}
}

/* ------------------------------------------------------------------ what they say */

static struct partition *of(struct worker *w, const struct queue *q)
{
	struct partitions *ps = &w->partitions;
	int i = 0;

	while (i < ps->n && ps->v[i].queue != q)
		i++;
	INVARIANT(i < ps->n);
	return &ps->v[i];
}

static bool is_ready(const struct partitions *ps)
{
	bool any = false;

	for (int i = 0; i < ps->n; i++) {
		if (!ps->v[i].ready && !ps->v[i].waiting)
			return false;
		any |= ps->v[i].ready;
	}
	return any;
}

bool partitions_ready(struct worker *w, const struct queue *q)
{
	of(w, q)->ready = true;
	return is_ready(&w->partitions);
}

bool partitions_waiting(struct worker *w, const struct queue *q)
{
	of(w, q)->waiting = true;
	return is_ready(&w->partitions);
}

bool partitions_all_wait(const struct worker *w)
{
	for (int i = 0; i < w->partitions.n; i++)
		if (!w->partitions.v[i].waiting)
			return false;
	return true;
}

const char *partitions_consumer(const struct worker *w)
{
	for (int i = 0; i < w->partitions.n; i++)
		if (w->partitions.v[i].ready)
			return w->board->names[i].consumer;
	return "";
}

const char *partitions_label(struct worker *w, const struct queue *q, char out[24])
{
	out[0] = '\0';
	if (w->partitions.n > 1)
		snprintf(out, 24, "partition %d: ", (int)(of(w, q) - w->partitions.v));
	return out;
}

bool partitions_have_more(const struct worker *w)
{
	int64_t now = clock_boot_ms();

	for (int i = 0; i < w->partitions.n; i++) {
		struct share s = w->qops->look(w->partitions.v[i].queue, now);

		if (s.more && s.state != SHARE_OUT)
			return true;
	}
	return false;
}

bool partitions_left(struct worker *w, const struct queue *q)
{
	bool all = true;

	of(w, q)->left = true;
	for (int i = 0; i < w->partitions.n; i++)
		all &= w->partitions.v[i].left;
	return all;
}

bool partitions_cleared(struct worker *w, const struct queue *q, int64_t now_ms)
{
	bool all = true;

	of(w, q)->cleared = true;
	for (int i = 0; i < w->partitions.n; i++) {
		const struct partition *p = &w->partitions.v[i];

		all &= p->cleared || !p->consuming || !w->qops->look(p->queue, now_ms).able;
	}
	return all;
}

void partitions_not_cleared(struct worker *w, const struct queue *q)
{
	of(w, q)->cleared = false;
}

void partitions_begin_quarantine(struct worker *w)
{
	for (int i = 0; i < w->partitions.n; i++)
		w->partitions.v[i].cleared = false;
}

void partitions_consuming(struct worker *w, struct queue *q, bool consuming)
{
	bool all = true;

	of(w, q)->consuming = consuming;
	for (int i = 0; i < w->partitions.n; i++)
		all &= w->partitions.v[i].consuming;
	atomic_store(&w->board->consuming, all);
}

bool partitions_hindered(struct worker *w, const struct queue *q, bool hindered)
{
	bool any = false;

	of(w, q)->hindered = hindered;
	for (int i = 0; i < w->partitions.n; i++)
		any |= w->partitions.v[i].hindered;
	return any;
}

void partitions_where(struct worker *w, const struct queue *q, const char *where, struct buf *out)
{
	const struct partition *v = w->partitions.v;

	snprintf(of(w, q)->where, sizeof(v->where), "%s", where);
	for (int i = 0; i < w->partitions.n; i++) {
		int k = 0;

		while (strcmp(v[k].where, v[i].where) != 0)
			k++;
		if (k == i && v[i].where[0])
			buf_addf(out, "%s%s", out->len ? ", " : "", v[i].where);
	}
}

void partitions_count(struct worker *w, const struct queue *q, int n)
{
	of(w, q)->n_tasks += n;
}

struct share_grant partitions_share(const struct worker *w, const struct queue *q, int64_t now)
{
	const struct partitions *ps = &w->partitions;
	struct share all[PARTITIONS_MAX];
	int own = 0;

	memset(all, 0, (size_t)ps->n * sizeof(*all)); /* not all of them: this is for each read */
	for (int i = 0; i < ps->n; i++) {
		all[i] = w->qops->look(ps->v[i].queue, now);
		all[i].n_tasks = ps->v[i].n_tasks;
		if (ps->v[i].queue == q)
			own = i;
	}
	/* It may look for stale entries beside it: what counts is that it wants to read. */
	all[own].state = all[own].more ? SHARE_MORE : SHARE_EMPTY;
	return share_ask(all, ps->n, own, worker_may_ask(w), now);
}
