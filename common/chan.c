/*
 * chan.c - see chan.h. Owns the socket, the bytes not yet written and the line not yet complete.
 *
 * Invariants: on_eof is called at most once and nothing is called after it; neither callback is
 * ever called from inside chan_say() (what goes wrong there is fed to the loop), and chan_free()
 * inside a callback only marks the channel, because the line reader is still on the stack.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "chan.h"
#include "clock.h"
#include "log.h"

/* Reads per event, so that a talkative peer cannot hold the loop. */
#define CHAN_READS 16

struct chan {
	struct ev_loop *loop; /* borrowed */
	ev_io rd;
	ev_io wr;
	int fd; /* owned */
	struct line in;
	struct buf out;
	chan_word_fn *on_word;
	chan_eof_fn *on_eof;
	void *arg;     /* borrowed */
	bool lost;     /* nothing can be written any more */
	bool stuck;    /* the backlog is full: counts as gone, unread words or not */
	bool ended;    /* on_eof was called */
	bool skipping; /* inside a line longer than CHAN_LINE_MAX */
	bool in_callback;
	bool freed; /* chan_free() came inside a callback */
};

static void destroy(struct chan *c)
{
	line_release(&c->in);
	buf_release(&c->out);
	free(c);
}

static void end(struct chan *c)
{
	ev_io_stop(c->loop, &c->rd);
	ev_io_stop(c->loop, &c->wr);
	c->lost = c->ended = true;
	buf_release(&c->out);
	c->on_eof(c->arg);
}

static void on_line(void *arg, struct slice text, bool more)
{
	struct chan *c = arg;
	char line[CHAN_LINE_MAX + 1];
	char *rest;

	if (c->freed)
		return;
	if (more || c->skipping) {
		if (!c->skipping)
			log_warning("channel: a line longer than %d bytes was ignored",
				    CHAN_LINE_MAX);
		c->skipping = more;
		return;
	}
	if (text.len == 0)
		return;
	memcpy(line, text.data, text.len);
	line[text.len] = '\0';
	rest = strchr(line, ' ');
	if (rest)
		*rest++ = '\0';
	c->on_word(c->arg, line, rest ? rest : "");
}

/* True while there may be more to read. */
static bool read_some(struct chan *c)
{
	char bytes[CHAN_LINE_MAX];
	ssize_t n = read(c->fd, bytes, sizeof(bytes));

	if (n > 0) {
		line_feed(&c->in, bytes, (size_t)n, on_line, c);
		return !c->freed && (size_t)n == sizeof(bytes);
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	/* End-of-file, or ECONNRESET: the peer left without reading all we said. */
	end(c);
	return false;
}

static void on_readable(struct ev_loop *loop ATTR_UNUSED, ev_io *io, int revents ATTR_UNUSED)
{
	struct chan *c = container_of(io, struct chan, rd);

	c->in_callback = true;
	if (c->stuck)
		end(c);
	else
		for (int i = 0; i < CHAN_READS && read_some(c); i++)
			;
	c->in_callback = false;
	if (c->freed)
		destroy(c);
}

/* Nothing more can be said. What the peer said before is still read, up to its end-of-file. */
static void lose(struct chan *c)
{
	c->lost = true;
	buf_release(&c->out);
	ev_io_stop(c->loop, &c->wr);
}

static void write_some(struct chan *c)
{
	ssize_t n;

	if (c->lost || c->out.len == 0)
		return;
	n = send(c->fd, c->out.data, c->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
		lose(c);
		return;
	}
	if (n > 0)
		buf_consume(&c->out, (size_t)n);
	if (c->out.len == 0)
		ev_io_stop(c->loop, &c->wr);
	else
		ev_io_start(c->loop, &c->wr);
}

static void on_writable(struct ev_loop *loop ATTR_UNUSED, ev_io *io, int revents ATTR_UNUSED)
{
	write_some(container_of(io, struct chan, wr));
}

struct chan *chan_new(struct ev_loop *loop, int fd, chan_word_fn *on_word, chan_eof_fn *on_eof,
		      void *arg)
{
	struct chan *c = xcalloc(1, sizeof(*c));

	/* These cannot fail on an open fd. */
	INVARIANT(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
	INVARIANT(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
	c->loop = loop;
	c->fd = fd;
	c->on_word = on_word;
	c->on_eof = on_eof;
	c->arg = arg;
	line_init(&c->in, CHAN_LINE_MAX);
	buf_init(&c->out);
	ev_io_init(&c->rd, on_readable, fd, EV_READ);
	ev_io_init(&c->wr, on_writable, fd, EV_WRITE);
	ev_io_start(loop, &c->rd);
	return c;
}

void chan_free(struct chan *c)
{
	if (!c || c->freed)
		return;
	ev_io_stop(c->loop, &c->rd);
	ev_io_stop(c->loop, &c->wr);
	close(c->fd);
	c->fd = -1;
	c->lost = c->freed = true;
	if (!c->in_callback)
		destroy(c);
}

void chan_say(struct chan *c, const char *fmt, ...)
{
	size_t start = c->out.len;
	va_list ap;

	if (c->lost)
		return;
	va_start(ap, fmt);
	buf_vaddf(&c->out, fmt, ap);
	va_end(ap);
	if (c->out.len - start > CHAN_LINE_MAX)
		buf_truncate(&c->out, start + CHAN_LINE_MAX);
	for (size_t i = start; i < c->out.len; i++)
		if (c->out.data[i] == '\n')
			c->out.data[i] = ' ';
	buf_addc(&c->out, '\n');
	write_some(c);
	if (c->out.len > CHAN_BACKLOG_MAX) {
		log_warning("channel: the other side reads nothing; taken as gone");
		lose(c);
		c->stuck = true;
		ev_feed_event(c->loop, &c->rd, EV_READ);
	}
}

size_t chan_unsent(const struct chan *c)
{
	return c->out.len;
}

void chan_flush(struct chan *c, int ms)
{
	int64_t end_ms = clock_mono_ms() + ms;

	write_some(c);
	while (!c->lost && c->out.len > 0) {
		struct pollfd p = {.fd = c->fd, .events = POLLOUT};
		int64_t left = end_ms - clock_mono_ms();

		if (left <= 0)
			return;
		if (poll(&p, 1, (int)left) > 0)
			write_some(c);
	}
}

int64_t chan_number(const char *rest)
{
	char *end_of;
	long long n;

	if (*rest < '0' || *rest > '9')
		return -1;
	errno = 0;
	n = strtoll(rest, &end_of, 10);
	return errno || (*end_of && *end_of != ' ') ? -1 : n;
}
