/* frames.c - see frames.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <unistd.h>

#include "clock.h"
#include "frames.h"

struct frames {
	struct ev_loop *loop; /* borrowed */
	ev_io io;             /* active while bytes wait */
	ev_prepare flush;     /* never started; pending while bytes were added in this turn */
	int fd;               /* borrowed, or `own` */
	int own;              /* owned; -1 = none */
	bool framed;
	int slot;
	size_t line_max;
	struct buf out;
	int64_t dropped;
	int64_t unsaid; /* dropped since it was last said */

	void (*on_room)(void *arg);
	void *on_room_arg;  /* borrowed */
	bool is_waited_for; /* somebody was told to stop reading */
	bool is_stalled;    /* the reader took nothing for FRAMES_STALL_S: nobody waits for it */
	ev_timer stall;     /* active while somebody waits */
};

static void on_writable(struct ev_loop *loop, ev_io *io, int revents);
static void on_turn_end(struct ev_loop *loop, ev_prepare *p, int revents);
static void on_stall(struct ev_loop *loop, ev_timer *t, int revents);

/*
 * A terminal or pipe that others write to as well must not be made non-blocking under them: we open
 * it a second time. -1 where that cannot be done (a socket): then writes wait for poll().
 */
static int open_again(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static bool would_block(const struct frames *f)
{
	struct pollfd p = {.fd = f->fd, .events = POLLOUT};

	return !f->framed && f->own < 0 && poll(&p, 1, 0) == 0;
}

struct frames *frames_new(struct ev_loop *loop, int fd, bool framed, int slot, size_t line_max)
{
	struct frames *f = xcalloc(1, sizeof(*f));

	f->loop = loop;
	f->fd = fd;
	f->own = -1;
	f->framed = framed;
	f->slot = slot;
	f->line_max = line_max;
	buf_init(&f->out);
	if (framed)
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	else
		f->own = open_again(fd);
	if (f->own >= 0)
		f->fd = f->own;
	ev_io_init(&f->io, on_writable, f->fd, EV_WRITE);
	ev_prepare_init(&f->flush, on_turn_end);
	ev_set_priority(&f->flush, EV_MINPRI);
	ev_init(&f->stall, on_stall);
	f->stall.repeat = FRAMES_STALL_S;
	f->io.data = f->flush.data = f->stall.data = f;
	return f;
}

void frames_on_room(struct frames *f, void (*on_room)(void *arg), void *arg)
{
	f->on_room = on_room;
	f->on_room_arg = arg;
}

bool frames_is_full(struct frames *f)
{
	if (f->out.len < FRAMES_FULL || f->is_stalled || !f->on_room)
		return false;
	if (!f->is_waited_for)
		ev_timer_again(f->loop, &f->stall);
	f->is_waited_for = true;
	return true;
}

static void tell_room(struct frames *f)
{
	if (!f->is_waited_for)
		return;
	f->is_waited_for = false;
	ev_timer_stop(f->loop, &f->stall);
	if (f->on_room)
		f->on_room(f->on_room_arg);
}

static void on_stall(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct frames *f = t->data;

	f->is_stalled = true;
	tell_room(f);
}

int64_t frames_dropped(const struct frames *f)
{
	return f->dropped;
}

/* True while it could write something, or there is nothing left. */
static bool write_some(struct frames *f)
{
	ssize_t n;

	if (f->out.len == 0)
		return true;
	if (would_block(f))
		return false;
	n = write(f->fd, f->out.data, f->out.len);
	if (n > 0) {
		buf_consume(&f->out, (size_t)n);
		f->is_stalled = false;
		if (f->is_waited_for)
			ev_timer_again(f->loop, &f->stall);
		return true;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	/* The reader is gone: nobody will ever see these lines. */
	f->dropped++;
	buf_clear(&f->out);
	return true;
}

static void add(struct frames *f, char stream, const char *id, struct slice text)
{
	char stamp[CLOCK_STAMP_LEN + 1];

	if (f->framed) {
		buf_addf(&f->out, "%c %s ", stream, id);
	} else {
		clock_stamp(clock_wall_ms(), stamp);
		buf_addf(&f->out, "%s %d %d %c [%s] ", stamp, f->slot, (int)getpid(), stream, id);
	}
	buf_add(&f->out, text.data, text.len);
	buf_addc(&f->out, '\n');
}

static void say_dropped(struct frames *f)
{
	char text[64];

	if (!f->unsaid)
		return;
	snprintf(text, sizeof(text), "%" PRId64 " log lines dropped: their reader is too slow",
		 f->unsaid);
	f->unsaid = 0;
	add(f, 'E', "-", slice_str(text));
}

static void on_writable(struct ev_loop *loop, ev_io *io, int revents ATTR_UNUSED)
{
	struct frames *f = io->data;

	write_some(f);
	if (f->out.len < FRAMES_MAX / 2)
		say_dropped(f);
	if (f->out.len == 0)
		ev_io_stop(loop, io);
	if (f->out.len < FRAMES_FULL / 2)
		tell_room(f);
}

/* One write for all lines of a turn, also for those of its last moment, before the loop sleeps. */
static void on_turn_end(struct ev_loop *loop, ev_prepare *p, int revents ATTR_UNUSED)
{
	struct frames *f = p->data;

	write_some(f);
	if (f->out.len > 0 || f->unsaid || f->is_waited_for)
		ev_io_start(loop, &f->io);
}

void frames_line(struct frames *f, char stream, const char *id, struct slice text)
{
	do {
		size_t n = text.len < f->line_max ? text.len : f->line_max;

		if (f->out.len + n > FRAMES_MAX) {
			f->dropped++;
			f->unsaid++;
		} else {
			add(f, stream, id, slice_of(text.data, n));
		}
		text = slice_of(text.data + n, text.len - n);
	} while (text.len > 0);
	if (f->out.len >= 65536)
		write_some(f);
	if (!ev_is_active(&f->io))
		ev_feed_event(f->loop, &f->flush, EV_CUSTOM);
}

void frames_log(void *arg, enum log_level level, const char *text, size_t len)
{
	struct frames *f = arg;
	struct buf line = BUF_INIT;

	if (level != LOG_INFO)
		buf_addf(&line, "%s: ", log_level_word(level));
	buf_add(&line, text, len);
	frames_line(f, 'E', "-", slice_of(line.data, line.len));
	buf_release(&line);
}

void frames_free(struct frames *f, int ms)
{
	int64_t end = clock_mono_ms() + ms;

	ev_io_stop(f->loop, &f->io);
	ev_clear_pending(f->loop, &f->flush);
	ev_timer_stop(f->loop, &f->stall);
	say_dropped(f);
	while (f->out.len > 0) {
		struct pollfd p = {.fd = f->fd, .events = POLLOUT};
		int64_t left = end - clock_mono_ms();

		if (left <= 0 || (poll(&p, 1, (int)left) <= 0 && errno != EINTR))
			break;
		write_some(f);
	}
	if (f->own >= 0)
		close(f->own);
	buf_release(&f->out);
	free(f);
}
