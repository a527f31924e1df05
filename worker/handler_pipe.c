/*
 * handler_pipe.c - the pool of long-lived children: which task goes where, its time-out, how many
 * children there are, and what follows from their deaths. The decisions are pipe_plan.h's.
 *
 * Everything is done in turns: what the events of a turn brought is assigned, started and written
 * at its end, one write for all that a child gets. A task that finds no child waits here; its
 * time-out counts from when a child has got it.
 *
 * Children that cannot be started, or die without ever having had a task, are started again with a
 * growing delay; where none is ready and it is plain that none will be, the breaker opens, what
 * waits is given back, and nothing is started until the breaker tries.
 */
#include <errno.h>
#include <inttypes.h>

#include "clock.h"
#include "conf_read.h"
#include "log.h"
#include "pipe.h"
#include "program.h"

extern char **environ;

/* So many in a row, with none ready, are enough. */
#define FAILURES_MAX 3

static void on_timer(struct ev_loop *loop, ev_timer *t, int revents);

/* ------------------------------------------------------------------ the census */

static struct pipe_census count_children(const struct handler *h)
{
	struct pipe_census n = {.concurrency = h->w->qc->concurrency, .slots = h->slots};
	int least = 0; /* of those that are ready */
	struct list *it;

	list_each (it, &h->children) {
		const struct pipe_child *c = list_entry(it, struct pipe_child, link);

		n.n_all += c->state != PIPE_GONE;
		n.n_busy += c->state > PIPE_READY && c->n_runs > 0;
		n.n_apart += c->apart;
		if (c->state == PIPE_READY && (least == 0 || c->slots < least))
			least = c->slots;
		if (c->state == PIPE_READY && c->worn)
			n.n_worn++;
		else if (c->state <= PIPE_READY)
			n.n_fresh++;
		n.n_ready += c->state == PIPE_READY && !c->worn;
	}
	list_each (it, &h->waiting)
		n.n_apart +=
			list_entry(it, struct pipe_run, link)->task->suspicion == SUSPECT_APART;
	if (least > 0)
		n.slots = least;
	return n;
}

static bool any_ready(const struct handler *h)
{
	struct list *it;

	list_each (it, &h->children)
		if (list_entry(it, struct pipe_child, link)->state == PIPE_READY)
			return true;
	return false;
}

/* ------------------------------------------------------------------ giving tasks out */

/* NULL: none has room for it now; `same_id`: one has, but for a task of the same id. */
static struct pipe_child *pick(struct handler *h, const struct pipe_run *run, bool *same_id)
{
	bool apart = run->task->suspicion == SUSPECT_APART;
	struct pipe_child *best = NULL;
	struct pipe_view best_view = {.slots = 0};
	struct list *it;

	list_each (it, &h->children) {
		struct pipe_child *c = list_entry(it, struct pipe_child, link);
		struct pipe_view v = {
			.state = c->state,
			.slots = c->slots,
			.n_runs = c->n_runs,
			.n_given = c->n_given,
			.max_tasks = h->w->qc->child_max_tasks,
			.worn = c->worn,
			.apart = c->apart,
		};

		if (!pipe_fits(&v, apart) || (best && !pipe_better(&v, &best_view)))
			continue;
		if (pipe_child_find(c, run->id, run->hash)) {
			*same_id = true;
			continue;
		}
		best = c;
		best_view = v;
	}
	return best;
}

/* It waited for a child: its time begins now, on the scoreboard, too. */
static void begins_now(struct worker *w, struct task *t)
{
	int64_t now = clock_boot_ms();

	if (now - t->started_ms < 2)
		return;
	t->started_ms = now;
	worker_set_pgid(w, t, 0);
}

static void assign(struct handler *h, int64_t now)
{
	bool full = false;
	struct list *it, *tmp;

	list_each_safe (it, tmp, &h->waiting) {
		struct pipe_run *run = list_entry(it, struct pipe_run, link);
		bool apart = run->task->suspicion == SUSPECT_APART;
		bool same_id = false;
		struct pipe_child *c;

		if (full && !apart)
			continue;
		c = pick(h, run, &same_id);
		if (!c) {
			full |= !apart && !same_id;
			continue;
		}
		begins_now(h->w, run->task);
		pipe_child_give(c, run, now);
		if (h->w->qc->child_max_tasks > 0 && c->n_given >= h->w->qc->child_max_tasks)
			pipe_child_drain(c, now);
		else if (c->worn_at > 0 && c->n_given >= c->worn_at)
			c->worn = true;
	}
}

void pipe_on_end(struct pipe_run *run)
{
	struct handler *h = run->h;
	struct task *t = run->task;

	list_remove(&run->link);
	list_remove(&run->due);
	list_append(&h->spare, &run->link);
	t->run = NULL;
	worker_finished(h->w, t);
}

