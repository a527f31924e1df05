/* logsink.c - see logsink.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include "clock.h"
#include "filename.h"
#include "line.h"
#include "list.h"
#include "log.h"
#include "logfile.h"
#include "logformat.h"
#include "logsink.h"
#include "outlet.h"

#define READ_SIZE (64 * 1024)
#define FRAME_HEAD_MAX 128      /* "O <id> " before the text of a frame */
#define DRAIN_MAX (1024 * 1024) /* of one pipe of a dead worker; more than a pipe holds */
#define STREAMS_PER_SLOT_MAX 32 /* pipes held open by what dead workers left behind */
#define OWN_LOG_NAME "supervisor.log"

enum stream_kind { STREAM_FRAMES, STREAM_RAW };

/* One pipe of one worker. */
struct stream {
	struct slotlog *slotlog; /* borrowed */
	struct list all;         /* on slotlog.streams */
	pid_t pid;
	enum stream_kind kind;
	int fd;
	ev_io io;
	struct line line;
	/* A frame longer than expected comes in pieces; the later ones have no head. */
	bool goes_on;
	char letter;
	struct buf id;
};

struct slotlog {
	struct logsink *sink; /* borrowed */
	struct list all;      /* on logsink.slots */
	char *queue;          /* owned */
	unsigned slot;
	unsigned refs;        /* 0: freed when its last pipe ends */
	struct logfile *file; /* owned; NULL without files */
	struct list streams;
	unsigned n_streams;
};

struct logsink {
	struct ev_loop *loop;     /* borrowed */
	char *dir;                /* owned; NULL without files */
	struct logsink_conf conf; /* .dir is not used */
	struct list slots;
	bool has_queues; /* more than one queue: stdout says which */
	char *read_buf;  /* owned, READ_SIZE */
	struct buf scratch;
	int64_t wall_ms; /* of the lines made now */

	struct outlet *out;  /* owned; NULL without stdout */
	struct outlet *err;  /* owned; NULL until logsink_own_log() */
	struct logfile *own; /* owned; NULL while the own log goes to stderr */
	bool has_own_log;
	int64_t dropped_before; /* in files of slots that are no more */

	ev_prepare at_turn_end; /* active while something is collected */
	ev_timer retry;         /* active while a place does not tell of its dropped lines */
};

static void slotlog_free(struct slotlog *l);

/* ------------------------------------------------------------------ lines out */

static void format_line(const struct logsink *s, struct buf *out, const struct logline *l,
			bool with_queue)
{
	if (s->conf.format == CONF_LOG_FORMAT_JSON)
		logformat_json(out, l);
	else
		logformat_text(out, l, with_queue);
}

/* A place that owes its reader a count of dropped lines is tried again, also without a new line. */
static void arm_retry(struct logsink *s, bool is_owing)
{
	if (is_owing && !ev_is_active(&s->retry)) {
		ev_timer_set(&s->retry, 1.0, 0.0);
		ev_timer_start(s->loop, &s->retry);
	}
}

static void flush_file(struct logsink *s, struct logfile *f)
{
	const char *why = logfile_flush(f, clock_mono_ms());

	if (why)
		log_warning("%s", why);
	arm_retry(s, logfile_unsaid(f) > 0);
}

static void emit(struct slotlog *l, pid_t pid, char letter, struct slice id, struct slice text)
{
	struct logsink *s = l->sink;
	struct logline line = {.wall_ms = s->wall_ms,
			       .queue = l->queue,
			       .slot = l->slot,
			       .pid = pid,
			       .stream = letter,
			       .id = id,
			       .text = text};

	if (l->file) {
		format_line(s, logfile_batch(l->file), &line, false);
		if (logfile_is_full(l->file))
			flush_file(s, l->file);
	}
	if (s->out) {
		buf_clear(&s->scratch);
		format_line(s, &s->scratch, &line, s->has_queues);
		outlet_add(s->out, slice_of(s->scratch.data, s->scratch.len));
	}
	if (!ev_is_active(&s->at_turn_end))
		ev_prepare_start(s->loop, &s->at_turn_end);
}

/* Every file with something to write or to tell. */
static void flush_files(struct logsink *s, bool only_unsaid)
{
	struct list *it;

	list_each (it, &s->slots) {
		struct slotlog *l = list_entry(it, struct slotlog, all);

		if (l->file && (logfile_unsaid(l->file) > 0 ||
				(!only_unsaid && logfile_batch(l->file)->len > 0)))
			flush_file(s, l->file);
	}
	if (s->own && logfile_unsaid(s->own) > 0)
		flush_file(s, s->own);
}

