/* outlet.c - see outlet.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "outlet.h"

#define LAST_FLUSH_MS 200
#define SMALL_WRITE 256 /* what a terminal or pipe that polls writable takes at once */
#define KEEP_CAP (64 * 1024)

enum outlet_kind { OUTLET_FILE, OUTLET_OWN, OUTLET_SOCKET, OUTLET_POLLED };

struct outlet {
	struct ev_loop *loop; /* borrowed */
	enum outlet_kind kind;
	int fd; /* owned with OUTLET_OWN, else borrowed */
	ev_io io;
	struct buf wait;
	outlet_notice_fn *notice;
	void *arg; /* borrowed */
	bool is_broken;
	int64_t dropped;
	int64_t unsaid;
};

static void drop(struct outlet *o, int64_t n)
{
	o->dropped += n;
	o->unsaid += n;
}

static void choose_kind(struct outlet *o, int fd)
{
	char path[32];
	struct stat st;

	o->fd = fd;
	o->kind = OUTLET_POLLED;
	if (fstat(fd, &st) != 0)
		return; /* closed: the first write finds out */
	if (S_ISREG(st.st_mode)) {
		o->kind = OUTLET_FILE;
	} else if (S_ISSOCK(st.st_mode)) {
		o->kind = OUTLET_SOCKET;
	} else {
		int own;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (own >= 0) {
			o->fd = own;
			o->kind = OUTLET_OWN;
		}
	}
}

/* As write(); EAGAIN when it would have to wait. */
static ssize_t write_some(struct outlet *o, const char *data, size_t len)
{
	struct pollfd p = {.fd = o->fd, .events = POLLOUT};

	switch (o->kind) {
	case OUTLET_SOCKET:
		return send(o->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	case OUTLET_POLLED:
		if (poll(&p, 1, 0) == 0) {
			errno = EAGAIN;
			return -1;
		}
		return write(o->fd, data, len < SMALL_WRITE ? len : SMALL_WRITE);
	case OUTLET_FILE:
	case OUTLET_OWN:
		break;
	}
	return write(o->fd, data, len);
}

static void write_waiting(struct outlet *o)
{
	size_t done = 0;

	while (done < o->wait.len && !o->is_broken) {
		ssize_t n = write_some(o, o->wait.data + done, o->wait.len - done);

		if (n >= 0)
			done += (size_t)n;
		else if (errno == EAGAIN || errno == EWOULDBLOCK)
			break;
		else if (errno != EINTR)
			o->is_broken = true;
	}
	buf_consume(&o->wait, done);
}

/* Says what was dropped, in its place: after the lines that wait already. */
static void add_notice(struct outlet *o)
{
	if (o->unsaid > 0) {
		o->notice(o->arg, o->unsaid, &o->wait);
		o->unsaid = 0;
	}
}

bool outlet_flush(struct outlet *o)
{
	bool was_broken = o->is_broken;

	write_waiting(o);
	if (o->wait.len == 0 && o->unsaid > 0 && !o->is_broken) {
		add_notice(o);
		write_waiting(o);
	}
	if (o->is_broken) {
		for (size_t i = 0; i < o->wait.len; i++)
			if (o->wait.data[i] == '\n')
				drop(o, 1);
		buf_release(&o->wait);
	}
	if (o->wait.len > 0)
		ev_io_start(o->loop, &o->io);
	else
		ev_io_stop(o->loop, &o->io);
	if (o->wait.len == 0 && o->wait.cap > KEEP_CAP)
		buf_release(&o->wait); /* memory of a burst goes back */
	return was_broken || !o->is_broken;
}

static void on_writable(struct ev_loop *loop ATTR_UNUSED, ev_io *io, int revents ATTR_UNUSED)
{
	outlet_flush(container_of(io, struct outlet, io));
}

void outlet_add(struct outlet *o, struct slice line)
{
	if (o->is_broken || o->wait.len + line.len > OUTLET_MAX) {
		drop(o, 1);
		return;
	}
	if (o->unsaid > 0 && o->wait.len > OUTLET_MAX / 2) {
		drop(o, 1); /* one notice for a storm, not one a line */
		return;
	}
	add_notice(o);
	buf_add(&o->wait, line.data, line.len);
}

struct outlet *outlet_new(struct ev_loop *loop, int fd, outlet_notice_fn *notice, void *arg)
{
	struct outlet *o = xcalloc(1, sizeof(*o));

	o->loop = loop;
	o->notice = notice;
	o->arg = arg;
	buf_init(&o->wait);
	choose_kind(o, fd);
	ev_io_init(&o->io, on_writable, o->fd, EV_WRITE);
	return o;
}

void outlet_free(struct outlet *o)
{
	int64_t until = clock_mono_ms() + LAST_FLUSH_MS;

	if (!o)
		return;
	outlet_flush(o);
	while (o->wait.len > 0 && !o->is_broken) {
		struct pollfd p = {.fd = o->fd, .events = POLLOUT};
		int64_t left = until - clock_mono_ms();

		if (left <= 0 || poll(&p, 1, (int)left) <= 0)
			break;
		outlet_flush(o);
	}
	ev_io_stop(o->loop, &o->io);
	if (o->kind == OUTLET_OWN)
		close(o->fd);
	buf_release(&o->wait);
	free(o);
}

int64_t outlet_dropped(const struct outlet *o)
{
	return o->dropped;
}
