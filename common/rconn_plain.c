/*
 * rconn_plain.c - TCP and unix sockets for a link. Owns the options of its sockets: close-on-exec
 * (a child that inherits a blocked reader swallows tasks), no Nagle, and two ways to notice a dead
 * peer beside the link's deadlines: keepalive while silent, TCP_USER_TIMEOUT while unacknowledged.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "rconn_transport.h"

#define KEEPALIVE_IDLE_S 15
#define KEEPALIVE_EVERY_S 5
#define KEEPALIVE_PROBES 3
#define UNACKED_MAX_MS 20000

static int set_tcp_options(int fd)
{
	static const struct {
		int level;
		int name;
		int value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
		{IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_EVERY_S},
		{IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKED_MAX_MS},
	};

	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		if (setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			       sizeof(options[i].value)) < 0)
			return -1;
	return 0;
}

static void plain_close(struct rconn_io *io)
{
	if (io->fd >= 0)
		close(io->fd);
	io->fd = -1;
}

static int plain_open(struct rconn_io *io, const struct rconn_addr *to,
		      const struct conf_redis *conf ATTR_UNUSED, const char *host ATTR_UNUSED)
{
	int family = to->sa.ss_family;

	io->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (io->fd < 0)
		return -1;
	if (family == AF_UNIX || set_tcp_options(io->fd) == 0) {
		if (connect(io->fd, (const struct sockaddr *)&to->sa, to->len) == 0 ||
		    errno == EINPROGRESS)
			return 0;
		/* A unix socket whose queue is full says EAGAIN; there is nothing to wait for. */
		if (errno == EAGAIN)
			errno = ECONNREFUSED;
	}
	int saved = errno;

	plain_close(io);
	errno = saved;
	return -1;
}

/* With nobody listening, a port of the ephemeral range can be connected to itself. */
static bool is_self_connected(int fd)
{
	struct sockaddr_storage a = {0}, b = {0};
	socklen_t a_len = sizeof(a), b_len = sizeof(b);

	return getsockname(fd, (struct sockaddr *)&a, &a_len) == 0 &&
	       getpeername(fd, (struct sockaddr *)&b, &b_len) == 0 && a.ss_family != AF_UNIX &&
	       a_len == b_len && memcmp(&a, &b, a_len) == 0;
}

static int plain_finish(struct rconn_io *io)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(io->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		return -1;
	if (!error && is_self_connected(io->fd))
		error = ECONNREFUSED;
	if (!error) {
		io->stands = true;
		return 1;
	}
	errno = error;
	return -1;
}

static ssize_t plain_read(struct rconn_io *io, void *data, size_t len)
{
	return recv(io->fd, data, len, MSG_DONTWAIT);
}

static ssize_t plain_write(struct rconn_io *io, const void *data, size_t len)
{
	return send(io->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

const struct rconn_transport rconn_plain = {
	.open = plain_open,
	.finish = plain_finish,
	.read = plain_read,
	.write = plain_write,
	.close = plain_close,
};
