/*
 * verbs.c - what each verb of the control socket does (control.txt is the contract). A verb
 * changes what is wanted and, with "wait", is answered when it is so.
 */
#include "log.h"
#include "supervisor.h"

struct request {
	struct control_call *call;
	const json_t *json; /* borrowed */
	bool wait;
};

static const char *text_of(const struct request *r, const char *key)
{
	return json_string_value(json_object_get(r->json, key));
}

/* ---------------------------------------------------------------------------------- targets */

/* All digits: a number below the slot limit. */
static int slot_number(const char *text)
{
	char *end;
	long n;

	if (*text < '0' || *text > '9')
		return -1;
	n = strtol(text, &end, 10);
	return *end == '\0' && n < FLEET_WORKERS_MAX ? (int)n : -1;
}

static size_t n_fleets(struct supervisor *sv)
{
	struct list *it;
	size_t n = 0;

	list_each (it, &sv->fleets)
		n++;
	return n;
}

static struct fleet *first_fleet(struct supervisor *sv)
{
	return list_empty(&sv->fleets) ? NULL : list_entry(sv->fleets.next, struct fleet, link);
}

/* null, QUEUE, QUEUE/N or N; a queue's whole name comes first. False: answered already. */
static bool find_target(struct supervisor *sv, struct request *r, struct target *t)
{
	const char *text = text_of(r, "target");
	const char *slash = text ? strrchr(text, '/') : NULL;
	struct fleet *f;

	*t = (struct target){.slot = -1};
	if (!text)
		return true;
	if (supervisor_fleet(sv, text)) {
		t->queue = xstrdup(text);
		return true;
	}
	if (slot_number(text) >= 0) {
		if (n_fleets(sv) != 1) {
			control_fail(r->call, EXIT_USAGE,
				     "slot %s of which queue?; there are several, write QUEUE/%s",
				     text, text);
			return false;
		}
		t->queue = xstrdup(first_fleet(sv)->queue);
		t->slot = slot_number(text);
	} else if (slash && slot_number(slash + 1) >= 0) {
		t->queue = xmemdup0(text, (size_t)(slash - text));
		t->slot = slot_number(slash + 1);
	} else {
		control_fail(r->call, EXIT_USAGE,
			     "no queue or slot %s; redisqctl status lists them", text);
		return false;
	}
	f = supervisor_fleet(sv, t->queue);
	if (!f || (size_t)t->slot >= f->n_slots) {
		control_fail(r->call, EXIT_USAGE,
			     "no slot %d of queue %s; redisqctl status lists them", t->slot,
			     t->queue);
		target_release(t);
		return false;
	}
	return true;
}

typedef void slot_visit_fn(struct fleet *f, struct slot *s, void *arg);

static void each_slot(struct supervisor *sv, const struct target *t, slot_visit_fn *fn, void *arg)
{
	struct list *it;

	list_each (it, &sv->fleets) {
		struct fleet *f = list_entry(it, struct fleet, link);

		if (t->queue && strcmp(t->queue, f->queue) != 0)
			continue;
		for (size_t i = 0; i < f->n_slots; i++)
			if (t->slot < 0 || (size_t)t->slot == i)
				fn(f, f->slots[i], arg);
	}
}

/* -------------------------------------------------------------------------- facts to wait for */

static void count_processes(struct fleet *f ATTR_UNUSED, struct slot *s, void *arg)
{
	*(int *)arg += slot_has_process(s);
}

static enum waiter_answer are_gone(struct supervisor *sv, const struct target *t,
				   struct buf *why ATTR_UNUSED)
{
	int n = 0;

	each_slot(sv, t, count_processes, &n);
	return n == 0 ? WAITER_DONE : WAITER_NOT_YET;
}

struct readiness {
	bool all;
	struct buf *why;
};

static void look_ready(struct fleet *f, struct slot *s, void *arg)
{
	struct readiness *r = arg;
	const struct proc *p = s->current;

	if (!fleet_slot_wanted(f, s) || (p && p->state == PROC_READY))
		return;
	r->all = false;
	if (!p || r->why->len)
		return;
	if (p->state == PROC_PARKED)
		buf_addf(r->why, "%s/%u is parked: %s", f->queue, s->index,
			 p->refused ? p->refused : "crash loop; see redisqctl logs");
	else if (p->state == PROC_BACKOFF)
		buf_addf(r->why, "%s/%u died and waits for its next start; see redisqctl logs",
			 f->queue, s->index);
	else if (p->redis_wait)
		buf_addf(r->why, "%s/%u waits for Redis: %s", f->queue, s->index,
			 p->note ? p->note : "no reason given");
}

static enum waiter_answer are_ready(struct supervisor *sv, const struct target *t, struct buf *why)
{
	struct readiness r = {.all = true, .why = why};

	if (sv->mode >= MODE_DRAINING) {
		buf_adds(why, "the supervisor is draining");
		return WAITER_FAILED;
	}
	each_slot(sv, t, look_ready, &r);
	if (r.all)
		return WAITER_DONE;
	return why->len ? WAITER_FAILED : WAITER_NOT_YET;
}

