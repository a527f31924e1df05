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

/* The server that has what is asked about now, unless it was looked at before. */
static int look_at_node(struct doctor *d)
{
	const char *where = redis_where(d->r);

	for (size_t i = 0; i < d->seen.n; i++)
		if (strcmp(d->seen.v[i], where) == 0)
			return 0;
	strv_add(&d->seen, where);
	findings_about(d->f, NULL);
	return doctor_server(d);
}

/* Of a cluster the nodes that have the queue, one after the other. */
static int look_at_nodes(struct doctor *d, const struct parts *p)
{
	int rc = 0;

	for (size_t i = 0; i < p->n && rc == 0; i++) {
		rc = redis_serve(d->r, &p->v[i], d->e);
		if (rc == 0)
			rc = look_at_node(d);
	}
	return rc;
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
	struct keys k;
	int rc = 0;

	for (size_t i = 0; i < p->n && rc == 0; i++) {
		findings_about_partition(d->f, p->is_spread ? (int)i : PARTS_ANY);
		keys_init(&k, p->v[i].name);
		rc = redis_serve(d->r, &p->v[i], d->e);
		if (rc == 0)
			rc = room(d, &p->v[i], &k);
		keys_release(&k);
	}
	findings_about_partition(d->f, PARTS_ANY);
	if (p->is_spread)
		findings_fold(d->f, from, p->n);
	return rc;
}

static int look_at_queue(struct doctor *d, const struct parts *p)
{
	d->audit = (struct audit){.say = on_account, .arg = d};
	d->is_audited = true;
	findings_about(d->f, parts_name(p));
	if (look_at_each(d, p, doctor_cluster) != 0 || look_at_each(d, p, doctor_queue) != 0 ||
	    look_at_each(d, p, doctor_list) != 0)
		return -1;
	if (d->is_audited)
		audit_say_sum(&d->audit, parts_name(p));
	if (doctor_parts(d, p) != 0 || doctor_names(d, p) != 0)
		return -1;
	return look_at_each(d, p, doctor_needs);
}

static int look(struct doctor *d, const struct parts *queues, size_t n)
{
	const struct conf_queue *first = n > 0 ? &queues[0].v[0] : NULL;
	struct keys k;
	int rc = 0;

	/* Without a queue any node of a cluster will do. */
	if (n == 0 || !redis_is_cluster(d->r))
		rc = look_at_node(d);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = look_at_nodes(d, &queues[i]);
	if (rc == 0 && first) {
		keys_init(&k, first->name);
		rc = redis_serve(d->r, first, d->e);
		if (rc == 0)
			rc = doctor_options(d, first, &k);
		keys_release(&k);
	}
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
	redis_be_hasty(d->r); /* a slot that moves is what is to be seen */
	d->f = findings_new();
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
