/* control.c - see control.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "buf.h"
#include "clock.h"
#include "control.h"
#include "list.h"
#include "log.h"

#define FLUSH_MS 200
#define READ_SIZE 4096

struct control_call {
	struct client *client; /* borrowed; NULL once the client went away */
	struct list all;       /* on control.calls */
};

struct client {
	struct control *control;   /* borrowed */
	struct list all;           /* on control.clients */
	struct control_call *call; /* borrowed from control.calls; NULL = none in work */
	int fd;
	ev_io io;
	struct buf in;
	struct buf out;
	bool is_eof;  /* sends no more; may still wait for its answer */
	bool is_over; /* hung up after the last answer is out */
};

struct control {
	struct ev_loop *loop; /* borrowed */
	char *path;           /* owned */
	control_request_fn *fn;
	void *arg; /* borrowed */
	int fd;
	dev_t dev; /* of the socket file we made */
	ino_t ino;
	ev_io io;
	ev_timer pause; /* accept() ran out of file descriptors: try again later */
	struct list clients;
	struct list calls;
	unsigned n_clients;
};

static void on_client(struct ev_loop *loop, ev_io *io, int revents);
static void take_requests(struct client *cl);

/* ------------------------------------------------------------------ the listening socket */

static int bind_path(int fd, const char *path, struct stat *made)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	mode_t before;
	int rc;

	memcpy(sa.sun_path, path, strlen(path) + 1);
	before = umask(0177); /* never reachable for others, not even for a moment */
	rc = bind(fd, (const struct sockaddr *)&sa, sizeof(sa));
	umask(before);
	if (rc == 0)
		rc = lstat(path, made);
	return rc;
}

