/*
 * verb_doctor.c - what is wrong with this Redis and these queues, and what to do about it; see
 * doctor.h. Exit 0 = nothing, 1 = something.
 */
#include "ctl.h"
#include "doctor.h"
#include "out.h"

redisReply *doctor_ask(struct doctor *d, const char *const *words)
{
	struct rconn_arg argv[REDIS_WORDS_MAX];
	int argc = 0;

	for (; words[argc]; argc++) {
		INVARIANT(argc < REDIS_WORDS_MAX);
		argv[argc] = ARG(words[argc]);
	}
	return redis_try(d->r, d->e, argc, argv);
}

const char *doctor_error(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR ? reply->str : NULL;
}

/*
 * Turns to this stream. 1: its node cannot be asked, which is a finding, said once: in a cluster
 * one may be away, and what the others have is to be looked at all the same.
 */
static int turn_to(struct doctor *d, const struct parts *p, size_t i)
{
	switch (reach_turn_to(&d->reach, p, i, d->e)) {
	case REACH_THERE:
		return 0;
	case REACH_LOST:
		finding_bad(d->f, "node", "look at it: redis-cli --cluster check HOST:PORT", "%s",
			    redis_why(d->r));
		return 1;
	case REACH_AWAY:
		return 1;
	case REACH_END:
		break;
	}
	return -1;
}

/* In how many streams of the queue nothing can be asked; -1: the end. */
static int count_lost(struct doctor *d, const struct parts *p)
{
	size_t from = findings_n(d->f);
	int n = 0;

	redis_link_all(d->r, p);
	findings_about(d->f, parts_name(p));
	for (size_t i = 0; i < p->n; i++) {
		int rc;

		findings_about_partition(d->f, p->is_spread ? (int)i : PARTS_ANY);
		rc = turn_to(d, p, i);
		if (rc < 0)
			return -1;
		n += rc;
	}
	findings_about_partition(d->f, PARTS_ANY);
	if (p->is_spread)
		findings_fold(d->f, from, p->n, 0);
	return n;
}

/* The server that has what is asked about now, unless it was looked at before. */
static int look_at_node(struct doctor *d)
{
	const char *where = redis_where(d->r);

	for (size_t i = 0; i < d->seen.n; i++)
		if (strcmp(d->seen.v[i], where) == 0)
			return 0;
	strv_add(&d->seen, where);
	findings_about(d->f, NULL);
	return doctor_server(d) != 0 ? -1 : doctor_is_cluster(d);
}

/* Of a cluster the nodes that have the queue, one after the other. */
static int look_at_nodes(struct doctor *d, const struct parts *p)
{
	int rc = 0;

	for (size_t i = 0; i < p->n && rc >= 0; i++) {
		rc = turn_to(d, p, i);
		if (rc == 0)
			rc = look_at_node(d);
	}
	return rc < 0 ? -1 : 0;
}

static void on_account(void *arg, const char *queue ATTR_UNUSED, bool is_bad, const char *text)
{
	struct doctor *d = arg;

	if (is_bad)
		finding_bad(d->f, "account", "see redisqctl audit QUEUE", "%s", text);
	else
		finding_fine(d->f, "account", "%s", text);
}

/* What one of its streams says, by `room`. */
static int look_at_each(struct doctor *d, const struct parts *p,
			int (*room)(struct doctor *, const struct conf_queue *,
				    const struct keys *))
{
	size_t from = findings_n(d->f);
	uint64_t asked = 0;
	struct keys k;
	int rc = 0;

	for (size_t i = 0; i < p->n && rc >= 0; i++) {
		findings_about_partition(d->f, p->is_spread ? (int)i : PARTS_ANY);
		keys_init(&k, p->v[i].name);
		rc = turn_to(d, p, i);
		asked |= (uint64_t)(rc == 0) << i;
		if (rc == 0)
			rc = room(d, &p->v[i], &k);
		keys_release(&k);
	}
	findings_about_partition(d->f, PARTS_ANY);
	if (p->is_spread)
		findings_fold(d->f, from, p->n, asked);
	return rc < 0 ? -1 : 0;
}

