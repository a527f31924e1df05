/*
 * verb_audit.c - does the account of a queue add up? Every accepted task is done, dead, dropped,
 * waiting, running, delayed or held; and what belongs together is there together. One script looks
 * at all of it at one moment, so that a busy queue can be audited too. Exit 1 and a line for each
 * discrepancy.
 */
#include "ctl.h"
#include "keys.h"
#include "out.h"
#include "redis.h"

#define LOOK_AT_MOST "10000"

/* What has to be 0, and what it means when it is not. */
static const struct {
	const char *name;
	const char *what;
} zeros[] = {
	{"stranded",
	 "entries were handed out but are pending for nobody, and will not run: somebody "
	 "used XACK, XGROUP DELCONSUMER or XGROUP SETID; add them again"},
	{"ghosts", "running tasks have lost their entry: somebody used XDEL or XTRIM"},
	{"delayed_without_body", "delayed tasks have lost their body: they end as body_missing"},
	{"bodies_without_task", "bodies of delayed tasks belong to no task: remove them by HDEL"},
	{"records_of_crashes_without_task", "crash records belong to no task: remove them by HDEL"},
	{"checkpoints_without_task", "checkpoints belong to no task: remove them by HDEL"},
	{"progress_without_task", "notes of progress belong to no task: remove them by HDEL"},
};

static int64_t number(const redisReply *list, const char *name)
{
	const redisReply *r = redis_field(list, name);
	struct slice text = redis_text(r);

	return text.len ? strtoll(text.data, NULL, 10) : redis_int(r, 0);
}

static int compare(const redisReply *all, const struct conf_queue *q, struct buf *out)
{
	int64_t places = number(all, "length") + number(all, "delayed") + number(all, "held") +
			 number(all, "dead") + number(all, "done") + number(all, "dropped");
	int64_t added = number(all, "added");
	int64_t accepted = added - number(all, "readded");
	int64_t running = number(all, "pending") - number(all, "ghosts");
	int64_t waiting = number(all, "length") - running;
	int64_t apart = places < accepted ? accepted - places : places - accepted;
	int n_bad = 0;

	for (size_t i = 0; i < ARRAY_LEN(zeros); i++) {
		int64_t n = number(all, zeros[i].name);

		if (n > 0) {
			buf_addf(out, "%s: %lld %s\n", q->name, (long long)n, zeros[i].what);
			n_bad++;
		}
	}
	if (added == 0 || q->start == CONF_START_END || q->on_done == CONF_DONE_ACK) {
		buf_addf(out,
			 "%s: %lld tasks in all places; how many were accepted cannot be told "
			 "here, so trimming would not be seen\n",
			 q->name, (long long)places);
	} else if (places != accepted) {
		buf_addf(out,
			 places < accepted
				 ? "%s: accepted %lld, found %lld: %lld were removed from the "
				   "stream "
				   "before they ran (XTRIM, XDEL, or a producer's MAXLEN)\n"
				 : "%s: accepted %lld, found %lld: %lld too many; were counters or "
				   "the stream deleted by hand?\n",
			 q->name, (long long)accepted, (long long)places, (long long)apart);
		n_bad++;
	} else {
		buf_addf(
			out,
			"%s: accepted %lld = done %lld + dead %lld + dropped %lld + waiting %lld + "
			"running %lld + delayed %lld + held %lld\n",
			q->name, (long long)accepted, (long long)number(all, "done"),
			(long long)number(all, "dead"), (long long)number(all, "dropped"),
			(long long)waiting, (long long)running, (long long)number(all, "delayed"),
			(long long)number(all, "held"));
	}
	return n_bad;
}

static int audit(struct redis *r, const struct conf_queue *q, struct err *e)
{
	struct buf out = BUF_INIT;
	struct keys k;
	redisReply *all;
	bool leaves = q->on_done == CONF_DONE_DELETE && q->start != CONF_START_END;
	int n_bad = 0;

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
	n_bad = compare(all, q, &out);
	redis_free(all);
	out_write(&out);
	buf_release(&out);
	return n_bad ? err_set(e, EXIT_FORCED, "%s: %d discrepanc%s; see above", q->name, n_bad,
			       n_bad == 1 ? "y" : "ies")
		     : 0;
}

int verb_audit(struct ctl *c, struct err *e)
{
	const struct conf_queue *q = target_queue(&c->target, c->options->args[0], e);
	struct redis *r = q ? redis_open(&c->target, e) : NULL;
	int rc = r ? audit(r, q, e) : -1;

	if (r)
		redis_close(r);
	return rc;
}
