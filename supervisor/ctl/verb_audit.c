/*
 * verb_audit.c - does the account of a queue add up? Every accepted task is done, dead, dropped,
 * waiting, running, delayed or held; and what belongs together is there together. One script looks
 * at all of it at one moment, so that a busy queue can be audited too. Exit 1 and a line for each
 * discrepancy. Of a queue with partitions each is looked at by itself, since nothing crosses from
 * one to another, and the sum is theirs; without one whose node is away, and that is said.
 */
#include "audit.h"
#include "ctl.h"
#include "keys.h"
#include "out.h"
#include "reach.h"
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

static void add_up(struct account *sum, const struct account *one)
{
	sum->accepted += one->accepted;
	sum->places += one->places;
	sum->done += one->done;
	sum->dead += one->dead;
	sum->dropped += one->dropped;
	sum->waiting += one->waiting;
	sum->running += one->running;
	sum->delayed += one->delayed;
	sum->held += one->held;
	sum->is_told |= one->is_told;
	sum->is_vain |= !one->is_told && one->places > 0;
}

static void read_account(const redisReply *all, const struct conf_queue *q, struct account *one)
{
	int64_t added = number(all, "added");
	int64_t length = number(all, "length");

	*one = (struct account){
		.accepted = added - number(all, "readded"),
		.done = number(all, "done"),
		.dead = number(all, "dead"),
		.dropped = number(all, "dropped"),
		.running = number(all, "pending") - number(all, "ghosts"),
		.delayed = number(all, "delayed"),
		.held = number(all, "held"),
		.is_told = added != 0 && q->start != CONF_START_END && q->on_done != CONF_DONE_ACK,
	};
	one->waiting = length - one->running;
	one->places = length + one->delayed + one->held + one->dead + one->done + one->dropped;
}

static void compare(struct audit *a, const redisReply *all, const struct conf_queue *q,
		    bool on_list)
{
	struct account one;

	for (size_t i = 0; i < ARRAY_LEN(zeros); i++) {
		int64_t n = number(all, zeros[i].name);

		if (n > 0)
			say(a, q->name, true, "%lld %s", (long long)n,
			    on_list && zeros[i].on_list ? zeros[i].on_list : zeros[i].what);
	}
	read_account(all, q, &one);
	add_up(&a->sum, &one);
	if (!one.is_told || one.places == one.accepted)
		return;
	a->is_apart = true;
	if (one.places < one.accepted)
		say(a, q->name, true,
		    "accepted %lld, found %lld: %lld were removed from the stream "
		    "before they ran (XTRIM, XDEL, or a producer's MAXLEN)",
		    (long long)one.accepted, (long long)one.places,
		    (long long)(one.accepted - one.places));
	else
		say(a, q->name, true,
		    "accepted %lld, found %lld: %lld too many; were counters or "
		    "the stream deleted by hand?",
		    (long long)one.accepted, (long long)one.places,
		    (long long)(one.places - one.accepted));
}

void audit_say_sum(struct audit *a, const char *queue)
{
	const struct account *s = &a->sum;

	if (a->is_apart)
		return;
	if (!s->is_told || s->is_vain)
		say(a, queue, false,
		    "%lld task%s in all places; how many were accepted cannot be told "
		    "here, so trimming would not be seen",
		    (long long)s->places, s->places == 1 ? "" : "s");
	else
		say(a, queue, false,
		    "accepted %lld = done %lld + dead %lld + dropped %lld + waiting %lld + "
		    "running %lld + delayed %lld + held %lld",
		    (long long)s->accepted, (long long)s->done, (long long)s->dead,
		    (long long)s->dropped, (long long)s->waiting, (long long)s->running,
		    (long long)s->delayed, (long long)s->held);
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

static int look_at_all(struct audit *a, struct redis *r, const struct parts *p, struct err *e)
{
	struct reach reach = {.redis = r};
	enum reach_result got = REACH_THERE;
	struct buf without = BUF_INIT;
	int rc = -1;

	redis_link_all(r, p);
	for (size_t i = 0; i < p->n && got != REACH_END; i++) {
		got = reach_turn_to(&reach, p, i, e);
		if (got == REACH_THERE && audit_queue(a, r, &p->v[i], e) != 0)
			got = reach_failed(&reach, p, i, e);
	}
	if (got != REACH_END) {
		if (reach_n_lost(&reach, p) < p->n)
			audit_say_sum(a, parts_name(p));
		reach_add_remark(&reach, p, &without);
		out_write(&without);
		rc = reach_end(&reach, e);
	}
	buf_release(&without);
	reach_release(&reach);
	return rc;
}

int verb_audit(struct ctl *c, struct err *e)
{
	struct audit a = {.say = print};
	struct parts p;
	struct redis *r = redis_open_parts(&c->target, c->options->args[0], &p, e);
	int rc = r ? look_at_all(&a, r, &p, e) : -1;

	redis_close(r);
	if (rc == 0 && a.n_bad)
		rc = err_set(e, EXIT_FORCED, "%s: %d discrepanc%s; see above", parts_name(&p),
			     a.n_bad, a.n_bad == 1 ? "y" : "ies");
	parts_release(&p);
	return rc;
}