static void end_waiting(struct pipe_run *run, enum outcome_kind kind, const char *why)
{
	struct outcome *o = &run->task->outcome;

	o->kind = kind;
	snprintf(o->error, sizeof(o->error), "%s", why);
	pipe_on_end(run);
}

/* ------------------------------------------------------------------ starting */

/* None is ready, and none will be: the breaker decides when to try again. */
static void give_up(struct handler *h)
{
	char why[OUTCOME_ERROR_MAX];

	h->halted = true;
	snprintf(why, sizeof(why), "%s", h->trouble);
	worker_handler_missing(h->w, why);
	while (!list_empty(&h->waiting))
		end_waiting(list_entry(h->waiting.next, struct pipe_run, link),
			    h->is_passing ? OUTCOME_UNSTARTED : OUTCOME_BROKEN, why);
	worker_turn_again(h->w);
}

/* One came to nothing (`trouble`). `hopeless`: the next would not do better. */
static void failed(struct handler *h, bool hopeless)
{
	const struct conf_supervisor *sc = conf_supervisor(h->w->conf);
	int64_t delay;

	h->n_failures++;
	delay = backoff_add_jitter_ms(&h->w->rng, sc->restart_delay, sc->restart_delay_max,
				      (unsigned)h->n_failures, 10);
	h->next_start_ms = clock_mono_ms() + delay;
	if (h->leaving)
		return;
	if (!any_ready(h) && (hopeless || h->n_failures >= FAILURES_MAX))
		give_up(h);
	else
		log_warning("%s; the next start in %" PRId64 " ms", h->trouble, delay);
}

static void start_one(struct handler *h)
{
	const struct conf_queue *q = h->w->qc;
	struct pipe_no_start no;
	struct pipe_child *c = pipe_child_start(h, ++h->last_number, &no);

	if (!c) {
		/* Our own lack of fds or processes passes; a missing program does not. */
		h->is_passing = no.step == SPAWN_FORK || no.error == EMFILE || no.error == ENFILE ||
				no.error == ENOMEM || no.error == EAGAIN;
		snprintf(h->trouble, sizeof(h->trouble), "%s %.100s: %s%s",
			 spawn_step_word(no.step), q->handler.argv.v[0], strerror(no.error),
			 h->is_passing ? " (this machine is short of it)" : "");
		failed(h, !h->is_passing);
		return;
	}
	INVARIANT(h->n_free_rows > 0);
	c->row = h->free_rows[--h->n_free_rows];
	board_set_group(h->w->board, (uint32_t)c->row, c->child.pid);
	strays_add(&h->strays, c->child.pid, c->label);
	c->worn_at = pipe_limit(q->child_max_tasks, (int)rng_below(&h->w->rng, 1000));
	c->memory_max = pipe_limit(q->child_max_memory, (int)rng_below(&h->w->rng, 1000));
	list_append(&h->children, &c->link);
}

void pipe_on_ready(struct pipe_child *c)
{
	log_info("child %d (pid %d) is ready: %d task%s at once", c->number, (int)c->child.pid,
		 c->slots, c->slots == 1 ? "" : "s");
	c->h->slots = c->slots;
	if (!c->h->said_started && c->h->w->chan)
		chan_say(c->h->w->chan, "started");
	c->h->said_started = true;
}

/* "child 3 (pid 4711): exit 1 before it was ready" */
static void tell_trouble(struct handler *h, const struct pipe_child *c, bool was_ready,
			 const struct child_exit *how)
{
	char name[16];

	h->is_passing = false;
	if (c->fault[0])
		snprintf(h->trouble, sizeof(h->trouble), "%s", c->fault);
	else if (how->signaled)
		snprintf(h->trouble, sizeof(h->trouble), "child died of signal %d %s %s", how->code,
			 sig_name(how->code, name),
			 was_ready ? "without a task" : "before it said ready on fd 3");
	else
		snprintf(h->trouble, sizeof(h->trouble), "child ended with exit %d %s", how->code,
			 was_ready ? "without a task" : "before it said ready on fd 3");
}

void pipe_on_gone(struct pipe_child *c, const struct child_exit *how, enum pipe_state was)
{
	struct handler *h = c->h;
	bool was_ready = c->ready_by_ms == 0;
	int64_t lived = clock_mono_ms() - c->started_ms;

	board_set_group(h->w->board, (uint32_t)c->row, 0);
	h->free_rows[h->n_free_rows++] = c->row;
	strays_remove(&h->strays, c->child.pid);
	if (was == PIPE_DRAINING || c->is_leaving) {
		log_debug("child %d (pid %d) has left", c->number, (int)c->child.pid);
	} else if (c->n_given > 0 || lived >= conf_supervisor(h->w->conf)->stable_after) {
		log_warning("child %d (pid %d) is gone after %" PRId64 " task%s: %s %d", c->number,
			    (int)c->child.pid, c->n_answered, c->n_answered == 1 ? "" : "s",
			    how->signaled ? "signal" : "exit", how->code);
		h->n_failures = 0;
		h->next_start_ms = 0;
	} else {
		tell_trouble(h, c, was_ready, how);
		failed(h, c->never_ready || (!was_ready && pipe_is_broken(how)));
	}
}

