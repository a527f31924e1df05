/*
 * fake_redis.h - a Redis that does what a test tells it, in the test's own loop: no thread, no
 * process, no waiting for time. It answers the greeting by itself (see `greet`) and hands every
 * other command to the test. One client at a time is enough; a new one takes the old one's place.
 */
#ifndef REDISQ_FAKE_REDIS_H
#define REDISQ_FAKE_REDIS_H

#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "buf.h"
#include "clock.h"

struct fake {
	struct ev_loop *loop;
	int listener;
	int fd; /* the client, -1 = none */
	ev_io accepting;
	ev_io reading;
	redisReader *reader;
	char path[64]; /* unix socket, or "" */
	int port;      /* TCP, or 0 */
	char url[96];

	/* The test's side. */
	void (*on_command)(struct fake *f, redisReply *command);
	/* Answer to a word of the greeting instead of the usual one; NULL = the usual one. */
	const char *(*greet)(struct fake *f, const char *word);
	void *arg;
	bool deaf;      /* reads nothing */
	struct buf log; /* "AUTH u p|SELECT 3|" */
	int n_clients;
	int n_commands;    /* without the greeting */
	size_t first_read; /* bytes of the latest read(2) */
};

static inline void fake_hang_up(struct fake *f)
{
	if (f->fd < 0)
		return;
	ev_io_stop(f->loop, &f->reading);
	close(f->fd);
	f->fd = -1;
	redisReaderFree(f->reader);
	f->reader = NULL;
}

static inline void fake_say_bytes(struct fake *f, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0 && f->fd >= 0) {
		ssize_t n = send(f->fd, p, len, MSG_NOSIGNAL);

		if (n < 0) {
			if (errno == EAGAIN) { /* the client reads in this same loop */
				ev_run(f->loop, EVRUN_NOWAIT);
				continue;
			}
			return;
		}
		p += n;
		len -= (size_t)n;
	}
}

static inline void fake_say(struct fake *f, const char *text)
{
	fake_say_bytes(f, text, strlen(text));
}

#define FAKE_RUN_ID "0123456789abcdef0123456789abcdef01234567"

static inline const char *fake_usual(const char *word)
{
	if (strcmp(word, "CLIENT ID") == 0)
		return ":7\r\n";
	if (strcmp(word, "INFO") == 0)
		return "$78\r\n# Server\r\nredis_version:7.0\r\nrun_id:" FAKE_RUN_ID "\r\n\r\n";
	return strcmp(word, "PING") == 0 ? "+PONG\r\n" : "+OK\r\n";
}

static inline bool fake_is_greeting(const char *word)
{
	static const char *const words[] = {"AUTH", "SELECT", "CLIENT", "INFO", "PING"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(words[i], word) == 0)
			return true;
	return false;
}

static inline void fake_command(struct fake *f, redisReply *r)
{
	char word[32];
	const char *answer;

	for (size_t i = 0; i < r->elements && r->element[i]->len < 100; i++)
		buf_addf(&f->log, "%s%s", i ? " " : "", r->element[i]->str);
	buf_addc(&f->log, '|');
	if (!fake_is_greeting(r->element[0]->str)) {
		f->n_commands++;
		f->on_command(f, r);
		return;
	}
	if (strcmp(r->element[0]->str, "CLIENT") == 0)
		snprintf(word, sizeof(word), "CLIENT %.20s", r->element[1]->str);
	else
		snprintf(word, sizeof(word), "%.20s", r->element[0]->str);
	answer = f->greet ? f->greet(f, word) : NULL;
	fake_say(f, answer ? answer : fake_usual(word));
}

static inline void fake_on_readable(struct ev_loop *loop, ev_io *io, int revents)
{
	struct fake *f = container_of(io, struct fake, reading);
	static char bytes[256 * 1024];
	ssize_t n;
	int fd = f->fd;

	(void)loop;
	(void)revents;
	if (f->deaf)
		return;
	n = read(f->fd, bytes, sizeof(bytes));
	if (n <= 0) {
		fake_hang_up(f);
		return;
	}
	f->first_read = (size_t)n;
	redisReaderFeed(f->reader, bytes, (size_t)n);
	while (f->fd == fd && f->reader) {
		void *r = NULL;

		if (redisReaderGetReply(f->reader, &r) != REDIS_OK || !r)
			return;
		fake_command(f, r);
		freeReplyObject(r);
	}
}

static inline void fake_on_client(struct ev_loop *loop, ev_io *io, int revents)
{
	struct fake *f = container_of(io, struct fake, accepting);

	(void)revents;
	fake_hang_up(f);
	f->fd = accept4(f->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (f->fd < 0)
		return;
	f->n_clients++;
	f->reader = redisReaderCreate();
	ev_io_init(&f->reading, fake_on_readable, f->fd, EV_READ);
	ev_io_start(loop, &f->reading);
}

static inline void fake_init(struct fake *f, struct ev_loop *loop)
{
	memset(f, 0, sizeof(*f));
	f->loop = loop;
	f->fd = -1;
	buf_init(&f->log);
}

static inline void fake_begin(struct fake *f)
{
	if (listen(f->listener, 16) < 0)
		abort();
	ev_io_init(&f->accepting, fake_on_client, f->listener, EV_READ);
	ev_io_start(f->loop, &f->accepting);
}

static inline void fake_listen_unix(struct fake *f, const char *dir)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};

	snprintf(f->path, sizeof(f->path), "%s/r.sock", dir);
	snprintf(f->url, sizeof(f->url), "unix://%s", f->path);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", f->path);
	unlink(f->path);
	f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (bind(f->listener, (struct sockaddr *)&un, sizeof(un)) < 0)
		abort();
	fake_begin(f);
}

static inline void fake_listen_tcp(struct fake *f)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(in);

	f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (bind(f->listener, (struct sockaddr *)&in, sizeof(in)) < 0 ||
	    getsockname(f->listener, (struct sockaddr *)&in, &len) < 0)
		abort();
	f->port = ntohs(in.sin_port);
	snprintf(f->url, sizeof(f->url), "redis://127.0.0.1:%d", f->port);
	fake_begin(f);
}

static inline void fake_release(struct fake *f)
{
	fake_hang_up(f);
	ev_io_stop(f->loop, &f->accepting);
	close(f->listener);
	if (f->path[0])
		unlink(f->path);
	buf_release(&f->log);
}

/* Turns the loop until `*fact` is at least `n`; false after ten seconds without. */
static inline void fake_guard(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)w;
	(void)revents;
}

static inline bool run_until(struct ev_loop *loop, const int *fact, int n)
{
	int64_t end_ms = clock_mono_ms() + 10000;
	ev_timer guard;

	ev_timer_init(&guard, fake_guard, 10.1, 0.);
	ev_timer_start(loop, &guard);
	while (*fact < n && clock_mono_ms() < end_ms)
		ev_run(loop, EVRUN_ONCE);
	ev_timer_stop(loop, &guard);
	return *fact >= n;
}

#endif
