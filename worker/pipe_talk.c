/*
 * pipe_talk.c - what a worker and one child of its pipe handler say to each other: tasks and
 * cancels go in, answers and logs come out.
 *
 * Nothing here can block or deadlock, whatever the child reads or writes first: what its stdin does
 * not take is kept (a task's line at most for each of its slots), and all that it writes is read as
 * it comes.
 */
#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "clock.h"
#include "last_words.h"
#include "log.h"
#include "pipe.h"
#include "readfile.h"

#define READ_CHUNK 65536 /* of logs, per turn and fd */
#define ANSWER_MIN 20    /* {"type":"done","id":"" */
/* How often a child's memory is looked at, at most. */
#define LOOK_MS 1000
/* What was written is thrown out of the buffer when there is this much of it. */
#define COMPACT_MIN (1024 * 1024)
#define KEEP_OUT (256 * 1024)

/* ------------------------------------------------------------------ runs */

struct pipe_run *pipe_child_find(const struct pipe_child *c, const char *id, uint64_t hash)
{
	const struct list *head = &c->buckets[hash % PIPE_BUCKETS];
	struct list *it;

	list_each (it, head) {
		struct pipe_run *run = list_entry(it, struct pipe_run, bucket);

		if (run->hash == hash && strcmp(run->id, id) == 0)
			return run;
	}
	return NULL;
}

/* Takes it from the child. */
void pipe_run_detach(struct pipe_run *run)
{
	struct pipe_child *c = run->child;

	list_remove(&run->link);
	list_remove(&run->bucket);
	c->n_runs--;
	if (c->n_runs == 0)
		c->apart = false;
	run->child = NULL;
	if (run->stop != EXEC_NOT_STOPPED)
		pipe_child_reckon(c);
}

void pipe_child_to_write(struct pipe_child *c)
{
	if (list_empty(&c->to_write))
		list_append(&c->h->to_write, &c->to_write);
}

void pipe_child_give(struct pipe_child *c, struct pipe_run *run, int64_t now)
{
	struct handler *h = c->h;
	int64_t timeout = h->w->qc->timeout;
	size_t before = c->out.len;

	if (c->n_runs == 0)
		buf_clear(&c->last_words);
	else
		list_entry(c->runs.next, struct pipe_run, link)->alone = false;
	run->alone = c->n_runs == 0;
	run->child = c;
	run->due_ms = timeout > 0 ? now + timeout : 0;
	run->line_at = c->n_queued;
	list_remove(&run->link);
	list_append(&c->runs, &run->link);
	list_append(&c->buckets[run->hash % PIPE_BUCKETS], &run->bucket);
	if (timeout > 0)
		list_append(&h->due, &run->due);
	pipe_seen_add(&c->seen, run->hash);
	c->n_runs++;
	c->n_given++;
	c->apart = run->task->suspicion == SUSPECT_APART;
	pipe_task_line(&c->out, run->task, run->id, h->w->qc,
		       timeout > 0 ? clock_wall_ms() + timeout : 0);
	c->n_queued += c->out.len - before;
	pipe_child_to_write(c);
}

/* RSS in bytes, 0 when it cannot be seen. */
static int64_t memory_of(pid_t pid)
{
	struct buf text = BUF_INIT;
	char path[32];
	int64_t pages = 0;
	char *rest;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	if (readfile(path, 256, &text) == 0) {
		(void)strtoll(text.data, &rest, 10); /* the first is the address space */
		pages = strtoll(rest, NULL, 10);
	}
	buf_release(&text);
	return pages * sysconf(_SC_PAGESIZE);
}

static bool is_worn(struct pipe_child *c, int64_t now)
{
	if (c->worn_at > 0 && c->n_given >= c->worn_at)
		return true;
	if (c->memory_max == 0 || now < c->look_at_ms)
		return false;
	c->look_at_ms = now + LOOK_MS;
	return memory_of(c->child.pid) > c->memory_max;
}

/* ------------------------------------------------------------------ answers */

static void keep_result(struct pipe_child *c, struct task *t, struct slice value)
{
	buf_clear(&t->outcome.result);
	if (value.len <= OUTCOME_RESULT_MAX)
		buf_add(&t->outcome.result, value.data, value.len);
	else
		log_warning("task %s: child %d: a result of %zu bytes, %d are kept: it is left out",
			    t->label, c->number, value.len, OUTCOME_RESULT_MAX);
}

static void on_end(struct pipe_child *c, struct pipe_run *run, const struct answer *a)
{
	struct outcome *o = &run->task->outcome;
	int64_t now = clock_mono_ms();

	pipe_answered(o, a, run->stop, c->h->w->qc->timeout);
	if (o->kind == OUTCOME_DONE && a->value.data)
		keep_result(c, run->task, a->value);
	else if (o->kind != OUTCOME_DONE && run->alone)
		last_words_add(&o->last_words, slice_of(c->last_words.data, c->last_words.len));
	pipe_run_detach(run);
	c->n_answered++;
	c->h->n_failures = 0; /* those of another day are not in a row with the next */
	if (!c->worn)
		c->worn = is_worn(c, now);
	if (c->n_runs == 0 && c->state == PIPE_DRAINING)
		pipe_child_drain(c, now);
	pipe_on_end(run);
}