static int look_at_queue(struct doctor *d, const struct parts *p)
{
	int n_lost = count_lost(d, p);

	if (n_lost < 0)
		return -1;
	d->audit = (struct audit){.say = on_account, .arg = d};
	d->is_audited = n_lost == 0;
	d->is_made = p->is_made;
	if (look_at_each(d, p, doctor_cluster) != 0 || look_at_each(d, p, doctor_queue) != 0 ||
	    look_at_each(d, p, doctor_list) != 0)
		return -1;
	if (d->is_audited)
		audit_say_sum(&d->audit, parts_name(p));
	/* These look through the keys of every node that has the queue. */
	if (n_lost == 0 && (doctor_parts(d, p) != 0 || doctor_names(d, p) != 0))
		return -1;
	return look_at_each(d, p, doctor_needs);
}

/* Any stream will do. */
static int look_at_options(struct doctor *d, const struct parts *queues, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < queues[i].n; j++) {
			const struct conf_queue *q = &queues[i].v[j];
			int rc = turn_to(d, &queues[i], j);
			struct keys k;

			if (rc > 0)
				continue;
			findings_about(d->f, NULL);
			keys_init(&k, q->name);
			rc = rc == 0 ? doctor_options(d, q, &k) : -1;
			keys_release(&k);
			return rc;
		}
	return 0;
}

static int look(struct doctor *d, const struct parts *queues, size_t n)
{
	int rc = 0;

	/* Without a queue any node of a cluster will do. */
	if (n == 0 || !redis_is_cluster(d->r))
		rc = look_at_node(d);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = count_lost(d, &queues[i]) < 0 ? -1 : look_at_nodes(d, &queues[i]);
	if (rc == 0)
		rc = look_at_options(d, queues, n);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = look_at_queue(d, &queues[i]);
	return rc;
}

static void print(const struct ctl *c, const struct doctor *d)
{
	struct buf out = BUF_INIT;

	if (c->options->json) {
		json_t *o = json_object();
		char *text;

		json_object_set_new(o, "redis", json_string(redis_where(d->r)));
		json_object_set_new(o, "ok", json_boolean(findings_n_bad(d->f) == 0));
		json_object_set_new(o, "findings", findings_json(d->f));
		text = json_dumps(o, JSON_COMPACT);
		buf_addf(&out, "%s\n", text);
		free(text);
		json_decref(o);
	} else {
		findings_print(d->f, &out);
	}
	out_write(&out);
	buf_release(&out);
}

static int examine(struct ctl *c, struct doctor *d, const struct parts *queues, size_t n)
{
	size_t n_bad;
	int rc;

	d->r = redis_open(&c->target, d->e);
	if (!d->r)
		return -1;
	redis_be_hasty(d->r, true); /* a slot that moves is what is to be seen */
	d->f = findings_new();
	d->reach = (struct reach){.redis = d->r, .takes_single = true};
	rc = look(d, queues, n);
	n_bad = findings_n_bad(d->f);
	if (rc == 0) {
		print(c, d);
		if (n_bad > 0)
			rc = err_set(d->e, EXIT_FORCED, "%zu finding%s; see above", n_bad,
				     n_bad == 1 ? "" : "s");
	}
	findings_free(d->f);
	strv_release(&d->seen);
	reach_release(&d->reach);
	redis_close(d->r);
	return rc;
}

int verb_doctor(struct ctl *c, struct err *e)
{
	const struct options *o = c->options;
	struct doctor d = {.e = e, .conf = target_conf(&c->target, e)};
	struct parts *queues;
	size_t n = 0, n_queues;
	int rc = 0;

	if (!d.conf)
		return -1;
	n_queues = o->n_args ? 1 : conf_n_queues(d.conf);
	queues = xcalloc(n_queues + 1, sizeof(*queues));
	for (size_t i = 0; i < n_queues && rc == 0; i++) {
		const char *name = o->n_args ? o->args[0] : conf_queue_at(d.conf, i)->name;

		rc = target_parts(&c->target, name, &queues[i], e);
		n += rc == 0;
	}
	if (rc == 0)
		rc = examine(c, &d, queues, n);
	for (size_t i = 0; i < n; i++)
		parts_release(&queues[i]);
	free(queues);
	return rc;
}