static int listen_at(struct control *c, struct err *e)
{
	struct stat st;
	int fd = -1;

	if (strlen(c->path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return err_set(e, EXIT_CONFIG,
			       "control socket %s: the path has more than 107 bytes; set a shorter "
			       "supervisor.control_socket",
			       c->path);
	if (lstat(c->path, &st) == 0) {
		if (!S_ISSOCK(st.st_mode))
			return err_set(e, EXIT_CONFIG,
				       "control socket %s: something else is there; move it away",
				       c->path);
		if (unlink(c->path) != 0 && errno != ENOENT)
			goto fail;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind_path(fd, c->path, &st) != 0 || listen(fd, CONTROL_CLIENTS_MAX) != 0)
		goto fail;
	c->fd = fd;
	c->dev = st.st_dev;
	c->ino = st.st_ino;
	return 0;
fail:
	err_set(e, EXIT_CONFIG, "control socket %s: %s; is the directory there and writable?",
		c->path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool is_ours(const struct control *c)
{
	struct stat st;

	return lstat(c->path, &st) == 0 && st.st_dev == c->dev && st.st_ino == c->ino;
}

/* ------------------------------------------------------------------ clients */

static void client_free(struct client *cl)
{
	struct control *c = cl->control;

	if (cl->call)
		cl->call->client = NULL;
	ev_io_stop(c->loop, &cl->io);
	close(cl->fd);
	list_remove(&cl->all);
	c->n_clients--;
	buf_release(&cl->in);
	buf_release(&cl->out);
	free(cl);
}

/* Watches for what can happen next: output first, input only while no request is in work. */
static void client_watch(struct client *cl)
{
	struct ev_loop *loop = cl->control->loop;
	int events = (cl->out.len ? EV_WRITE : 0) |
		     (cl->is_eof || cl->in.len > CONTROL_REQUEST_MAX ? 0 : EV_READ);

	if (ev_is_active(&cl->io) && events == (cl->io.events & (EV_READ | EV_WRITE)))
		return;
	ev_io_stop(loop, &cl->io);
	ev_io_set(&cl->io, cl->fd, events);
	if (events)
		ev_io_start(loop, &cl->io);
}

/* Writes what goes; false: the client is gone (not freed here). */
static bool client_write(struct client *cl)
{
	while (cl->out.len > 0) {
		ssize_t n = send(cl->fd, cl->out.data, cl->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK;
		buf_consume(&cl->out, (size_t)n);
	}
	return true;
}

/* Queues one JSON line; steals `line`. The watcher writes it. */
static void client_send(struct client *cl, json_t *line)
{
	char *text = json_dumps(line, JSON_COMPACT);

	json_decref(line);
	INVARIANT(text);
	if (cl->out.len + strlen(text) > CONTROL_ANSWER_MAX) {
		log_warning("control: a client reads nothing; its connection is closed");
		buf_clear(&cl->out);
		shutdown(cl->fd, SHUT_RDWR);
		cl->is_over = true;
		client_watch(cl);
		ev_feed_event(cl->control->loop, &cl->io, EV_WRITE); /* frees it, if unowed */
	} else {
		buf_adds(&cl->out, text);
		buf_addc(&cl->out, '\n');
		client_watch(cl);
	}
	free(text);
}

static struct control_call *call_new(struct client *cl)
{
	struct control_call *call = xcalloc(1, sizeof(*call));

	call->client = cl;
	cl->call = call;
	list_append(&cl->control->calls, &call->all);
	return call;
}

static void take_one(struct client *cl, const char *text, size_t len)
{
	struct control *c = cl->control;
	struct control_call *call = call_new(cl);
	json_t *request = json_loadb(text, len, 0, NULL);
	const char *verb = json_string_value(json_object_get(request, "verb"));

	if (verb)
		c->fn(c->arg, call, verb, request);
	else
		control_fail(call, EXIT_USAGE,
			     "not a request; send one line {\"verb\":\"status\"}");
	json_decref(request);
}

/* Hands on what is complete, one request at a time. `cl` stays alive. */
static void take_requests(struct client *cl)
{
	while (!cl->call && !cl->is_over) {
		const char *nl = memchr(cl->in.data, '\n', cl->in.len);
		size_t len;

		if (!nl && cl->in.len > CONTROL_REQUEST_MAX) {
			control_fail(call_new(cl), EXIT_USAGE, "request longer than %d bytes",
				     CONTROL_REQUEST_MAX);
			buf_clear(&cl->in);
			cl->is_over = true;
		}
		if (!nl)
			break;
		len = (size_t)(nl - cl->in.data);
		if (len > 0)
			take_one(cl, cl->in.data, len);
		buf_consume(&cl->in, len + 1);
	}
	client_watch(cl);
}

/* False: the client is gone. */
static bool client_read(struct client *cl)
{
	ssize_t n = read(cl->fd, buf_reserve(&cl->in, READ_SIZE), READ_SIZE);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		cl->is_eof = true;
	else
		buf_commit(&cl->in, (size_t)n);
	return true;
}

static void on_client(struct ev_loop *loop ATTR_UNUSED, ev_io *io, int revents)
{
	struct client *cl = container_of(io, struct client, io);
	bool is_alive = true;

	if (revents & EV_READ)
		is_alive = client_read(cl);
	if (is_alive) {
		take_requests(cl);
		is_alive = client_write(cl);
	}
	/* Half-closed and nothing owed: done. (A full close while we work shows at the write.) */
	if (is_alive && (cl->is_eof || cl->is_over) && !cl->call && cl->out.len == 0)
		is_alive = false;
	if (is_alive)
		client_watch(cl);
	else
		client_free(cl);
}

static bool is_welcome(int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) != 0)
		return false;
	return who.uid == 0 || who.uid == geteuid();
}

static void on_pause_over(struct ev_loop *loop, ev_timer *t, int revents ATTR_UNUSED)
{
	struct control *c = container_of(t, struct control, pause);

	ev_io_start(loop, &c->io);
}

static void on_connect(struct ev_loop *loop, ev_io *io, int revents ATTR_UNUSED)
{
	struct control *c = container_of(io, struct control, io);
	int fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct client *cl;

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			log_warning("control: accept: %s; trying again in a second",
				    strerror(errno));
			ev_io_stop(loop, &c->io); /* or the loop would spin */
			ev_timer_set(&c->pause, 1.0, 0.0);
			ev_timer_start(loop, &c->pause);
		}
		return;
	}
	if (c->n_clients >= CONTROL_CLIENTS_MAX || !is_welcome(fd)) {
		close(fd);
		return;
	}
	cl = xcalloc(1, sizeof(*cl));
	cl->control = c;
	cl->fd = fd;
	buf_init(&cl->in);
	buf_init(&cl->out);
	ev_init(&cl->io, on_client);
	list_append(&c->clients, &cl->all);
	c->n_clients++;
	client_watch(cl);
}

/* ------------------------------------------------------------------ the calls of others */

struct control *control_open(struct ev_loop *loop, const char *path, control_request_fn *fn,
			     void *arg, struct err *e)
{
	struct control *c = xcalloc(1, sizeof(*c));

	c->loop = loop;
	c->path = xstrdup(path);
	c->fn = fn;
	c->arg = arg;
	list_init(&c->clients);
	list_init(&c->calls);
	ev_init(&c->pause, on_pause_over);
	if (listen_at(c, e) != 0) {
		free(c->path);
		free(c);
		return NULL;
	}
	ev_io_init(&c->io, on_connect, c->fd, EV_READ);
	ev_io_start(loop, &c->io);
	return c;
}

bool control_check(struct control *c)
{
	struct err e;

	if (is_ours(c))
		return false;
	ev_io_stop(c->loop, &c->io);
	ev_timer_stop(c->loop, &c->pause);
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	if (listen_at(c, &e) != 0) {
		log_warning("%s", e.text);
		return false;
	}
	ev_io_set(&c->io, c->fd, EV_READ);
	ev_io_start(c->loop, &c->io);
	return true;
}

/* Writes to every client what it is owed, waiting at most FLUSH_MS in all. */
static void flush_all(struct control *c)
{
	int64_t until = clock_mono_ms() + FLUSH_MS;
	struct list *it;

	list_each (it, &c->clients) {
		struct client *cl = list_entry(it, struct client, all);

		while (client_write(cl) && cl->out.len > 0) {
			struct pollfd p = {.fd = cl->fd, .events = POLLOUT};
			int64_t left = until - clock_mono_ms();

			if (left <= 0 || poll(&p, 1, (int)left) <= 0)
				break;
		}
	}
}

void control_close(struct control *c)
{
	struct list *it, *tmp;

	if (!c)
		return;
	while (!list_empty(&c->calls))
		control_fail(list_entry(c->calls.next, struct control_call, all), EXIT_UNREACHABLE,
			     "the supervisor is leaving; start it again");
	flush_all(c);
	list_each_safe (it, tmp, &c->clients)
		client_free(list_entry(it, struct client, all));
	ev_io_stop(c->loop, &c->io);
	ev_timer_stop(c->loop, &c->pause);
	if (c->fd >= 0) {
		if (is_ours(c))
			unlink(c->path);
		close(c->fd);
	}
	free(c->path);
	free(c);
}

void control_say(struct control_call *call, const char *fmt, ...)
{
	struct buf text = BUF_INIT;
	json_t *line;
	va_list ap;

	if (!call->client)
		return;
	va_start(ap, fmt);
	buf_vaddf(&text, fmt, ap);
	va_end(ap);
	line = json_pack("{s:s%}", "say", text.data, text.len);
	if (line) /* NULL: not UTF-8; progress is a courtesy */
		client_send(call->client, line);
	buf_release(&text);
}

/* Ends the call; steals `answer`. */
static void finish(struct control_call *call, json_t *answer)
{
	struct client *cl = call->client;

	list_remove(&call->all);
	free(call);
	if (!cl) {
		json_decref(answer);
		return;
	}
	cl->call = NULL;
	client_send(cl, answer);
	/* The next request it has sent meanwhile is taken by its watcher, which the output wakes.
	 */
}

void control_done(struct control_call *call, json_t *result)
{
	finish(call, json_pack("{s:b,s:o}", "ok", 1, "result", result ? result : json_object()));
}

void control_fail(struct control_call *call, int exit_code, const char *fmt, ...)
{
	struct buf text = BUF_INIT;
	json_t *answer;
	va_list ap;

	va_start(ap, fmt);
	buf_vaddf(&text, fmt, ap);
	va_end(ap);
	answer = json_pack("{s:b,s:s%,s:i}", "ok", 0, "error", text.data, text.len, "exit",
			   exit_code);
	if (!answer) /* not UTF-8: an answer without the detail beats none */
		answer = json_pack("{s:b,s:s,s:i}", "ok", 0, "error", "see the supervisor's log",
				   "exit", exit_code);
	buf_release(&text);
	finish(call, answer);
}
