/*
 * stream_done.c - the short way of the tasks that are simply done: nothing of them is in Redis but
 * their entry, and nobody wants to know their end. Almost all tasks are such, and the script that
 * can settle everything costs several times what scripts/done.lua does.
 *
 * That one does not look whose the entries are, so it is for fresh evidence only: half of the lease
 * and more is left. Should it come late all the same (Redis or the network stood still), it takes
 * an entry that another may be running by now out of the stream; that other finds it gone, and it
 * counts once: it was done. What was settled meanwhile it does not count again. What cannot be told
 * apart is which of a batch somebody else, who is no worker of ours, had acknowledged: their number
 * is said.
 *
 * Whatever goes wrong is left to settle.lua: the same tasks go out again with it (resent), so at
 * "out of memory" too.
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

static void on_done(void *arg, const struct redisReply *r)
{
	struct done_batch *b = arg;
	struct queue *q = b->q;
	int64_t n = reply_kind(r) == REPLY_OK ? reply_int(r, -1) : -1;

	if (n > b->n)
		n = -1; /* that is none of its answers */

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
			log_warning("%" PRId64 " task%s done had been acknowledged by somebody "
				    "else",
				    b->n - n, b->n - n == 1 ? " that is" : "s that are");
	} else if (reply_kind(r) == REPLY_MOVED || reply_kind(r) == REPLY_MOVING) {
		stream_trouble(q, r, STREAM_OP_SETTLE);
	} else if (r) {
		/* Until the link is made anew: here it does not work. */
		q->no_short_way = true;
		log_debug("settling by the short way: %s", reply_error_text(r));
	}
	free(b);
}

/* ------------------------------------------------------------------ sending */

static int send_batch(struct rconn *link, struct done_batch *b)
{
	struct queue *q = b->q;
	struct args a;

	args_init(&a);
	args_str(&a, q->keys.stream);
	args_str(&a, q->keys.counters);
	args_str(&a, q->c->group);
	args_int(&a, q->c->on_done == CONF_DONE_ACK);
	for (int i = 0; i < b->n; i++)
		args_str(&a, b->tasks[i]->id);
	return stream_script(q, link, SCRIPT_DONE, 2, &a, on_done, b);
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
		if (send_batch(link, b) < 0)
			on_done(b, NULL);
	}
}