/* The wanted ones are ready, the others gone. */
static void count_surplus(struct fleet *f, struct slot *s, void *arg)
{
	if (!fleet_slot_wanted(f, s))
		*(int *)arg += slot_has_process(s);
}

static enum waiter_answer are_scaled(struct supervisor *sv, const struct target *t, struct buf *why)
{
	int surplus = 0;
	enum waiter_answer ready = are_ready(sv, t, why);

	if (ready != WAITER_DONE)
		return ready;
	each_slot(sv, t, count_surplus, &surplus);
	return surplus == 0 ? WAITER_DONE : WAITER_NOT_YET;
}

static enum waiter_answer is_reloaded(struct supervisor *sv, const struct target *t ATTR_UNUSED,
				      struct buf *why)
{
	if (sv->mode >= MODE_DRAINING) {
		buf_adds(why, "the supervisor is draining");
		return WAITER_FAILED;
	}
	if (sv->reloading)
		return WAITER_NOT_YET;
	if (sv->last_reload.ok)
		return WAITER_DONE;
	buf_adds(why, sv->last_reload.error);
	return WAITER_FAILED;
}

static enum waiter_answer is_rolled(struct supervisor *sv, const struct target *t, struct buf *why)
{
	struct list *it;

	list_each (it, &sv->fleets) {
		const struct fleet *f = list_entry(it, struct fleet, link);

		if (t->queue && strcmp(t->queue, f->queue) != 0)
			continue;
		if (f->roll.active)
			return WAITER_NOT_YET;
		if (f->roll.failed && !why->len)
			buf_adds(why, f->roll.failed);
	}
	return why->len ? WAITER_FAILED : WAITER_DONE;
}

/* Rolled, and those that had been stopped are ready, too. */
static enum waiter_answer are_restarted(struct supervisor *sv, const struct target *t,
					struct buf *why)
{
	enum waiter_answer rolled = is_rolled(sv, t, why);

	return rolled == WAITER_DONE ? are_ready(sv, t, why) : rolled;
}

/* Answers now, or when `fn` says so; takes over the target. */
static void answer(struct supervisor *sv, struct request *r, struct target *t, waiter_fn *fn)
{
	house_changed(&sv->house);
	if (r->wait) {
		waiters_add(&sv->waiters, r->call, t, fn, fn == are_gone || fn == are_scaled);
		return;
	}
	target_release(t);
	control_done(r->call, NULL);
}

/* -------------------------------------------------------------------------------- the verbs */

static void do_ping(struct supervisor *sv ATTR_UNUSED, struct request *r)
{
	control_done(r->call, NULL);
}

static void do_status(struct supervisor *sv, struct request *r)
{
	json_t *status = supervisor_status(sv);

	if (status)
		control_done(r->call, status);
	else
		control_fail(r->call, 1, "the status cannot be written as JSON; see the log");
}

static void do_config(struct supervisor *sv, struct request *r)
{
	struct buf ini = BUF_INIT;
	json_t *result;

	conf_write_snapshot(sv->gen->conf, &ini);
	result = json_pack("{s:s%, s:s, s:b, s:s}", "snapshot", ini.data, ini.len, "log_dir",
			   sv->log_dir, "log_files", sv->log_files, "redis_from",
			   sv->redis_url ? "-e"
					 : conf_where(sv->gen->conf, CONF_REDIS, NULL, "url"));
	explicit_bzero(ini.data, ini.len);
	buf_release(&ini);
	if (result)
		control_done(r->call, result);
	else
		control_fail(r->call, 1, "the configuration is not UTF-8; give redisqctl -c FILE");
}

static void do_reload(struct supervisor *sv, struct request *r)
{
	struct target all = {.slot = -1};

	if (sv->mode >= MODE_DRAINING)
		control_fail(r->call, 1, "the supervisor is draining; start it again afterwards");
	else if (!supervisor_reload(sv))
		control_fail(r->call, EXIT_CONFIG, "%s; nothing was changed",
			     sv->last_reload.error);
	else
		answer(sv, r, &all, is_reloaded);
}

static void stop_slot(struct fleet *f ATTR_UNUSED, struct slot *s, void *arg ATTR_UNUSED)
{
	s->stopped = true;
}

/* What was forced earlier says nothing about this stop. */
static void forget_forced(struct supervisor *sv)
{
	if (sv->mode < MODE_DRAINING)
		sv->house.forced = false;
}

static void do_stop(struct supervisor *sv, struct request *r)
{
	struct target t;

	if (!find_target(sv, r, &t))
		return;
	forget_forced(sv);
	each_slot(sv, &t, stop_slot, NULL);
	answer(sv, r, &t, are_gone);
}

static void start_slot(struct fleet *f ATTR_UNUSED, struct slot *s, void *arg ATTR_UNUSED)
{
	slot_unpark(s);
}