static void on_note(struct pipe_child *c, struct pipe_run *run, const struct answer *a)
{
	bool is_checkpoint = a->type == ANSWER_CHECKPOINT;

	if (a->value.data &&
	    worker_note(c->h->w, run->task, is_checkpoint ? NOTE_CHECKPOINT : NOTE_PROGRESS,
			a->value) < 0)
		log_warning("task %s: a %s of %zu bytes is not kept, %d are allowed",
			    run->task->label, is_checkpoint ? "checkpoint" : "progress",
			    a->value.len, is_checkpoint ? TASK_CHECKPOINT_MAX : TASK_PROGRESS_MAX);
}

static void on_ready(struct pipe_child *c, const struct answer *a)
{
	if (c->state != PIPE_STARTING)
		return; /* said before, or too late */
	c->slots = a->slots;
	c->ready_by_ms = 0;
	pipe_child_step(c, PIPE_ON_READY);
	pipe_child_arm(c);
	pipe_on_ready(c);
}

/* Its words about one of its tasks. */
static void on_word(struct pipe_child *c, const struct answer *a)
{
	uint64_t hash = pipe_hash(a->id, strlen(a->id));
	struct pipe_run *run = pipe_child_find(c, a->id, hash);
	char what[OUTCOME_ERROR_MAX];

	if (!a->has_id) {
		pipe_child_fault(c, "a line on fd 3 without an id");
	} else if (run && answer_is_end(a)) {
		on_end(c, run, a);
	} else if (run) {
		on_note(c, run, a);
	} else if (pipe_seen_has(&c->seen, hash) && a->id_len < ANSWER_ID_MAX) {
		log_debug("child %d: late word about task %s", c->number, a->id);
	} else {
		snprintf(what, sizeof(what), "it answers for \"%.100s\", which it never had",
			 a->id);
		pipe_child_fault(c, what);
	}
}

static void on_answer(struct pipe_child *c, struct slice text, bool more)
{
	bool is_rest = c->in_long_line;
	struct answer a;
	char why[128], what[OUTCOME_ERROR_MAX];

	c->in_long_line = more;
	if (c->fault[0])
		return;
	if (more || is_rest) {
		snprintf(what, sizeof(what), "a line on fd 3 of more than %d bytes",
			 ANSWER_LINE_MAX);
		pipe_child_fault(c, what);
	} else if (answer_line(&a, text, why) < 0) {
		if (c->is_cut)
			return;
		snprintf(what, sizeof(what), "a malformed line on fd 3: %s", why);
		pipe_child_fault(c, what);
	} else if (a.type == ANSWER_READY) {
		on_ready(c, &a);
	} else if (a.type != ANSWER_NONE) {
		on_word(c, &a);
	}
}

/* ------------------------------------------------------------------ reading */

static void on_line(void *arg, struct slice text, bool more)
{
	struct pipe_fd *p = arg;
	struct pipe_child *c = p->child;
	const char *id = "-";

	if (p->which == PIPE_ANSWER) {
		on_answer(c, text, more);
		return;
	}
	if (c->n_runs == 1)
		id = list_entry(c->runs.next, struct pipe_run, link)->task->label;
	frames_line(c->h->w->frames, p->which == PIPE_OUT ? 'O' : 'E', id, text);
}

void pipe_fd_close(struct pipe_fd *p)
{
	if (p->fd < 0)
		return;
	ev_io_stop(p->child->h->w->loop, &p->io);
	close(p->fd);
	p->fd = -1;
	p->child->is_cut |= p->which == PIPE_ANSWER;
	line_flush(&p->line, on_line, p);
}

/*
 * Whose lines the logs are is told by who is alone when they are read. What a task wrote before it
 * answered comes by another way: where these `n` bytes of answers may leave one task or none, it is
 * read before they are looked at.
 */
static void read_logs_first(struct pipe_child *c, size_t n)
{
	if ((size_t)c->n_runs > 2 + n / ANSWER_MIN || frames_is_full(c->h->w->frames))
		return;
	pipe_fd_read(&c->fds[PIPE_OUT], READ_CHUNK);
	pipe_fd_read(&c->fds[PIPE_ERR], READ_CHUNK);
}

bool pipe_fd_read(struct pipe_fd *p, size_t max)
{
	char chunk[32768];

	while (p->fd >= 0 && max > 0) {
		ssize_t n = read(p->fd, chunk, sizeof(chunk));

		if (n > 0) {
			if (p->which == PIPE_ERR)
				last_words_add(&p->child->last_words, slice_of(chunk, (size_t)n));
			else if (p->which == PIPE_ANSWER)
				read_logs_first(p->child, (size_t)n);
			line_feed(&p->line, chunk, (size_t)n, on_line, p);
			max -= (size_t)n < max ? (size_t)n : max;
			if ((size_t)n < sizeof(chunk))
				return false; /* a look for more would find nothing, mostly */
		} else if (n == 0) {
			if (p->which == PIPE_ANSWER)
				pipe_child_expect_death(p->child);
			pipe_fd_close(p);
		} else if (errno != EINTR) {
			if (errno != EAGAIN)
				pipe_fd_close(p);
			return false;
		}
	}
	return p->fd >= 0;
}

