/* control.c - see control.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "buf.h"
#include "clock.h"
#include "control.h"
#include "control_socket.h"
#include "list.h"
#include "log.h"

#define FLUSH_MS 200
#define READ_SIZE 4096
/* With more than this to read first, a client gets no further request taken. */
#define OUT_PAUSE (64 * 1024)
#define GONE_AT_ONCE 16

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
	bool is_eof;    /* sends no more; may still wait for its answer */
	bool is_over;   /* hung up after the last answer is out */
	bool is_unread; /* not watched for input, so on control.leavers */
};

struct control {
	struct ev_loop *loop; /* borrowed */
	char *path;           /* owned */
	control_request_fn *fn;
	void *arg; /* borrowed */
	struct control_socket socket;
	ev_io io;
	ev_timer pause; /* accept() ran out of file descriptors: try again later */
	int spare_fd;   /* given up for one client when there are no others; -1 = in use */
	/*
	 * An epoll of its own, of the clients that are not read from: the loop would report the
	 * end of a half-closed one for ever, this one reports only that it has closed for good.
	 */
	int leavers;
	ev_io leavers_io;
	bool is_warned; /* of a socket that cannot be made again */
	struct list clients;
	struct list calls;
	unsigned n_clients;
};

static void on_client(struct ev_loop *loop, ev_io *io, int revents);
static void take_requests(struct client *cl);

/* ------------------------------------------------------------------ clients */

static void keep_spare(struct control *c)
{
	if (c->spare_fd < 0)
		c->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void client_free(struct client *cl)
{
	struct control *c = cl->control;

	if (cl->call)
		cl->call->client = NULL;
	ev_io_stop(c->loop, &cl->io);
	close(cl->fd); /* also ends its being on control.leavers */
	list_remove(&cl->all);
	c->n_clients--;
	buf_release(&cl->in);
	buf_release(&cl->out);
	free(cl);
	keep_spare(c);
}

static bool has_request(const struct client *cl)
{
	return cl->in.len > 0 && memchr(cl->in.data, '\n', cl->in.len) != NULL;
}

static bool is_paused(const struct client *cl)
{
	return cl->out.len > OUT_PAUSE;
}

/* Whoever is not read from is watched for hanging up. */
static void watch_leaving(struct client *cl, bool is_unread)
{
	struct epoll_event ev = {.data.ptr = cl}; /* no event asked for: EPOLLHUP always comes */

	if (cl->is_unread == is_unread)
		return;
	if (epoll_ctl(cl->control->leavers, is_unread ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, cl->fd,
		      &ev) == 0)
		cl->is_unread = is_unread;
	else
		log_warning("control: epoll_ctl: %s", strerror(errno));
}

/* Watches for what can happen next: output first, input only as far as it can be kept. */
static void client_watch(struct client *cl)
{
	struct ev_loop *loop = cl->control->loop;
	bool is_unread = cl->is_eof || is_paused(cl) || cl->in.len > CONTROL_REQUEST_MAX;
	int events = (cl->out.len ? EV_WRITE : 0) | (is_unread ? 0 : EV_READ);

	watch_leaving(cl, is_unread);
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
		log_warning("control: an answer of more than %d bytes; its connection is closed",
			    CONTROL_ANSWER_MAX);
		buf_clear(&cl->out);
		cl->is_over = true;
		client_watch(cl);
		ev_feed_event(cl->control->loop, &cl->io, EV_WRITE); /* frees it */
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
	json_t *request = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
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
	while (!cl->call && !cl->is_over && !is_paused(cl)) {
		const char *nl = cl->in.len ? memchr(cl->in.data, '\n', cl->in.len) : NULL;
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
}

static bool has_hung_up(const struct client *cl)
{
	struct pollfd p = {.fd = cl->fd};

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)) != 0;
}

/* False: the client is gone. */
static bool client_read(struct client *cl)
{
	ssize_t n = read(cl->fd, buf_reserve(&cl->in, READ_SIZE), READ_SIZE);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n > 0) {
		buf_commit(&cl->in, (size_t)n);
		return true;
	}
	cl->is_eof = true;
	/* Only its sending side? Then it waits for the answer. */
	return !has_hung_up(cl);
}

/* It asked and hung up: what it asked for is done all the same, the answers go nowhere. */
static void client_gone(struct client *cl)
{
	while (!cl->is_eof && cl->in.len <= CONTROL_REQUEST_MAX) {
		size_t before = cl->in.len;

		if (!client_read(cl) || cl->in.len == before)
			break;
	}
	for (;;) {
		buf_clear(&cl->out);
		if (cl->call)
			cl->call->client = NULL;
		cl->call = NULL;
		if (cl->is_over || !has_request(cl))
			break;
		take_requests(cl);
	}
	client_free(cl);
}