/* ------------------------------------------------------------------ turns */

static bool may_start(const struct handler *h, int64_t now)
{
	if (!h->begun || h->halted || h->leaving || h->n_free_rows == 0)
		return false;
	if (h->w->phase != WORKER_RUNNING && list_empty(&h->waiting))
		return false;
	return now >= h->next_start_ms;
}

/* One child that is not needed: one that is worn, or one that has nothing to do; the youngest. */
static void drain_one(struct handler *h, bool worn, int64_t now)
{
	struct list *it;

	for (it = h->children.prev; it != &h->children; it = it->prev) {
		struct pipe_child *c = list_entry(it, struct pipe_child, link);

		if (c->state != PIPE_READY || c->worn != worn || (!worn && c->n_runs > 0))
			continue;
		pipe_child_drain(c, now);
		return;
	}
}

static void drain_all(struct handler *h, int64_t now)
{
	struct list *it;

	list_each (it, &h->children)
		pipe_child_drain(list_entry(it, struct pipe_child, link), now);
}

static void plan(struct handler *h, int64_t now)
{
	struct pipe_census n = count_children(h);

	if (h->w->stopping) {
		drain_all(h, now);
		return;
	}
	if (pipe_drain_worn(&n))
		drain_one(h, true, now);
	else if (pipe_drain_idle(&n))
		drain_one(h, false, now);
	if (!pipe_start_one(&n) || !may_start(h, now))
		return;
	start_one(h);
	worker_turn_again(
		h->w); /* a start waits for the child's exec: the next after a look around */
}

static void free_gone(struct handler *h)
{
	struct list *it, *tmp;

	list_each_safe (it, tmp, &h->children) {
		struct pipe_child *c = list_entry(it, struct pipe_child, link);

		if (c->state == PIPE_GONE)
			pipe_child_free(c);
	}
}

/* Of the oldest task that a child has, and of the next start. */
static void arm(struct handler *h, int64_t now)
{
	struct ev_loop *loop = h->w->loop;
	int64_t at = 0;

	if (!list_empty(&h->due))
		at = list_entry(h->due.next, struct pipe_run, due)->due_ms;
	if (h->next_start_ms > now && !h->halted && (at == 0 || h->next_start_ms < at))
		at = h->next_start_ms;
	if (at == h->timer_ms)
		return;
	h->timer_ms = at;
	ev_timer_stop(loop, &h->timer);
	if (at == 0)
		return;
	ev_timer_set(&h->timer, (double)max_i64(at - now, 0) / 1000.0, 0.0);
	ev_timer_start(loop, &h->timer);
}

static void flush(struct handler *h)
{
	struct list *it, *tmp;

	list_each_safe (it, tmp, &h->to_write)
		pipe_child_flush(list_entry(it, struct pipe_child, to_write));
}

static void pipe_turn(struct handler *h)
{
	int64_t now = clock_mono_ms();

	free_gone(h);
	h->begun |= h->w->ready || !list_empty(&h->waiting);
	assign(h, now);
	plan(h, now);
	flush(h);
	arm(h, now);
	if (h->leaving && !h->left && list_empty(&h->children)) {
		h->left = true;
		worker_handler_left(h->w);
	}
}

/* After a stall of ours the news of a death, or an answer, may be older than the time-out. */
static void time_out(struct handler *h, struct pipe_run *run, int64_t now)
{
	pipe_child_look(run->child);
	if (!run->child)
		return;
	list_remove(&run->due);
	log_warning("task %s: timed out: its child %d is told to stop it", run->task->label,
		    run->child->number);
	pipe_child_cancel(run, EXEC_STOP_TIMEOUT, "timeout", h->w->qc->kill_grace, now);
}

static void on_timer(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct handler *h = t->data;
	int64_t now = clock_mono_ms();

	h->timer_ms = 0; /* the turn that follows sets it again */
	while (!list_empty(&h->due)) {
		struct pipe_run *run = list_entry(h->due.next, struct pipe_run, due);

		if (run->due_ms > now)
			break;
		time_out(h, run, now);
	}
}

/* ------------------------------------------------------------------ the handler itself */

