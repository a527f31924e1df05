/*
 * handler_so.c - tasks are run by a shared library (redisq_handler.h), in a pool of threads with
 * one thread for each task that the worker may have.
 *
 * Owns the library, the pool and the runs. A run is the loop's until it is pushed and again when it
 * was posted (so_run.h says who may touch what in between). The timeouts are those of one queue, so
 * the runs in the order of their start are also in the order of their deadlines: one timer, which
 * looks at the first, and which tasks that end in time never touch.
 *
 * A thread cannot be killed. A run that does not stop within its grace is stuck: the worker takes
 * nothing new and is replaced (worker_wear_out). When everything else has ended, the threads that
 * are stuck are stopped for good and only then their tasks settled, so that nobody can have one
 * of them while it still runs here; the process ends without another word to those threads.
 *
 * The queue's `cwd` is for programs: the directory of a library, and of its relative path, is that
 * of the worker, which is the supervisor's.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "conf_read.h"
#include "log.h"
#include "so_lib.h"
#include "so_run.h"
#include "worker.h"

extern char **environ;

/* In the end, with threads that were stopped: a turn that takes longer waits for one of them. */
#define DEADLOCK_S 5

struct so_slot {
	struct so_run run;
	struct handler *h; /* borrowed */
	struct list link;  /* handler's running or stopping, or none */
	enum exec_stop why;
	ev_timer grace;
	bool stuck;
};

struct handler {
	struct worker *w; /* borrowed */
	struct strv env;  /* owned: environ while we are there */
	char **env_before;
	char *env_error; /* owned */
	struct so_lib lib;
	struct so_pool *pool;   /* owned; NULL until the library has been loaded */
	struct so_slot *slots;  /* owned; as many as threads */
	struct so_slot **spare; /* owned: stack of those without a task */
	int n_spare;
	int n_stuck;
	struct list running;  /* in the order of their start */
	struct list stopping; /* told to */
	ev_timer timeout;     /* at or before the deadline of the first in `running` */
	ev_io woken;
	ev_prepare collect; /* before the worker's turn */
	ev_check awake;
};

static int n_slots(const struct handler *h)
{
	return h->w->qc->concurrency;
}

/* ------------------------------------------------------------------ the end of a run */

static void take_notes(struct so_slot *s)
{
	struct task *t = s->run.task;

	for (int what = 0; what < TASK_N_NOTES; what++) {
		struct buf value = BUF_INIT;

		if (so_run_take_note(&s->run, (enum task_note)what, &value) && t &&
		    worker_note(s->h->w, t, (enum task_note)what, slice_of(value.data, value.len)) <
			    0)
			log_warning("task %s: a note of %zu bytes is too long", t->label,
				    value.len);
		buf_release(&value);
	}
}

static void forget(struct so_slot *s)
{
	struct handler *h = s->h;

	list_remove(&s->link);
	ev_timer_stop(h->w->loop, &s->grace);
	s->run.task->run = NULL;
	s->run.task = NULL;
	if (s->stuck)
		h->n_stuck--;
	s->stuck = false;
}

static void finish(struct so_slot *s)
{
	struct handler *h = s->h;
	struct task *t = s->run.task;

	/* A checkpoint said in the last moment comes before the settlement. */
	if (atomic_load_explicit(&s->run.noted, memory_order_relaxed))
		take_notes(s);
	so_run_outcome(&s->run, s->why, h->w->qc->timeout, &t->outcome);
	if (s->stuck)
		log_info("task %s: has stopped after all", t->label);
	forget(s);
	h->spare[h->n_spare++] = s;
	worker_finished(h->w, t);
}

static void collect(struct handler *h)
{
	struct so_node *n = so_pool_take(h->pool), *next;

	for (; n; n = next) {
		next = n->next;
		if (n->ended) {
			finish(container_of(n, struct so_slot, run.job));
		} else {
			struct so_slot *s = container_of(n, struct so_slot, run.note);

			so_run_looked(&s->run);
			take_notes(s);
		}
	}
}

/* ------------------------------------------------------------------ those that do not stop */

/* Before the process ends with runs that go on. */
static void stop_threads(struct handler *h)
{
	alarm(DEADLOCK_S);
	h->w->abandons_threads = true;
	for (int i = 0; i < n_slots(h); i++)
		if (h->slots[i].run.task)
			so_pool_stop_thread(h->pool, h->slots[i].run.thread);
}

/* Nothing runs any more but what cannot be stopped: the end of this process is the end of that. */
static void end_stuck(struct handler *h)
{
	struct list *it, *tmp;

	stop_threads(h);
	list_each_safe (it, tmp, &h->stopping) {
		struct so_slot *s = list_entry(it, struct so_slot, link);
		struct task *t = s->run.task;

		so_run_abandoned(s->why, h->w->qc->timeout, &t->outcome);
		forget(s);
		worker_finished(h->w, t);
	}
}