/* A burst of output goes at the pace of the log's reader; an answer never waits for one. */
static void on_readable(struct ev_loop *loop, ev_io *io, int revents ATTR_UNUSED)
{
	struct pipe_fd *p = io->data;

	if (p->which == PIPE_ANSWER)
		pipe_fd_read(p, PIPE_READ_ANSWERS);
	else if (frames_is_full(p->child->h->w->frames))
		ev_io_stop(loop, io);
	else
		pipe_fd_read(p, READ_CHUNK);
}

void pipe_child_resume(struct pipe_child *c)
{
	for (int i = 0; i < PIPE_N_FDS; i++)
		if (c->fds[i].fd >= 0)
			ev_io_start(c->h->w->loop, &c->fds[i].io);
}

/* ------------------------------------------------------------------ writing */

static size_t n_unwritten(const struct pipe_child *c)
{
	return c->out.len - c->out_at;
}

static void compact(struct pipe_child *c)
{
	if (n_unwritten(c) == 0) {
		if (c->out.cap > KEEP_OUT)
			buf_release(&c->out);
		buf_clear(&c->out);
		c->out_at = 0;
	} else if (c->out_at > COMPACT_MIN && c->out_at > n_unwritten(c)) {
		buf_consume(&c->out, c->out_at);
		c->out_at = 0;
	}
}

void pipe_child_flush(struct pipe_child *c)
{
	struct ev_loop *loop = c->h->w->loop;

	list_remove(&c->to_write);
	while (c->in_fd >= 0 && n_unwritten(c) > 0 && !c->is_deaf) {
		ssize_t n = write(c->in_fd, c->out.data + c->out_at, n_unwritten(c));

		if (n >= 0) {
			c->out_at += (size_t)n;
		} else if (errno == EAGAIN) {
			ev_io_start(loop, &c->writable);
			break;
		} else if (errno != EINTR) {
			/* Kept open: what it has not read is counted when it is dead. */
			c->is_deaf = true;
			pipe_child_expect_death(c);
		}
	}
	compact(c);
	if (n_unwritten(c) > 0 && !c->is_deaf)
		return;
	ev_io_stop(loop, &c->writable);
	if (c->is_leaving && c->in_fd >= 0) {
		close(c->in_fd);
		c->in_fd = -1;
	}
}

static void on_writable(struct ev_loop *loop ATTR_UNUSED, ev_io *io, int revents ATTR_UNUSED)
{
	pipe_child_flush(io->data);
}

/* ------------------------------------------------------------------ after its death */

/* Bytes that lie in its stdin; who died has not read them. */
uint64_t pipe_child_n_unread(const struct pipe_child *c)
{
	int n = 0;

	if (c->in_fd < 0 || ioctl(c->in_fd, FIONREAD, &n) < 0)
		n = 0;
	return n_unwritten(c) + (uint64_t)n;
}

/* ------------------------------------------------------------------ its fds */

void pipe_talk_init(struct pipe_child *c)
{
	size_t line_max = (size_t)conf_supervisor(c->h->w->conf)->log_line_max;

	c->in_fd = -1;
	list_init(&c->to_write);
	list_init(&c->runs);
	for (int i = 0; i < PIPE_BUCKETS; i++)
		list_init(&c->buckets[i]);
	buf_init(&c->out);
	buf_init(&c->last_words);
	ev_init(&c->writable, on_writable);
	for (int i = 0; i < PIPE_N_FDS; i++) {
		struct pipe_fd *p = &c->fds[i];

		p->child = c;
		p->which = i;
		p->fd = -1;
		ev_init(&p->io, on_readable);
		line_init(&p->line, i == PIPE_ANSWER ? ANSWER_LINE_MAX : line_max);
	}
}

void pipe_talk_watch(struct pipe_child *c)
{
	for (int i = 0; i < PIPE_N_FDS; i++) {
		struct pipe_fd *p = &c->fds[i];

		ev_io_init(&p->io, on_readable, p->fd, EV_READ);
		p->io.data = p;
		ev_io_start(c->h->w->loop, &p->io);
	}
	ev_io_init(&c->writable, on_writable, c->in_fd, EV_WRITE);
	c->writable.data = c;
}

void pipe_talk_release(struct pipe_child *c)
{
	ev_io_stop(c->h->w->loop, &c->writable);
	list_remove(&c->to_write);
	for (int i = 0; i < PIPE_N_FDS; i++) {
		pipe_fd_close(&c->fds[i]);
		line_release(&c->fds[i].line);
	}
	if (c->in_fd >= 0)
		close(c->in_fd);
	buf_release(&c->out);
	buf_release(&c->last_words);
}
