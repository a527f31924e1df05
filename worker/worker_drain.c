/*
 * worker_drain.c - the phases of a worker: nothing new, then the end of what runs, then away. And
 * the orders that bound what it takes: credit, quiet, quarantine.
 *
 * The limit of a drain stops what still runs; the give-up timer behind it leaves whatever the
 * state: nothing that Redis or a handler does can keep a worker from leaving.
 */
#include <inttypes.h>

#include "log.h"
#include "worker_parts.h"

/* From the end of the limit and the grace to leaving whatever the state. */
#define GIVE_UP_MS 700
/* How often it is said that a worker that is worn out wants to be replaced. */
#define WORN_OUT_AGAIN_S 30.0

/* ------------------------------------------------------------------ words to the supervisor */

static void say_freed(struct worker *w)
{
	int n = ledger_shrink(&w->ledger);

	if (n > 0 && w->chan)
		chan_say(w->chan, "freed %d", n);
}

void worker_say_released(struct worker *w)
{
	if (w->n_released > 0 && w->chan)
		chan_say(w->chan, "released %d", w->n_released);
	w->n_released = 0;
}

/* ------------------------------------------------------------------ leaving */

void worker_over(struct worker *w)
{
	w->phase = WORKER_OVER;
	ev_break(w->loop, EVBREAK_ALL);
}

/* The next step of a drain, as soon as it can be made. */
void worker_drain_on(struct worker *w)
{
	if (w->phase != WORKER_DRAINING)
		return;
	say_freed(w);
	if (!ledger_is_idle(&w->ledger))
		return;
	worker_say_released(w);
	w->phase = WORKER_LEAVING;
	if (w->hops->leave)
		w->hops->leave(w->handler);
	else
		w->handler_left = true;
	partitions_leave(w);
}

static void over_if_left(struct worker *w)
{
	if (w->queue_left && w->handler_left && w->phase == WORKER_LEAVING)
		worker_over(w);
}

void worker_queue_left(struct worker *w)
{
	w->queue_left = true;
	over_if_left(w);
}

void worker_handler_left(struct worker *w)
{
	w->handler_left = true;
	over_if_left(w);
}

static void cancel_all(struct worker *w, int64_t grace_ms)
{
	int n = 0;

	w->stopping = true; /* what a reply still brings is given back unstarted */
	for (int i = 0; i < w->tasks.n_rows; i++) {
		struct task *t = &w->tasks.rows[i];

		if (t->state == TASK_FETCHED) {
			outcome_init(&t->outcome);
			worker_finished(w, t);
		} else if (t->state == TASK_RUNNING) {
			n++;
			w->hops->cancel(w->handler, t, grace_ms);
		}
	}
	if (n > 0) {
		w->forced = true;
		log_warning("%d task%s still run%s: stopping and giving back", n, n == 1 ? "" : "s",
			    n == 1 ? "s" : "");
	}
}

static void on_limit(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct worker *w = t->data;

	cancel_all(w, w->qc->kill_grace);
}

static void on_give_up(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct worker *w = t->data;
	int n = w->ledger.held + w->ledger.returned + w->ledger.leaving + w->ledger.put_off;

	if (n > 0)
		log_warning("leaving with %d task%s unsettled: %s pending and run%s again", n,
			    n == 1 ? "" : "s", n == 1 ? "it stays" : "they stay",
			    n == 1 ? "s" : "");
	else
		log_warning("leaving without waiting any longer for %s",
			    w->handler_left ? "Redis" : "what the handler has kept");
	w->forced = true;
	worker_over(w);
}

void worker_arm(struct worker *w, ev_timer *t, int64_t ms)
{
	ev_timer_stop(w->loop, t);
	ev_timer_set(t, (double)ms / 1000.0, 0.0);
	ev_timer_start(w->loop, t);
}

static void begin_drain(struct worker *w)
{
	if (w->phase != WORKER_RUNNING)
		return;
	w->phase = WORKER_DRAINING;
	ledger_drain(&w->ledger);
	ev_timer_stop(w->loop, &w->probe);
	ev_timer_stop(w->loop, &w->first_task);
	partitions_hold(w);
	worker_drain_on(w);
}

/* True when `ms` from now is earlier than what the timer is set to. */
static bool earlier(struct worker *w, ev_timer *t, int64_t ms)
{
	return !ev_is_active(t) || (double)ms / 1000.0 < ev_timer_remaining(w->loop, t);
}

