/*
 * rconn_bytes.c - the bytes of a link: what is queued goes out, what comes in becomes replies and
 * finds the command that waits for it.
 */
#include <errno.h>

#include <hiredis/hiredis.h>

#include "clock.h"
#include "cluster.h"
#include "log.h"
#include "rconn_link.h"
#include "rconn_arena.h"

#define READ_CHUNK (64 * 1024)
_Static_assert(READ_CHUNK >= RCONN_READ_MIN, "or bytes would be left inside a transport");
#define READS_PER_TURN 4
/* Bytes of one reply; Redis's own limit of a value. More and the link is dropped. */
#define REPLY_MAX (512LL * 1024 * 1024)
/* An empty output buffer larger than this is given back. */
#define OUT_KEEP (256 * 1024)

void link_forget_output(struct rconn *c)
{
	ev_io_stop(c->loop, &c->wr);
	c->out_at = 0;
	if (c->out.cap > OUT_KEEP)
		buf_release(&c->out);
	else
		buf_clear(&c->out);
}

void link_write(struct rconn *c)
{
	ssize_t n;

	if (c->out.len == 0 || c->write_error)
		return;
	n = c->travel->write(&c->io, c->out.data + c->out_at, c->out.len - c->out_at);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		/* Redis may have said why before it went ("max number of clients"): read to the
		 * end first, on_readable() comes to write_error then. */
		c->write_error = errno;
		link_forget_output(c);
		ev_feed_event(c->loop, &c->rd, EV_READ);
		return;
	}
	if (n > 0)
		c->out_at += (size_t)n;
	if (c->out_at == c->out.len) {
		link_forget_output(c);
		return;
	}
	if (c->out_at > c->out.len / 2) {
		buf_consume(&c->out, c->out_at);
		c->out_at = 0;
	}
	if (!c->io.wants_read)
		ev_io_start(c->loop, &c->wr);
}

void link_go_on(struct rconn *c)
{
	unsigned epoch = c->epoch;

	ev_io_stop(c->loop, &c->wr);
	if (c->io.wants_write)
		link_read(c);
	if (c->epoch == epoch && !c->failing)
		link_write(c);
}

/* A connection that ends before a word was said is often one of the wrong kind. */
static const char *early_end(const struct rconn *c)
{
	if (c->state != GREETING || c->greet.at > 0 || c->addr.transport == REDIS_UNIX)
		return "";
	if (!c->addr.tls && c->addr.cluster)
		return "; if that is a TLS port, write clusters:// in the url";
	if (!c->addr.tls && c->addr.sentinels)
		return "; if that is a TLS port, write sentinels:// in the url";
	if (!c->addr.tls)
		return "; if that is a TLS port, write rediss:// in the url";
	return c->conf->tls_cert_file ? ""
				      : "; if it wants client certificates, set tls_cert_file and "
					"tls_key_file";
}

static void read_failed(struct rconn *c, int error)
{
	if (c->io.why[0])
		link_fail(c, error == EPROTO ? TROUBLE_DENIED : TROUBLE_LINK,
			  "connection to %s: %s", c->peer, c->io.why);
	else
		link_fail(c, TROUBLE_LINK, "connection to %s: %s%s", c->peer, strerror(error),
			  early_end(c));
}

/* A TLS server answers plain words with an alert. */
static bool is_alert(const struct rconn *c, const char *bytes)
{
	return c->state == GREETING && c->greet.at == 0 && c->reply_bytes == 0 &&
	       bytes[0] == '\x15' && !c->addr.tls;
}

static void no_database(struct rconn *c)
{
	struct buf why = BUF_INIT;

	cluster_advice_db(&c->addr, &why);
	link_fail(c, TROUBLE_URL, "%s", why.data);
	buf_release(&why);
}

static void greeting_reply(struct rconn *c, const redisReply *r)
{
	char why[RCONN_WHY_MAX];

	if (greet_next(&c->greet) == GREET_NODES)
		link_learn_nodes(c, r);
	switch (greet_reply(&c->greet, r, why)) {
	case GREET_MORE:
		break;
	case GREET_DONE:
		link_step(c, ON_GREETED, c->peer);
		break;
	case GREET_SENT_AWAY:
		link_sent_away(c, why);
		break;
	case GREET_WAIT:
		link_fail(c, TROUBLE_LINK, "%s", why);
		break;
	case GREET_DENIED:
		link_fail(c, TROUBLE_DENIED, "%s", why);
		break;
	case GREET_NO_DB:
		no_database(c);
		break;
	}
}

static void command_reply(struct rconn *c, const redisReply *r)
{
	struct rconn_pending p;
	char text[RCONN_WHY_MAX] = "";

	if (r->type == REDIS_REPLY_ERROR)
		resp_error_text(r, NULL, text);
	if (c->addr.cluster && text[0])
		link_heard_error(c, text); /* falls at the end of the turn, if it has to */
	if (!fifo_pop(&c->pending, &p))
		link_fail(c, TROUBLE_LINK, "%s",
			  text[0] ? text : "Redis sent a reply to no command");
	else if (p.fn)
		p.fn(p.arg, r);
	else if (text[0])
		log_warning("%s: %s: %s", c->name, p.verb, text);
}

/* False when the link fell, or is about to. */
static bool take_replies(struct rconn *c)
{
	struct rconn_arena *arena = c->reader->privdata; /* the reader may go in a callback */
	unsigned epoch = c->epoch;
	void *r = NULL;

	for (;;) {
		if (redisReaderGetReply(c->reader, &r) != REDIS_OK) {
			link_fail(c, TROUBLE_LINK, "Redis sent what is not its protocol: %.100s",
				  c->reader->errstr);
			return false;
		}
		if (!r)
			return true;
		c->reply_bytes = 0;
		rconn_arena_look(arena);
		if (c->state == GREETING)
			greeting_reply(c, r);
		else
			command_reply(c, r);
		rconn_arena_done(arena);
		if (c->epoch != epoch || c->failing)
			return false;
	}
}

void link_read(struct rconn *c)
{
	char bytes[READ_CHUNK];

	for (int i = 0; i < READS_PER_TURN; i++) {
		ssize_t n = c->travel->read(&c->io, bytes, sizeof(bytes));

		if (n == 0) {
			link_fail(c, TROUBLE_LINK, "Redis closed the connection%s", early_end(c));
			return;
		}
		if (n < 0) {
			int error = errno == EAGAIN ? c->write_error : errno;

			if (error && error != EINTR)
				read_failed(c, error);
			else if (c->io.wants_write)
				ev_io_start(c->loop, &c->wr);
			return;
		}
		if (is_alert(c, bytes)) {
			link_fail(c, TROUBLE_DENIED,
				  "connection to %s: that is a TLS port; write %s:// in the url",
				  c->peer,
				  c->addr.cluster     ? "clusters"
				  : c->addr.sentinels ? "sentinels"
						      : "rediss");
			return;
		}
		c->reply_bytes += n;
		c->last_rx_ms = clock_mono_ms();
		if (redisReaderFeed(c->reader, bytes, (size_t)n) != REDIS_OK) {
			link_fail(c, TROUBLE_LINK, "cannot hold the reply: %.100s",
				  c->reader->errstr);
			return;
		}
		if (!take_replies(c))
			return;
		if (c->reply_bytes > REPLY_MAX)
			link_fail(c, TROUBLE_LINK, "a reply larger than %lld bytes", REPLY_MAX);
		/* A full record, or more, is seldom the last. */
		if (c->failing || n < RCONN_READ_MIN)
			return;
	}
}
