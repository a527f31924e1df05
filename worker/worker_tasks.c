/*
 * worker_tasks.c - the way of a task through the worker: the queue brings it, the handler runs it,
 * a verdict is found, the queue settles it, the slot is free. And what else the queue has to tell.
 */
#include <inttypes.h>

#include "clock.h"
#include "log.h"
#include "verdict.h"
#include "worker_parts.h"

/* ------------------------------------------------------------------ the queue's events */

static void say_ready(struct worker *w, const char *consumer)
{
	log_info("consumer %s is ready: queue %s, concurrency %d", consumer, w->qc->name,
		 w->qc->concurrency);
	if (!w->ready && w->chan)
		chan_say(w->chan, "ready %s", consumer);
	w->ready = true;
}

static void on_ready(struct worker *w, struct queue *q, const char *consumer)
{
	if (partitions_ready(w, q))
		say_ready(w, consumer);
}

static void on_linked(struct worker *w, struct queue *q, const char *where)
{
	struct buf all = BUF_INIT;

	partitions_where(w, q, where, &all);
	if (w->chan)
		chan_say(w->chan, "redis-at %s", all.data);
	buf_release(&all);
}

static void on_wait(struct worker *w, struct queue *q, const char *why)
{
	char label[24];

	if (!w->ready && partitions_waiting(w, q))
		say_ready(w, partitions_consumer(w));
	/* One alone keeps nothing; it is said when no other can come to be ready. */
	if (!w->ready && w->chan && partitions_all_wait(w))
		chan_say(w->chan, "redis-wait %s%s", partitions_label(w, q, label), why);
	/* Nothing of it can be given back while there is no link: no reason to stay. */
	if (w->phase == WORKER_DRAINING && ledger_is_idle(&w->ledger))
		worker_drain_on(w);
}

static void on_hindered(struct worker *w, struct queue *q, const char *why)
{
	bool any = partitions_hindered(w, q, why != NULL);

	if (w->chan && why)
		chan_say(w->chan, "hindered %s", why);
	else if (w->chan && !any)
		chan_say(w->chan, "hindered");
}

static void on_refused(struct worker *w, struct queue *q ATTR_UNUSED, const char *why)
{
	log_error("queue %s is refused: %s", w->qc->name, why);
	if (w->chan) {
		chan_say(w->chan, "refused %s", why);
		chan_flush(w->chan, 1000);
	}
	w->refused = true;
	worker_over(w);
}

static void on_task(struct worker *w, struct queue *q, struct task *t)
{
	ev_timer_stop(w->loop, &w->first_task);
	partitions_not_cleared(w, q);
	worker_task_event(w, t, TASK_ON_START);
	if (w->stopping) {
		worker_finished(w, t);
		return;
	}
	t->started_ms = clock_boot_ms();
	if (task_size(t) > (size_t)w->qc->payload_max || t->n_fields > 3000) {
		t->outcome.kind = OUTCOME_OVERSIZED;
		snprintf(t->outcome.error, sizeof(t->outcome.error),
			 "%zu bytes in %zu fields, payload_max is %" PRId64, task_size(t),
			 t->n_fields, w->qc->payload_max);
		worker_finished(w, t);
		return;
	}
	if (t->suspicion == SUSPECT_GUILTY) {
		t->outcome.kind = OUTCOME_GUILTY;
		snprintf(t->outcome.error, sizeof(t->outcome.error), "%s", t->crash_cause);
		worker_finished(w, t);
		return;
	}
	if (t->suspicion == SUSPECT_ALONE && !w->quarantine) {
		worker_finished(w, t); /* it became one after it was looked at: given back */
		return;
	}
	INVARIANT(w->n_free_rows > 0);
	t->row = w->free_rows[--w->n_free_rows];
	worker_set_pgid(w, t, 0);
	/* Had another owner before: whoever waits for it to run again wants to know. */
	if (t->token > 1 && w->chan)
		chan_say(w->chan, "again %d %s", t->partition, t->id);
	w->hops->start(w->handler, t);
}