static void on_client(struct ev_loop *loop, ev_io *io, int revents)
{
	struct client *cl = container_of(io, struct client, io);
	bool is_alive = true;

	if (revents & EV_READ)
		is_alive = client_read(cl);
	if (is_alive) {
		take_requests(cl);
		is_alive = client_write(cl);
	}
	if (!is_alive) {
		client_gone(cl);
		return;
	}
	if (cl->out.len == 0 && (cl->is_over || (cl->is_eof && !cl->call && !has_request(cl)))) {
		client_free(cl);
		return;
	}
	client_watch(cl);
	/* It has read what held its next request up: that is taken in the next turn. */
	if (!cl->call && !is_paused(cl) && has_request(cl))
		ev_feed_event(loop, &cl->io, EV_WRITE);
}

static void on_leaving(struct ev_loop *loop ATTR_UNUSED, ev_io *io, int revents ATTR_UNUSED)
{
	struct control *c = container_of(io, struct control, leavers_io);
	struct epoll_event events[GONE_AT_ONCE];
	int n = epoll_wait(c->leavers, events, GONE_AT_ONCE, 0);

	for (int i = 0; i < n; i++)
		client_gone(events[i].data.ptr);
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

/* accept(), with the descriptor kept in reserve when there is no other. */
static int accept_one(struct control *c)
{
	int fd = accept4(c->socket.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0 || (errno != EMFILE && errno != ENFILE) || c->spare_fd < 0)
		return fd;
	close(c->spare_fd);
	c->spare_fd = -1;
	return accept4(c->socket.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* One too many: told so as far as its socket takes it, and hung up on. */
static void turn_away(int fd)
{
	char answer[160];

	snprintf(answer, sizeof(answer),
		 "{\"ok\":false,\"error\":\"the supervisor serves %d clients already; try "
		 "again\",\"exit\":%d}\n",
		 CONTROL_CLIENTS_MAX, EXIT_UNREACHABLE);
	if (send(fd, answer, strlen(answer), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("control: a client too many: %s", strerror(errno));
	close(fd);
}

static void on_connect(struct ev_loop *loop, ev_io *io, int revents ATTR_UNUSED)
{
	struct control *c = container_of(io, struct control, io);
	int fd = accept_one(c);
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
	if (!is_welcome(fd)) {
		close(fd);
		return;
	}
	if (c->n_clients >= CONTROL_CLIENTS_MAX) {
		turn_away(fd);
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
	c->socket.fd = -1;
	c->spare_fd = -1;
	list_init(&c->clients);
	list_init(&c->calls);
	ev_init(&c->pause, on_pause_over);
	c->leavers = epoll_create1(EPOLL_CLOEXEC);
	if (c->leavers < 0)
		err_set(e, EXIT_CONFIG, "control socket %s: epoll_create1: %s", path,
			strerror(errno));
	if (c->leavers < 0 || control_socket_open(&c->socket, c->path, e) != 0) {
		if (c->leavers >= 0)
			close(c->leavers);
		free(c->path);
		free(c);
		return NULL;
	}
	keep_spare(c);
	ev_io_init(&c->leavers_io, on_leaving, c->leavers, EV_READ);
	ev_io_start(loop, &c->leavers_io);
	ev_io_init(&c->io, on_connect, c->socket.fd, EV_READ);
	ev_io_start(loop, &c->io);
	return c;
}

static void stop_listening(struct control *c)
{
	ev_io_stop(c->loop, &c->io);
	ev_timer_stop(c->loop, &c->pause);
	control_socket_close(&c->socket, c->path);
}

bool control_check(struct control *c)
{
	struct err e;

	if (control_socket_is_ours(&c->socket, c->path))
		return false;
	stop_listening(c);
	if (control_socket_open(&c->socket, c->path, &e) != 0) {
		if (!c->is_warned)
			log_warning("%s", e.text);
		c->is_warned = true;
		return false;
	}
	c->is_warned = false;
	ev_io_set(&c->io, c->socket.fd, EV_READ);
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
	/* First: whoever is told that we have gone may start the next one at once. */
	stop_listening(c);
	while (!list_empty(&c->calls))
		control_fail(list_entry(c->calls.next, struct control_call, all), EXIT_UNREACHABLE,
			     "the supervisor is leaving; start it again");
	flush_all(c);
	list_each_safe (it, tmp, &c->clients)
		client_free(list_entry(it, struct client, all));
	ev_io_stop(c->loop, &c->leavers_io);
	close(c->leavers);
	if (c->spare_fd >= 0)
		close(c->spare_fd);
	free(c->path);
	free(c);
}

bool control_is_heard(const struct control_call *call)
{
	return call->client != NULL;
}

void control_say(struct control_call *call, const char *fmt, ...)
{
	struct buf text = BUF_INIT;
	json_t *line;
	va_list ap;

	if (!call->client || is_paused(call->client))
		return; /* progress is a courtesy: none for whoever does not read it */
	va_start(ap, fmt);
	buf_vaddf(&text, fmt, ap);
	va_end(ap);
	line = json_pack("{s:s%}", "say", text.data, text.len);
	if (line) /* NULL: not UTF-8 */
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
