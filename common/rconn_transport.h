/*
 * rconn_transport.h - how the bytes of a link travel. Plain sockets (rconn_plain.c) and TLS over
 * them (rconn_tls.c) are two tables of the same five functions.
 *
 * Nothing blocks; every error is 0/-1 with errno, and where errno does not say it, with words in
 * io->why. EPROTO is an error that a person has to mend: the wrong certificate, no TLS over there.
 * rconn.c watches io->fd for reading always, and for writing while bytes are left over; what else a
 * transport waits for it says in wants_read and wants_write.
 */
#ifndef REDISQ_RCONN_TRANSPORT_H
#define REDISQ_RCONN_TRANSPORT_H

#include <sys/socket.h>

#include "base.h"

struct conf_redis;

/* One place to connect to. */
struct rconn_addr {
	struct sockaddr_storage sa;
	socklen_t len;
};

/* Shared with the TLS module: a change here is a new TLS_MODULE_ABI. */
struct rconn_io {
	int fd;           /* owned, -1 = closed */
	void *state;      /* of the transport, NULL in plain */
	bool stands;      /* the socket is connected; finish() is about what follows that */
	bool wants_read;  /* finish() or write() goes on when the socket is readable */
	bool wants_write; /* read() goes on when the socket is writable */
	char why[320];    /* what failed, for people; "" = errno says it */
};

#define RCONN_IO_NONE ((struct rconn_io){.fd = -1})

struct rconn_transport {
	/* Makes the socket and begins to connect to `to`, an address of `host`; `io` is
	 * RCONN_IO_NONE. -1: this address is no good. */
	int (*open)(struct rconn_io *io, const struct rconn_addr *to, const struct conf_redis *conf,
		    const char *host);
	/* The socket is writable, or readable where that was wanted: 1 the connection stands, 0 go
	 * on waiting, -1 it failed. */
	int (*finish)(struct rconn_io *io);
	/* As read(2) and write(2); EAGAIN when there is nothing to do now. What read() leaves
	 * behind makes the socket readable again, if there was room for RCONN_READ_MIN bytes. */
	ssize_t (*read)(struct rconn_io *io, void *data, size_t len);
	ssize_t (*write)(struct rconn_io *io, const void *data, size_t len);
	void (*close)(struct rconn_io *io);
};

#define RCONN_READ_MIN 16384

extern const struct rconn_transport rconn_plain;
extern const struct rconn_transport rconn_tls;

#endif