static bool only_stuck_left(const struct handler *h)
{
	const struct worker *w = h->w;

	return h->n_stuck > 0 && w->phase == WORKER_DRAINING &&
	       h->n_spare + h->n_stuck == n_slots(h) && list_empty(&w->tasks.in[TASK_FETCHED]) &&
	       w->ledger.asked[LEDGER_READ] + w->ledger.asked[LEDGER_CLAIM] == 0;
}

static void on_grace_over(struct ev_loop *loop ATTR_UNUSED, ev_timer *timer,
			  int revents ATTR_UNUSED)
{
	struct so_slot *s = timer->data;
	struct handler *h = s->h;
	char why[TASK_LABEL_MAX + 64];

	collect(h);
	if (!s->run.task)
		return; /* it has just ended */
	s->stuck = true;
	h->n_stuck++;
	snprintf(why, sizeof(why), "task %s does not stop, and a thread cannot be killed",
		 s->run.task->label);
	worker_wear_out(h->w, why);
}

static void stop(struct so_slot *s, enum exec_stop why, int64_t grace_ms)
{
	struct ev_loop *loop = s->h->w->loop;

	if (s->why == EXEC_NOT_STOPPED) {
		s->why = why;
		list_remove(&s->link);
		list_append(&s->h->stopping, &s->link);
		so_run_stop(&s->run);
	} else if (s->stuck || ev_timer_remaining(loop, &s->grace) <= (double)grace_ms / 1000.0) {
		return; /* a second reason may only hurry it */
	}
	ev_timer_stop(loop, &s->grace);
	ev_timer_set(&s->grace, (double)grace_ms / 1000.0, 0.0);
	ev_timer_start(loop, &s->grace);
}

/* ------------------------------------------------------------------ timeouts */

static int64_t deadline(const struct so_slot *s)
{
	return s->run.task->started_ms + s->h->w->qc->timeout;
}

static void arm_timeout(struct handler *h, int64_t now)
{
	const struct so_slot *first;

	if (h->w->qc->timeout <= 0 || list_empty(&h->running) || ev_is_active(&h->timeout))
		return;
	first = list_entry(h->running.next, struct so_slot, link);
	ev_timer_set(&h->timeout, (double)max_i64(deadline(first) - now, 1) / 1000.0, 0.0);
	ev_timer_start(h->w->loop, &h->timeout);
}

static void on_timeout(struct ev_loop *loop, ev_timer *timer, int revents ATTR_UNUSED)
{
	struct handler *h = timer->data;
	int64_t now = clock_boot_ms();

	collect(h); /* what ended in time has ended in time, even if we are late */
	while (!list_empty(&h->running)) {
		struct so_slot *s = list_entry(h->running.next, struct so_slot, link);

		if (deadline(s) > now)
			break;
		log_warning("task %s: timed out: asked to stop", s->run.task->label);
		stop(s, EXEC_STOP_TIMEOUT, h->w->qc->kill_grace);
	}
	ev_now_update(loop);
	arm_timeout(h, now);
}

/* ------------------------------------------------------------------ the loop's turn */

static void on_woken(struct ev_loop *loop ATTR_UNUSED, ev_io *io, int revents ATTR_UNUSED)
{
	struct handler *h = io->data;

	so_pool_awake(h->pool, true); /* on_collect() does the rest */
}

static void on_awake(struct ev_loop *loop ATTR_UNUSED, ev_check *c, int revents ATTR_UNUSED)
{
	struct handler *h = c->data;

	so_pool_awake(h->pool, false);
}

static void on_collect(struct ev_loop *loop ATTR_UNUSED, ev_prepare *p, int revents ATTR_UNUSED)
{
	struct handler *h = p->data;

	collect(h);
	if (only_stuck_left(h))
		end_stuck(h);
	/* Threads may have been stopped with a lock of libc that we need: then this ends us. */
	if (h->w->abandons_threads)
		alarm(DEADLOCK_S);
}

/* The last thing before the loop sleeps. */
static void so_turn(struct handler *h)
{
	if (h->pool && so_pool_before_sleep(h->pool))
		worker_turn_again(h->w);
}

static void watch(struct handler *h)
{
	struct ev_loop *loop = h->w->loop;

	ev_io_init(&h->woken, on_woken, so_pool_fd(h->pool), EV_READ);
	ev_prepare_init(&h->collect, on_collect);
	ev_check_init(&h->awake, on_awake);
	ev_set_priority(&h->collect, EV_MAXPRI);
	ev_set_priority(&h->awake, EV_MAXPRI);
	h->woken.data = h->collect.data = h->awake.data = h;
	ev_io_start(loop, &h->woken);
	ev_prepare_start(loop, &h->collect);
	ev_check_start(loop, &h->awake);
}

static void unwatch(struct handler *h)
{
	struct ev_loop *loop = h->w->loop;

	ev_io_stop(loop, &h->woken);
	ev_prepare_stop(loop, &h->collect);
	ev_check_stop(loop, &h->awake);
	ev_timer_stop(loop, &h->timeout);
}

/* ------------------------------------------------------------------ the handler */

/* A library is there; of the process, as exit() is. */
static _Atomic bool has_library;