static void on_lost(struct worker *w, struct queue *q ATTR_UNUSED, struct task *t, const char *why)
{
	atomic_fetch_add(&w->board->lost_leases, 1);
	log_warning("task %s: %s; its result will not count", t->label, why);
	if (t->state == TASK_RUNNING && w->qc->on_lost_lease == CONF_LOST_CANCEL)
		w->hops->cancel(w->handler, t, w->qc->kill_grace);
}

static void on_fenced(struct worker *w, struct queue *q)
{
	for (int i = 0; i < w->tasks.n_rows; i++) {
		struct task *t = &w->tasks.rows[i];

		if (t->state == TASK_RUNNING && t->queue == q)
			w->hops->cancel(w->handler, t, w->qc->kill_grace);
	}
}

/* It lies there for anyone, and we may have room for it ourselves: others are told by
 * worker_say_released(). */
static bool is_for_anyone(const struct worker *w, const struct task *t)
{
	return (t->verdict.op == VERDICT_RELEASE || t->verdict.op == VERDICT_SUSPECT) && !t->lost &&
	       t->outcome.kind != OUTCOME_BROKEN && w->phase == WORKER_RUNNING;
}

static void on_gone(struct worker *w, struct queue *q, struct task *t)
{
	if (is_for_anyone(w, t))
		w->qops->scan(q);
	partitions_count(w, q, -1);
	ledger_gone(&w->ledger, t->place);
	worker_publish(w);
	worker_drain_on(w);
}

static void on_released(struct worker *w, struct queue *q ATTR_UNUSED, int n)
{
	w->n_released += n;
}

static void on_suspects(struct worker *w, struct queue *q ATTR_UNUSED, int n)
{
	if (w->chan)
		chan_say(w->chan, "suspects %d", n);
	else if (w->alone)
		worker_set_quarantine(w);
}

static void on_cleared(struct worker *w, struct queue *q)
{
	if (!partitions_cleared(w, q, clock_boot_ms()))
		return;
	worker_end_quarantine(w, "no suspect is left");
	if (w->chan)
		chan_say(w->chan, "cleared");
}

static void on_handed(struct worker *w, struct queue *q ATTR_UNUSED, const struct obituary *who,
		      int64_t n_moved, int64_t n_charged)
{
	if (n_moved > 0)
		log_info("handed over %" PRId64 " task%s of %s (crashes charged: %" PRId64 ")",
			 n_moved, n_moved == 1 ? "" : "s", who->consumer, n_charged);
	if (w->chan)
		chan_say(w->chan, "handed %" PRIu32 " %" PRId64 " %" PRId64, who->order, n_moved,
			 n_charged);
}

static void on_swept(struct worker *w, struct queue *q ATTR_UNUSED, const struct obituary *who)
{
	if (w->chan)
		chan_say(w->chan, "swept %" PRIu32, who->order);
}

static void on_left(struct worker *w, struct queue *q)
{
	if (partitions_left(w, q))
		worker_queue_left(w);
}

const struct queue_events worker_queue_events = {
	.on_ready = on_ready,
	.on_linked = on_linked,
	.on_consuming = partitions_consuming,
	.on_wait = on_wait,
	.on_hindered = on_hindered,
	.on_refused = on_refused,
	.on_task = on_task,
	.on_lost = on_lost,
	.on_fenced = on_fenced,
	.on_gone = on_gone,
	.on_released = on_released,
	.on_suspects = on_suspects,
	.on_cleared = on_cleared,
	.on_handed = on_handed,
	.on_swept = on_swept,
	.on_left = on_left,
};

/* ------------------------------------------------------------------ the handler's events */

