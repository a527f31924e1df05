/*
 * pipe_child.c - one child of a pipe handler: its process, its states and times, its stopping and
 * its death.
 *
 * Everything it has said counts, also what is read after its death; only then are the tasks that it
 * leaves unanswered brought to their ends, when it and its group are gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "child_env.h"
#include "clock.h"
#include "last_words.h"
#include "log.h"
#include "pipe.h"

/* Of the dead; bounded, for what has left its group may go on writing. */
#define LAST_READ_MAX (1024 * 1024)
#define LAST_ANSWERS_MAX (64 * 1024 * 1024)
/* Between the end of an fd and the death that it mostly foretells. */
#define GONE_MS 1000
/* For one without a task, when its worker is stopped: less than what the worker gives itself. */
#define LEAVE_FAST_MS 500
#define NEVER_READY "child never said ready on fd 3; npm, npx and sudo close it: start node itself"

static void on_timer(struct ev_loop *loop, ev_timer *t, int revents);

/* ------------------------------------------------------------------ states and times */

void pipe_child_step(struct pipe_child *c, enum pipe_event ev)
{
	enum pipe_state next = pipe_next(c->state, ev);
	char what[48];

	if (next == PIPE_N_STATES) {
		log_error("child %d: %s while it is %s cannot happen", c->number,
			  pipe_event_word(ev), pipe_state_word(c->state));
		INVARIANT(false && "a step that the table of child states knows");
		return;
	}
	if (log_enabled(LOG_DEBUG)) {
		snprintf(what, sizeof(what), "child %d (pid %d)", c->number, (int)c->child.pid);
		log_state(what, pipe_state_word(c->state), pipe_state_word(next),
			  pipe_event_word(ev));
	}
	c->state = next;
}

static void sooner(int64_t *at, int64_t ms)
{
	if (ms > 0 && (*at == 0 || ms < *at))
		*at = ms;
}

/* Sets the timer to what is due next. */
void pipe_child_arm(struct pipe_child *c)
{
	struct ev_loop *loop = c->h->w->loop;
	int64_t at = 0;

	ev_timer_stop(loop, &c->timer);
	if (c->state == PIPE_STARTING)
		sooner(&at, c->ready_by_ms);
	if (c->state < PIPE_KILLED) {
		sooner(&at, c->gone_by_ms);
		sooner(&at, c->kill_at_ms);
	}
	if (c->state < PIPE_TERMED)
		sooner(&at, c->term_at_ms);
	if (at == 0)
		return;
	ev_timer_set(&c->timer, (double)max_i64(at - clock_mono_ms(), 0) / 1000.0, 0.0);
	ev_timer_start(loop, &c->timer);
}

/* When it is to be signalled, by those of its tasks that were asked to stop, or because it is to
 * leave. */
void pipe_child_reckon(struct pipe_child *c)
{
	struct list *it;

	if (!c->is_leaving && c->state < PIPE_TERMED) {
		c->term_at_ms = c->kill_at_ms = 0;
		list_each (it, &c->runs) {
			struct pipe_run *run = list_entry(it, struct pipe_run, link);

			sooner(&c->term_at_ms, run->term_at_ms);
			sooner(&c->kill_at_ms, run->kill_at_ms);
		}
	}
	pipe_child_arm(c);
}

static void signal_group(struct pipe_child *c, int signo)
{
	kill(-c->child.pid, signo);
	if (signo != SIGKILL)
		kill(-c->child.pid, SIGCONT);
}

/* It has broken the protocol, and is no use any more. The first reason is the one. */
void pipe_child_fault(struct pipe_child *c, const char *what)
{
	if (c->fault[0] || c->state >= PIPE_KILLED || c->is_dead)
		return;
	snprintf(c->fault, sizeof(c->fault), "%s", what);
	blank_controls(c->fault); /* it may quote the child */
	log_warning("child %d (pid %d): %s: SIGKILL", c->number, (int)c->child.pid, c->fault);
	pipe_child_step(c, PIPE_ON_KILL);
	signal_group(c, SIGKILL);
	pipe_child_arm(c);
}

void pipe_child_expect_death(struct pipe_child *c)
{
	if (c->state < PIPE_TERMED && c->gone_by_ms == 0 && !c->is_leaving) {
		c->gone_by_ms = clock_mono_ms() + GONE_MS;
		pipe_child_arm(c);
	}
}

