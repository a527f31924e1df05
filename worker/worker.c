/*
 * worker.c - see worker.h: the table of tasks, the phases, the loop.
 */
#include <inttypes.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "verdict.h"
#include "worker.h"

#define FIRST_TASK_S 10.0
/* From the end of the limit and the grace to leaving whatever the state. */
#define GIVE_UP_MS 700

/* ------------------------------------------------------------------ the table */

/* Tasks from before the breaker's present try that still take credit. */
static int n_old(const struct worker *w)
{
	int n = 0;

	if (w->breaker.state != BREAKER_HALF_OPEN)
		return 0;
	for (int i = 0; i < w->n_tasks; i++) {
		const struct task *t = &w->tasks[i];

		n += t->state != TASK_GONE && t->is_old && t->place != LEDGER_LEAVING;
	}
	return n;
}

bool worker_avoids(const struct worker *w, const char *id)
{
	return w->breaker.state == BREAKER_HALF_OPEN && breaker_blames(&w->breaker, id);
}

int worker_may_ask(const struct worker *w)
{
	int limit;

	if (w->phase != WORKER_RUNNING || w->quiet)
		return 0;
	if (w->quarantine && w->breaker.state != BREAKER_OPEN)
		return ledger_in_use(&w->ledger) == 0 && ledger_free(&w->ledger) > 0;
	limit = breaker_limit(&w->breaker, w->ledger.credit, n_old(w)) - ledger_in_use(&w->ledger);
	if (limit < 0)
		limit = 0;
	return limit < ledger_free(&w->ledger) ? limit : ledger_free(&w->ledger);
}

struct task *worker_free_task(struct worker *w)
{
	for (int i = 0; i < w->n_tasks; i++)
		if (w->tasks[i].state == TASK_GONE)
			return &w->tasks[i];
	INVARIANT(false && "a free row in the table of tasks");
	return NULL;
}

struct task *worker_find_task(struct worker *w, const struct queue *q, const char *id)
{
	for (int i = 0; i < w->n_tasks; i++)
		if (w->tasks[i].state != TASK_GONE && w->tasks[i].queue == q &&
		    strcmp(w->tasks[i].id, id) == 0)
			return &w->tasks[i];
	return NULL;
}

void worker_task_event(struct worker *w, struct task *t, enum task_event ev)
{
	enum task_state from = t->state;

	if (!task_event(t, ev)) {
		log_error("task %s: %s while it is %s cannot happen", t->id, task_event_word(ev),
			  task_state_word(from));
		INVARIANT(false && "a step that the table of task states knows");
	}
	if (log_enabled(LOG_DEBUG)) {
		char what[BOARD_ID_MAX + 8];

		snprintf(what, sizeof(what), "task %s", t->id);
		log_state(what, task_state_word(from), task_state_word(t->state),
			  task_event_word(ev));
	}
	atomic_store(&w->board->running, w->ledger.held + w->ledger.returned);
}

static void publish_counts(struct worker *w)
{
	atomic_store(&w->board->running, w->ledger.held + w->ledger.returned);
	atomic_store(&w->board->log_dropped, frames_dropped(w->frames));
}

/* ------------------------------------------------------------------ words to the supervisor */

static void say_freed(struct worker *w)
{
	int n = ledger_shrink(&w->ledger);

	if (n > 0 && w->chan)
		chan_say(w->chan, "freed %d", n);
}

static void say_released(struct worker *w)
{
	if (w->n_released > 0 && w->chan)
		chan_say(w->chan, "released %d", w->n_released);
	w->n_released = 0;
}

/* ------------------------------------------------------------------ leaving */

static void over(struct worker *w)
{
	w->phase = WORKER_OVER;
	ev_break(w->loop, EVBREAK_ALL);
}

/* The next step of a drain, as soon as it can be made. */
static void drain_on(struct worker *w)
{
	if (w->phase != WORKER_DRAINING)
		return;
	say_freed(w);
	if (!ledger_is_idle(&w->ledger))
		return;
	say_released(w);
	w->phase = WORKER_LEAVING;
	w->qops->leave(w->queue);
}

static void cancel_all(struct worker *w, int64_t grace_ms)
{
	int n = 0;

	w->stopping = true; /* what a reply still brings is given back unstarted */
	for (int i = 0; i < w->n_tasks; i++) {
		struct task *t = &w->tasks[i];

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
		log_warning("%d tasks still run: stopping them, they are given back", n);
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

	log_warning("leaving with %d tasks unsettled: they stay pending and run again",
		    w->ledger.held + w->ledger.returned + w->ledger.leaving);
	w->forced = true;
	over(w);
}

static void arm(struct worker *w, ev_timer *t, int64_t ms)
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
	w->qops->hold(w->queue);
	drain_on(w);
}

