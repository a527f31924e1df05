/*
 * handler_exec.c - one process per task: stdin is the task, fd 3 the answer, stdout and stderr are
 * logs.
 *
 * Owns the runs, their pipes and timers. The outcome is the leader's exit, never the end of its
 * pipes; when the leader has died, and not before, its group is killed (also after success), what
 * is still in the pipes is read, it is reaped, and what it left behind outside its group is swept.
 * Nothing here can deadlock: stdin is filled before the start (a pipe if it fits, else a memory
 * file), and every output is read as it comes.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "answer.h"
#include "child_env.h"
#include "clock.h"
#include "conf_read.h"
#include "exec_exit.h"
#include "exec_stdin.h"
#include "last_words.h"
#include "line.h"
#include "log.h"
#include "oom.h"
#include "program.h"
#include "spawn.h"
#include "strays.h"
#include "worker.h"

extern char **environ;

#define READ_CHUNK 65536 /* per turn and pipe: one chatty task must not starve the others */

enum { OUT, ERR, ANSWER, N_PIPES };

struct run;

struct run_pipe {
	ev_io io;
	struct run *run; /* borrowed */
	struct line line;
	int fd; /* owned, -1 = closed */
	int which;
};

struct run {
	struct list link;   /* handler's runs */
	struct handler *h;  /* borrowed */
	struct task *task;  /* borrowed; its run until worker_finished() */
	struct child child; /* pidfd owned */
	ev_io death;
	ev_timer timeout;
	ev_timer kill;
	int64_t kill_grace_ms;
	int64_t oom_kills; /* in our cgroup, before it started */
	enum exec_stop stop;
	struct run_pipe pipes[N_PIPES];
	struct answer answer; /* the last that ends its task; its value is gone */
	bool in_long_line;    /* on fd 3: the rest of a line that is too long is no line */
	bool complained;      /* about what it says there */
};

struct handler {
	struct worker *w; /* borrowed */
	struct strv env;  /* owned: the base of every run's */
	char *env_error;  /* owned: why there is none */
	struct list runs;
	struct strays strays;
	sigset_t changed; /* what children must have reset; nobody changes more of them later */
	struct oom_watch oom;
};

/* ------------------------------------------------------------------ output */

/* Once per run is enough: a handler may take fd 3 for a log. */
static void complain(struct run *run, const char *why)
{
	if (!run->complained)
		log_warning("task %s: a line on fd 3 is ignored: %s", run->task->label, why);
	run->complained = true;
}

static void on_note(struct run *run, const struct answer *said)
{
	bool is_checkpoint = said->type == ANSWER_CHECKPOINT;
	char why[128];

	if (worker_note(run->h->w, run->task, is_checkpoint ? NOTE_CHECKPOINT : NOTE_PROGRESS,
			said->value) == 0)
		return;
	snprintf(why, sizeof(why), "a %s of %zu bytes, %d are kept",
		 is_checkpoint ? "checkpoint" : "progress", said->value.len,
		 is_checkpoint ? TASK_CHECKPOINT_MAX : TASK_PROGRESS_MAX);
	complain(run, why);
}

static void on_answer(struct run *run, struct slice text, bool more)
{
	bool is_rest = run->in_long_line;
	struct answer said;
	char why[128];

	run->in_long_line = more;
	if (more || is_rest) {
		snprintf(why, sizeof(why), "longer than %d bytes", ANSWER_LINE_MAX);
		complain(run, why);
	} else if (answer_line(&said, text, why) < 0) {
		complain(run, why);
	} else if (answer_is_end(&said)) {
		buf_clear(&run->task->outcome.result);
		if (said.type == ANSWER_DONE && said.value.data)
			buf_add(&run->task->outcome.result, said.value.data, said.value.len);
		run->answer = said;
		run->answer.value = slice_of(NULL, 0);
	} else if (said.type == ANSWER_PROGRESS || said.type == ANSWER_CHECKPOINT) {
		on_note(run, &said);
	}
}

