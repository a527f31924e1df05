/*
 * rconn_dns.c - see rconn_dns.h. A job belongs to two, the loop's side and the thread; `owners`
 * counts them. The thread writes result and error before it raises the eventfd and never after.
 */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "buf.h"
#include "rconn_dns.h"

/* Name service modules are not small eaters. */
#define DNS_STACK (256 * 1024)

struct rconn_dns {
	atomic_int owners;
	int fd;     /* owned: eventfd, readable when the result is there */
	char *host; /* owned */
	int port;
	/* The thread's until `done`, the loop's afterwards. */
	struct rconn_addrs addrs;
	char error[128];
	atomic_bool done;
	/* The loop's side only. */
	struct ev_loop *loop; /* borrowed */
	ev_io io;
	rconn_dns_fn *fn;
	void *arg; /* borrowed */
};

int rconn_addr_unix(const char *path, struct rconn_addr *out)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	size_t len = strlen(path);

	if (len >= sizeof(un.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(un.sun_path, path, len);
	memset(out, 0, sizeof(*out));
	memcpy(&out->sa, &un, sizeof(un));
	out->len = sizeof(un);
	return 0;
}

/* 0 or an EAI_ code. */
static int look_up(const char *host, int port, int flags, struct rconn_addrs *out)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC,
				 .ai_socktype = SOCK_STREAM,
				 .ai_flags = flags | AI_NUMERICSERV};
	struct addrinfo *list = NULL;
	char service[16];
	int code;

	snprintf(service, sizeof(service), "%d", port);
	code = getaddrinfo(host, service, &hints, &list);
	out->n = 0;
	if (code)
		return code;
	for (struct addrinfo *a = list; a && out->n < RCONN_ADDRS_MAX; a = a->ai_next) {
		struct rconn_addr *to = &out->v[out->n];

		if (a->ai_addrlen > sizeof(to->sa))
			continue;
		memset(to, 0, sizeof(*to));
		memcpy(&to->sa, a->ai_addr, a->ai_addrlen);
		to->len = a->ai_addrlen;
		out->n++;
	}
	freeaddrinfo(list);
	return out->n ? 0 : EAI_NONAME;
}

bool rconn_addr_literal(const char *host, int port, struct rconn_addr *out)
{
	struct rconn_addrs found;

	if (look_up(host, port, AI_NUMERICHOST, &found) != 0)
		return false;
	*out = found.v[0];
	return true;
}

static void disown(struct rconn_dns *d)
{
	if (atomic_fetch_sub_explicit(&d->owners, 1, memory_order_acq_rel) != 1)
		return;
	close(d->fd);
	free(d->host);
	free(d);
}

static void *thread_main(void *arg)
{
	struct rconn_dns *d = arg;
	uint64_t one = 1;
	int code = look_up(d->host, d->port, 0, &d->addrs);

	if (code == EAI_SYSTEM) {
		char text[64];

		snprintf(d->error, sizeof(d->error), "%s", strerror_r(errno, text, sizeof(text)));
	} else if (code) {
		snprintf(d->error, sizeof(d->error), "%s", gai_strerror(code));
	}
	atomic_store_explicit(&d->done, true, memory_order_release);
	/* An eventfd at 0 always takes a 1. */
	INVARIANT(write(d->fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
	disown(d);
	return NULL;
}

static void on_done(struct ev_loop *loop, ev_io *io, int revents ATTR_UNUSED)
{
	struct rconn_dns *d = container_of(io, struct rconn_dns, io);

	if (!atomic_load_explicit(&d->done, memory_order_acquire))
		return;
	ev_io_stop(loop, io);
	d->fn(d->arg, &d->addrs, d->error[0] ? d->error : NULL);
	disown(d);
}

/* A detached thread with every signal blocked: signals belong to the main thread. */
static int start_thread(struct rconn_dns *d)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int code;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, DNS_STACK);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	code = pthread_create(&thread, &attr, thread_main, d);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return code;
}

struct rconn_dns *rconn_dns_start(struct ev_loop *loop, const char *host, int port,
				  rconn_dns_fn *fn, void *arg)
{
	struct rconn_dns *d = xcalloc(1, sizeof(*d));
	int code;

	d->host = xstrdup(host);
	d->port = port;
	d->loop = loop;
	d->fn = fn;
	d->arg = arg;
	d->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	atomic_init(&d->done, false);
	atomic_init(&d->owners, 2);
	code = d->fd < 0 ? errno : start_thread(d);
	if (code) {
		if (d->fd >= 0)
			close(d->fd);
		free(d->host);
		free(d);
		errno = code;
		return NULL;
	}
	ev_io_init(&d->io, on_done, d->fd, EV_READ);
	ev_io_start(loop, &d->io);
	return d;
}

void rconn_dns_cancel(struct rconn_dns *d)
{
	if (!d)
		return;
	ev_io_stop(d->loop, &d->io);
	disown(d);
}