void pipe_child_cancel(struct pipe_run *run, enum exec_stop why, const char *reason,
		       int64_t grace_ms, int64_t now)
{
	struct pipe_child *c = run->child;
	size_t before = c->out.len;

	if (run->stop == EXEC_NOT_STOPPED) {
		run->stop = why;
		pipe_cancel_line(&c->out, run->id, reason);
		c->n_queued += c->out.len - before;
		pipe_child_to_write(c);
	}
	/* A second reason may only hurry it. */
	sooner(&run->term_at_ms, now + grace_ms / 2);
	sooner(&run->kill_at_ms, now + grace_ms);
	if (c->state == PIPE_TERMED)
		sooner(&c->kill_at_ms, run->kill_at_ms);
	pipe_child_reckon(c);
}

void pipe_child_drain(struct pipe_child *c, int64_t now)
{
	const struct worker *w = c->h->w;
	int64_t grace = w->qc->kill_grace;
	size_t before = c->out.len;

	if (c->state < PIPE_DRAINING) {
		pipe_child_step(c, PIPE_ON_DRAIN);
		pipe_drain_line(&c->out);
		c->n_queued += c->out.len - before;
		pipe_child_to_write(c);
	}
	if (c->n_runs > 0 || c->is_leaving || c->state != PIPE_DRAINING)
		return;
	c->is_leaving = true;
	c->gone_by_ms = 0; /* it may close what it likes, and has its time */
	/* It has nothing to lose, and the worker no time. */
	if (w->stopping)
		grace = min_i64(grace, LEAVE_FAST_MS);
	c->term_at_ms = now + grace / 2;
	c->kill_at_ms = now + grace;
	pipe_child_to_write(c);
	pipe_child_arm(c);
}

/* ------------------------------------------------------------------ the end */

static void end_runs(struct pipe_child *c, const struct child_exit *how, enum pipe_state was)
{
	struct pipe_death d = {.how = *how,
			       .fault = c->fault[0] ? c->fault : NULL,
			       .killed = was == PIPE_TERMED || was == PIPE_KILLED};
	bool was_oom = oom_watch_count(&c->h->oom) > c->oom_kills;
	uint64_t n_read = c->n_queued - pipe_child_n_unread(c);
	struct list *it;

	list_each (it, &c->runs) {
		struct pipe_run *run = list_entry(it, struct pipe_run, link);

		d.any_stopped |= run->stop != EXEC_NOT_STOPPED;
		d.n_charged += run->stop == EXEC_NOT_STOPPED && run->line_at < n_read;
	}
	while (!list_empty(&c->runs)) {
		struct pipe_run *run = list_entry(c->runs.next, struct pipe_run, link);
		struct outcome *o = &run->task->outcome;

		pipe_died(o, &d, run->stop, run->line_at >= n_read, c->h->w->qc->timeout);
		if (was_oom)
			exec_oom(o);
		if (o->kind != OUTCOME_STOPPED)
			last_words_add(&o->last_words,
				       slice_of(c->last_words.data, c->last_words.len));
		pipe_run_detach(run);
		pipe_on_end(run);
	}
}

static void bury(struct pipe_child *c)
{
	struct ev_loop *loop = c->h->w->loop;
	enum pipe_state was = c->state;
	struct child_exit how;

	ev_io_stop(loop, &c->death);
	signal_group(c, SIGKILL); /* the zombie leader still pins the group's id */
	c->is_dead = true;        /* in the middle of a line, maybe: no fault of its own */
	for (int i = 0; i < PIPE_N_FDS; i++)
		pipe_fd_read(&c->fds[i], i == PIPE_ANSWER ? LAST_ANSWERS_MAX : LAST_READ_MAX);
	for (int i = 0; i < PIPE_N_FDS; i++)
		pipe_fd_close(&c->fds[i]);
	if (child_reap(c->child.pid, &how) < 0) {
		log_error("child %d (pid %d) cannot be reaped: %m", c->number, (int)c->child.pid);
		how = (struct child_exit){.signaled = true, .code = SIGKILL};
	}
	pipe_child_step(c, PIPE_ON_DEATH);
	ev_timer_stop(loop, &c->timer);
	ev_io_stop(loop, &c->writable);
	end_runs(c, &how, was);
	pipe_on_gone(c, &how, was);
}

bool pipe_child_look(struct pipe_child *c)
{
	struct child_exit how;

	if (c->state == PIPE_GONE)
		return true;
	pipe_fd_read(&c->fds[PIPE_ANSWER], PIPE_READ_ANSWERS);
	if (!child_is_dead(c->child.pid, &how))
		return false;
	bury(c);
	return true;
}

static void on_death(struct ev_loop *loop ATTR_UNUSED, ev_io *io, int revents ATTR_UNUSED)
{
	pipe_child_look(io->data);
}

/* After a stall of ours a timer may come before the news of an answer or of a death: those are
 * looked for first. */
