/*
 * doctor_cluster.c - the cluster as the node sees it that has this queue, and the queue's slot; see
 * doctor.h.
 */
#include <inttypes.h>

#include "cluster.h"
#include "doctor.h"
#include "info.h"
#include "redis_url.h"

#define NODE_ID_LEN 40

static int look_at_state(struct doctor *d)
{
	redisReply *r = DOCTOR_ASK(d, "CLUSTER", "INFO");
	struct slice info, state;
	int64_t n_failing;

	if (!r)
		return -1;
	info = redis_text(r);
	state = info_value(info, "cluster_state:");
	n_failing = info_int(info, "cluster_slots_fail:", 0) +
		    info_int(info, "cluster_slots_pfail:", 0);
	if (doctor_error(r) || state.len == 0)
		finding_unknown(d->f, "cluster", "%s",
				doctor_error(r) ? doctor_error(r) : "CLUSTER INFO says nothing");
	else if (!slice_eq_str(state, "ok") || n_failing > 0)
		finding_bad(d->f, "cluster", "look at it: redis-cli --cluster check HOST:PORT",
			    "its state is %.*s, %" PRId64 " of %" PRId64
			    " slots are at nodes that do not answer",
			    (int)state.len, state.data, n_failing,
			    info_int(info, "cluster_slots_assigned:", 0));
	else
		finding_fine(d->f, "cluster",
			     "its state is ok, %" PRId64 " nodes, %" PRId64 " of %d slots served",
			     info_int(info, "cluster_known_nodes:", 0),
			     info_int(info, "cluster_slots_ok:", 0), CLUSTER_SLOTS);
	redis_free(r);
	return 0;
}

/* "10.0.0.5:7000" of the node with this id, or the id. */
static void add_node(const char *nodes, const char *id, struct buf *out)
{
	const char *line = nodes;

	while (line && strncmp(line, id, NODE_ID_LEN) != 0) {
		line = strchr(line, '\n');
		line += line != NULL;
	}
	if (line && strlen(line) > NODE_ID_LEN)
		buf_add(out, line + NODE_ID_LEN + 1, strcspn(line + NODE_ID_LEN + 1, "@, \n"));
	else
		buf_add(out, id, strnlen(id, NODE_ID_LEN));
}

static int look_at_slot(struct doctor *d, int slot)
{
	redisReply *r = DOCTOR_ASK(d, "CLUSTER", "NODES");
	char leaving[24], coming[24];
	const char *found;
	struct buf node = BUF_INIT;

	if (!r)
		return -1;
	snprintf(leaving, sizeof(leaving), "[%d->-", slot);
	snprintf(coming, sizeof(coming), "[%d-<-", slot);
	if (doctor_error(r) || !r->str) {
		finding_unknown(d->f, "slot", "%d is at %s; whether it moves: %s", slot,
				redis_where(d->r),
				doctor_error(r) ? doctor_error(r) : "CLUSTER NODES says nothing");
	} else if ((found = strstr(r->str, leaving)) || (found = strstr(r->str, coming))) {
		add_node(r->str, found + strlen(leaving), &node);
		finding_bad(d->f, "slot",
			    "if nobody is moving it any more: redis-cli --cluster fix HOST:PORT",
			    "%d is being moved %s %s: workers wait until that has ended", slot,
			    strstr(r->str, leaving) ? "to" : "from", node.data);
	} else {
		finding_fine(d->f, "slot", "%d is at %s", slot, redis_where(d->r));
	}
	buf_release(&node);
	redis_free(r);
	return 0;
}

/* User, password and TLS are to stay what they are. */
static void say_no_cluster(struct doctor *d)
{
	const char *s = redis_url_is_tls(conf_redis(d->conf)->url) ? "s" : "";
	struct redis_addr a;
	bool has_several;

	if (redis_url_parse(conf_redis(d->conf)->url, &a, NULL) != 0)
		return;
	has_several = a.cluster && a.cluster->n > 1;
	redis_addr_release(&a);
	finding_note(d->f, "cluster",
		     "this is no cluster; in the url write redis%s:// in place of cluster%s://%s",
		     s, s, has_several ? ", and one host alone" : "");
}

int doctor_is_cluster(struct doctor *d)
{
	redisReply *r;

	if (!redis_is_cluster(d->r) || d->no_cluster)
		return 0;
	r = DOCTOR_ASK(d, "CLUSTER", "INFO");
	if (!r)
		return -1;
	d->no_cluster = doctor_error(r) && strstr(r->str, "cluster support disabled");
	if (d->no_cluster)
		say_no_cluster(d);
	redis_free(r);
	return 0;
}

int doctor_cluster(struct doctor *d, const struct conf_queue *q, const struct keys *k ATTR_UNUSED)
{
	if (!redis_is_cluster(d->r) || d->no_cluster)
		return 0;
	return look_at_state(d) != 0 ? -1 : look_at_slot(d, cluster_slot(q->name));
}