void logsink_flush(struct logsink *s)
{
	const char *why;

	ev_prepare_stop(s->loop, &s->at_turn_end);
	flush_files(s, false);
	why = s->out ? outlet_flush(s->out) : NULL;
	if (why)
		log_warning("stdout: %s", why);
	arm_retry(s, s->out && outlet_is_failing(s->out));
}

static void retry_outlet(struct logsink *s, struct outlet *o)
{
	if (!o || !outlet_is_failing(o))
		return;
	outlet_retry(o);
	arm_retry(s, outlet_is_failing(o));
}

static void on_turn_end(struct ev_loop *loop ATTR_UNUSED, ev_prepare *w, int revents ATTR_UNUSED)
{
	logsink_flush(container_of(w, struct logsink, at_turn_end));
}

static void on_retry(struct ev_loop *loop ATTR_UNUSED, ev_timer *w, int revents ATTR_UNUSED)
{
	struct logsink *s = container_of(w, struct logsink, retry);

	flush_files(s, true);
	retry_outlet(s, s->out);
	retry_outlet(s, s->err);
}

/* ------------------------------------------------------------------ bytes in */

static void on_line(void *arg, struct slice text, bool more)
{
	struct stream *st = arg;
	bool is_rest = st->goes_on;
	struct slice id = slice_str("-");
	char letter = 'E';

	if (st->kind == STREAM_FRAMES) {
		if (is_rest) {
			letter = st->letter;
			id = slice_of(st->id.data, st->id.len);
		} else if (logformat_parse_frame(text, &letter, &id, &text) && more) {
			st->letter = letter;
			buf_clear(&st->id);
			buf_add(&st->id, id.data, id.len);
		} else if (more) {
			st->letter = letter;
			buf_clear(&st->id);
			buf_addc(&st->id, '-');
		}
		st->goes_on = more;
	}
	emit(st->slotlog, st->pid, letter, id, text);
}

static void stream_free(struct stream *st)
{
	ev_io_stop(st->slotlog->sink->loop, &st->io);
	close(st->fd);
	list_remove(&st->all);
	st->slotlog->n_streams--;
	line_release(&st->line);
	buf_release(&st->id);
	free(st);
}

/* Reads once; the number of bytes, 0 = nothing there now, -1 = end of the stream. */
static ssize_t stream_read(struct stream *st)
{
	struct logsink *s = st->slotlog->sink;
	ssize_t n;

	do
		n = read(st->fd, s->read_buf, READ_SIZE);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -1;
	if (n == 0)
		return -1;
	s->wall_ms = clock_wall_ms();
	line_feed(&st->line, s->read_buf, (size_t)n, on_line, st);
	return n;
}

static void stream_end(struct stream *st)
{
	st->slotlog->sink->wall_ms = clock_wall_ms();
	line_flush(&st->line, on_line, st);
	stream_free(st);
}

static void on_readable(struct ev_loop *loop ATTR_UNUSED, ev_io *io, int revents ATTR_UNUSED)
{
	struct stream *st = container_of(io, struct stream, io);

	struct slotlog *l = st->slotlog;

	if (stream_read(st) >= 0)
		return;
	stream_end(st);
	if (l->refs == 0 && l->n_streams == 0)
		slotlog_free(l);
}

/* What is in the pipe now, and the unfinished line; the stream stays if its pipe is open. */
static void stream_drain(struct stream *st)
{
	size_t total = 0;

	while (total < DRAIN_MAX) {
		ssize_t n = stream_read(st);

		if (n < 0) {
			stream_end(st);
			return;
		}
		if (n == 0)
			break;
		total += (size_t)n;
	}
	st->slotlog->sink->wall_ms = clock_wall_ms();
	line_flush(&st->line, on_line, st);
}

static void attach(struct slotlog *l, pid_t pid, int fd, enum stream_kind kind)
{
	struct logsink *s = l->sink;
	size_t line_max = s->conf.line_max + (kind == STREAM_FRAMES ? FRAME_HEAD_MAX : 0);
	struct stream *st;

	if (fd < 0)
		return;
	if (l->n_streams >= STREAMS_PER_SLOT_MAX)
		stream_end(list_entry(l->streams.next, struct stream, all));
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); /* our end of a pipe: not shared */
	st = xcalloc(1, sizeof(*st));
	st->slotlog = l;
	st->pid = pid;
	st->kind = kind;
	st->fd = fd;
	line_init(&st->line, line_max);
	buf_init(&st->id);
	list_append(&l->streams, &st->all);
	l->n_streams++;
	ev_io_init(&st->io, on_readable, fd, EV_READ);
	ev_io_start(s->loop, &st->io);
}

