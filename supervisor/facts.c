/* facts.c - see facts.h. Looks at fleets and slots, changes nothing. */
#include "facts.h"
#include "supervisor.h"

#define NAMES_MAX 3 /* slots that are named before it says "..." */

void target_each_slot(const struct supervisor *sv, const struct target *t, slot_visit_fn *fn,
		      void *arg)
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

/* ---------------------------------------------------------------------------- who still runs */

/* Slots with processes that are to go, and their tasks. */
struct runners {
	bool surplus_only;
	int n_slots;
	int64_t n_tasks;
	struct buf names;
	const struct slot *again; /* borrowed: one that is wanted, NULL = none */
	const struct fleet *fleet;
};

static int64_t tasks_of(const struct proc *p)
{
	return p && p->board ? atomic_load(&p->board->running) : 0;
}

static void count_runner(struct fleet *f, struct slot *s, void *arg)
{
	struct runners *r = arg;
	struct list *it;

	if (fleet_slot_wanted(f, s)) {
		r->again = s;
		r->fleet = f;
		if (r->surplus_only)
			return;
	}
	if (!slot_has_process(s))
		return;
	if (++r->n_slots <= NAMES_MAX)
		buf_addf(&r->names, "%s%s/%u", r->names.len ? ", " : "", f->queue, s->index);
	else if (r->n_slots == NAMES_MAX + 1)
		buf_adds(&r->names, ", ...");
	r->n_tasks += tasks_of(s->current) + tasks_of(s->next);
	list_each (it, &s->olds)
		r->n_tasks += tasks_of(list_entry(it, struct proc, link));
}

static struct runners find_runners(const struct supervisor *sv, const struct target *t,
				   bool surplus_only)
{
	struct runners r = {.surplus_only = surplus_only, .names = BUF_INIT};

	target_each_slot(sv, t, count_runner, &r);
	return r;
}

/* "demo/0, demo/1: 3 tasks still run" */
static void say_runners(const struct runners *r, struct buf *why)
{
	buf_adds(why, r->names.data);
	if (r->n_tasks == 1)
		buf_adds(why, ": 1 task still runs");
	else if (r->n_tasks > 1)
		buf_addf(why, ": %lld tasks still run", (long long)r->n_tasks);
	else
		buf_adds(why, " to end");
}

static enum waiter_answer are_stopped(const struct supervisor *sv, const struct wish *w,
				      struct buf *why)
{
	struct runners r = find_runners(sv, &w->target, false);
	enum waiter_answer a = WAITER_NOT_YET;

	if (r.again) {
		buf_addf(why, "%s/%u was started again meanwhile", r.fleet->queue, r.again->index);
		a = WAITER_FAILED;
	} else if (r.n_slots == 0) {
		a = WAITER_DONE;
	} else {
		say_runners(&r, why);
	}
	buf_release(&r.names);
	return a;
}

/* ----------------------------------------------------------------------------- who is ready */

struct readiness {
	bool stopped_fails; /* being stopped is the contrary of what was asked for */
	bool failed;
	int n_missing;
	struct buf *why; /* borrowed */
};

/* Why a wanted slot will not be ready soon; false: it will. */
static bool add_obstacle(const struct fleet *f, const struct slot *s, struct buf *why)
{
	const struct proc *p = s->current;

	if (!p)
		return false;
	if (p->state == PROC_PARKED)
		buf_addf(why, "%s/%u is parked: %s", f->queue, s->index,
			 p->refused ? p->refused : "crash loop; see redisqctl logs");
	else if (p->state == PROC_BACKOFF)
		buf_addf(why, "%s/%u died and waits for its next start; see redisqctl logs",
			 f->queue, s->index);
	else if (p->redis_wait)
		buf_addf(why, "%s/%u waits for Redis: %s", f->queue, s->index,
			 p->note ? p->note : "no reason given");
	else
		return false;
	return true;
}

static void look_ready(struct fleet *f, struct slot *s, void *arg)
{
	struct readiness *r = arg;

	if (r->failed)
		return;
	if (r->stopped_fails && s->stopped && s->index < fleet_wanted(f)) {
		buf_clear(r->why);
		buf_addf(r->why, "%s/%u was stopped meanwhile", f->queue, s->index);
		r->failed = true;
		return;
	}
	if (!fleet_slot_wanted(f, s) || (s->current && s->current->state == PROC_READY))
		return;
	if (r->n_missing++ == 0) {
		r->failed = add_obstacle(f, s, r->why);
		if (!r->failed)
			buf_addf(r->why, "%s/%u to become ready", f->queue, s->index);
		return;
	}
	struct buf obstacle = BUF_INIT;

	if (add_obstacle(f, s, &obstacle)) {
		buf_clear(r->why);
		buf_add(r->why, obstacle.data, obstacle.len);
		r->failed = true;
	}
	buf_release(&obstacle);
}

/* Does the supervisor drain, or has the target's queue left? Then it never will be ready. */
static bool is_hopeless(const struct supervisor *sv, const struct target *t, struct buf *why)
{
	struct list *it;

	if (sv->mode >= MODE_DRAINING) {
		buf_adds(why, "the supervisor is draining");
		return true;
	}
	if (!t->queue)
		return false;
	list_each (it, &sv->fleets) {
		const struct fleet *f = list_entry(it, struct fleet, link);

		if (strcmp(f->queue, t->queue) == 0 && !f->leaving)
			return false;
	}
	buf_addf(why, "queue %s was removed by a reload meanwhile", t->queue);
	return true;
}

