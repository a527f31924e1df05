/*
 * rconn_cluster.c - a link whose url names nodes of a cluster: to which of them it goes at each
 * try, and what it does when one says that the key is elsewhere. Makes no connection itself.
 *
 * A link is made for a key (rconn_set_key()) and is ready only where that is: EXISTS of it is one
 * of the greeting's words. Whoever says MOVED there, or cannot be used, is left at once for the
 * next node, as long as rconn_cluster_pick has one: that is one try, of which the owner hears when
 * it has failed as a whole.
 *
 * While a node says nothing (it hangs, or its host is gone) a second link, the scout, asks the
 * others where the key is, again and again: it comes up where they have it, and ours goes there. So
 * the one that is slow has its time, and a replica that is promoted meanwhile is found all the
 * same.
 */
#include "clock.h"
#include "cluster.h"
#include "log.h"
#include "rconn_cluster_pick.h"
#include "rconn_link.h"

/* For one node of several: who hangs must not keep us from those who know better. Twice as long at
 * each further try, up to connect_timeout, which may be needed on a slow path. */
#define NODE_MS 2000
#define DOUBLED_MAX 10
/* MOVED again so soon after the last time: not at once then. */
#define SOON_MS 1000

/* After so long without being ready somebody else is asked, too. */
#define UNANSWERED_MS 500

struct rconn_cluster {
	struct rconn *link; /* borrowed: whose this is */
	struct cluster_pick pick;
	unsigned n_failed; /* tries in a row */
	int64_t moved_ms;  /* when the link last fell because of MOVED; 0 = never */
	char *said;        /* owned: the place that was logged last, or NULL */
	/* In this try: what one of them refused. The others may have older rules, so that they are
	 * asked, too; but if the try fails, this is what a person can mend. */
	char refused[RCONN_WHY_MAX];
	struct buf broken; /* in this try: who was of no use, "host:port"; the last of them */
	char broke[160];   /* and why */
	ev_timer unanswered;
	struct rconn *scout; /* owned, NULL = none */
	bool is_scout;       /* has none itself */
};

static void on_unanswered(struct ev_loop *loop, ev_timer *t, int revents);

/* Without nodes. */
static struct rconn_cluster *new_cluster(struct rconn *c)
{
	struct rconn_cluster *k = xcalloc(1, sizeof(*k));

	k->link = c;
	buf_init(&k->broken);
	ev_timer_init(&k->unanswered, on_unanswered, 0., UNANSWERED_MS / 1000.0);
	return k;
}

static struct rconn_cluster *cluster_of(struct rconn *c)
{
	if (!c->cluster) {
		c->cluster = new_cluster(c);
		cluster_pick_init(&c->cluster->pick, c->addr.cluster);
	}
	return c->cluster;
}

/* ------------------------------------------------------------------ the scout */

static void on_scouted(void *arg)
{
	struct rconn *c = arg;
	const struct rconn *scout = c->cluster->scout;
	struct buf place = BUF_INIT;

	link_follow(c, scout);
	redis_place_text(&(struct redis_place){scout->addr.host, scout->addr.port}, &place);
	link_fail(c, TROUBLE_LINK, "no answer from %.150s; %.100s is the one to ask", c->peer,
		  place.data);
	buf_release(&place);
}

static void on_unanswered(struct ev_loop *loop, ev_timer *t, int revents ATTR_UNUSED)
{
	struct rconn_cluster *k = container_of(t, struct rconn_cluster, unanswered);
	const struct rconn_events events = {.on_ready = on_scouted};
	struct rconn *c = k->link;
	struct buf name = BUF_INIT;

	ev_timer_stop(loop, t);
	if (c->failing || k->pick.n < 2)
		return;
	buf_addf(&name, "%s:scout", c->name);
	k->scout = rconn_new(loop, c->conf, name.data, &events, c);
	buf_release(&name);
	if (c->key)
		rconn_set_key(k->scout, c->key);
	k->scout->cluster = new_cluster(k->scout);
	k->scout->cluster->is_scout = true;
	cluster_pick_init_others(&k->scout->cluster->pick, &k->pick);
	rconn_start(k->scout);
}

void link_forget_scout(struct rconn *c)
{
	struct rconn_cluster *k = c->cluster;

	if (!k)
		return;
	ev_timer_stop(c->loop, &k->unanswered);
	rconn_close(k->scout);
	k->scout = NULL;
}

/* ------------------------------------------------------------------ where to */

void link_go_to_node(struct rconn *c)
{
	struct rconn_cluster *k = cluster_of(c);
	const struct redis_place *node;

	if (c->why[0] && c->trouble != TROUBLE_CLUSTER) {
		buf_clear(&k->broken);
		redis_place_text(&(struct redis_place){c->addr.host, c->addr.port}, &k->broken);
		snprintf(k->broke, sizeof(k->broke), ": %.150s", c->why);
	}
	node = cluster_pick_whom(&k->pick);
	INVARIANT(node);
	if (c->trouble == TROUBLE_DENIED && c->why[0])
		snprintf(k->refused, sizeof(k->refused), "%.300s (at %.80s)", c->why, c->peer);
	redis_addr_set_place(&c->addr, node);
	buf_clear(&c->where);
	redis_addr_text(&c->addr, &c->where);
	if (!k->is_scout)
		ev_timer_again(c->loop, &k->unanswered);
	link_begin_connect(c);
}

