/*
 * rconn_dns.h - a host name's addresses, without stopping the loop.
 *
 * A name is looked up by getaddrinfo() in a thread of its own, since it may take half a minute and
 * cannot be cancelled. The job is shared by the two: whoever is last frees it, so a result nobody
 * waits for any more is dropped, and the thread never touches the loop or the link, only the job
 * and its eventfd. What needs no look-up (addresses, unix paths) has a direct way.
 */
#ifndef REDISQ_RCONN_DNS_H
#define REDISQ_RCONN_DNS_H

#include <ev.h>

#include "rconn_transport.h"

#define RCONN_ADDRS_MAX 16

struct rconn_addrs {
	struct rconn_addr v[RCONN_ADDRS_MAX];
	size_t n;
};

struct rconn_dns;

/* `error` NULL: `addrs` (valid during the call) has at least one; else why not, for people. */
typedef void rconn_dns_fn(void *arg, const struct rconn_addrs *addrs, const char *error);

/* A unix path; -1 with ENAMETOOLONG. */
int rconn_addr_unix(const char *path, struct rconn_addr *out) ATTR_MUST_CHECK;
/* True when `host` is an address in digits, put into `out`. */
bool rconn_addr_literal(const char *host, int port, struct rconn_addr *out);

/* Begins a look-up; `fn` is called once from the loop, unless it is cancelled. NULL with errno when
 * no thread could be started. */
struct rconn_dns *rconn_dns_start(struct ev_loop *loop, const char *host, int port,
				  rconn_dns_fn *fn, void *arg);
/* NULL is fine. Not from inside `fn`: by then the job is over. */
void rconn_dns_cancel(struct rconn_dns *d);

#endif
