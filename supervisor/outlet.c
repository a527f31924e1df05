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
	bool is_mid_line;  /* the beginning of what waits first is out already */
	size_t notice_end; /* of the one notice that waits; 0 = none does */
	int64_t notice_n;  /* what it says */
	outlet_notice_fn *notice;
	void *arg;       /* borrowed */
	bool is_broken;  /* for ever */
	bool is_failing; /* until a retry gets through */
	int64_t dropped;
	int64_t unsaid; /* ... and no notice says so, not even one that waits */
	char why[128];
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

/* Nobody will ever read what is written there. Anything else may pass. */
static bool is_gone(const struct outlet *o, int error)
{
	if (error == EPIPE || error == EBADF || error == ECONNRESET)
		return true;
	return error == EIO && o->kind != OUTLET_FILE; /* a terminal that hung up */
}

/* `n` bytes of what waits are out. */
static void consume(struct outlet *o, size_t n)
{
	if (n == 0)
		return;
	o->is_mid_line = o->wait.data[n - 1] != '\n';
	o->notice_end = o->notice_end > n ? o->notice_end - n : 0;
	buf_consume(&o->wait, n);
}

/* Drops what waits, but for the rest of a line that was begun (if there is a point in that). */
static void drop_waiting(struct outlet *o)
{
	const char *nl = NULL;
	size_t from = 0;
	int64_t n = 0;

	if (o->wait.len > 0 && o->is_mid_line && !o->is_broken)
		nl = memchr(o->wait.data, '\n', o->wait.len);
	if (nl)
		from = (size_t)(nl + 1 - o->wait.data);
	for (size_t i = from; i < o->wait.len; i++)
		n += o->wait.data[i] == '\n';
	if (o->notice_end > from) { /* the lines it told of are untold again */
		n--;
		o->unsaid += o->notice_n;
		o->notice_end = 0;
	}
	drop(o, n);
	buf_truncate(&o->wait, from);
}

static void fail(struct outlet *o, int error)
{
	o->is_broken = is_gone(o, error);
	o->is_failing = !o->is_broken;
	snprintf(o->why, sizeof(o->why), "%s; lines for it are dropped%s", strerror(error),
		 o->is_failing ? " until it works" : "");
	drop_waiting(o);
}

static void write_waiting(struct outlet *o)
{
	size_t done = 0;
	int error = 0;

	while (done < o->wait.len && error == 0) {
		ssize_t n = write_some(o, o->wait.data + done, o->wait.len - done);

		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			error = errno;
	}
	consume(o, done);
	if (error != 0 && error != EAGAIN && error != EWOULDBLOCK)
		fail(o, error);
}

/* Says what was dropped, in its place: after the lines that wait already. */
static void add_notice(struct outlet *o)
{
	o->notice(o->arg, o->unsaid, &o->wait);
	o->notice_end = o->wait.len;
	o->notice_n = o->unsaid;
	o->unsaid = 0;
}

static void write_all(struct outlet *o)
{
	write_waiting(o);
	if (o->wait.len == 0 && o->unsaid > 0 && !o->is_broken && !o->is_failing) {
		add_notice(o);
		write_waiting(o);
	}
	if (o->wait.len > 0 && !o->is_failing)
		ev_io_start(o->loop, &o->io);
	else
		ev_io_stop(o->loop, &o->io);
	if (o->wait.len == 0 && o->wait.cap > KEEP_CAP)
		buf_release(&o->wait); /* memory of a burst goes back */
}

const char *outlet_flush(struct outlet *o)
{
	if (o->is_broken || o->is_failing)
		return NULL;
	write_all(o);
	return o->is_broken || o->is_failing ? o->why : NULL;
}

bool outlet_is_failing(const struct outlet *o)
{
	return o->is_failing;
}

void outlet_retry(struct outlet *o)
{
	o->is_failing = false;
	if (!o->is_broken)
		write_all(o);
}

static void on_writable(struct ev_loop *loop ATTR_UNUSED, ev_io *io, int revents ATTR_UNUSED)
{
	outlet_retry(container_of(io, struct outlet, io));
}

void outlet_add(struct outlet *o, struct slice line)
{
	bool is_full = o->wait.len + line.len > OUTLET_MAX;

	/* One notice for a storm, not one a line; and never two of them. */
	if (o->unsaid > 0 && (o->wait.len > OUTLET_MAX / 2 || o->notice_end > 0))
		is_full = true;
	if (is_full || o->is_broken || o->is_failing) {
		drop(o, 1);
		return;
	}
	if (o->unsaid > 0)
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
	outlet_retry(o);
	while (o->wait.len > 0 && !o->is_broken && !o->is_failing) {
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