void link_seek_node(struct rconn *c)
{
	struct rconn_cluster *k = cluster_of(c);

	k->refused[0] = k->broke[0] = c->why[0] = '\0';
	buf_clear(&k->broken);
	cluster_pick_begin(&k->pick);
	link_go_to_node(c);
}

int64_t link_patience_ms(const struct rconn *c)
{
	const struct rconn_cluster *k = c->cluster;
	int64_t ms = c->conf->connect_timeout;

	if (!k || k->pick.n < 2)
		return ms;
	/* A scout hears at each try that the key is where it may not go: that is no slow path. */
	return min_i64(ms,
		       (int64_t)NODE_MS << (k->is_scout ? 0 : min_i64(k->n_failed, DOUBLED_MAX)));
}

bool link_may_hop(const struct rconn *c)
{
	/* Where the configuration cannot be read there is no address to give to any of them. */
	return c->addr.cluster && c->cluster && (c->state == CONNECTING || c->state == GREETING) &&
	       cluster_pick_has_more(&c->cluster->pick);
}

int64_t link_fall_delay_ms(struct rconn *c)
{
	struct rconn_cluster *k = c->cluster;
	int64_t now = clock_mono_ms();
	bool at_once;

	if (k && k->refused[0] && c->trouble != TROUBLE_DENIED) {
		snprintf(c->why, sizeof(c->why), "%s", k->refused);
		c->trouble = TROUBLE_DENIED;
	}
	if (!k || c->trouble == TROUBLE_DENIED)
		return retry_delay_ms(&c->retry, c->trouble, &c->rng);
	at_once = c->trouble == TROUBLE_MOVED && (!k->moved_ms || now - k->moved_ms > SOON_MS);
	if (c->trouble == TROUBLE_MOVED)
		k->moved_ms = now;
	else
		k->n_failed++;
	return at_once ? 0 : retry_delay_ms(&c->retry, TROUBLE_CLUSTER, &c->rng);
}

/* ------------------------------------------------------------------ what they say */

void link_sent_away(struct rconn *c, const char *error)
{
	struct rconn_cluster *k = cluster_of(c);
	struct redis_place place = {0};
	struct buf text = BUF_INIT;
	bool was_ready = c->state == READY;
	bool is_new;
	int slot;

	switch (cluster_says(error, c->addr.host, &place, &slot)) {
	case CLUSTER_OTHER:
		link_fail(c, TROUBLE_CLUSTER, "%.200s", error);
		return;
	case CLUSTER_ASK:
		/* The slot is on its way: for now it is this one's, which has no such key any more,
		 * or not yet. */
		cluster_pick_stay(&k->pick);
		link_fail(c, TROUBLE_CLUSTER, "slot %d is being moved away from %s", slot, c->peer);
		break;
	case CLUSTER_MOVED:
		redis_place_text(&place, &text);
		is_new = cluster_pick_moved(&k->pick, &place) || was_ready;
		link_fail(c, was_ready ? TROUBLE_MOVED : TROUBLE_CLUSTER,
			  "slot %d is at %.100s, says %.100s%s%s", slot, text.data, c->peer,
			  is_new ? "" : "; but there it could not be used",
			  is_new || strcmp(k->broken.data, text.data) != 0 ? "" : k->broke);
		buf_release(&text);
		break;
	}
	free(place.host);
}

void link_heard_error(struct rconn *c, const char *error)
{
	/* A node that was cut off from the others finds the cluster down, while these may have
	 * given its slots to another: they are asked, too. */
	if (strncmp(error, "MOVED ", 6) == 0)
		link_sent_away(c, error);
	else if (strncmp(error, "CLUSTERDOWN", 11) == 0)
		link_fail(c, TROUBLE_CLUSTER, "%.200s", error);
}

void link_learn_nodes(struct rconn *c, const struct redisReply *slots)
{
	if (c->cluster)
		cluster_pick_learn(&c->cluster->pick, slots, c->addr.host);
}

/* ------------------------------------------------------------------ there */

void link_node_proven(struct rconn *c)
{
	struct rconn_cluster *k = c->cluster;
	struct buf place = BUF_INIT;

	if (!k)
		return;
	link_forget_scout(c);
	cluster_pick_proven(&k->pick);
	k->n_failed = 0;
	k->refused[0] = '\0';
	if (!c->watches || !c->key)
		return;
	redis_place_text(&(struct redis_place){c->addr.host, c->addr.port}, &place);
	if (!k->said || strcmp(k->said, place.data) != 0) {
		log_info("\"%s\" is at %s (slot %d)", c->key, place.data, cluster_slot(c->key));
		free(k->said);
		k->said = buf_detach(&place);
	}
	buf_release(&place);
}

void link_follow(struct rconn *c, const struct rconn *other)
{
	if (c->addr.cluster && other->addr.host)
		cluster_pick_found(&cluster_of(c)->pick,
				   &(struct redis_place){other->addr.host, other->addr.port});
}

void link_free_cluster(struct rconn *c)
{
	struct rconn_cluster *k = c->cluster;

	if (!k)
		return;
	cluster_pick_release(&k->pick);
	buf_release(&k->broken);
	free(k->said);
	free(k);
}
