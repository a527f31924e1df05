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

static int look_at_queue(struct doctor *d, const struct conf_queue *q)
{
	struct keys k;
	int rc;

	if (redis_serve(d->r, q, d->e) != 0)
		return -1;
	keys_init(&k, q->name);
	findings_about(d->f, q->name);
	rc = doctor_queue(d, q, &k);
	if (rc == 0)
		rc = doctor_names(d, q);
	if (rc == 0)
		rc = doctor_needs(d, q, &k);
	keys_release(&k);
	return rc;
}

static int look(struct doctor *d, const struct conf_queue *const *queues, size_t n)
{
	struct keys k;
	int rc = doctor_server(d);

	if (rc == 0 && n > 0) {
		keys_init(&k, queues[0]->name);
		rc = redis_serve(d->r, queues[0], d->e);
		if (rc == 0)
			rc = doctor_options(d, queues[0], &k);
		keys_release(&k);
	}
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = look_at_queue(d, queues[i]);
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

int verb_doctor(struct ctl *c, struct err *e)
{
	const struct options *o = c->options;
	struct doctor d = {.e = e, .conf = target_conf(&c->target, e)};
	const struct conf_queue **queues;
	size_t n_bad;
	size_t n = 0;
	int rc = -1;

	if (!d.conf)
		return -1;
	queues = xcalloc(conf_n_queues(d.conf) + 1, sizeof(*queues));
	if (o->n_args && !(queues[n++] = target_queue(&c->target, o->args[0], e))) {
		free(queues);
		return -1;
	}
	for (size_t i = 0; !o->n_args && i < conf_n_queues(d.conf); i++)
		queues[n++] = conf_queue_at(d.conf, i);
	d.r = redis_open(&c->target, e);
	if (d.r) {
		d.f = findings_new();
		rc = look(&d, queues, n);
		n_bad = findings_n_bad(d.f);
		if (rc == 0) {
			print(c, &d);
			if (n_bad > 0)
				rc = err_set(e, EXIT_FORCED, "%zu finding%s; see above", n_bad,
					     n_bad == 1 ? "" : "s");
		}
		findings_free(d.f);
		redis_close(d.r);
	}
	free(queues);
	return rc;
}