static void on_line(void *arg, struct slice text, bool more)
{
	struct run_pipe *p = arg;
	struct run *run = p->run;

	if (p->which == ANSWER)
		on_answer(run, text, more);
	else
		frames_line(run->h->w->frames, p->which == OUT ? 'O' : 'E', run->task->label, text);
}

static void close_pipe(struct run_pipe *p)
{
	if (p->fd < 0)
		return;
	ev_io_stop(p->run->h->w->loop, &p->io);
	close(p->fd);
	p->fd = -1;
	line_flush(&p->line, on_line, p);
}

/* Reads up to `max` bytes; false when nothing more is there now. */
static bool read_pipe(struct run_pipe *p, size_t max)
{
	char chunk[16384];

	while (p->fd >= 0 && max > 0) {
		ssize_t n = read(p->fd, chunk, sizeof(chunk));

		if (n > 0) {
			if (p->which == ERR)
				last_words_add(&p->run->task->outcome.last_words,
					       slice_of(chunk, (size_t)n));
			line_feed(&p->line, chunk, (size_t)n, on_line, p);
			max -= (size_t)n < max ? (size_t)n : max;
		} else if (n == 0) {
			close_pipe(p);
		} else if (errno != EINTR) {
			if (errno != EAGAIN)
				close_pipe(p);
			return false;
		}
	}
	return p->fd >= 0;
}

/* A burst of output goes at the pace of the log's reader; an answer never waits for one. */
static void on_output(struct ev_loop *loop, ev_io *io, int revents ATTR_UNUSED)
{
	struct run_pipe *p = io->data;

	if (p->which != ANSWER && frames_is_full(p->run->h->w->frames))
		ev_io_stop(loop, io);
	else
		read_pipe(p, READ_CHUNK);
}

static void on_room(void *arg)
{
	struct handler *h = arg;
	struct list *it;

	list_each (it, &h->runs) {
		struct run *run = list_entry(it, struct run, link);

		for (int i = 0; i < N_PIPES; i++)
			if (run->pipes[i].fd >= 0)
				ev_io_start(h->w->loop, &run->pipes[i].io);
	}
}

/* ------------------------------------------------------------------ the end of a run */

static void free_run(struct run *run)
{
	struct ev_loop *loop = run->h->w->loop;

	ev_io_stop(loop, &run->death);
	ev_timer_stop(loop, &run->timeout);
	ev_timer_stop(loop, &run->kill);
	for (int i = 0; i < N_PIPES; i++) {
		close_pipe(&run->pipes[i]);
		line_release(&run->pipes[i].line);
	}
	if (run->child.pidfd >= 0)
		close(run->child.pidfd);
	list_remove(&run->link);
	free(run);
}

/* What the dead wrote last is in its pipes; bounded, for the pipe may be shared with a survivor
 * that goes on writing (one that left the group). */
#define LAST_READ_MAX (1024 * 1024)

static void finish(struct run *run)
{
	struct handler *h = run->h;
	struct task *t = run->task;
	struct child_exit how;

	kill(-run->child.pid, SIGKILL); /* the zombie leader still pins the group's id */
	for (int i = 0; i < N_PIPES; i++)
		read_pipe(&run->pipes[i], LAST_READ_MAX);
	for (int i = 0; i < N_PIPES; i++)
		close_pipe(&run->pipes[i]);
	if (child_reap(run->child.pid, &how) < 0) {
		log_error("task %s: its process cannot be reaped: %m", t->label);
		how = (struct child_exit){.signaled = true, .code = SIGKILL};
	}
	exec_outcome(&t->outcome, &how, &run->answer, run->stop, h->w->qc->timeout);
	if (t->outcome.kind == OUTCOME_CRASHED && oom_watch_count(&h->oom) > run->oom_kills)
		exec_oom(&t->outcome);
	strays_remove(&h->strays, run->child.pid);
	t->run = NULL;
	free_run(run);
	worker_finished(h->w, t);
}

static void on_death(struct ev_loop *loop ATTR_UNUSED, ev_io *io, int revents ATTR_UNUSED)
{
	struct run *run = io->data;
	struct child_exit how;

	if (child_is_dead(run->child.pid, &how))
		finish(run);
}

/* ------------------------------------------------------------------ stopping */

