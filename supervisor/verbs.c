/*
 * verbs.c - what each verb of the control socket does (control.txt is the contract). A verb
 * changes what is wanted and, with "wait", is answered when it is so (facts.h).
 *
 * Every member of a request is checked before the verb begins: one of another type than it should
 * have, or one the verb does not have, must never read as "none given", which means "all".
 */
#include "facts.h"
#include "log.h"
#include "suggest.h"
#include "supervisor.h"

struct request {
	struct control_call *call;
	json_t *json; /* borrowed; not changed */
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

static void no_such_queue(struct supervisor *sv, struct request *r, const char *name)
{
	struct suggest near = {0};
	struct list *it;

	list_each (it, &sv->fleets)
		suggest_try(&near, name, list_entry(it, struct fleet, link)->queue);
	if (near.word)
		control_fail(r->call, EXIT_USAGE, "no queue %s; did you mean %s?", name, near.word);
	else
		control_fail(r->call, EXIT_USAGE,
			     "no queue or slot %s; redisqctl status lists them", name);
}

/* "demo, video" */
static void add_queues(struct supervisor *sv, struct buf *out)
{
	struct list *it;

	list_each (it, &sv->fleets)
		buf_addf(out, "%s%s", out->len ? ", " : "",
			 list_entry(it, struct fleet, link)->queue);
}

/* N alone. False: answered already. */
static bool find_slot_number(struct supervisor *sv, struct request *r, int n, struct target *t)
{
	struct buf queues = BUF_INIT;

	if (n_fleets(sv) == 1) {
		t->queue = xstrdup(first_fleet(sv)->queue);
		t->slot = n;
		return true;
	}
	add_queues(sv, &queues);
	control_fail(r->call, EXIT_USAGE, "slot %d of which queue? Say QUEUE/%d, of %s", n, n,
		     queues.len ? queues.data : "none");
	buf_release(&queues);
	return false;
}

static bool find_slot_integer(struct supervisor *sv, struct request *r, json_int_t n,
			      struct target *t)
{
	if (n >= 0 && n < FLEET_WORKERS_MAX)
		return find_slot_number(sv, r, (int)n, t);
	control_fail(r->call, EXIT_USAGE, "no slot %lld; redisqctl status lists them",
		     (long long)n);
	return false;
}

/* QUEUE, QUEUE/N or N; a queue's whole name comes first. False: answered already. */
static bool find_named(struct supervisor *sv, struct request *r, const char *text, struct target *t)
{
	const char *slash = strrchr(text, '/');

	if (supervisor_fleet(sv, text)) {
		t->queue = xstrdup(text);
		return true;
	}
	if (slot_number(text) >= 0)
		return find_slot_number(sv, r, slot_number(text), t);
	if (!slash || slot_number(slash + 1) < 0) {
		no_such_queue(sv, r, text);
		return false;
	}
	t->queue = xmemdup0(text, (size_t)(slash - text));
	t->slot = slot_number(slash + 1);
	if (supervisor_fleet(sv, t->queue))
		return true;
	no_such_queue(sv, r, t->queue);
	target_release(t);
	return false;
}

/* null or none = all, a name, or a number: a slot. False: answered already. */
static bool find_target(struct supervisor *sv, struct request *r, struct target *t)
{
	const json_t *given = json_object_get(r->json, "target");
	const struct fleet *f;
	bool found = true;

	*t = (struct target){.slot = -1};
	if (json_is_string(given))
		found = find_named(sv, r, json_string_value(given), t);
	else if (json_is_integer(given))
		found = find_slot_integer(sv, r, json_integer_value(given), t);
	if (!found || t->slot < 0)
		return found;
	f = supervisor_fleet(sv, t->queue);
	if ((size_t)t->slot < f->n_slots)
		return true;
	control_fail(r->call, EXIT_USAGE, "no slot %d of queue %s; redisqctl status lists them",
		     t->slot, t->queue);
	target_release(t);
	return false;
}

/* Answers now, or when the fact holds; takes over the target. */
static void answer(struct supervisor *sv, struct request *r, struct target *t,
		   const struct fact *fact)
{
	house_changed(&sv->house);
	if (r->wait) {
		waiters_add(sv, r->call, t, fact);
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
		answer(sv, r, &all, &fact_reloaded);
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
	target_each_slot(sv, &t, stop_slot, NULL);
	answer(sv, r, &t, &fact_stopped);
}

/* A slot that was scaled away and still finishes tasks. True: answered already. */
static bool is_surplus(struct supervisor *sv, struct request *r, struct target *t)
{
	const struct fleet *f = t->slot >= 0 ? supervisor_fleet(sv, t->queue) : NULL;

	if (!f || (unsigned)t->slot < fleet_wanted(f))
		return false;
	control_fail(r->call, EXIT_USAGE,
		     "%s/%d was scaled away and finishes its tasks; say redisqctl scale %s %d",
		     f->queue, t->slot, f->queue, t->slot + 1);
	target_release(t);
	return true;
}

static void start_slot(struct fleet *f ATTR_UNUSED, struct slot *s, void *arg ATTR_UNUSED)
{
	slot_unpark(s);
}

static void restart_slot(struct fleet *f, struct slot *s, void *arg ATTR_UNUSED)
{
	if (fleet_slot_wanted(f, s))
		fleet_roll_slot(f, s);
	else if (!f->leaving && s->index < fleet_wanted(f))
		slot_unpark(s);
}

/* A queue that was scaled to nothing has no slot that could begin. True: answered already. */
static bool is_empty(struct supervisor *sv, struct request *r, struct target *t)
{
	const struct fleet *f = t->queue && t->slot < 0 ? supervisor_fleet(sv, t->queue) : NULL;

	if (!f || f->leaving || fleet_wanted(f) > 0)
		return false;
	control_fail(r->call, 1, "queue %s has 0 workers; say redisqctl scale %s N", f->queue,
		     f->queue);
	target_release(t);
	return true;
}

/* Both begin workers: not while all is ending, and not in slots that were scaled away. */
static void begin_slots(struct supervisor *sv, struct request *r, slot_visit_fn *begin,
			const struct fact *fact)
{
	struct target t;

	if (sv->mode >= MODE_DRAINING) {
		control_fail(r->call, 1, "the supervisor is draining; start it again afterwards");
		return;
	}
	if (!find_target(sv, r, &t) || is_surplus(sv, r, &t) || is_empty(sv, r, &t))
		return;
	target_each_slot(sv, &t, begin, NULL);
	answer(sv, r, &t, fact);
}

static void do_start(struct supervisor *sv, struct request *r)
{
	begin_slots(sv, r, start_slot, &fact_started);
}

static void do_restart(struct supervisor *sv, struct request *r)
{
	begin_slots(sv, r, restart_slot, &fact_restarted);
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

/* The queue to be scaled; NULL: answered already. */
static struct fleet *fleet_to_scale(struct supervisor *sv, struct request *r)
{
	const char *queue = text_of(r, "queue");
	struct fleet *f = queue ? supervisor_fleet(sv, queue) : first_fleet(sv);
	struct buf queues = BUF_INIT;

	if (!f && queue) {
		no_such_queue(sv, r, queue);
	} else if (!f || (!queue && n_fleets(sv) != 1)) {
		add_queues(sv, &queues);
		control_fail(r->call, EXIT_USAGE, "which queue? Say redisqctl scale QUEUE N, of %s",
			     queues.len ? queues.data : "none");
		buf_release(&queues);
		f = NULL;
	} else if (f->leaving) {
		control_fail(r->call, 1, "queue %s is draining", f->queue);
		f = NULL;
	}
	return f;
}

static void do_scale(struct supervisor *sv, struct request *r)
{
	struct fleet *f = fleet_to_scale(sv, r);
	const json_t *given = json_object_get(r->json, "workers");
	struct target t = {.slot = -1};
	char number[24];
	const char *workers = json_string_value(given);
	int n;

	if (!f)
		return;
	if (json_is_integer(given)) {
		snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(given));
		workers = json_integer_value(given) < 0 ? "a negative number" : number;
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
	log_info("queue %s: %d worker%s wanted", f->queue, n, n == 1 ? "" : "s");
	t.queue = xstrdup(f->queue);
	answer(sv, r, &t, &fact_scaled);
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
	struct target all = {.slot = -1};
	bool no_wait = json_is_false(json_object_get(r->json, "wait"));

	if (json_is_true(json_object_get(r->json, "fast")))
		supervisor_stop(sv);
	else
		supervisor_drain(sv);
	if (no_wait)
		control_done(r->call, NULL);
	else
		waiters_add(sv, r->call, &all, &fact_ended);
}

/* ------------------------------------------------------------------------------ the requests */

enum member_types {
	TAKES_TEXT = 1 << 0,
	TAKES_NUMBER = 1 << 1,
	TAKES_BOOL = 1 << 2,
};

#define MEMBERS_MAX 3

struct member {
	const char *name;
	unsigned types; /* null is good for each */
};

#define WAIT \
	{ \
		"wait", TAKES_BOOL \
	}
#define TARGET \
	{ \
		"target", TAKES_TEXT | TAKES_NUMBER \
	}

static const struct verb {
	const char *name;
	void (*run)(struct supervisor *sv, struct request *r);
	struct member members[MEMBERS_MAX];
} verbs[] = {
	{"ping", do_ping, {WAIT}},
	{"status", do_status, {WAIT}},
	{"config", do_config, {WAIT}},
	{"reload", do_reload, {WAIT}},
	{"stop", do_stop, {WAIT, TARGET}},
	{"start", do_start, {WAIT, TARGET}},
	{"restart", do_restart, {WAIT, TARGET}},
	{"scale", do_scale, {WAIT, {"queue", TAKES_TEXT}, {"workers", TAKES_TEXT | TAKES_NUMBER}}},
	{"reopen-logs", do_reopen_logs, {WAIT}},
	{"quiet", do_quiet, {WAIT}},
	{"resume", do_resume, {WAIT}},
	{"kill", do_kill, {WAIT, {"fast", TAKES_BOOL}}},
};

#undef WAIT
#undef TARGET

static bool is_taken(const struct member *m, const json_t *value)
{
	if (json_is_null(value))
		return true;
	return ((m->types & TAKES_TEXT) && json_is_string(value)) ||
	       ((m->types & TAKES_NUMBER) && json_is_integer(value)) ||
	       ((m->types & TAKES_BOOL) && json_is_boolean(value));
}

/* "a text or a whole number" */
static void add_types(struct buf *out, unsigned types)
{
	static const char *const words[] = {"a text", "a whole number", "true or false"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (types & (1U << i))
			buf_addf(out, "%s%s", out->len ? " or " : "", words[i]);
}

/* Every member is one the verb has, and of its type. False: answered already. */
static bool check_members(const struct verb *v, struct request *r)
{
	void *it = json_object_iter(r->json);

	for (; it; it = json_object_iter_next(r->json, it)) {
		const char *name = json_object_iter_key(it);
		const struct member *m = NULL;
		struct buf types = BUF_INIT;

		if (strcmp(name, "verb") == 0)
			continue;
		for (size_t i = 0; i < MEMBERS_MAX && v->members[i].name; i++)
			if (strcmp(v->members[i].name, name) == 0)
				m = &v->members[i];
		if (m && is_taken(m, json_object_iter_value(it)))
			continue;
		if (m)
			add_types(&types, m->types);
		if (m)
			control_fail(r->call, EXIT_USAGE, "%s: \"%s\" takes %s or null", v->name,
				     name, types.data);
		else
			control_fail(r->call, EXIT_USAGE,
				     "%s has no \"%s\"; is redisqctl newer than the supervisor?",
				     v->name, name);
		buf_release(&types);
		return false;
	}
	return true;
}

void supervisor_request(void *arg, struct control_call *call, const char *name, json_t *request)
{
	struct request r = {
		.call = call,
		.json = request,
		.wait = json_is_true(json_object_get(request, "wait")),
	};

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (strcmp(verbs[i].name, name) != 0)
			continue;
		if (check_members(&verbs[i], &r))
			verbs[i].run(arg, &r);
		return;
	}
	control_fail(call, EXIT_USAGE,
		     "the supervisor knows no verb %s; is redisqctl newer than it?", name);
}