static void on_timer(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct pipe_child *c = t->data;
	int64_t now = clock_mono_ms();

	if (pipe_child_look(c))
		return;
	if (c->state == PIPE_STARTING &&
	    (now >= c->ready_by_ms || (c->gone_by_ms > 0 && now >= c->gone_by_ms))) {
		c->never_ready = true;
		pipe_child_fault(c, NEVER_READY);
	} else if (c->gone_by_ms > 0 && now >= c->gone_by_ms && c->state < PIPE_KILLED) {
		pipe_child_fault(c, c->is_deaf ? "it has closed its stdin" : "it has closed fd 3");
	} else if (c->kill_at_ms > 0 && now >= c->kill_at_ms && c->state < PIPE_KILLED) {
		log_warning("child %d (pid %d) is still there: SIGKILL", c->number,
			    (int)c->child.pid);
		pipe_child_step(c, PIPE_ON_KILL);
		signal_group(c, SIGKILL);
	} else if (c->term_at_ms > 0 && now >= c->term_at_ms && c->state < PIPE_TERMED) {
		log_warning("child %d (pid %d) %s: SIGTERM", c->number, (int)c->child.pid,
			    c->is_leaving ? "did not leave when it was drained"
					  : "did not stop a task that was cancelled");
		c->h->w->forced |= c->h->leaving;
		pipe_child_step(c, PIPE_ON_TERM);
		signal_group(c, SIGTERM);
	}
	pipe_child_arm(c);
}

/* ------------------------------------------------------------------ starting */

static void init_child(struct pipe_child *c, struct handler *h)
{
	c->h = h;
	c->state = PIPE_STARTING;
	c->child.pidfd = -1;
	c->in_fd = -1;
	c->slots = 1;
	list_init(&c->link);
	pipe_talk_init(c);
	ev_init(&c->timer, on_timer);
	ev_init(&c->death, on_death);
	c->timer.data = c->death.data = c;
}

/* Our ends into the child, its ends into `fds`. */
static int open_fds(struct pipe_child *c, int fds[4])
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	c->in_fd = ends[1];
	fds[0] = ends[0];
	for (int i = 0; i < PIPE_N_FDS; i++) {
		if (pipe2(ends, O_CLOEXEC) < 0)
			return -1;
		fcntl(ends[0], F_SETFL, O_NONBLOCK);
		c->fds[i].fd = ends[0];
		fds[i + 1] = ends[1];
	}
	return 0;
}

static int spawn_it(struct pipe_child *c, const int fds[4], enum spawn_step *step)
{
	struct worker *w = c->h->w;
	struct run_facts facts = {
		.queue = w->qc, .consumer = partitions_consumer(w), .slot = w->slot};
	struct strv env = {NULL, 0};
	struct spawn s = {
		.argv = w->qc->handler.argv.v,
		.cwd = w->qc->cwd,
		.fds = fds,
		.n_fds = 4,
		.group = SPAWN_GROUP,
		.pdeathsig = SIGKILL,
	};
	int saved;
	int r;

	child_env_kept(&c->h->env, &facts, c->label, &env);
	s.envp = env.v;
	r = spawn_run(&s, &c->child, step);
	saved = errno;
	strv_release(&env);
	errno = saved;
	return r;
}

static void watch(struct pipe_child *c)
{
	struct ev_loop *loop = c->h->w->loop;

	pipe_talk_watch(c);
	ev_io_init(&c->death, on_death, c->child.pidfd, EV_READ);
	c->death.data = c;
	ev_io_start(loop, &c->death);
}

struct pipe_child *pipe_child_start(struct handler *h, int number, struct pipe_no_start *no)
{
	struct pipe_child *c = xcalloc(1, sizeof(*c));
	int fds[4] = {-1, -1, -1, -1};
	int64_t n_kills = oom_watch_count(&h->oom);
	enum spawn_step at = SPAWN_FDS;
	int error = 0;

	init_child(c, h);
	c->number = number;
	snprintf(c->label, sizeof(c->label), "%d", number);
	if (open_fds(c, fds) < 0 || spawn_it(c, fds, &at) < 0)
		error = errno;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (error) {
		*no = (struct pipe_no_start){.step = at, .error = error};
		pipe_child_free(c);
		return NULL;
	}
	c->started_ms = clock_mono_ms();
	c->oom_kills = n_kills;
	c->ready_by_ms = c->started_ms + conf_supervisor(h->w->conf)->ready_timeout;
	watch(c);
	pipe_child_arm(c);
	log_debug("child %d (pid %d) is starting", c->number, (int)c->child.pid);
	return c;
}

void pipe_child_free(struct pipe_child *c)
{
	struct ev_loop *loop = c->h->w->loop;

	ev_timer_stop(loop, &c->timer);
	ev_io_stop(loop, &c->death);
	list_remove(&c->link);
	pipe_talk_release(c);
	if (c->child.pidfd >= 0)
		close(c->child.pidfd);
	free(c);
}
