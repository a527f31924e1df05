/*
 * worker.c - see worker.h: the table of tasks, the loop and its turn.
 */
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "worker_parts.h"

#define FIRST_TASK_S 10.0

/* ------------------------------------------------------------------ the table */

/* Tasks from before the breaker's present try that still take credit. */
static int n_old(const struct worker *w)
{
	int n = 0;

	if (w->breaker.state != BREAKER_HALF_OPEN)
		return 0;
	for (int i = 0; i < w->tasks.n_rows; i++) {
		const struct task *t = &w->tasks.rows[i];

		n += t->state != TASK_GONE && t->is_old &&
		     (t->place == LEDGER_HELD || t->place == LEDGER_RETURNED);
	}
	return n;
}

/* Of several partitions two may be in trouble, each with what was read beside what it cannot
 * settle. */
static int most_tasks(const struct conf_queue *qc)
{
	return 2 * qc->concurrency * (qc->partitions < 3 ? qc->partitions : 3);
}

bool worker_avoids(const struct worker *w, int partition, const char *id)
{
	return w->breaker.state == BREAKER_HALF_OPEN && breaker_blames(&w->breaker, partition, id);
}

int worker_may_ask(const struct worker *w)
{
	int limit;

	if (w->phase != WORKER_RUNNING || w->quiet || w->worn_out)
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
	struct task *t = task_table_free_row(&w->tasks);

	INVARIANT(t && "a free row in the table of tasks");
	return t;
}

struct task *worker_find_task(struct worker *w, const struct queue *q, const char *id)
{
	return task_table_find(&w->tasks, q, id);
}

void worker_task_event(struct worker *w, struct task *t, enum task_event ev)
{
	enum task_state from = t->state;

	if (!task_table_event(&w->tasks, t, ev)) {
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

void worker_publish(struct worker *w)
{
	atomic_store(&w->board->running, w->ledger.held + w->ledger.returned);
	atomic_store(&w->board->log_dropped, frames_dropped(w->frames));
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
	starts_turn(&w->starts);
	partitions_turn(w);
	if (w->hops->turn)
		w->hops->turn(w->handler);
	/* Each turn: settlements and reads that end free more of it. */
	worker_give_back(w);
	worker_drain_on(w);
	worker_say_released(w);
	worker_publish(w);
}

static void on_again(struct ev_loop *loop, ev_idle *i, int revents ATTR_UNUSED)
{
	ev_idle_stop(loop, i);
}

void worker_turn_again(struct worker *w)
{
	ev_idle_start(w->loop, &w->again);
}

static void on_heartbeat(struct ev_loop *loop ATTR_UNUSED, ev_timer *t ATTR_UNUSED,
			 int revents ATTR_UNUSED)
{
	/* Being woken is all: on_turn() does the rest. */
}

static void on_first_task(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct worker *w = t->data;

	partitions_describe(w);
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
	ledger_init(&w->ledger, qc->concurrency, most_tasks(qc));
	task_table_init(&w->tasks, w->ledger.most);
	w->free_rows = xcalloc((size_t)qc->concurrency, sizeof(*w->free_rows));
	for (int i = qc->concurrency; i-- > 0;)
		w->free_rows[w->n_free_rows++] = i;

	worker_drain_init(w);
	worker_breaker_init(w);
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
	ev_idle_init(&w->again, on_again);
	ev_prepare_init(&w->turn, on_turn);
	w->turn.data = w;
	ev_prepare_start(w->loop, &w->turn);
	orders_open(w, chan_fd);
}

static const struct handler_ops *const handlers[CONF_HANDLER_N_KINDS] = {
	[CONF_HANDLER_EXEC] = &handler_exec_ops,
	[CONF_HANDLER_SO] = &handler_so_ops,
	[CONF_HANDLER_PIPE] = &handler_pipe_ops,
};

void worker_run(struct worker *w)
{
	struct err e;

	w->qops = &queue_stream_ops;
	w->hops = handlers[w->qc->handler.kind];
	w->handler = w->hops->open(w);
	partitions_open(w);
	if (w->hops->check(w->handler, &e) < 0)
		worker_handler_missing(w, e.text);
	if (w->hops->run)
		w->hops->run(w->handler);
	else
		ev_run(w->loop, 0);
}

int worker_exit_code(const struct worker *w)
{
	if (w->refused)
		return EXIT_CONFIG;
	return w->forced ? EXIT_FORCED : EXIT_OK;
}

void worker_release(struct worker *w)
{
	/* A hard end with handlers still alive: PDEATHSIG takes them; their tasks stay pending. */
	partitions_free(w);
	complaint_end(&w->complaint);
	w->hops->free(w->handler);
	orders_close(w);
	task_table_release(&w->tasks);
	free(w->free_rows);
}
