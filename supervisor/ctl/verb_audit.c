/*
 * verb_audit.c - does the account of a queue add up? Every accepted task is done, dead, dropped,
 * waiting, running, delayed or held; and what belongs together is there together. One script looks
 * at all of it at one moment, so that a busy queue can be audited too. Exit 1 and a line for each
 * discrepancy.
 */
#include "audit.h"
#include "ctl.h"
#include "keys.h"
#include "out.h"
#include "redis.h"

#define LOOK_AT_MOST "10000"

/* What has to be 0, and what it means when it is not. */
static const struct {
	const char *name;
	const char *what;
	const char *on_list; /* NULL: the same */
} zeros[] = {
	{"stranded",
	 "entries were handed out but are pending for nobody, and will not run: somebody "
	 "used XACK, XGROUP DELCONSUMER or XGROUP SETID; add them again",
	 "entries are in nobody's hands and nothing in the list refers to them, so they will not "
	 "run: somebody used LREM, LTRIM or a POP; add them again"},
	{"ghosts", "running tasks have lost their entry: somebody used XDEL or XTRIM",
	 "running tasks have lost their entry: somebody used HDEL"},
	{"delayed_without_body", "delayed tasks have lost their body: they end as body_missing",
	 NULL},
	{"bodies_without_task", "bodies of delayed tasks belong to no task: remove them by HDEL",
	 NULL},
	{"records_of_crashes_without_task", "crash records belong to no task: remove them by HDEL",
	 NULL},
	{"checkpoints_without_task", "checkpoints belong to no task: remove them by HDEL", NULL},
	{"progress_without_task", "notes of progress belong to no task: remove them by HDEL", NULL},
};

static int64_t number(const redisReply *list, const char *name)
{
	const redisReply *r = redis_field(list, name);
	struct slice text = redis_text(r);

	return text.len ? strtoll(text.data, NULL, 10) : redis_int(r, 0);
}

static void say(struct audit *a, const char *queue, bool is_bad, const char *fmt, ...)
	ATTR_PRINTF(4, 5);
static void say(struct audit *a, const char *queue, bool is_bad, const char *fmt, ...)
{
	struct buf text = BUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	buf_vaddf(&text, fmt, ap);
	va_end(ap);
	a->n_bad += is_bad;
	a->say(a->arg, queue, is_bad, text.data);
	buf_release(&text);
}

static void compare(struct audit *a, const redisReply *all, const struct conf_queue *q,
		    bool on_list)
{
	int64_t places = number(all, "length") + number(all, "delayed") + number(all, "held") +
			 number(all, "dead") + number(all, "done") + number(all, "dropped");
	int64_t added = number(all, "added");
	int64_t accepted = added - number(all, "readded");
	int64_t running = number(all, "pending") - number(all, "ghosts");
	int64_t waiting = number(all, "length") - running;
	int64_t apart = places < accepted ? accepted - places : places - accepted;

	for (size_t i = 0; i < ARRAY_LEN(zeros); i++) {
		int64_t n = number(all, zeros[i].name);

		if (n > 0)
			say(a, q->name, true, "%lld %s", (long long)n,
			    on_list && zeros[i].on_list ? zeros[i].on_list : zeros[i].what);
	}
	if (added == 0 || q->start == CONF_START_END || q->on_done == CONF_DONE_ACK)
		say(a, q->name, false,
		    "%lld tasks in all places; how many were accepted cannot be told "
		    "here, so trimming would not be seen",
		    (long long)places);
	else if (places < accepted)
		say(a, q->name, true,
		    "accepted %lld, found %lld: %lld were removed from the stream "
		    "before they ran (XTRIM, XDEL, or a producer's MAXLEN)",
		    (long long)accepted, (long long)places, (long long)apart);
	else if (places > accepted)
		say(a, q->name, true,
		    "accepted %lld, found %lld: %lld too many; were counters or "
		    "the stream deleted by hand?",
		    (long long)accepted, (long long)places, (long long)apart);
	else
		say(a, q->name, false,
		    "accepted %lld = done %lld + dead %lld + dropped %lld + waiting %lld + "
		    "running %lld + delayed %lld + held %lld",
		    (long long)accepted, (long long)number(all, "done"),
		    (long long)number(all, "dead"), (long long)number(all, "dropped"),
		    (long long)waiting, (long long)running, (long long)number(all, "delayed"),
		    (long long)number(all, "held"));
}

int audit_queue(struct audit *a, struct redis *r, const struct conf_queue *q, struct err *e)
{
	struct keys k;
	redisReply *all;
	bool leaves = q->on_done == CONF_DONE_DELETE && q->start != CONF_START_END;

	keys_init(&k, q->name);
	{
		const struct rconn_arg argv[] = {
			ARG(k.stream), ARG(k.delayed),    ARG(k.bodies),
			ARG(k.dead),   ARG(k.held),       ARG(k.counters),
			ARG(k.ckpt),   ARG(k.crash),      ARG(k.progress),
			ARG(q->group), ARG(LOOK_AT_MOST), ARG(leaves ? "1" : "0")};

		all = redis_script(r, e, SCRIPT_AUDIT, 9, ARRAY_LEN(argv), argv);
	}
	keys_release(&k);
	if (!all)
		return -1;
	compare(a, all, q, redis_on_list(r));
	redis_free(all);
	return 0;
}

static void print(void *arg ATTR_UNUSED, const char *queue, bool is_bad ATTR_UNUSED,
		  const char *text)
{
	out_print("%s: %s\n", queue, text);
}

int verb_audit(struct ctl *c, struct err *e)
{
	const struct conf_queue *q = target_queue(&c->target, c->options->args[0], e);
	struct redis *r = redis_open_queue(&c->target, q, e);
	struct audit a = {.say = print};
	int rc = r ? audit_queue(&a, r, q, e) : -1;

	redis_close(r);
	if (rc == 0 && a.n_bad)
		rc = err_set(e, EXIT_FORCED, "%s: %d discrepanc%s; see above", q->name, a.n_bad,
			     a.n_bad == 1 ? "y" : "ies");
	return rc;
}
