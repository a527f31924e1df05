/*
 * rconn.h - one link to one Redis: connect, greet, send, receive, fall, come back.
 *
 * hiredis is used as a codec only (redisFormatCommandArgv, redisReader); socket, deadlines and
 * life cycle are ours, so that they are the same on hiredis 0.14 and 1.x. The transport (how bytes
 * travel) is a vtable: plain, or TLS where the url is rediss://.
 *
 * States (table in rconn.c): down -> connecting -> greeting -> ready; any failure -> waiting
 * (full-jitter back-off, see rconn_retry.h) -> connecting; rconn_close -> closing -> down. Names
 * are resolved in a helper thread, every address is tried in turn with its share of
 * connect_timeout, which covers everything up to ready, the TLS handshake too. Greeting: AUTH,
 * SELECT, CLIENT SETNAME, CLIENT ID, INFO server (run_id), PING in one write; CLIENT, INFO and PING
 * may be refused (managed services, ACL), then id is 0 and run_id empty. LOADING, MASTERDOWN, BUSY,
 * "max number of clients" at greeting = wait and try again; a refused AUTH or SELECT likewise with
 * 8 s at most; password_file is read again at each try.
 *
 * Where the url is sentinel://, the Sentinels are asked for the master's place at the begin of
 * every try (rconn_sentinel.h; connect_timeout runs from their answer), and ROLE, which must answer
 * "master", is one of the greeting's words.
 *
 * Where it is cluster://, a link is made for a key (rconn_set_key()), and ready only at the node
 * that has it: each try goes from node to node, as they say it (rconn_cluster_pick.h), and EXISTS
 * of the key is one of the greeting's words. A node has connect_timeout, or less as long as there
 * are others; while it does not answer, these are asked by a second connection ("<name>:scout"),
 * and where they have the key meanwhile we go. When a later reply says MOVED its callback gets it
 * as any error, which means that nothing was done; the link falls at the end of the turn and comes
 * back at the node that was named, at once. After CLUSTERDOWN it falls, too, for the other nodes
 * may know better. ASK and TRYAGAIN are the owner's to wait out; at greeting the link does.
 *
 * Commands are queued and go out together in one write at the end of the loop turn (or at
 * rconn_flush()); replies come in order. Every command has a deadline on the monotonic clock: at
 * the first that passes the link is dropped. It counts from rconn_send(), but is never before that
 * of the command in front, whose reply comes first. When a link goes down every pending callback
 * gets reply = NULL, once, in order, then on_down is called; a command sent while the link is not
 * ready is refused (-1): owners wait for on_ready.
 *
 * Callbacks may send, and may call rconn_drop() and rconn_close(). A link never falls inside a call
 * of its owner (rconn_close() apart) but at the end of the turn; until then it is not ready. The
 * object itself is freed at the end of the turn, or with the loop, never inside.
 */
#ifndef REDISQ_RCONN_H
#define REDISQ_RCONN_H

#include <ev.h>

#include "conf.h"

struct rconn;
struct redisReply;

/* Reply to one command: an error reply is a reply. NULL: the link was lost before it came; whether
 * the server executed the command is unknown. Valid during the call only. */
typedef void rconn_reply_fn(void *arg, const struct redisReply *reply);

struct rconn_events {
	void (*on_ready)(void *arg);
	/* The link was ready, or was being made, and is not any more; why is for people and has no
	 * newline. Called once per failed try, too. The link goes on trying by itself. */
	void (*on_down)(void *arg, const char *why);
};

/* `redis` is read at every connect and must outlive the link. `name` (copied) = CLIENT SETNAME. */
struct rconn *rconn_new(struct ev_loop *loop, const struct conf_redis *redis, const char *name,
			const struct rconn_events *events, void *arg);
/* Before the start: what this link is for. Used with cluster:// only; without a key any node of the
 * cluster will do. */
void rconn_set_key(struct rconn *c, const char *key);
/* Is the url cluster://? */
bool rconn_is_cluster(const struct rconn *c);
/* Did the last try fail since the url can never be right for this server? */
bool rconn_needs_other_url(const struct rconn *c);
/* Starts connecting. */
void rconn_start(struct rconn *c);
/* Drops the link now (pending callbacks get NULL, on_down is not called) and frees the object at
 * the end of the turn. NULL is fine. */
void rconn_close(struct rconn *c);
/* Drops the link at the end of the turn and reconnects after the back-off, as if it had failed with
 * `why`. Nothing happens where there is no link. */
void rconn_drop(struct rconn *c, const char *why);

/* Likewise, and in a cluster it comes back where `other` is, if its key is there. */
void rconn_drop_to(struct rconn *c, const struct rconn *other, const char *why);

/* This link is the one, of those of a program, that logs where its master, or the key, is, at each
 * change; with sentinel:// it asks every 30 s while it is up, too, and falls when the master has
 * moved. */
void rconn_watch_master(struct rconn *c);

/* There is reason to believe that Redis can be reached again: ends a back-off. `other` (may be
 * NULL): in a cluster, where that is; a try under way goes there next. */
void rconn_hurry(struct rconn *c, const struct rconn *other);

bool rconn_is_ready(const struct rconn *c);
/* CLIENT ID of the present link, 0 = unknown. */
int64_t rconn_client_id(const struct rconn *c);
/* run_id of the server, "" = unknown. */
const char *rconn_run_id(const struct rconn *c);
/* Name for CLIENT SETNAME from now on; also sent at once when ready. */
void rconn_set_name(struct rconn *c, const char *name);
/* "redis://10.0.0.5:6379/0", no secrets; with sentinel:// that of the master in use, and while
 * Sentinel is asked the url's own; with cluster:// that of the node in use, or tried. Borrowed. */
const char *rconn_where(const struct rconn *c);
/* Do both end at the same server? By run_id, or by rconn_where() if that is not known. */
bool rconn_same_server(const struct rconn *a, const struct rconn *b);
/* Number of commands that wait for a reply. */
size_t rconn_n_pending(const struct rconn *c);
/* Bytes that wait to be written. With very many (128 MiB) the link is dropped: who has much to say
 * looks here, and says the rest in a later turn of the loop. */
size_t rconn_n_unsent(const struct rconn *c);

/* When (monotonic) the oldest command without a reply will have been so for `patience_ms` longer
 * than it may take by itself, and nothing came in for that long; INT64_MAX = none waits. */
int64_t rconn_silent_at(const struct rconn *c, int64_t patience_ms);

/* One argument of a command. */
struct rconn_arg {
	const char *data; /* borrowed */
	size_t len;
};

/*
 * Queues a command. `extra_ms`: how much longer than command_timeout the reply may take (BLOCK).
 * `fn` may be NULL: the reply is thrown away, an error reply is logged. 0, or -1 when the link is
 * not ready (`fn` is not called then).
 */
int rconn_send(struct rconn *c, int argc, const struct rconn_arg *argv, int64_t extra_ms,
	       rconn_reply_fn *fn, void *arg) ATTR_MUST_CHECK;
/* Writes now instead of at the end of the turn. */
void rconn_flush(struct rconn *c);

#endif
