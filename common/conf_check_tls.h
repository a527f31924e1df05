/*
 * conf_check_tls.h - the tls_* keys of [redis] against this machine, for conf_check_machine(): are
 * the files there, readable, and what their key says? Without OpenSSL: whether a key belongs to its
 * certificate is tls_context_check()'s matter.
 */
#ifndef REDISQ_CONF_CHECK_TLS_H
#define REDISQ_CONF_CHECK_TLS_H

#include "conf.h"

/* Errors, a line each, appended to `errs`; what has no effect, or is unsafe, becomes a warning. */
void conf_check_tls(struct conf *c, struct buf *errs);

#endif