static void say_draining(const struct worker *w, const char *why)
{
	int n_ended = w->ledger.returned + w->ledger.leaving + w->ledger.put_off;
	struct buf text = BUF_INIT;

	buf_addf(&text, "draining (%s): %d task%s", why, w->ledger.held,
		 w->ledger.held == 1 ? " runs" : "s run");
	if (n_ended > 0)
		buf_addf(&text, ", %d ended and wait for Redis", n_ended);
	log_info("%s", text.data);
	buf_release(&text);
}

void worker_drain(struct worker *w, int64_t limit_ms, const char *why)
{
	if (w->phase == WORKER_OVER)
		return;
	if (w->phase == WORKER_RUNNING)
		say_draining(w, why);
	if (limit_ms >= 0) {
		int64_t last = limit_ms + w->qc->kill_grace + GIVE_UP_MS;

		if (earlier(w, &w->limit, limit_ms) && earlier(w, &w->give_up, last)) {
			worker_arm(w, &w->limit, limit_ms);
			worker_arm(w, &w->give_up, last);
		}
	}
	begin_drain(w);
}

void worker_stop_fast(struct worker *w, const char *why)
{
	/* Politeness has its limits when somebody asks twice. */
	int64_t grace = min_i64(w->qc->kill_grace, 1000);

	if (w->phase == WORKER_OVER)
		return;
	log_info("stopping (%s): %d task%s", why, w->ledger.held,
		 w->ledger.held == 1 ? " runs" : "s run");
	ev_timer_stop(w->loop, &w->limit);
	worker_arm(w, &w->give_up, grace + GIVE_UP_MS);
	begin_drain(w);
	cancel_all(w, grace);
	worker_drain_on(w);
}

/* Said again as long as nothing follows: the new worker may not have become ready. */
static void on_worn_out(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct worker *w = t->data;

	if (w->chan && w->phase == WORKER_RUNNING)
		chan_say(w->chan, "replace %s", w->worn_why);
	else
		ev_timer_stop(w->loop, t);
}

void worker_wear_out(struct worker *w, const char *why)
{
	log_error("%s: taking nothing new, %s", why,
		  w->chan ? "another worker is to take this one's place"
			  : "leaving when the other tasks are done");
	w->forced = true;
	if (w->worn_out)
		return;
	w->worn_out = true;
	snprintf(w->worn_why, sizeof(w->worn_why), "%s", why);
	partitions_hold(w);
	if (w->phase != WORKER_RUNNING)
		return;
	if (w->alone) {
		worker_drain(w, -1, "worn out");
		return;
	}
	on_worn_out(w->loop, &w->worn, 0);
	ev_timer_again(w->loop, &w->worn);
}

void worker_grant(struct worker *w, int n)
{
	int rest = ledger_grant(&w->ledger, n);

	if (rest > 0 && w->chan)
		chan_say(w->chan, "freed %d", rest);
}

void worker_set_quiet(struct worker *w, bool quiet)
{
	if (w->quiet == quiet)
		return;
	w->quiet = quiet;
	log_info(quiet ? "quiet: fetching nothing new" : "fetching again");
	if (quiet)
		partitions_hold(w);
}

void worker_give_back(struct worker *w)
{
	int n = w->quarantine && w->chan ? ledger_give_back(&w->ledger, 1) : 0;

	if (n > 0)
		chan_say(w->chan, "freed %d", n);
}

void worker_end_quarantine(struct worker *w, const char *why)
{
	if (!w->quarantine)
		return;
	w->quarantine = false;
	log_info("%s: taking any task again", why);
	partitions_scan(w);
}

void worker_set_quarantine(struct worker *w)
{
	if (w->quarantine || w->phase != WORKER_RUNNING)
		return;
	w->quarantine = true;
	log_info("set aside: running suspects of a crash, one at a time");
	partitions_begin_quarantine(w);
	partitions_hold(w);
	partitions_scan(w);
}

void worker_drain_init(struct worker *w)
{
	ev_init(&w->limit, on_limit);
	ev_init(&w->give_up, on_give_up);
	ev_init(&w->worn, on_worn_out);
	w->worn.repeat = WORN_OUT_AGAIN_S;
	w->limit.data = w->give_up.data = w->worn.data = w;
}