static void on_room(void *arg)
{
	struct handler *h = arg;
	struct list *it;

	list_each (it, &h->children)
		pipe_child_resume(list_entry(it, struct pipe_child, link));
}

static struct handler *pipe_open(struct worker *w)
{
	struct handler *h = xcalloc(1, sizeof(*h));
	struct err e;

	h->w = w;
	list_init(&h->children);
	list_init(&h->to_write);
	list_init(&h->waiting);
	list_init(&h->due);
	list_init(&h->spare);
	ev_init(&h->timer, on_timer);
	h->timer.data = h;
	h->n_free_rows = (int)w->board->n_groups;
	h->free_rows = xcalloc((size_t)h->n_free_rows, sizeof(*h->free_rows));
	for (int i = 0; i < h->n_free_rows; i++)
		h->free_rows[i] = h->n_free_rows - 1 - i;
	strays_init(&h->strays, w->loop, "REDISQ_CHILD=");
	oom_watch_init(&h->oom);
	frames_on_room(w->frames, on_room, h);
	if (conf_handler_env(w->qc, environ, &h->env, &e) < 0)
		h->env_error = xstrdup(e.text);
	return h;
}

static int pipe_check(struct handler *h, struct err *e)
{
	if (h->env_error)
		return err_set(e, EXIT_CONFIG, "%s", h->env_error);
	if (program_check(h->w->qc, &h->env, e) < 0)
		return -1;
	/* The breaker tries: so do we, once. */
	if (h->halted) {
		h->halted = false;
		h->n_failures = FAILURES_MAX - 1;
		h->next_start_ms = 0;
	}
	return 0;
}

static struct pipe_run *new_run(struct handler *h, struct task *t)
{
	struct pipe_run *run;

	if (list_empty(&h->spare)) {
		run = xcalloc(1, sizeof(*run));
		list_init(&run->link);
		list_init(&run->due);
		list_init(&run->bucket);
		run->h = h;
	} else {
		run = list_entry(h->spare.next, struct pipe_run, link);
		list_remove(&run->link);
	}
	run->task = t;
	run->child = NULL;
	run->stop = EXEC_NOT_STOPPED;
	run->term_at_ms = run->kill_at_ms = 0;
	run->hash = pipe_hash(run->id, pipe_id(t, run->id));
	t->run = run;
	return run;
}

static void pipe_start(struct handler *h, struct task *t)
{
	struct pipe_run *run = new_run(h, t);

	list_append(&h->waiting, &run->link);
	if (h->halted)
		end_waiting(run, h->is_passing ? OUTCOME_UNSTARTED : OUTCOME_BROKEN, h->trouble);
}

static void pipe_cancel(struct handler *h ATTR_UNUSED, struct task *t, int64_t grace_ms)
{
	struct pipe_run *run = t->run;

	if (!run)
		return;
	if (!run->child)
		end_waiting(run, OUTCOME_STOPPED, "stopped by the worker");
	else if (!pipe_child_look(run->child) && run->child)
		pipe_child_cancel(run, EXEC_STOP_CANCEL, t->lost ? "lost" : "stop", grace_ms,
				  clock_mono_ms());
}

static void pipe_leave(struct handler *h)
{
	h->leaving = true;
	drain_all(h, clock_mono_ms());
	flush(h);
	worker_turn_again(h->w);
}

static void pipe_free(struct handler *h)
{
	struct list *it, *tmp;

	list_each_safe (it, tmp, &h->children) {
		struct pipe_child *c = list_entry(it, struct pipe_child, link);
		struct list *run_it, *run_tmp;

		if (c->state != PIPE_GONE)
			kill(-c->child.pid, SIGKILL);
		list_each_safe (run_it, run_tmp, &c->runs) {
			list_remove(run_it);
			list_append(&h->waiting, run_it);
		}
		pipe_child_free(c);
	}
	list_each_safe (it, tmp, &h->waiting) {
		struct pipe_run *run = list_entry(it, struct pipe_run, link);

		run->task->run = NULL;
		list_remove(it);
		list_append(&h->spare, it);
	}
	list_each_safe (it, tmp, &h->spare)
		free(list_entry(it, struct pipe_run, link));
	ev_timer_stop(h->w->loop, &h->timer);
	strays_release(&h->strays);
	oom_watch_release(&h->oom);
	frames_on_room(h->w->frames, NULL, NULL);
	strv_release(&h->env);
	free(h->env_error);
	free(h->free_rows);
	free(h);
}

const struct handler_ops handler_pipe_ops = {
	.name = "pipe",
	.open = pipe_open,
	.check = pipe_check,
	.start = pipe_start,
	.cancel = pipe_cancel,
	.turn = pipe_turn,
	.leave = pipe_leave,
	.free = pipe_free,
};
