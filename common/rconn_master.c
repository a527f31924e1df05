/*
 * rconn_master.c - a link whose url names Sentinels: where its Redis is at each try, and, for the
 * one link that watches, every half a minute while it is up. Makes no connection to Redis.
 *
 * What a Sentinel says counts when the link is ready, ROLE having answered "master". When it falls,
 * or never gets there, another Sentinel is asked first.
 */
#include "log.h"
#include "rconn_link.h"

#define WATCH_S 30.

struct rconn_master {
	struct rconn *link;           /* borrowed */
	struct rconn_sentinel *asker; /* owned */
	ev_timer again;               /* while the link is up */
	char *from;                   /* owned: the Sentinel that has told what is in use now */
	char *said;                   /* owned: the place that was logged last, or NULL */
	bool is_proven;               /* the link is up */
	bool is_deaf;                 /* the last round of a link that is up has brought nothing */
};

static enum rconn_trouble trouble_of(enum sentinel_fault fault)
{
	return fault == SENTINEL_SILENT ? TROUBLE_LINK : TROUBLE_DENIED;
}

static void keep_from(struct rconn_master *m, const char *from)
{
	char *copy = xstrdup(from);

	free(m->from);
	m->from = copy;
}

/* Owned. */
static char *place_text(const char *host, int port)
{
	struct buf text = BUF_INIT;
	char *copy = xstrdup(host);

	redis_place_text(&(struct redis_place){copy, port}, &text);
	free(copy);
	return buf_detach(&text);
}

/* ------------------------------------------------------------------ while the link is up */

/* The watch has an answer, or none: then the master we have is as good as it was. */
static void look_at(struct rconn_master *m, const struct redis_place *master, const char *from)
{
	struct rconn *c = m->link;

	if (!master) {
		if (!m->is_deaf)
			log_warning("%s; going on with the master at %s", from, c->peer);
		m->is_deaf = true;
		return;
	}
	if (m->is_deaf)
		log_info("sentinel %s answers again", from);
	m->is_deaf = false;
	if (strcmp(master->host, c->addr.host) != 0 || master->port != c->addr.port)
		link_fail(c, TROUBLE_LINK,
			  "the master has moved to %.100s:%d (from sentinel %.80s)", master->host,
			  master->port, from);
}

static void on_again(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct rconn_master *m = container_of(t, struct rconn_master, again);

	if (!m->link->failing)
		rconn_sentinel_ask(m->asker, &m->link->addr);
}

void link_master_proven(struct rconn *c)
{
	struct rconn_master *m = c->master;
	char *place;

	if (!m)
		return;
	m->is_proven = true;
	if (!c->watches)
		return;
	place = place_text(c->addr.host, c->addr.port);
	if (!m->said || strcmp(m->said, place) != 0) {
		log_info("master \"%s\" is at %s (from sentinel %s)", c->addr.sentinels->master,
			 place, m->from);
		free(m->said);
		m->said = place;
	} else {
		free(place);
	}
	ev_timer_again(c->loop, &m->again);
}

/* ------------------------------------------------------------------ while it is being made */

static void on_answer(void *arg, const struct redis_place *master, const char *from,
		      enum sentinel_fault fault)
{
	struct rconn_master *m = arg;
	struct rconn *c = m->link;

	if (c->failing)
		return;
	if (m->is_proven) {
		look_at(m, master, from);
		return;
	}
	if (!master) {
		link_fail(c, trouble_of(fault), "%s", from);
		return;
	}
	keep_from(m, from);
	redis_addr_set_master(&c->addr, master);
	buf_clear(&c->where);
	redis_addr_text(&c->addr, &c->where);
	link_begin_connect(c);
}

void link_ask_master(struct rconn *c)
{
	struct rconn_master *m = c->master;

	if (!m) {
		m = xcalloc(1, sizeof(*m));
		m->link = c;
		m->asker = rconn_sentinel_new(c->loop, c->conf, c->addr.sentinels->n, on_answer, m);
		ev_timer_init(&m->again, on_again, 0., WATCH_S);
		c->master = m;
	}
	snprintf(c->peer, sizeof(c->peer), "a sentinel");
	ev_timer_stop(c->loop, &c->timer); /* a round ends by itself */
	rconn_sentinel_ask(m->asker, &c->addr);
}

void link_forget_master(struct rconn *c)
{
	struct rconn_master *m = c->master;

	if (!m)
		return;
	rconn_sentinel_cancel(m->asker);
	ev_timer_stop(c->loop, &m->again);
	if (c->addr.host)
		rconn_sentinel_doubt(m->asker);
	m->is_proven = m->is_deaf = false;
}

void link_free_master(struct rconn *c)
{
	struct rconn_master *m = c->master;

	if (!m)
		return;
	rconn_sentinel_free(m->asker);
	free(m->from);
	free(m->said);
	free(m);
}