/*
 * After a stall of ours a timer may come before the news of a death that happened long before: a
 * run that ended by itself is never taken for one that was stopped.
 */
static bool ended_before(struct run *run)
{
	struct child_exit how;

	if (!child_is_dead(run->child.pid, &how))
		return false;
	finish(run);
	return true;
}

static void on_kill(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct run *run = t->data;

	if (ended_before(run))
		return;
	log_warning("task %s: still there after SIGTERM: SIGKILL", run->task->label);
	kill(-run->child.pid, SIGKILL);
}

static void terminate(struct run *run, enum exec_stop why, int64_t grace_ms)
{
	struct ev_loop *loop = run->h->w->loop;
	bool again = run->stop != EXEC_NOT_STOPPED;

	if (!again) {
		run->stop = why;
		kill(-run->child.pid, SIGTERM);
		kill(-run->child.pid, SIGCONT);
	}
	/* A second reason may only hurry it. */
	if (again && ev_is_active(&run->kill) &&
	    ev_timer_remaining(loop, &run->kill) <= (double)grace_ms / 1000.0)
		return;
	ev_timer_stop(loop, &run->kill);
	ev_timer_set(&run->kill, (double)grace_ms / 1000.0, 0.0);
	ev_timer_start(loop, &run->kill);
}

static void on_timeout(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct run *run = t->data;

	if (ended_before(run))
		return;
	log_warning("task %s: timed out: SIGTERM", run->task->label);
	terminate(run, EXEC_STOP_TIMEOUT, run->h->w->qc->kill_grace);
}

static void exec_cancel(struct handler *h ATTR_UNUSED, struct task *t, int64_t grace_ms)
{
	if (t->run && !ended_before(t->run))
		terminate(t->run, EXEC_STOP_CANCEL, grace_ms);
}

/* ------------------------------------------------------------------ starting */

static void watch(struct run *run)
{
	struct worker *w = run->h->w;

	for (int i = 0; i < N_PIPES; i++) {
		struct run_pipe *p = &run->pipes[i];

		ev_io_init(&p->io, on_output, p->fd, EV_READ);
		p->io.data = p;
		ev_io_start(w->loop, &p->io);
	}
	ev_io_init(&run->death, on_death, run->child.pidfd, EV_READ);
	run->death.data = run;
	ev_io_start(w->loop, &run->death);
	if (w->qc->timeout > 0) {
		ev_timer_set(&run->timeout, (double)w->qc->timeout / 1000.0, 0.0);
		ev_now_update(w->loop);
		ev_timer_start(w->loop, &run->timeout);
	}
}

static int spawn_it(struct run *run, const int fds[4], enum spawn_step *step)
{
	struct worker *w = run->h->w;
	struct run_facts facts = {
		.queue = w->qc,
		.consumer = w->board->names[run->task->partition].consumer,
		.slot = w->slot,
		.deadline_ms = w->qc->timeout ? clock_wall_ms() + w->qc->timeout : 0,
	};
	struct strv env = {NULL, 0};
	struct spawn s = {
		.argv = w->qc->handler.argv.v,
		.cwd = w->qc->cwd,
		.fds = fds,
		.n_fds = 4,
		.group = SPAWN_GROUP,
		.pdeathsig = SIGKILL,
		.reset = &run->h->changed,
	};
	int saved;
	int r;

	if (child_env(&run->h->env, run->task, &facts, &env) < 0)
		log_warning("task %s: its checkpoint cannot be a variable and is left out of the "
			    "environment (%zu bytes, a NUL among them)",
			    run->task->label, run->task->checkpoint.len);
	s.envp = env.v;
	r = spawn_run(&s, &run->child, step);
	saved = errno;
	strv_release(&env);
	errno = saved;
	return r;
}

static struct run *new_run(struct handler *h, struct task *t)
{
	struct run *run = xcalloc(1, sizeof(*run));
	size_t line_max = (size_t)conf_supervisor(h->w->conf)->log_line_max;

