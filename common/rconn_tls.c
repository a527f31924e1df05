/*
 * rconn_tls.c - TLS for a link: a plain socket, and the module's session on it. The handshake is
 * part of connecting and under its deadline. Owns neither certificates (tls_context) nor TLS itself
 * (the module).
 */
#include <errno.h>

#include "tls_context.h"

/* Of every session there is; the first open() that succeeds sets it for good. */
static const struct tls_module *module;

static void tls_close(struct rconn_io *io)
{
	if (io->state)
		module->end(io);
	io->state = NULL;
	rconn_plain.close(io);
}

static int tls_open(struct rconn_io *io, const struct rconn_addr *to, const struct conf_redis *conf,
		    const char *host)
{
	const struct tls_module *m;
	struct tls_context *context;

	m = tls_context_get(conf, &context, io->why);
	if (!m) {
		errno = EPROTO;
		return -1;
	}
	module = m;
	io->why[0] = '\0';
	if (rconn_plain.open(io, to, conf, host) < 0)
		return -1;
	if (module->begin(io, context, host) == 0)
		return 0;
	tls_close(io);
	errno = EPROTO;
	return -1;
}

static int tls_finish(struct rconn_io *io)
{
	if (!io->stands && rconn_plain.finish(io) < 0)
		return -1;
	return module->handshake(io);
}

static ssize_t tls_read(struct rconn_io *io, void *data, size_t len)
{
	return module->read(io, data, len);
}

static ssize_t tls_write(struct rconn_io *io, const void *data, size_t len)
{
	return module->write(io, data, len);
}

const struct rconn_transport rconn_tls = {
	.open = tls_open,
	.finish = tls_finish,
	.read = tls_read,
	.write = tls_write,
	.close = tls_close,
};