static enum waiter_answer look_at_ready(const struct supervisor *sv, const struct wish *w,
					bool stopped_fails, struct buf *why)
{
	struct readiness r = {.stopped_fails = stopped_fails, .why = why};

	if (is_hopeless(sv, &w->target, why))
		return WAITER_FAILED;
	target_each_slot(sv, &w->target, look_ready, &r);
	if (r.failed)
		return WAITER_FAILED;
	return r.n_missing == 0 ? WAITER_DONE : WAITER_NOT_YET;
}

static enum waiter_answer are_started(const struct supervisor *sv, const struct wish *w,
				      struct buf *why)
{
	return look_at_ready(sv, w, true, why);
}

static enum waiter_answer are_scaled(const struct supervisor *sv, const struct wish *w,
				     struct buf *why)
{
	enum waiter_answer ready = look_at_ready(sv, w, false, why);
	struct runners r;

	if (ready != WAITER_DONE)
		return ready;
	r = find_runners(sv, &w->target, true);
	if (r.n_slots > 0)
		say_runners(&r, why);
	buf_release(&r.names);
	return r.n_slots == 0 ? WAITER_DONE : WAITER_NOT_YET;
}

/* ------------------------------------------------------------------------- rolls and reloads */

/* What the roll's next step waits for. */
static void say_roll(const struct supervisor *sv, const struct fleet *f, struct buf *why)
{
	int max = conf_supervisor(sv->house.conf)->max_old_generations;
	const struct slot *canary = fleet_canary(f);

	if (f->roll.phase == ROLL_BACK) {
		buf_addf(why, "%s to go back to generation %lld", f->queue,
			 (long long)f->roll.gen->number);
		return;
	}
	if (f->roll.phase == ROLL_CANARY && canary && !canary->roll_pending) {
		buf_addf(why, "a task to show that the new handler works, in %s/%u", f->queue,
			 canary->index);
		return;
	}

	for (size_t i = 0; i < f->n_slots; i++) {
		const struct slot *s = f->slots[i];
		int n = slot_n_busy_olds(s);

		if (!s->roll_pending || (f->roll.phase == ROLL_CANARY && canary && canary != s))
			continue;
		if (!s->next && n >= max)
			buf_addf(why, "%s/%u: %d old worker%s still run%s tasks", f->queue,
				 s->index, n, n == 1 ? "" : "s", n == 1 ? "s" : "");
		else
			buf_addf(why, "the new worker of %s/%u to become ready", f->queue,
				 s->index);
		return;
	}
}

static enum waiter_answer is_reloaded(const struct supervisor *sv, const struct wish *w ATTR_UNUSED,
				      struct buf *why)
{
	struct list *it;

	if (sv->mode >= MODE_DRAINING) {
		buf_adds(why, "the supervisor is draining");
		return WAITER_FAILED;
	}
	if (!sv->reloading && sv->last_reload.rolled)
		return WAITER_DONE;
	if (!sv->reloading) {
		buf_adds(why, sv->last_reload.error);
		return WAITER_FAILED;
	}
	list_each (it, &sv->fleets) {
		const struct fleet *f = list_entry(it, struct fleet, link);

		if (fleet_is_rolling(f) && why->len == 0)
			say_roll(sv, f, why);
	}
	if (why->len == 0)
		buf_adds(why, "the workers of new queues to become ready");
	return WAITER_NOT_YET;
}

/*
 * Rolled, and those that had been stopped are ready, too. A failure of before the request is none
 * of its business: nothing may have been rolled for it.
 */
static enum waiter_answer are_restarted(const struct supervisor *sv, const struct wish *w,
					struct buf *why)
{
	struct list *it;

	list_each (it, &sv->fleets) {
		const struct fleet *f = list_entry(it, struct fleet, link);

		if (w->target.queue && strcmp(w->target.queue, f->queue) != 0)
			continue;
		if (fleet_is_rolling(f)) {
			say_roll(sv, f, why);
			return WAITER_NOT_YET;
		}
		if (f->roll.failed && f->roll.ended_ms >= w->asked_ms) {
			buf_adds(why, f->roll.failed);
			return WAITER_FAILED;
		}
	}
	return look_at_ready(sv, w, true, why);
}

/* -------------------------------------------------------------------------------- the end */

static enum waiter_answer are_ended(const struct supervisor *sv, const struct wish *w,
				    struct buf *why)
{
	struct runners r = find_runners(sv, &w->target, false);

	if (r.n_slots > 0)
		say_runners(&r, why);
	buf_release(&r.names);
	return WAITER_NOT_YET; /* answered by waiters_end() */
}

const struct fact fact_stopped = {.look = are_stopped, .stops = true};
const struct fact fact_started = {.look = are_started};
const struct fact fact_scaled = {.look = are_scaled, .stops = true};
const struct fact fact_reloaded = {.look = is_reloaded};
const struct fact fact_restarted = {.look = are_restarted};
const struct fact fact_ended = {.look = are_ended, .stops = true, .at_end = true};
