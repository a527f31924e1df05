/*
 * stream_done.c - the short way of the tasks that are simply done: nothing of them is in Redis but
 * their entry, and nobody wants to know their end. Almost all tasks are such, and the script that
 * can settle everything costs several times what XACK and XDEL do.
 *
 *	MULTI  XACK stream group id...  XDEL stream id...  HINCRBY counters done n  EXEC
 *
 * It does not look whose the entries are, so it is for fresh evidence only: half of the lease and
 * more is left. Should it come late all the same (Redis or the network stood still), it takes an
 * entry that another may be running by now out of the stream; that other finds it gone, and it
 * counts once: it was done. What cannot be told apart is which of a batch somebody else, who is no
 * worker of ours, had acknowledged: their number is said, and the counter corrected.
 *
 * Whatever goes wrong is left to the script: the same tasks go out again with it (resent), so at
 * "out of memory" and where MULTI is refused too.
 */
#include <inttypes.h>

#include "stream.h"

struct done_batch {
	struct queue *q; /* borrowed */
	int n;
	struct task *tasks[]; /* borrowed */
};

static bool is_plain(const struct queue *q, const struct task *t, int64_t now)
{
	return t->verdict.op == VERDICT_DONE && !t->resent && t->token == 1 &&
	       !task_ran_before(t) && !t->notes[NOTE_CHECKPOINT].said &&
	       !t->notes[NOTE_PROGRESS].said && stream_wanted_ms(q, t) == 0 &&
	       lease_is_fresh(t->evidence_ms, now, q->c->lease);
}

static struct done_batch *collect(struct queue *q, int64_t now)
{
	struct done_batch *b = NULL;
	struct list *it, *tmp;

	list_each_safe (it, tmp, &q->to_settle) {
		struct task *t = list_entry(it, struct task, link);

		if (!is_plain(q, t, now))
			continue;
		if (!b) {
			b = xcalloc(1, sizeof(*b) + STREAM_SETTLE_BATCH * sizeof(b->tasks[0]));
			b->q = q;
		}
		list_remove(&t->link);
		b->tasks[b->n++] = t;
		if (b->n == STREAM_SETTLE_BATCH)
			break;
	}
	return b;
}

/* ------------------------------------------------------------------ the answer */

/* How many were acknowledged; -1: it was not carried out. */
static int64_t n_acknowledged(const struct queue *q, const struct redisReply *r)
{
	size_t n = q->c->on_done == CONF_DONE_ACK ? 2 : 3;

	if (reply_len(r) != n)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (reply_kind(reply_at(r, i)) != REPLY_OK)
			return -1;
	return reply_int(reply_at(r, 0), -1);
}

static void count_less(struct queue *q, int64_t n)
{
	struct args a;

	log_warning("%" PRId64 " tasks that are done had been acknowledged by somebody else", n);
	args_init(&a);
	args_str(&a, "HINCRBY");
	args_str(&a, q->keys.counters);
	args_str(&a, "done");
	args_int(&a, -n);
	if (stream_send(stream_link(q), &a, 0, NULL, NULL) < 0)
		log_debug("no link to correct a counter over");
}

static void on_done(void *arg, const struct redisReply *r)
{
	struct done_batch *b = arg;
	struct queue *q = b->q;
	int64_t n = n_acknowledged(q, r);

	for (int i = 0; i < b->n; i++) {
		if (n >= 0)
			stream_settled(q, b->tasks[i], 1);
		else if (q->phase == STREAM_FENCED)
			stream_lose(q, b->tasks[i], STREAM_ANOTHERS);
		else
			stream_settle_again(q, b->tasks[i]);
	}
	if (n >= 0) {
		stream_fine(q, STREAM_OP_SETTLE);
		if (n < b->n)
			count_less(q, b->n - n);
	} else if (r) {
		/* Until the link is made anew: here it does not work. */
		q->no_short_way = true;
		log_debug("settling by MULTI: %s", reply_error_text(r));
	}
	free(b);
}

static void on_queued(void *arg ATTR_UNUSED, const struct redisReply *r ATTR_UNUSED)
{
	/* What is refused here, EXEC says again. */
}

/* ------------------------------------------------------------------ sending */

static void begin(struct args *a, const char *verb, const char *key)
{
	args_init(a);
	args_str(a, verb);
	if (key)
		args_str(a, key);
}

static int queue_one(struct rconn *link, struct args *a)
{
	return stream_send(link, a, 0, on_queued, NULL);
}

static int send_ids(struct rconn *link, const struct done_batch *b, const char *verb)
{
	struct args a;

	begin(&a, verb, b->q->keys.stream);
	if (verb[1] == 'A')
		args_str(&a, b->q->c->group);
	for (int i = 0; i < b->n; i++)
		args_str(&a, b->tasks[i]->id);
	return queue_one(link, &a);
}

static int send_all(struct rconn *link, struct done_batch *b)
{
	struct queue *q = b->q;
	struct args a;

	begin(&a, "MULTI", NULL);
	if (queue_one(link, &a) < 0 || send_ids(link, b, "XACK") < 0)
		return -1;
	if (q->c->on_done != CONF_DONE_ACK && send_ids(link, b, "XDEL") < 0)
		return -1;
	begin(&a, "HINCRBY", q->keys.counters);
	args_str(&a, "done");
	args_int(&a, b->n);
	if (queue_one(link, &a) < 0)
		return -1;
	begin(&a, "EXEC", NULL);
	return stream_send(link, &a, 0, on_done, b);
}

void stream_done_flush(struct queue *q, int64_t now)
{
	struct rconn *link = stream_link(q);
	struct done_batch *b;

	while (!q->no_short_way && rconn_is_ready(link) && (b = collect(q, now))) {
		for (int i = 0; i < b->n; i++) {
			b->tasks[i]->sent = true;
			if (link == q->fetch)
				ledger_leave(&q->w->ledger, &b->tasks[i]->place);
		}
		/* A link that fails in between has a MULTI without an EXEC: it is dropped. */
		if (send_all(link, b) < 0)
			on_done(b, NULL);
	}
}
