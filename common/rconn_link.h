/*
 * rconn_link.h - the inside of a link, shared by the files that make it: rconn.c (states,
 * timer, what the owner calls), rconn_connect.c (one try, up to the greeting), rconn_master.c
 * (where Redis is, if Sentinel has to say it), rconn_cluster.c (likewise, if it is a cluster),
 * rconn_bytes.c (bytes in both directions). Nobody else includes it; rconn.h is the manual.
 */
#ifndef REDISQ_RCONN_LINK_H
#define REDISQ_RCONN_LINK_H

#include "rconn.h"
#include "rconn_dns.h"
#include "rconn_fifo.h"
#include "rconn_greet.h"
#include "rconn_resp.h"
#include "rconn_retry.h"
#include "rconn_sentinel.h"
#include "rconn_transport.h"

struct redisReader;
struct rconn_master;
struct rconn_cluster;

#define LINK_STATES(X) \
	X(DOWN, "down") \
	X(CONNECTING, "connecting") \
	X(GREETING, "greeting") \
	X(READY, "ready") \
	X(WAITING, "waiting") \
	X(CLOSING, "closing")

#define LINK_EVENTS(X) \
	X(ON_START, "start") \
	X(ON_CONNECTED, "connected") \
	X(ON_GREETED, "greeted") \
	X(ON_HOP, "hop") \
	X(ON_FAILED, "failed") \
	X(ON_RETRY, "retry") \
	X(ON_CLOSE, "close") \
	X(ON_TURN_END, "end of turn")

#define X(name, word) name,
enum link_state { LINK_STATES(X) N_STATES };
enum link_event { LINK_EVENTS(X) N_EVENTS };
#undef X
struct rconn {
	enum link_state state;
	unsigned epoch;
	struct ev_loop *loop;                 /* borrowed */
	const struct conf_redis *conf;        /* borrowed */
	const struct rconn_transport *travel; /* borrowed */
	struct rconn_events events;
	void *arg;  /* borrowed: the owner's */
	char *name; /* owned */
	struct buf where;
	char *key; /* owned: in a cluster, what has to be there; NULL = any node will do */
	struct rconn_master *master;   /* owned; NULL = no Sentinel has to be asked */
	struct rconn_cluster *cluster; /* owned; NULL = it is none, or was not connected to yet */
	bool watches;                  /* the one that keeps asking, and says where it is */

	/* This try. */
	struct redis_addr addr;
	struct rconn_addrs addrs;
	size_t next_addr;
	struct rconn_dns *dns; /* owned, NULL = none under way */
	int64_t try_ms;        /* how long it may take */
	int64_t try_end_ms;
	char peer[160]; /* whom we are talking to, for messages */
	struct greet greet;

	/* The connection. */
	struct rconn_io io;
	ev_io rd;
	ev_io wr;
	struct buf out;
	size_t out_at;   /* written already */
	int write_error; /* an errno: nothing goes out any more, replies may still come in */
	struct redisReader *reader; /* owned, NULL = none */
	int64_t last_rx_ms;         /* monotonic: when bytes last came */
	int64_t reply_bytes;        /* of the reply not yet complete */
	struct rconn_fifo pending;

	ev_timer timer;
	int64_t due_ms; /* what the timer is armed for */
	/* Never started, only fed, at the lowest priority: it runs when every other event of the
	 * turn has been handled, also when fed from a prepare watcher. */
	ev_prepare turn;
	ev_cleanup cleanup;

	struct rconn_retry retry;
	struct rng rng;
	bool failing;
	enum rconn_trouble trouble; /* while failing */
	char why[RCONN_WHY_MAX];
};

/* The only way a state changes. */
void link_step(struct rconn *c, enum link_event event, const char *why);
/* Notes why the link has to fall at the end of the turn; the first reason stays. */
void link_fail(struct rconn *c, enum rconn_trouble trouble, const char *fmt, ...) ATTR_PRINTF(3, 4);
/* Sets the one timer. */
void link_arm(struct rconn *c, int64_t due_ms);

/* rconn_connect.c */
/* Takes the configuration apart again (a password file may have changed). */
int link_read_where(struct rconn *c, struct err *e) ATTR_MUST_CHECK;
void link_begin_try(struct rconn *c);
/* addr.host is known: connects to it. */
void link_begin_connect(struct rconn *c);
void link_begin_greeting(struct rconn *c);
/* The transport can go on connecting; false: it waits for more. */
bool link_connection_result(struct rconn *c);
/* The timer of a try, or of one of its addresses, is over. */
void link_connect_overdue(struct rconn *c);

/* rconn_master.c; all but the first do nothing where the url says where Redis is. */
/* Ends in link_begin_connect(), or in link_fail(). */
void link_ask_master(struct rconn *c);
/* The link is ready. */
void link_master_proven(struct rconn *c);
/* The link has gone. */
void link_forget_master(struct rconn *c);
void link_free_master(struct rconn *c);

/* rconn_cluster.c; all but the first do nothing, or what is done elsewhere, where it is none. */
/* A new try: ends in link_begin_connect(). */
void link_seek_node(struct rconn *c);
/* Another node, in the same try. */
void link_go_to_node(struct rconn *c);
/* The node at hand has failed: is there another in this try? */
bool link_may_hop(const struct rconn *c);
/* For how long to try this one. */
int64_t link_patience_ms(const struct rconn *c);
/* The try has failed as a whole, or the link is lost: when to try again. */
int64_t link_fall_delay_ms(struct rconn *c);
/* The node at hand sends us to another one: the link falls, and goes there (MOVED), or waits and
 * comes back (ASK: the slot is on its way, the key may still be here). In a cluster only. */
void link_sent_away(struct rconn *c, const char *error);
/* An error has come as reply to a command: does it mean that we are at the wrong node? */
void link_heard_error(struct rconn *c, const char *error);
/* CLUSTER SLOTS has been answered. */
void link_learn_nodes(struct rconn *c, const struct redisReply *slots);
/* The link is ready. */
void link_node_proven(struct rconn *c);
/* The connection has gone: nobody else need be asked any more. */
void link_forget_scout(struct rconn *c);
/* The next try begins where `other` is. */
void link_follow(struct rconn *c, const struct rconn *other);
void link_free_cluster(struct rconn *c);

/* rconn_bytes.c */
void link_write(struct rconn *c);
/* The socket is writable and somebody waited for that. */
void link_go_on(struct rconn *c);
void link_forget_output(struct rconn *c);
/* Reads what is there and hands out the replies. */
void link_read(struct rconn *c);

#endif
