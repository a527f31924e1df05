/*
 * roll.c - replacing the workers of a queue one slot at a time, without a gap and without ever
 * running more: the next worker becomes ready without credit, then the old one is told to drain,
 * and its credit moves over as its tasks end. The roll does not wait for that.
 *
 * A reload begins with one slot, the canary (canary.h): the others keep their workers, and the
 * number of them, until its new worker has shown that the handler works. A new worker whose
 * breaker opens before the roll is over takes the queue back to the generation before: those that
 * were replaced are told to drain at once, what starts then runs the old one. That is done only
 * where the old one worked: some worker of it was ready with its breaker closed. What is as broken
 * as before is no reason to go back; then the reload is rather the repair. Where old tasks had all
 * the credit, the reload does not wait for them, but the first task of the new generation decides
 * even when all is done (watch).
 *
 * A next worker that dies, is refused, is not ready in time or waits for Redis ends the roll: the
 * slot keeps its worker, the slots not yet done keep theirs, roll.failed says which and why. If
 * that is the canary, the old generation stays the queue's.
 */
#include "clock.h"
#include "fleet.h"
#include "log.h"
#include "roll.h"

static void on_timer(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	house_changed(container_of(t, struct fleet, roll.timer)->house);
}

void fleet_roll_init(struct fleet *f)
{
	f->roll.canary = -1;
	ev_timer_init(&f->roll.timer, on_timer, 0., CANARY_LOOK_MS / 1000.0);
}

void fleet_roll_release(struct fleet *f)
{
	struct roll *r = &f->roll;

	ev_timer_stop(f->house->loop, &r->timer);
	generation_put(r->gen);
	generation_put(r->was);
	free(r->why_back);
	free(r->failed);
}

bool fleet_is_rolling(const struct fleet *f)
{
	return f->roll.phase != ROLL_IDLE && f->roll.phase != ROLL_WATCH;
}

struct generation *fleet_safe_generation(const struct fleet *f)
{
	return f->roll.phase == ROLL_CANARY ? f->roll.was : f->gen;
}

void roll_step(struct fleet *f, enum roll_event event)
{
	struct roll *r = &f->roll;
	enum roll_phase was = r->phase;

	if (!roll_fsm_step(was, event, &r->phase)) {
		log_error("roll of %s: event \"%s\" in phase %s cannot happen; please report it",
			  f->queue, roll_event_word(event), roll_phase_word(was));
#ifdef REDISQ_TEST_BUILD
		abort();
#endif
		return;
	}
	if (was != r->phase) {
		char *name = xasprintf("roll of %s", f->queue);

		log_state(name, roll_phase_word(was), roll_phase_word(r->phase),
			  roll_event_word(event));
		free(name);
	}
	if (r->phase == ROLL_IDLE || r->phase == ROLL_BACK) {
		r->canary = -1;
		r->untried = r->withhold = false;
	}
	ev_timer_stop(f->house->loop, &r->timer);
	house_changed(f->house);
}

static void set_nothing_pending(struct fleet *f)
{
	for (size_t i = 0; i < f->n_slots; i++)
		f->slots[i]->roll_pending = f->slots[i]->recycling = false;
}

void roll_finish(struct fleet *f, const char *why_failed)
{
	struct roll *r = &f->roll;
	char *failed = why_failed ? xstrdup(why_failed) : NULL;

	roll_step(f, ROLL_EV_OVER);
	r->ended_ms = clock_mono_ms();
	generation_put(r->gen);
	generation_put(r->was);
	r->gen = r->was = NULL;
	r->can_go_back = r->proved = false;
	free(r->why_back);
	r->why_back = NULL;
	free(r->failed);
	r->failed = failed;
	set_nothing_pending(f);
}

void roll_go_back(struct fleet *f, const struct slot *s, const char *why)
{
	const struct conf_supervisor *sup = conf_supervisor(f->house->conf);
	struct roll *r = &f->roll;
	int n = 0;

	roll_step(f, ROLL_EV_BROKE);
	set_nothing_pending(f);
	for (size_t i = 0; i < f->n_slots; i++) {
		struct slot *each = f->slots[i];

		slot_dismiss_next(each);
		if (each->gen->number <= r->was->number)
			continue;
		slot_go_back(each, r->was, sup->reload_timeout);
		n++;
	}
	generation_set(&f->gen, r->was);
	generation_set(&r->gen, r->was);
	free(r->why_back);
	r->why_back = n ? xasprintf("%s/%u: %s; rolled back to generation %lld", f->queue, s->index,
				    why, (long long)r->was->number)
			: xasprintf("%s/%u: %s; its old worker goes on", f->queue, s->index, why);
	log_error("roll stopped: %s", r->why_back);
}

void roll_give_up(struct fleet *f, const struct slot *s)
{
	char *why = xstrdup(s->current->breaker);

	roll_go_back(f, s, why);
	free(why);
}

void roll_fail(struct fleet *f, struct slot *s, const char *why)
{
	char *text;

	if (f->roll.phase == ROLL_CANARY && f->roll.can_go_back) {
		roll_go_back(f, s, why);
		return;
	}
	text = xasprintf("%s/%u: %s; %s", f->queue, s->index, why,
			 s->roll_pending ? "its old worker goes on"
					 : "the other slots keep theirs");
	log_error("roll stopped: %s", text);
	slot_dismiss_next(s);
	roll_finish(f, text);
	free(text);
}

