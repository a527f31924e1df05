/*
 * tls_context.h - the TLS module, loaded at the first need, and what the keys tls_* of [redis] mean
 * in it. One context a process: the two links of a worker share it.
 *
 * The files are looked at again at each connection: where one has changed they are read again, and
 * where that fails the certificates that are held go on being used, with a warning. So a link that
 * comes back days later has the certificate of that day; connections that stand keep theirs.
 */
#ifndef REDISQ_TLS_CONTEXT_H
#define REDISQ_TLS_CONTEXT_H

#include "conf.h"
#include "tls_module.h"

/* NULL: why not in `why`. Both borrowed; the context until the next call. */
const struct tls_module *tls_context_get(const struct conf_redis *r, struct tls_context **context,
					 char why[TLS_WHY_MAX]);

/* Are the module and all the files there, and do they fit together? Loads the module: for programs
 * that end soon. -1 with `e`. */
int tls_context_check(const struct conf_redis *r, struct err *e) ATTR_MUST_CHECK;

#endif
