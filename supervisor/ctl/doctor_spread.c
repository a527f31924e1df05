/* doctor_spread.c - which nodes of the cluster the partitions of a queue are at; see doctor.h. */
#include "doctor.h"
#include "spread.h"

/* The number of the node that has these slots, "10.0.0.5:7000"; -1: that is not told. */
static int node_number(struct strv *nodes, const redisReply *master)
{
	struct buf name = BUF_INIT;
	size_t i = 0;

	if (master->type != REDIS_REPLY_ARRAY || master->elements < 2)
		return -1;
	buf_add(&name, redis_text(master->element[0]).data, redis_text(master->element[0]).len);
	buf_addf(&name, ":%lld", (long long)redis_int(master->element[1], 0));
	while (i < nodes->n && strcmp(nodes->v[i], name.data) != 0)
		i++;
	if (i == nodes->n)
		strv_add(nodes, name.data);
	buf_release(&name);
	return (int)i;
}

/* What CLUSTER SLOTS answers: arrays of from, to, the master, and its replicas. Without its answer
 * no node is known. -1: Redis is gone. */
static int ask_slots(struct doctor *d, struct spread *s)
{
	redisReply *r = DOCTOR_ASK(d, "CLUSTER", "SLOTS");
	struct strv nodes = {0};

	if (!r)
		return -1;
	memset(s->node_of, 0xff, sizeof(s->node_of));
	for (size_t i = 0; i < r->elements; i++) {
		const redisReply *row = r->element[i];
		int node = row->elements < 3 ? -1 : node_number(&nodes, row->element[2]);

		if (node >= 0)
			spread_add(s, node, redis_int(row->element[0], -1),
				   redis_int(row->element[1], -1));
	}
	strv_release(&nodes);
	redis_free(r);
	return 0;
}

static int percent(int n, int of)
{
	INVARIANT(of > 0);
	return (200 * n + of) / (2 * of);
}

static void say(struct doctor *d, const struct parts *p, const struct spread *s,
		const struct strv *where, const int *n)
{
	struct buf text = BUF_INIT;
	int n_nodes = (int)max_i64(s->n_nodes, (int64_t)where->n);
	int better = spread_better(s, p->queue->name, (int)p->n);
	int most = 0;

	for (size_t k = 0; k < where->n; k++) {
		if (n[k] > most)
			most = n[k];
		buf_addf(&text, "%s%d at %s", k ? ", " : "", n[k], where->v[k]);
	}
	if ((int)where->n < n_nodes)
		buf_addf(&text, ", none at %d of the %d nodes", n_nodes - (int)where->n, n_nodes);
	if (!spread_is_lopsided(n, n_nodes, (int)p->n)) {
		finding_fine(d->f, "partitions", "%s", text.data);
		buf_release(&text);
		return;
	}
	buf_addf(
		&text,
		": one node has %d%% of the queue, where %d%% is its share; the names decide, and ",
		percent(most, (int)p->n), percent(1, n_nodes));
	if (better)
		buf_addf(&text, "they are spread more evenly with partitions = %d", better);
	else
		buf_adds(&text, "another queue name may spread them more evenly");
	finding_note(d->f, "partitions", "%s", text.data);
	buf_release(&text);
}

int doctor_spread(struct doctor *d, const struct parts *p)
{
	struct spread *s = xcalloc(1, sizeof(*s));
	struct strv where = {0};
	int *n, rc = ask_slots(d, s);

	n = xcalloc(p->n + (size_t)s->n_nodes, sizeof(*n));
	for (size_t i = 0; i < p->n && rc == 0; i++) {
		size_t k = 0;

		rc = redis_serve(d->r, &p->v[i], d->e);
		while (k < where.n && strcmp(where.v[k], redis_where(d->r)) != 0)
			k++;
		if (k == where.n)
			strv_add(&where, redis_where(d->r));
		n[k]++;
	}
	if (rc == 0)
		say(d, p, s, &where, n);
	strv_release(&where);
	free(n);
	free(s);
	return rc;
}
