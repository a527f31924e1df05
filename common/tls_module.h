/*
 * tls_module.h - what redisq-tls.so exports: TLS on a connected socket. The module alone is linked
 * with OpenSSL, and only a program whose url is rediss:// loads it (tls_context.h), so that nobody
 * else pays for it. It uses nothing of ours but this header: no log, no loop, no allocator.
 *
 * A context is what certificates and rules were read into; a session is one connection, and may
 * outlive its context. All of it is for one thread.
 */
#ifndef REDISQ_TLS_MODULE_H
#define REDISQ_TLS_MODULE_H

#include "rconn_transport.h"

#define TLS_MODULE_ABI 1
#define TLS_MODULE_FILE "redisq-tls.so"
#define TLS_MODULE_SYMBOL "redisq_tls_module"
#define TLS_WHY_MAX 320

/* Paths are borrowed and may be NULL; with neither CA the system's store is trusted. */
struct tls_settings {
	const char *ca_file;
	const char *ca_dir;
	const char *cert_file;
	const char *key_file;
	bool verify;
};

struct tls_context;

struct tls_module {
	uint32_t abi;
	uint32_t io_size; /* sizeof(struct rconn_io), as it was compiled with */
	/* Reads the files. NULL: which one is wrong, and what to do, in `why`. */
	struct tls_context *(*context_new)(const struct tls_settings *s, char why[TLS_WHY_MAX]);
	void (*context_free)(struct tls_context *t);
	/* A session on io->fd, to be kept in io->state, with a server that must prove to be `host`
	 * (a name or an address). -1 with io->why. */
	int (*begin)(struct rconn_io *io, struct tls_context *t, const char *host);
	/* As finish(), read() and write() of a transport. */
	int (*handshake)(struct rconn_io *io);
	ssize_t (*read)(struct rconn_io *io, void *data, size_t len);
	ssize_t (*write)(struct rconn_io *io, const void *data, size_t len);
	/* Says goodbye if there is room for it, and frees the session; io->fd stays open. */
	void (*end)(struct rconn_io *io);
};

#endif