/*
 * exit() called by the library, in the middle of its tasks: with status 0 that would look as if all
 * were done, with 78 as if the queue were refused. It is a crash.
 */
static void on_exit_called(void)
{
	static const char text[] = "the library has called exit(): SIGABRT\n";
	ssize_t n;

	if (!atomic_load(&has_library))
		return;
	n = write(STDERR_FILENO, text, sizeof(text) - 1);
	(void)n;
	abort();
}

static struct handler *so_open(struct worker *w)
{
	struct handler *h = xcalloc(1, sizeof(*h));
	struct err e;

	h->w = w;
	list_init(&h->running);
	list_init(&h->stopping);
	ev_init(&h->timeout, on_timeout);
	h->timeout.data = h;
	/* What a program would find in its environment and directory, a library finds there too. */
	h->env_before = environ;
	if (conf_handler_env(w->qc, environ, &h->env, &e) < 0)
		h->env_error = xstrdup(e.text);
	else
		environ = h->env.v;
	/* Its lines are to be seen when they end, as on a terminal. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	atomic_store(&has_library, true);
	if (atexit(on_exit_called) != 0)
		log_warning("exit() called by the library will go unseen");
	return h;
}

static bool on_loop_turn(void *arg)
{
	struct handler *h = arg;

	ev_run(h->w->loop, EVRUN_ONCE);
	return h->w->phase != WORKER_OVER;
}

static void on_loop_end(void *arg)
{
	struct handler *h = arg;

	h->w->leave(h->w);
}

static void so_run(struct handler *h)
{
	/* Without a library there are no threads. */
	while (h->w->phase != WORKER_OVER && !h->pool)
		ev_run(h->w->loop, EVRUN_ONCE);
	if (h->w->phase != WORKER_OVER)
		so_pool_lead(h->pool);
}

static int start_pool(struct handler *h, struct err *e)
{
	static const struct so_pool_events events = {so_run_work, on_loop_turn, on_loop_end};
	int n = n_slots(h);

	h->pool = so_pool_new(n, &events, h);
	if (!h->pool)
		return err_set(e, EXIT_CONFIG, "%d threads cannot be started: %s", n,
			       strerror(errno));
	h->slots = xcalloc((size_t)n, sizeof(*h->slots));
	h->spare = xcalloc((size_t)n, sizeof(*h->spare));
	for (int i = n; i-- > 0;) {
		struct so_slot *s = &h->slots[i];

		so_run_init(&s->run, h->pool);
		s->h = h;
		list_init(&s->link);
		ev_init(&s->grace, on_grace_over);
		s->grace.data = s;
		h->spare[h->n_spare++] = s;
	}
	watch(h);
	return 0;
}

static int so_check(struct handler *h, struct err *e)
{
	const struct worker *w = h->w;
	const struct redisq_host host = {
		.size = sizeof(host),
		.slot = w->slot,
		.concurrency = n_slots(h),
		.queue = w->qc->name,
	};

	if (h->env_error)
		return err_set(e, EXIT_CONFIG, "%s", h->env_error);
	if (so_lib_open(&h->lib, w->qc->handler.argv.v[0], &host, e) < 0)
		return -1;
	return h->pool ? 0 : start_pool(h, e);
}

static void so_start(struct handler *h, struct task *t)
{
	const struct conf_queue *q = h->w->qc;
	struct so_facts facts = {
		.api = h->lib.api,
		.queue = q,
		.deadline_ms = q->timeout > 0 ? clock_wall_ms() + q->timeout : 0,
	};
	struct so_slot *s;

	INVARIANT(h->n_spare > 0);
	s = h->spare[--h->n_spare];
	s->why = EXEC_NOT_STOPPED;
	t->run = s;
	facts.place = (int)(s - h->slots);
	so_run_begin(&s->run, t, &facts);
	list_append(&h->running, &s->link);
	arm_timeout(h, t->started_ms);
	so_pool_push(h->pool, &s->run.job);
}

static void so_cancel(struct handler *h ATTR_UNUSED, struct task *t, int64_t grace_ms)
{
	if (t->run)
		stop(t->run, EXEC_STOP_CANCEL, grace_ms);
}

static void so_free(struct handler *h)
{
	if (h->pool) {
		unwatch(h);
		if (h->n_spare < n_slots(h) && !h->w->abandons_threads)
			stop_threads(h); /* a hard end */
	}
	/* With threads that were stopped for good nothing can be taken down: main() just ends. */
	if (!h->w->abandons_threads) {
		so_pool_free(h->pool);
		so_lib_close(&h->lib);
		for (int i = 0; h->slots && i < n_slots(h); i++)
			so_run_release(&h->slots[i].run);
		free(h->slots);
	}
	atomic_store(&has_library, false);
	environ = h->env_before;
	strv_release(&h->env);
	free(h->env_error);
	free(h->spare);
	free(h);
}

const struct handler_ops handler_so_ops = {
	.name = "so",
	.starts_at_once = true,
	.open = so_open,
	.check = so_check,
	.start = so_start,
	.cancel = so_cancel,
	.turn = so_turn,
	.run = so_run,
	.free = so_free,
};
