/*
 * rconn_connect.c - one try to make a connection: where Redis is, the addresses one after the
 * other, the first words. Ends in ON_CONNECTED (and then the greeting), or in link_fail().
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>

#include "clock.h"
#include "rconn_link.h"

static void set_peer(struct rconn *c, const struct rconn_addr *a)
{
	char host[64] = "";

	if (c->addr.transport == REDIS_UNIX) {
		snprintf(c->peer, sizeof(c->peer), "%s", c->addr.host);
		return;
	}
	if (getnameinfo((const struct sockaddr *)&a->sa, a->len, host, sizeof(host), NULL, 0,
			NI_NUMERICHOST) == 0 &&
	    strcmp(host, c->addr.host) != 0)
		snprintf(c->peer, sizeof(c->peer), "%.60s:%d (%s)", c->addr.host, c->addr.port,
			 host);
	else
		snprintf(c->peer, sizeof(c->peer),
			 a->sa.ss_family == AF_INET6 ? "[%.60s]:%d" : "%.60s:%d", c->addr.host,
			 c->addr.port);
}

static enum rconn_trouble trouble_of(int error)
{
	if (error == ECONNREFUSED || error == ENOENT)
		return TROUBLE_NOBODY;
	return error == EPROTO ? TROUBLE_DENIED : TROUBLE_LINK;
}

static void connect_failed(struct rconn *c, int error)
{
	link_fail(c, trouble_of(error), "connect to %s: %s", c->peer,
		  c->io.why[0] ? c->io.why : strerror(error));
}

/* Until the transport can go on. */
static void watch(struct rconn *c)
{
	ev_io_stop(c->loop, &c->wr);
	ev_io_set(&c->wr, c->io.fd, c->io.wants_read ? EV_READ : EV_WRITE);
	ev_io_start(c->loop, &c->wr);
}

/* Tries the addresses that are left, each with its share of the time that is left. */
static void connect_next(struct rconn *c)
{
	int64_t now = clock_mono_ms();
	int error = EHOSTUNREACH;

	ev_io_stop(c->loop, &c->wr);
	c->travel->close(&c->io);
	while (c->next_addr < c->addrs.n) {
		int64_t n_left = (int64_t)(c->addrs.n - c->next_addr);
		const struct rconn_addr *a = &c->addrs.v[c->next_addr++];

		set_peer(c, a);
		c->io = RCONN_IO_NONE;
		if (c->travel->open(&c->io, a, c->conf, c->addr.host) == 0) {
			watch(c);
			link_arm(c, now + max_i64((c->try_end_ms - now) / n_left, 1));
			return;
		}
		error = errno;
	}
	connect_failed(c, error);
}

bool link_connection_result(struct rconn *c)
{
	int done = c->travel->finish(&c->io);
	int error = errno;

	if (done > 0)
		link_step(c, ON_CONNECTED, c->peer);
	else if (done == 0)
		watch(c);
	else if (c->next_addr < c->addrs.n)
		connect_next(c);
	else
		connect_failed(c, error);
	return done != 0;
}

static void on_addrs(void *arg, const struct rconn_addrs *addrs, const char *error)
{
	struct rconn *c = arg;

	c->dns = NULL;
	if (c->failing)
		return;
	if (error) {
		link_fail(c, TROUBLE_LINK, "look up %s: %s", c->addr.host, error);
		return;
	}
	c->addrs = *addrs;
	connect_next(c);
}

/* Reads the configuration again (a password file may have changed). */
int link_read_where(struct rconn *c, struct err *e)
{
	redis_addr_release(&c->addr);
	memset(&c->addr, 0, sizeof(c->addr));
	if (redis_addr_resolve(c->conf, &c->addr, e) < 0)
		return -1;
	buf_clear(&c->where);
	redis_addr_text(&c->addr, &c->where);
	return 0;
}

void link_begin_try(struct rconn *c)
{
	struct err e = {0};

	if (link_read_where(c, &e) < 0)
		link_fail(c, TROUBLE_DENIED, "%.200s", e.text);
	else if (c->addr.sentinels)
		link_ask_master(c);
	else if (c->addr.cluster)
		link_seek_node(c);
	else
		link_begin_connect(c);
}

void link_begin_connect(struct rconn *c)
{
	c->addrs.n = c->next_addr = 0;
	c->try_ms = link_patience_ms(c);
	c->try_end_ms = clock_mono_ms() + c->try_ms;
	link_arm(c, c->try_end_ms);
	c->travel = c->addr.tls ? &rconn_tls : &rconn_plain;
	snprintf(c->peer, sizeof(c->peer), "%.100s", c->addr.host);
	if (c->addr.transport == REDIS_UNIX) {
		if (rconn_addr_unix(c->addr.host, &c->addrs.v[0]) < 0) {
			link_fail(c, TROUBLE_DENIED, "connect to %s: %s", c->peer, strerror(errno));
			return;
		}
	} else if (!rconn_addr_literal(c->addr.host, c->addr.port, &c->addrs.v[0])) {
		c->dns = rconn_dns_start(c->loop, c->addr.host, c->addr.port, on_addrs, c);
		if (!c->dns)
			link_fail(c, TROUBLE_LINK, "look up %s: %s", c->addr.host, strerror(errno));
		return;
	}
	c->addrs.n = 1;
	connect_next(c);
}

void link_begin_greeting(struct rconn *c)
{
	ev_io_stop(c->loop, &c->wr);
	ev_io_set(&c->wr, c->io.fd, EV_WRITE);
	ev_io_set(&c->rd, c->io.fd, EV_READ);
	ev_io_start(c->loop, &c->rd);
	c->reader = resp_reader_new();
	c->reply_bytes = 0;
	c->write_error = 0;
	link_arm(c, c->try_end_ms);
	greet_begin(&c->greet, &c->addr, c->name, c->key, &c->out);
	link_write(c);
}

static bool can_go_on_now(const struct rconn *c)
{
	struct pollfd p = {.fd = c->io.fd, .events = c->io.wants_read ? POLLIN : POLLOUT};

	return c->io.fd >= 0 && poll(&p, 1, 0) > 0;
}

/* TLS was asked for, and whoever listens does not know it. */
static const char *plain_scheme(const struct redis_addr *a)
{
	return a->sentinels ? "sentinel" : a->cluster ? "cluster" : "redis";
}

void link_connect_overdue(struct rconn *c)
{
	if (c->dns)
		link_fail(c, TROUBLE_LINK, "look up %s: no answer for %.1f s", c->addr.host,
			  (double)c->try_ms / 1000.0);
	else if (can_go_on_now(c) && link_connection_result(c))
		return; /* it was us who slept */
	else if (c->next_addr < c->addrs.n)
		connect_next(c);
	else if (c->io.stands)
		link_fail(c, TROUBLE_LINK,
			  "connect to %s: no answer to the TLS handshake for %.1f s; is that a TLS "
			  "port? Without TLS it is %s://",
			  c->peer, (double)c->try_ms / 1000.0, plain_scheme(&c->addr));
	else
		link_fail(c, TROUBLE_LINK, "connect to %s: no answer for %.1f s", c->peer,
			  (double)c->try_ms / 1000.0);
}