	run->h = h;
	run->task = t;
	run->child.pidfd = -1;
	answer_init(&run->answer);
	list_init(&run->link);
	ev_init(&run->timeout, on_timeout);
	ev_init(&run->kill, on_kill);
	ev_init(&run->death, on_death);
	run->timeout.data = run->kill.data = run;
	for (int i = 0; i < N_PIPES; i++) {
		struct run_pipe *p = &run->pipes[i];

		p->run = run;
		p->which = i;
		p->fd = -1;
		ev_init(&p->io, on_output);
		line_init(&p->line, i == ANSWER ? ANSWER_LINE_MAX : line_max);
	}
	return run;
}

/* Our ends into the run, the child's ends into `fds`. */
static int open_pipes(struct run *run, int fds[4])
{
	for (int i = 0; i < N_PIPES; i++) {
		int ends[2];

		if (pipe2(ends, O_CLOEXEC) < 0)
			return -1;
		fcntl(ends[0], F_SETFL, O_NONBLOCK);
		run->pipes[i].fd = ends[0];
		fds[i + 1] = ends[1];
	}
	return 0;
}

/* It could not be started. Our own lack of fds or processes passes; a missing program does not. */
static void not_started(struct run *run, enum spawn_step step, int error)
{
	struct task *t = run->task;
	struct worker *w = run->h->w;
	bool passing = step == SPAWN_FORK || error == EMFILE || error == ENFILE ||
		       error == ENOMEM || error == EAGAIN;

	/* Either way nothing ran: given back uncharged, and a pause (the breaker's) before more. */
	t->outcome.kind = passing ? OUTCOME_UNSTARTED : OUTCOME_BROKEN;
	snprintf(t->outcome.error, sizeof(t->outcome.error), "%s %s: %s%s", spawn_step_word(step),
		 w->qc->handler.argv.v[0], strerror(error),
		 passing ? " (this machine is short of it)" : "");
	t->run = NULL;
	free_run(run);
	worker_finished(w, t);
}

static void exec_start(struct handler *h, struct task *t)
{
	struct run *run = new_run(h, t);
	int fds[4] = {-1, -1, -1, -1};
	enum spawn_step step = SPAWN_FDS;
	int error = 0;

	t->run = run;
	run->oom_kills = oom_watch_count(&h->oom);
	fds[0] = exec_stdin(h->w->qc, t);
	if (fds[0] < 0 || open_pipes(run, fds) < 0 || spawn_it(run, fds, &step) < 0)
		error = errno;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (error) {
		not_started(run, step, error);
		return;
	}
	list_append(&h->runs, &run->link);
	strays_add(&h->strays, run->child.pid, t->label);
	worker_set_pgid(h->w, t, run->child.pid);
	watch(run);
}

/* ------------------------------------------------------------------ the handler itself */

static struct handler *exec_open(struct worker *w)
{
	struct handler *h = xcalloc(1, sizeof(*h));
	struct err e;

	h->w = w;
	list_init(&h->runs);
	sig_not_default(&h->changed);
	oom_watch_init(&h->oom);
	strays_init(&h->strays, w->loop, "REDISQ_ID=");
	frames_on_room(w->frames, on_room, h);
	if (conf_handler_env(w->qc, environ, &h->env, &e) < 0)
		h->env_error = xstrdup(e.text);
	return h;
}

static int exec_check(struct handler *h, struct err *e)
{
	if (h->env_error)
		return err_set(e, EXIT_CONFIG, "%s", h->env_error);
	return program_check(h->w->qc, &h->env, e);
}

static void exec_free(struct handler *h)
{
	struct list *it, *tmp;

	list_each_safe (it, tmp, &h->runs) {
		struct run *run = list_entry(it, struct run, link);

		kill(-run->child.pid, SIGKILL);
		run->task->run = NULL;
		free_run(run);
	}
	strays_release(&h->strays);
	oom_watch_release(&h->oom);
	frames_on_room(h->w->frames, NULL, NULL);
	strv_release(&h->env);
	free(h->env_error);
	free(h);
}

const struct handler_ops handler_exec_ops = {
	.name = "exec",
	.open = exec_open,
	.check = exec_check,
	.start = exec_start,
	.cancel = exec_cancel,
	.free = exec_free,
};