void slotlog_attach(struct slotlog *l, pid_t pid, int frames_fd, int raw_fd)
{
	attach(l, pid, frames_fd, STREAM_FRAMES);
	attach(l, pid, raw_fd, STREAM_RAW);
}

void slotlog_drain(struct slotlog *l, pid_t pid)
{
	struct list *it, *tmp;

	list_each_safe (it, tmp, &l->streams) {
		struct stream *st = list_entry(it, struct stream, all);

		if (st->pid == pid)
			stream_drain(st);
	}
}

void slotlog_say(struct slotlog *l, pid_t pid, const char *fmt, ...)
{
	struct buf text = BUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	buf_vaddf(&text, fmt, ap);
	va_end(ap);
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] == '\n')
			text.data[i] = ' ';
	l->sink->wall_ms = clock_wall_ms();
	emit(l, pid, 'E', slice_str("-"), slice_of(text.data, text.len));
	buf_release(&text);
}

/* ------------------------------------------------------------------ slots */

static void notice_in_slot(void *arg, int64_t n, struct buf *out)
{
	struct slotlog *l = arg;
	char text[80];
	struct logline line = {.wall_ms = clock_wall_ms(),
			       .queue = l->queue,
			       .slot = l->slot,
			       .stream = 'E',
			       .id = slice_str("-")};

	snprintf(text, sizeof(text), "%lld line%s dropped", (long long)n, n == 1 ? "" : "s");
	line.text = slice_str(text);
	format_line(l->sink, out, &line, false);
}

static struct slotlog *slotlog_new(struct logsink *s, const char *queue, unsigned slot)
{
	struct slotlog *l = xcalloc(1, sizeof(*l));
	struct buf path = BUF_INIT;

	l->sink = s;
	l->queue = xstrdup(queue);
	l->slot = slot;
	list_init(&l->streams);
	list_append(&s->slots, &l->all);
	if (s->conf.files) {
		buf_addf(&path, "%s/", s->dir);
		filename_stem(&path, queue);
		buf_addf(&path, "-%u.log", slot);
		l->file = logfile_new(path.data, s->conf.max_size, s->conf.keep, notice_in_slot, l);
		flush_file(s, l->file);
		buf_release(&path);
	}
	return l;
}

/* More than one queue: stdout says which. */
static void count_queues(struct logsink *s)
{
	const char *first = NULL;
	struct list *it;

	s->has_queues = false;
	list_each (it, &s->slots) {
		const struct slotlog *l = list_entry(it, struct slotlog, all);

		if (!first)
			first = l->queue;
		s->has_queues |= strcmp(first, l->queue) != 0;
	}
}

struct slotlog *slotlog_get(struct logsink *s, const char *queue, unsigned slot)
{
	struct slotlog *found = NULL;
	struct list *it;

	list_each (it, &s->slots) {
		struct slotlog *l = list_entry(it, struct slotlog, all);

		if (l->slot == slot && strcmp(l->queue, queue) == 0)
			found = l;
	}
	if (!found) {
		found = slotlog_new(s, queue, slot);
		count_queues(s);
	}
	found->refs++;
	return found;
}

static void slotlog_free(struct slotlog *l)
{
	struct logsink *s = l->sink;
	int64_t dropped = l->file ? logfile_dropped(l->file) : 0;

	while (!list_empty(&l->streams))
		stream_free(list_entry(l->streams.next, struct stream, all));
	list_remove(&l->all);
	s->dropped_before += dropped;
	logfile_free(l->file, clock_mono_ms());
	free(l->queue);
	free(l);
	count_queues(s);
}

void slotlog_put(struct slotlog *l)
{
	INVARIANT(l->refs > 0);
	if (--l->refs == 0 && l->n_streams == 0)
		slotlog_free(l);
}

/* ------------------------------------------------------------------ the supervisor's own log */

static void format_own(const struct logsink *s, struct buf *out, const char *level,
		       struct slice text)
{
	if (s->conf.format == CONF_LOG_FORMAT_JSON)
		logformat_own_json(out, clock_wall_ms(), level, text);
	else
		logformat_own_text(out, clock_wall_ms(), level, text);
}

static void notice_own(void *arg, int64_t n, struct buf *out)
{
	char text[80];

	snprintf(text, sizeof(text), "%lld line%s dropped", (long long)n, n == 1 ? "" : "s");
	format_own(arg, out, log_level_word(LOG_WARNING), slice_str(text));
}

