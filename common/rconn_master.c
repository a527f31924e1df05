/*
 * rconn_master.c - a link whose url names Sentinels: where its Redis is at each try, every second
 * as long as that one does not answer (a host that is gone says nothing, while its replica has long
 * been promoted), and, for the one link that watches, every half a minute while it is up. Makes no
 * connection to Redis.
 *
 * What a Sentinel says counts when the link is ready, ROLE having answered "master". When it falls,
 * or never gets there, another Sentinel is asked first.
 */
#include "log.h"
#include "rconn_link.h"

#define WATCH_S 30.
#define UNANSWERED_S 1.

struct rconn_master {
	struct rconn *link;           /* borrowed */
	struct rconn_sentinel *asker; /* owned */
	ev_timer again;
	char *from;   /* owned: the Sentinel that has told what is in use now */
	char *said;   /* owned: the place that was logged last, or NULL */
	bool is_deaf; /* no Sentinel answers, and that was said */
};

/* ------------------------------------------------------------------ there is a place */

static void ask_every(struct rconn_master *m, double seconds)
{
	m->again.repeat = seconds;
	ev_timer_again(m->link->loop, &m->again);
}

/* Asked again: it is still there, or elsewhere, or nobody knows; then what we have is as good as it
 * was. */
static void look_at(struct rconn_master *m, const struct redis_place *master, const char *from)
{
	struct rconn *c = m->link;
	struct buf place = BUF_INIT;

	if (!master) {
		if (c->state == READY && !m->is_deaf) {
			m->is_deaf = true;
			log_warning("%s; going on with the master at %s", from, c->peer);
		}
		return;
	}
	if (m->is_deaf)
		log_info("sentinel %s answers", from);
	m->is_deaf = false;
	if (strcmp(master->host, c->addr.host) == 0 && master->port == c->addr.port)
		return;
	redis_place_text(master, &place);
	link_fail(c, TROUBLE_LINK, "the master has moved to %.100s (from sentinel %.80s)",
		  place.data, from);
	buf_release(&place);
}

static void on_again(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct rconn_master *m = container_of(t, struct rconn_master, again);

	if (!m->link->failing)
		rconn_sentinel_ask(m->asker, &m->link->addr);
}

/* Once at each change. */
static void say_where(struct rconn_master *m)
{
	const struct rconn *c = m->link;
	struct buf place = BUF_INIT;

	redis_place_text(&(struct redis_place){c->addr.host, c->addr.port}, &place);
	if (!m->said || strcmp(m->said, place.data) != 0) {
		log_info("master \"%s\" is at %s (from sentinel %s)", c->addr.sentinels->master,
			 place.data, m->from);
		free(m->said);
		m->said = buf_detach(&place);
	}
	buf_release(&place);
}

void link_master_proven(struct rconn *c)
{
	struct rconn_master *m = c->master;

	if (!m)
		return;
	rconn_sentinel_cancel(m->asker);
	ev_timer_stop(c->loop, &m->again);
	if (!c->watches)
		return;
	say_where(m);
	ask_every(m, WATCH_S);
}

/* ------------------------------------------------------------------ there is none yet */

static void on_answer(void *arg, const struct redis_place *master, const char *from,
		      enum sentinel_fault fault)
{
	struct rconn_master *m = arg;
	struct rconn *c = m->link;

	if (c->failing)
		return;
	if (c->addr.host) {
		look_at(m, master, from);
		return;
	}
	if (!master) {
		link_fail(c, fault == SENTINEL_SILENT ? TROUBLE_LINK : TROUBLE_DENIED, "%s", from);
		return;
	}
	free(m->from);
	m->from = xstrdup(from);
	redis_addr_set_place(&c->addr, master);
	buf_clear(&c->where);
	redis_addr_text(&c->addr, &c->where);
	ask_every(m, UNANSWERED_S);
	link_begin_connect(c);
}

void link_ask_master(struct rconn *c)
{
	struct rconn_master *m = c->master;

	if (!m) {
		m = xcalloc(1, sizeof(*m));
		m->link = c;
		m->asker = rconn_sentinel_new(c->loop, c->conf, c->addr.sentinels->n, on_answer, m);
		ev_timer_init(&m->again, on_again, 0., 0.);
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
	m->is_deaf = false;
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