void worker_set_pgid(struct worker *w, struct task *t, pid_t pgid)
{
	struct board_task row = {.token = t->token,
				 .attempt = t->attempt,
				 .started_ms = t->started_ms,
				 .pgid = pgid,
				 .partition = t->partition};

	memcpy(row.id, t->id, sizeof(row.id));
	board_set_task(w->board, (uint32_t)t->row, &row);
}

void worker_republish(struct worker *w, struct task *t)
{
	struct board_task row;

	if (t->row >= 0 && board_read_task(w->board, (uint32_t)t->row, &row))
		worker_set_pgid(w, t, row.pgid);
}

int worker_note(struct worker *w, struct task *t, enum task_note what, struct slice value)
{
	if (task_note(t, what, value) < 0)
		return -1;
	w->qops->note(t->queue, t);
	return 0;
}

static void free_row(struct worker *w, struct task *t)
{
	if (t->row < 0)
		return;
	board_clear_task(w->board, (uint32_t)t->row);
	w->free_rows[w->n_free_rows++] = t->row;
	t->row = -1;
}

static void count_outcome(struct worker *w, const struct outcome *o)
{
	switch (o->kind) {
	case OUTCOME_DONE:
		atomic_fetch_add(&w->board->done, 1);
		w->n_done++;
		break;
	case OUTCOME_FAILED:
	case OUTCOME_REJECTED:
	case OUTCOME_CRASHED:
	case OUTCOME_TIMED_OUT:
	case OUTCOME_OVERSIZED:
	case OUTCOME_GUILTY:
		atomic_fetch_add(&w->board->failed, 1);
		break;
	case OUTCOME_SNOOZED:
	case OUTCOME_BROKEN:
	case OUTCOME_UNSTARTED:
	case OUTCOME_STOPPED:
		break;
	}
}

static void log_outcome(struct worker *w, const struct task *t)
{
	const struct verdict *v = &t->verdict;

	switch (v->op) {
	case VERDICT_DONE:
		log_debug("task %s: done", t->label);
		break;
	case VERDICT_RETRY:
		log_info("task %s: attempt %d of %d: %s; again in %" PRId64 " ms", t->label,
			 t->attempt, w->qc->max_attempts, t->outcome.error, v->delay_ms);
		break;
	case VERDICT_CRASH:
		log_warning("task %s: the handler crashed: %s", t->label, t->outcome.error);
		break;
	case VERDICT_SUSPECT:
		log_warning("task %s: the handler crashed with this and other tasks: %s; it runs "
			    "again in a process of its own",
			    t->label, t->outcome.error);
		w->n_released++;
		break;
	case VERDICT_DEAD:
	case VERDICT_HOLD:
		log_warning("task %s: attempt %d of %d: %s; %s (%s)", t->label, t->attempt,
			    w->qc->max_attempts, t->outcome.error,
			    v->op == VERDICT_DEAD ? "dead letter" : "held", v->reason);
		break;
	case VERDICT_RELEASE:
		log_info("task %s: given back: %s", t->label,
			 t->outcome.error[0] ? t->outcome.error : "not started");
		/* To a broken handler's twin it would be no better off: let it lie. */
		if (t->outcome.kind != OUTCOME_BROKEN)
			w->n_released++;
		break;
	}
}

void worker_finished(struct worker *w, struct task *t)
{
	struct outcome *o = &t->outcome;
	struct queue *q = t->queue;

	free_row(w, t);
	if (!worker_judge_blamed(w, t))
		worker_tell_breaker(w, t);
	if (t->lost) {
		log_info("task %s: the late result (%s) is refused", t->label,
			 o->error[0] ? o->error : "done");
		worker_task_event(w, t, TASK_ON_DISOWN);
		on_gone(w, q, t);
		return;
	}
	count_outcome(w, o);
	t->verdict = verdict_of(t, o, w->qc, &w->rng);
	log_outcome(w, t);
	worker_task_event(w, t, TASK_ON_FINISH);
	w->qops->settle(q, t);
}