static void do_start(struct supervisor *sv, struct request *r)
{
	struct target t;

	if (sv->mode >= MODE_DRAINING) {
		control_fail(r->call, 1, "the supervisor is draining; start it again afterwards");
		return;
	}
	if (!find_target(sv, r, &t))
		return;
	each_slot(sv, &t, start_slot, NULL);
	answer(sv, r, &t, are_ready);
}

static void restart_slot(struct fleet *f, struct slot *s, void *arg ATTR_UNUSED)
{
	if (fleet_slot_wanted(f, s))
		fleet_roll_slot(f, s);
	else if (!f->leaving && s->index < fleet_wanted(f))
		slot_unpark(s);
}

static void do_restart(struct supervisor *sv, struct request *r)
{
	struct target t;

	if (sv->mode >= MODE_DRAINING) {
		control_fail(r->call, 1, "the supervisor is draining; start it again afterwards");
		return;
	}
	if (!find_target(sv, r, &t))
		return;
	each_slot(sv, &t, restart_slot, NULL);
	answer(sv, r, &t, are_restarted);
}

/* "N", "+N", "-N" against what is wanted now; -1: not a number, or out of range. */
static int parse_workers(const char *text, unsigned now)
{
	char sign = *text == '+' || *text == '-' ? *text : '\0';
	int n = slot_number(sign ? text + 1 : text);

	if (n < 0)
		return strcmp(text, "512") == 0 ? FLEET_WORKERS_MAX : -1;
	if (sign == '+')
		n = (int)now + n;
	else if (sign == '-')
		n = (int)max_i64(0, (int64_t)now - n);
	return n <= FLEET_WORKERS_MAX ? n : -1;
}

static void do_scale(struct supervisor *sv, struct request *r)
{
	const char *queue = text_of(r, "queue");
	const char *workers = text_of(r, "workers");
	struct target t = {.slot = -1};
	struct fleet *f = queue ? supervisor_fleet(sv, queue) : first_fleet(sv);
	int n;

	if (!f) {
		control_fail(r->call, EXIT_USAGE, "no queue %s; redisqctl status lists them",
			     queue ? queue : "at all");
		return;
	}
	if (!queue && n_fleets(sv) != 1) {
		control_fail(r->call, EXIT_USAGE,
			     "which queue?; there are several: redisqctl scale "
			     "QUEUE N");
		return;
	}
	if (f->leaving) {
		control_fail(r->call, 1, "queue %s is draining", f->queue);
		return;
	}
	n = workers ? parse_workers(workers, fleet_wanted(f)) : -1;
	if (n < 0) {
		control_fail(r->call, EXIT_USAGE,
			     "%s is no number of workers; give N, +N or -N, %d at most",
			     workers ? workers : "nothing", FLEET_WORKERS_MAX);
		return;
	}
	forget_forced(sv);
	fleet_scale(f, n);
	log_info("queue %s: %d workers wanted", f->queue, n);
	t.queue = xstrdup(f->queue);
	answer(sv, r, &t, are_scaled);
}

static void do_reopen_logs(struct supervisor *sv, struct request *r)
{
	supervisor_reopen_logs(sv);
	control_done(r->call, NULL);
}

static void do_quiet(struct supervisor *sv, struct request *r)
{
	supervisor_set_quiet(sv, true);
	control_done(r->call, NULL);
}

static void do_resume(struct supervisor *sv, struct request *r)
{
	supervisor_set_quiet(sv, false);
	control_done(r->call, NULL);
}

static void do_kill(struct supervisor *sv, struct request *r)
{
	bool fast = json_is_true(json_object_get(r->json, "fast"));
	bool no_wait = json_is_false(json_object_get(r->json, "wait"));

	if (sv->kill_call || no_wait)
		control_done(r->call, NULL); /* the first one waits for the end */
	else
		sv->kill_call = r->call;
	if (fast)
		supervisor_stop(sv);
	else
		supervisor_drain(sv);
}

void supervisor_request(void *arg, struct control_call *call, const char *verb,
			const json_t *request)
{
	static const struct {
		const char *verb;
		void (*fn)(struct supervisor *sv, struct request *r);
	} verbs[] = {
		{"ping", do_ping},       {"status", do_status}, {"config", do_config},
		{"reload", do_reload},   {"stop", do_stop},     {"start", do_start},
		{"restart", do_restart}, {"scale", do_scale},   {"reopen-logs", do_reopen_logs},
		{"quiet", do_quiet},     {"resume", do_resume}, {"kill", do_kill},
	};
	struct request r = {
		.call = call,
		.json = request,
		.wait = json_is_true(json_object_get(request, "wait")),
	};

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (strcmp(verbs[i].verb, verb) == 0) {
			verbs[i].fn(arg, &r);
			return;
		}
	}
	control_fail(call, EXIT_USAGE,
		     "the supervisor knows no verb %s; is redisqctl newer than it?", verb);
}
