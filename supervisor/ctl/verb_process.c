/* verb_process.c - verbs that the supervisor carries out: ask, show the progress, tell the end. */
#include <jansson.h>

#include "client.h"
#include "ctl.h"
#include "out.h"

#define QUICK_MS 10000

static void say(void *arg ATTR_UNUSED, const char *text)
{
	fprintf(stderr, "%s\n", text);
}

/* Steals `request`. With waiting there is no limit: a task may run for hours. */
static int carry_out(struct ctl *c, json_t *request, bool waits, const char *done, struct err *e)
{
	struct client *client = target_open(&c->target, e);
	json_t *result;
	int rc = 0;

	if (!client) {
		json_decref(request);
		return -1;
	}
	if (waits)
		json_object_set_new(request, "wait", json_boolean(!c->options->no_wait));
	result = client_ask(client, request, waits ? -1 : QUICK_MS, say, NULL, e);
	client_close(client);
	if (!result)
		return -1;
	if (json_is_true(json_object_get(result, "forced")))
		rc = err_set(e, EXIT_FORCED,
			     "done, but what still ran at the limit was stopped by signals; its "
			     "tasks were given back");
	else if (done)
		out_print("%s\n",
			  waits && c->options->no_wait ? "begun; see redisqctl status" : done);
	json_decref(result);
	return rc;
}

/* With the optional argument as "target". */
static int on_target(struct ctl *c, const char *verb, const char *done, struct err *e)
{
	const char *target = c->options->n_args ? c->options->args[0] : NULL;

	return carry_out(c, json_pack("{s:s,s:s?}", "verb", verb, "target", target), true, done, e);
}

static int simple(struct ctl *c, const char *verb, const char *done, struct err *e)
{
	return carry_out(c, json_pack("{s:s}", "verb", verb), false, done, e);
}

int verb_ping(struct ctl *c, struct err *e)
{
	return simple(c, "ping", "pong", e);
}

int verb_reload(struct ctl *c, struct err *e)
{
	return carry_out(c, json_pack("{s:s}", "verb", "reload"), true, "reloaded", e);
}

int verb_stop(struct ctl *c, struct err *e)
{
	return on_target(c, "stop", "stopped", e);
}

int verb_start(struct ctl *c, struct err *e)
{
	return on_target(c, "start", "started", e);
}

int verb_restart(struct ctl *c, struct err *e)
{
	return on_target(c, "restart", "restarted", e);
}

static bool is_count(const char *s)
{
	if (*s == '+' || *s == '-')
		s++;
	return *s && strspn(s, "0123456789") == strlen(s) && strlen(s) < 6;
}

int verb_scale(struct ctl *c, struct err *e)
{
	const struct options *o = c->options;
	const char *workers = o->args[o->n_args - 1];
	const char *queue = o->n_args == 2 ? o->args[0] : NULL;

	if (!is_count(workers))
		return err_set(e, EXIT_USAGE,
			       "scale %s: not a number of workers; say scale [QUEUE] 4, +1 or -1",
			       workers);
	return carry_out(
		c, json_pack("{s:s,s:s?,s:s}", "verb", "scale", "queue", queue, "workers", workers),
		true, "scaled", e);
}

int verb_reopen(struct ctl *c, struct err *e)
{
	return simple(c, "reopen-logs", "logs reopened", e);
}

int verb_quiet(struct ctl *c, struct err *e)
{
	return simple(c, "quiet", "quiet: nothing new is fetched until redisqctl resume", e);
}

int verb_resume(struct ctl *c, struct err *e)
{
	return simple(c, "resume", "resumed", e);
}

int verb_kill(struct ctl *c, struct err *e)
{
	return carry_out(c, json_pack("{s:s,s:b}", "verb", "kill", "fast", c->options->fast), true,
			 "the supervisor has ended", e);
}
