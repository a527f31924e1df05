/*
 * rconn_transport.h - how the bytes of a link travel. Plain sockets here; another transport (TLS)
 * is another table of the same five functions.
 *
 * Nothing blocks; every error is 0/-1 with errno. rconn.c watches io->fd for reading always, and
 * for writing while connecting or while bytes are left over.
 */
#ifndef REDISQ_RCONN_TRANSPORT_H
#define REDISQ_RCONN_TRANSPORT_H

#include <sys/socket.h>

#include "base.h"

/* One place to connect to. */
struct rconn_addr {
	struct sockaddr_storage sa;
	socklen_t len;
};

struct rconn_io {
	int fd;      /* owned, -1 = closed */
	void *state; /* of the transport, NULL in plain */
};

struct rconn_transport {
	/* Makes the socket and begins to connect; -1: this address is no good. */
	int (*open)(struct rconn_io *io, const struct rconn_addr *to);
	/* The socket is writable: 1 the connection stands, 0 go on waiting, -1 it failed. */
	int (*finish)(struct rconn_io *io);
	/* As read(2) and write(2); EAGAIN when there is nothing to do now. */
	ssize_t (*read)(struct rconn_io *io, void *data, size_t len);
	ssize_t (*write)(struct rconn_io *io, const void *data, size_t len);
	void (*close)(struct rconn_io *io);
};

extern const struct rconn_transport rconn_plain;

#endif