static bool works_now(const struct fleet *f)
{
	for (size_t i = 0; i < f->n_slots; i++)
		if (fleet_slot_wanted(f, f->slots[i]) && trial_is_sound(f->slots[i]))
			return true;
	return false;
}

static void begin(struct fleet *f, struct generation *gen, enum roll_event event)
{
	struct roll *r = &f->roll;

	if (!fleet_is_rolling(f)) {
		free(r->failed);
		r->failed = NULL;
	}
	generation_set(&r->gen, gen);
	roll_step(f, event);
}

void fleet_roll_all(struct fleet *f, struct generation *gen)
{
	struct roll *r = &f->roll;

	/* What has not proved itself is nothing to go back to: the one before it is. */
	if (!r->was || r->proved) {
		r->can_go_back = works_now(f);
		generation_set(&r->was, f->gen);
	}
	r->proved = r->untried = r->withhold = false;
	r->canary = -1;
	begin(f, gen, ROLL_EV_RELOAD);
	generation_set(&f->gen, gen);
	for (size_t i = 0; i < f->n_slots; i++) {
		/* A worker of an overtaken generation is of no use. */
		slot_dismiss_next(f->slots[i]);
		f->slots[i]->roll_pending = true;
		f->slots[i]->recycling = false;
	}
}

void fleet_roll_slot(struct fleet *f, struct slot *s)
{
	if (!fleet_is_rolling(f))
		begin(f, f->gen, ROLL_EV_RESTART);
	else
		roll_step(f, ROLL_EV_RESTART);
	/* One that goes back is replaced already. */
	s->roll_pending = f->roll.phase != ROLL_BACK;
	s->recycling = false;
}

void fleet_roll_abandon(struct fleet *f)
{
	for (size_t i = 0; i < f->n_slots; i++)
		slot_dismiss_next(f->slots[i]);
	if (f->roll.phase != ROLL_IDLE)
		roll_finish(f, "ended by a stop");
}

/* False: this slot has to wait, or the roll is over or goes back. */
static bool roll_one(struct fleet *f, struct slot *s)
{
	const struct conf_supervisor *sup = conf_supervisor(f->house->conf);

	if (!s->next) {
		if (s->next_failed) {
			char *why = s->next_failed;

			s->next_failed = NULL;
			roll_fail(f, s, why);
			free(why);
			return false;
		}
		if (slot_n_busy_olds(s) >= sup->max_old_generations)
			return false; /* nobody is killed for a roll */
		slot_start_next(s, f->roll.gen);
	}
	if (s->next->state == PROC_STOPPED) { /* dead, or never started: next_failed says why */
		slot_dismiss_next(s);
		return true;
	}
	if (s->next->state == PROC_READY && s->next->breaker && f->roll.can_go_back) {
		char *why = xstrdup(s->next->breaker);

		roll_go_back(f, s, why); /* it knew without any task */
		free(why);
		return false;
	}
	if (s->next->state == PROC_READY) {
		slot_promote(s, sup->reload_timeout);
		s->roll_pending = false;
		return true;
	}
	if (s->next->redis_wait) {
		char *why = xasprintf("the new worker cannot use Redis: %s",
				      s->next->note ? s->next->note : "no reason given");

		roll_fail(f, s, why);
		free(why);
	}
	return false;
}

/* True: go on with the rest at once. */
static bool step_canary(struct fleet *f)
{
	struct slot *s = fleet_canary(f);

	/* Scaled away or stopped: another one. */
	if (!s || !fleet_slot_wanted(f, s)) {
		if (s)
			slot_dismiss_next(s);
		f->roll.canary = trial_choose(f);
		s = fleet_canary(f);
	}
	if (!s) {
		roll_step(f, ROLL_EV_TRIED); /* nobody to try it with */
		return true;
	}
	while (s->roll_pending) {
		if (!roll_one(f, s))
			return false;
		canary_begin(&f->roll.trial, clock_mono_ms());
	}
	return trial_judge(f, s);
}

static void step_rest(struct fleet *f)
{
	const struct slot *broken = trial_find_broken(f);

	if (broken) {
		roll_give_up(f, broken);
		return;
	}
	for (size_t i = 0; i < f->n_slots; i++) {
		struct slot *s = f->slots[i];

		if (!s->roll_pending)
			continue;
		if (!fleet_slot_wanted(f, s)) {
			slot_dismiss_next(s);
			generation_set(&s->gen, f->roll.gen);
			s->roll_pending = false;
			continue;
		}
		while (s->roll_pending)
			if (!roll_one(f, s))
				return;
	}
	if (f->roll.untried) {
		set_nothing_pending(f);
		f->roll.ended_ms = clock_mono_ms();
		roll_step(f, ROLL_EV_UNTRIED);
		return;
	}
	roll_finish(f, NULL);
}

static void step_watch(struct fleet *f)
{
	const struct slot *broken = trial_find_broken(f);

	if (!f->roll.untried)
		roll_finish(f, NULL);
	else if (broken)
		roll_give_up(f, broken);
}

void fleet_roll_step(struct fleet *f)
{
	switch (f->roll.phase) {
	case ROLL_IDLE:
		return;
	case ROLL_CANARY:
		if (step_canary(f))
			step_rest(f);
		return;
	case ROLL_REST:
		trial_go_on(f);
		step_rest(f);
		return;
	case ROLL_WATCH:
		trial_go_on(f);
		step_watch(f);
		return;
	case ROLL_BACK:
		if (fleet_has_settled(f))
			roll_finish(f, f->roll.why_back);
		return;
	case ROLL_N_PHASES:
		break;
	}
	INVARIANT(false);
}
