/*
 * roll.c - replacing the workers of a queue one slot at a time, without a gap and without ever
 * running more: the next worker becomes ready without credit, then the old one is told to drain,
 * and its credit moves over as its tasks end. The roll does not wait for that.
 *
 * A next worker that dies, is refused, is not ready in time or waits for Redis ends the roll: the
 * slot keeps its worker, the slots not yet done keep theirs, roll.failed says which and why.
 */
#include "clock.h"
#include "fleet.h"
#include "log.h"

static void finish(struct fleet *f, const char *why_failed)
{
	struct roll *r = &f->roll;

	r->active = false;
	r->ended_ms = clock_mono_ms();
	generation_put(r->gen);
	r->gen = NULL;
	free(r->failed);
	r->failed = why_failed ? xstrdup(why_failed) : NULL;
	for (size_t i = 0; i < f->n_slots; i++)
		f->slots[i]->roll_pending = f->slots[i]->recycling = false;
	house_changed(f->house);
}

static void fail(struct fleet *f, struct slot *s, const char *why)
{
	char *text = xasprintf("%s/%u: %s; its old worker goes on", f->queue, s->index, why);

	log_error("roll stopped: %s", text);
	slot_dismiss_next(s);
	finish(f, text);
	free(text);
}

static void begin(struct fleet *f, struct generation *gen)
{
	struct roll *r = &f->roll;
	struct generation *was = r->gen;

	if (!r->active) {
		free(r->failed);
		r->failed = NULL;
	}
	r->active = true;
	r->gen = generation_get(gen);
	generation_put(was);
	house_changed(f->house);
}

void fleet_roll_all(struct fleet *f, struct generation *gen)
{
	struct generation *was = f->gen;

	f->gen = generation_get(gen);
	generation_put(was);
	begin(f, gen);
	for (size_t i = 0; i < f->n_slots; i++) {
		/* A worker of an overtaken generation is of no use. */
		slot_dismiss_next(f->slots[i]);
		f->slots[i]->roll_pending = true;
		f->slots[i]->recycling = false;
	}
}

void fleet_roll_slot(struct fleet *f, struct slot *s)
{
	if (!f->roll.active)
		begin(f, f->gen);
	s->roll_pending = true;
	s->recycling = false;
	house_changed(f->house);
}

void fleet_roll_abandon(struct fleet *f)
{
	for (size_t i = 0; i < f->n_slots; i++)
		slot_dismiss_next(f->slots[i]);
	if (f->roll.active)
		finish(f, "ended by a stop");
}

/* False: this slot has to wait, or the roll is over. */
static bool roll_one(struct fleet *f, struct slot *s)
{
	const struct conf_supervisor *sup = conf_supervisor(f->house->conf);

	if (!s->next) {
		if (s->next_failed) {
			fail(f, s, s->next_failed);
			free(s->next_failed);
			s->next_failed = NULL;
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
	if (s->next->state == PROC_READY) {
		slot_promote(s, sup->reload_timeout);
		s->roll_pending = false;
		return true;
	}
	if (s->next->redis_wait) {
		char *why = xasprintf("the new worker cannot use Redis: %s",
				      s->next->note ? s->next->note : "no reason given");

		fail(f, s, why);
		free(why);
	}
	return false;
}

void fleet_roll_step(struct fleet *f)
{
	if (!f->roll.active)
		return;
	for (size_t i = 0; i < f->n_slots; i++) {
		struct slot *s = f->slots[i];

		if (!s->roll_pending)
			continue;
		if (!fleet_slot_wanted(f, s)) {
			slot_dismiss_next(s);
			generation_put(s->gen);
			s->gen = generation_get(f->roll.gen);
			s->roll_pending = false;
			continue;
		}
		while (s->roll_pending)
			if (!roll_one(f, s))
				return;
	}
	if (f->roll.active)
		finish(f, NULL);
}