/* A log_writer_fn: must not log, so the trouble of its own file goes untold but for the count. */
static void write_own(void *arg, enum log_level level, const char *text, size_t len)
{
	struct logsink *s = arg;

	if (s->own) {
		format_own(s, logfile_batch(s->own), log_level_word(level), slice_of(text, len));
		logfile_flush(s->own, clock_mono_ms());
		arm_retry(s, logfile_unsaid(s->own) > 0);
	} else {
		struct buf line = BUF_INIT;

		format_own(s, &line, log_level_word(level), slice_of(text, len));
		outlet_add(s->err, slice_of(line.data, line.len));
		outlet_flush(s->err);
		arm_retry(s, outlet_is_failing(s->err));
		buf_release(&line);
	}
}

void logsink_own_log(struct logsink *s, bool to_file)
{
	logfile_free(s->own, clock_mono_ms());
	s->own = NULL;
	if (to_file && s->dir) {
		char *path = xasprintf("%s/%s", s->dir, OWN_LOG_NAME);

		s->own = logfile_new(path, s->conf.max_size, s->conf.keep, notice_own, s);
		free(path);
	} else if (!s->err) {
		s->err = outlet_new(s->loop, STDERR_FILENO, notice_own, s);
	}
	s->has_own_log = true;
	log_set_writer(write_own, s);
}

/* ------------------------------------------------------------------ the sink */

struct logsink *logsink_new(struct ev_loop *loop, const struct logsink_conf *conf, struct err *e)
{
	struct logsink *s;

	if (conf->dir && conf->files && access(conf->dir, W_OK | X_OK) != 0) {
		err_set(e, EXIT_CONFIG, "log directory %s: %s; set supervisor.log_dir", conf->dir,
			strerror(errno));
		return NULL;
	}
	s = xcalloc(1, sizeof(*s));
	s->loop = loop;
	s->conf = *conf;
	s->conf.files = conf->files && conf->dir;
	s->dir = conf->dir ? xstrdup(conf->dir) : NULL;
	s->read_buf = xcalloc(1, READ_SIZE);
	buf_init(&s->scratch);
	list_init(&s->slots);
	ev_prepare_init(&s->at_turn_end, on_turn_end);
	ev_init(&s->retry, on_retry);
	if (conf->to_stdout)
		s->out = outlet_new(loop, STDOUT_FILENO, notice_own, s);
	return s;
}

void logsink_configure(struct logsink *s, const struct logsink_conf *conf)
{
	struct list *it;

	s->conf.format = conf->format;
	s->conf.max_size = conf->max_size;
	s->conf.keep = conf->keep;
	s->conf.line_max = conf->line_max;
	list_each (it, &s->slots) {
		struct slotlog *l = list_entry(it, struct slotlog, all);

		if (l->file)
			logfile_configure(l->file, conf->max_size, conf->keep);
	}
	if (s->own)
		logfile_configure(s->own, conf->max_size, conf->keep);
}

static void reopen(struct logfile *f)
{
	const char *why = f ? logfile_reopen(f, clock_mono_ms()) : NULL;

	if (why)
		log_warning("%s", why);
}

void logsink_reopen(struct logsink *s)
{
	struct list *it;

	list_each (it, &s->slots)
		reopen(list_entry(it, struct slotlog, all)->file);
	reopen(s->own);
}

void logsink_free(struct logsink *s)
{
	struct list *it, *tmp;

	if (!s)
		return;
	list_each (it, &s->slots) {
		struct slotlog *l = list_entry(it, struct slotlog, all);
		struct list *is, *is_tmp;

		list_each_safe (is, is_tmp, &l->streams)
			stream_drain(list_entry(is, struct stream, all));
	}
	logsink_flush(s);
	if (s->has_own_log)
		log_set_writer(NULL, NULL);
	ev_timer_stop(s->loop, &s->retry);
	list_each_safe (it, tmp, &s->slots)
		slotlog_free(list_entry(it, struct slotlog, all));
	logfile_free(s->own, clock_mono_ms());
	outlet_free(s->out);
	outlet_free(s->err);
	buf_release(&s->scratch);
	free(s->read_buf);
	free(s->dir);
	free(s);
}

int64_t logsink_dropped(const struct logsink *s)
{
	int64_t n = s->dropped_before;
	struct list *it;

	list_each (it, &s->slots) {
		const struct slotlog *l = list_entry(it, struct slotlog, all);

		n += l->file ? logfile_dropped(l->file) : 0;
	}
	n += s->own ? logfile_dropped(s->own) : 0;
	n += s->out ? outlet_dropped(s->out) : 0;
	n += s->err ? outlet_dropped(s->err) : 0;
	return n;
}