/* True when `ms` from now is earlier than what the timer is set to. */
static bool earlier(struct worker *w, ev_timer *t, int64_t ms)
{
	return !ev_is_active(t) || (double)ms / 1000.0 < ev_timer_remaining(w->loop, t);
}

void worker_drain(struct worker *w, int64_t limit_ms, const char *why)
{
	if (w->phase == WORKER_OVER)
		return;
	if (w->phase == WORKER_RUNNING)
		log_info("draining (%s): %d tasks run", why, w->ledger.held);
	if (limit_ms >= 0) {
		int64_t last = limit_ms + w->qc->kill_grace + GIVE_UP_MS;

		if (earlier(w, &w->limit, limit_ms) && earlier(w, &w->give_up, last)) {
			arm(w, &w->limit, limit_ms);
			arm(w, &w->give_up, last);
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
	log_info("stopping (%s): %d tasks run", why, w->ledger.held);
	ev_timer_stop(w->loop, &w->limit);
	arm(w, &w->give_up, grace + GIVE_UP_MS);
	begin_drain(w);
	cancel_all(w, grace);
	drain_on(w);
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
		w->qops->hold(w->queue);
}

void worker_set_quarantine(struct worker *w)
{
	if (w->quarantine || w->phase != WORKER_RUNNING)
		return;
	w->quarantine = true;
	log_info("set aside: running suspects of a crash, one at a time");
	w->qops->hold(w->queue);
	w->qops->scan(w->queue);
}

/* ------------------------------------------------------------------ breaker */

static void arm_probe(struct worker *w)
{
	arm(w, &w->probe, max_i64(w->breaker.probe_at_ms - clock_mono_ms(), 1));
}

static void breaker_opened(struct worker *w, bool first, const char *why)
{
	if (first) {
		log_error("%s; fetching nothing, next try in %.1f s", why,
			  (double)(w->breaker.probe_at_ms - clock_mono_ms()) / 1000.0);
		if (w->chan)
			chan_say(w->chan, "breaker open %s", why);
		w->qops->hold(w->queue);
	}
	if (w->phase == WORKER_RUNNING && w->breaker.state == BREAKER_OPEN)
		arm_probe(w);
}

static void close_breaker(struct worker *w, bool is_old)
{
	if (!breaker_worked(&w->breaker, is_old))
		return;
	log_info("the handler works again: fetching");
	if (w->chan)
		chan_say(w->chan, "breaker closed");
}

static void handler_missing(struct worker *w, const char *what)
{
	char why[sizeof(((struct err *)NULL)->text) + 32];

	snprintf(why, sizeof(why), "the handler is broken: %s", what);
	breaker_opened(w, breaker_missing(&w->breaker, clock_mono_ms()), why);
}

/* One that fits neither a broken handler nor a good one: charged, or it would go round for ever. */
static void judge_blamed(struct worker *w, struct task *t)
{
	struct outcome *o = &t->outcome;
	char said[OUTCOME_ERROR_MAX];

	if (o->kind != OUTCOME_BROKEN || o->exit_code < 0 ||
	    !breaker_is_to_blame(&w->breaker, t->id))
		return;
	snprintf(said, sizeof(said), "%s", o->error);
	o->kind = OUTCOME_FAILED;
	snprintf(o->error, sizeof(o->error),
		 "%.100s again, while the handler works for other tasks", said);
}

static void tell_breaker(struct worker *w, const struct task *t)
{
	const struct outcome *o = &t->outcome;
	char why[OUTCOME_ERROR_MAX + 64];

	switch (o->kind) {
	case OUTCOME_BROKEN:
	case OUTCOME_UNSTARTED:
		snprintf(why, sizeof(why), "%s%s",
			 o->kind == OUTCOME_BROKEN ? "the handler is broken: " : "", o->error);
		breaker_opened(w, breaker_broken(&w->breaker, t->id, t->is_old, clock_mono_ms()),
			       why);
		break;
	case OUTCOME_STOPPED:
	case OUTCOME_OVERSIZED:
	case OUTCOME_GUILTY:
		break;
	case OUTCOME_FAILED:
	case OUTCOME_CRASHED:
		if (clock_boot_ms() - t->started_ms < BREAKER_FAST_MS) {
			snprintf(why, sizeof(why),
				 "%d tasks in a row failed at once, the last with: %s",
				 w->qc->breaker_failures, o->error);
			breaker_opened(w,
				       breaker_failed_fast(&w->breaker, t->is_old, clock_mono_ms()),
				       why);
			break;
		}
		close_breaker(w, t->is_old);
		break;
	case OUTCOME_DONE:
	case OUTCOME_SNOOZED:
	case OUTCOME_REJECTED:
	case OUTCOME_TIMED_OUT:
		close_breaker(w, t->is_old);
		break;
	}
}

static void on_probe(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct worker *w = t->data;
	struct err e;

	if (w->hops->check(w->handler, &e) < 0) {
		/* Still plainly missing: no task needs to be touched to find out. */
		handler_missing(w, e.text);
		return;
	}
	if (breaker_tick(&w->breaker, clock_mono_ms())) {
		for (int i = 0; i < w->n_tasks; i++)
			w->tasks[i].is_old = true; /* task_begin() makes it young again */
		w->qops->probe(w->queue);
	} else if (w->breaker.state == BREAKER_OPEN) {
		arm_probe(w);
	}
}

/* ------------------------------------------------------------------ the queue's events */

static void on_ready(struct worker *w, struct queue *q ATTR_UNUSED, const char *consumer)
{
	log_info("consumer %s is ready: queue %s, concurrency %d", consumer, w->qc->name,
		 w->qc->concurrency);
	if (!w->ready && w->chan)
		chan_say(w->chan, "ready %s", consumer);
	w->ready = true;
}

static void on_wait(struct worker *w, struct queue *q ATTR_UNUSED, const char *why)
{
	if (why && !w->ready && w->chan)
		chan_say(w->chan, "redis-wait %s", why);
	/* Nothing of it can be given back while there is no link: no reason to stay. */
	if (why && w->phase == WORKER_DRAINING && ledger_is_idle(&w->ledger))
		drain_on(w);
}

static void on_refused(struct worker *w, struct queue *q ATTR_UNUSED, const char *why)
{
	log_error("queue %s is refused: %s", w->qc->name, why);
	if (w->chan) {
		chan_say(w->chan, "refused %s", why);
		chan_flush(w->chan, 1000);
	}
	w->refused = true;
	over(w);
}

static void on_task(struct worker *w, struct queue *q ATTR_UNUSED, struct task *t)
{
	ev_timer_stop(w->loop, &w->first_task);
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
	board_set_task(w->board, (uint32_t)t->row, t->id, t->token, t->attempt, t->started_ms, 0);
	/* Had another owner before: whoever waits for it to run again wants to know. */
	if (t->token > 1 && w->chan)
		chan_say(w->chan, "again %s", t->id);
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
	for (int i = 0; i < w->n_tasks; i++)
		if (w->tasks[i].state == TASK_RUNNING && w->tasks[i].queue == q)
			w->hops->cancel(w->handler, &w->tasks[i], w->qc->kill_grace);
}

static void on_gone(struct worker *w, struct queue *q ATTR_UNUSED, struct task *t)
{
	ledger_gone(&w->ledger, t->place);
	publish_counts(w);
	drain_on(w);
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

static void on_cleared(struct worker *w, struct queue *q ATTR_UNUSED)
{
	w->quarantine = false;
	log_info("no suspect is left: taking any task again");
	if (w->chan)
		chan_say(w->chan, "cleared");
}

static void on_handed(struct worker *w, struct queue *q ATTR_UNUSED, const struct obituary *who,
		      int64_t n_moved, int64_t n_charged)
{
	if (n_moved > 0)
		log_info("handed over %" PRId64 " tasks of %s (%" PRId64 " crashes charged)",
			 n_moved, who->consumer, n_charged);
	if (w->chan)
		chan_say(w->chan, "handed %" PRIu32 " %" PRId64 " %" PRId64, who->order, n_moved,
			 n_charged);
}

static void on_swept(struct worker *w, struct queue *q ATTR_UNUSED, const struct obituary *who)
{
	if (w->chan)
		chan_say(w->chan, "swept %" PRIu32, who->order);
}

static void on_left(struct worker *w, struct queue *q ATTR_UNUSED)
{
	over(w);
}

static const struct queue_events queue_events = {
	.on_ready = on_ready,
	.on_wait = on_wait,
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
	board_set_task(w->board, (uint32_t)t->row, t->id, t->token, t->attempt, t->started_ms,
		       pgid);
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

	free_row(w, t);
	judge_blamed(w, t);
	tell_breaker(w, t);
	if (t->lost) {
		log_info("task %s: the late result (%s) is refused", t->label,
			 o->error[0] ? o->error : "done");
		worker_task_event(w, t, TASK_ON_DISOWN);
		on_gone(w, w->queue, t);
		return;
	}
	count_outcome(w, o);
	t->verdict = verdict_of(t, o, w->qc, &w->rng);
	log_outcome(w, t);
	worker_task_event(w, t, TASK_ON_FINISH);
	w->qops->settle(w->queue, t);
}

/* ------------------------------------------------------------------ the loop */

/* Once per turn, before the loop sleeps: proof of life, and the queue's turn. */
static void on_turn(struct ev_loop *loop ATTR_UNUSED, ev_prepare *p, int revents ATTR_UNUSED)
{
	struct worker *w = p->data;

	int64_t now = clock_boot_ms();

	atomic_store_explicit(&w->board->heartbeat_ms, now, memory_order_relaxed);
	/* The timer is there for a loop that nothing else wakes: any turn puts it off. */
	if (w->heartbeat.repeat > 0 && now >= w->beat_put_off_ms) {
		ev_timer_again(w->loop, &w->heartbeat);
		w->beat_put_off_ms = now + (int64_t)(w->heartbeat.repeat * 100);
	}
	if (w->phase == WORKER_OVER)
		return;
	w->qops->turn(w->queue);
	drain_on(w);
	say_released(w);
	publish_counts(w);
}

static void on_heartbeat(struct ev_loop *loop ATTR_UNUSED, ev_timer *t ATTR_UNUSED,
			 int revents ATTR_UNUSED)
{
	/* Being woken is all: on_turn() does the rest. */
}

static void on_first_task(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct worker *w = t->data;

	w->qops->describe(w->queue);
}

static void init_timer(struct worker *w, ev_timer *t, void (*fn)(struct ev_loop *, ev_timer *, int))
{
	ev_init(t, fn);
	t->data = w;
}

void worker_init(struct worker *w, const struct conf *conf, const struct conf_queue *qc, int slot,
		 int chan_fd, struct board *board, struct frames *frames)
{
	int64_t beat = conf_heartbeat_ms(conf, qc);

	w->conf = conf;
	w->qc = qc;
	w->slot = slot;
	w->board = board;
	w->frames = frames;
	w->phase = WORKER_RUNNING;
	if (gethostname(w->host, sizeof(w->host)) < 0)
		snprintf(w->host, sizeof(w->host), "localhost");
	w->host[sizeof(w->host) - 1] = '\0';
	for (char *p = w->host; *p; p++)
		if (*p == ' ')
			*p = '_'; /* the claim record is words */
	rng_seed(&w->rng, (uint64_t)getpid() << 32 ^ (uint64_t)clock_wall_ms());
	ledger_init(&w->ledger, qc->concurrency);
	breaker_init(&w->breaker, qc->breaker_delay, qc->breaker_failures);
	w->n_tasks = 2 * qc->concurrency;
	w->tasks = xcalloc((size_t)w->n_tasks, sizeof(*w->tasks));
	for (int i = 0; i < w->n_tasks; i++)
		task_init(&w->tasks[i]);
	w->free_rows = xcalloc((size_t)qc->concurrency, sizeof(*w->free_rows));
	for (int i = qc->concurrency; i-- > 0;)
		w->free_rows[w->n_free_rows++] = i;

	init_timer(w, &w->limit, on_limit);
	init_timer(w, &w->give_up, on_give_up);
	init_timer(w, &w->probe, on_probe);
	init_timer(w, &w->heartbeat, on_heartbeat);
	init_timer(w, &w->first_task, on_first_task);
	if (beat > 0) {
		w->heartbeat.repeat = (double)beat / 2500.0;
		ev_timer_again(w->loop, &w->heartbeat);
	}
	if (slot == 0) {
		ev_timer_set(&w->first_task, FIRST_TASK_S, 0.0);
		ev_timer_start(w->loop, &w->first_task);
	}
	ev_prepare_init(&w->turn, on_turn);
	w->turn.data = w;
	ev_prepare_start(w->loop, &w->turn);
	orders_open(w, chan_fd);
}

int worker_run(struct worker *w)
{
	struct err e;

	w->qops = &queue_stream_ops;
	w->hops = &handler_exec_ops;
	w->handler = w->hops->open(w);
	w->queue = w->qops->open(w, &queue_events);
	if (w->hops->check(w->handler, &e) < 0)
		handler_missing(w, e.text);
	ev_run(w->loop, 0);
	if (w->refused)
		return EXIT_CONFIG;
	return w->forced ? EXIT_FORCED : EXIT_OK;
}

void worker_release(struct worker *w)
{
	/* A hard end with handlers still alive: PDEATHSIG takes them; their tasks stay pending. */
	w->qops->free(w->queue);
	w->hops->free(w->handler);
	orders_close(w);
	for (int i = 0; i < w->n_tasks; i++)
		task_release(&w->tasks[i]);
	free(w->tasks);
	free(w->free_rows);
}
