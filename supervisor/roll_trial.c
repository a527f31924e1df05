/*
 * roll_trial.c - what is seen of a new generation while a roll is under way: which slot goes first,
 * what its worker shows (canary.h judges that), whose breaker is open.
 *
 * Where the old workers' tasks have all the credit, nothing can be seen; the roll goes on without
 * (roll.untried). Credit that comes free then goes to the canary first, and to no other new worker
 * before it has shown something, lest all of them are tried at once. That is a matter of a second
 * or two from its first task on, and not done when the canary cannot take one.
 */
#include "clock.h"
#include "log.h"
#include "roll.h"

struct slot *fleet_canary(const struct fleet *f)
{
	if (f->roll.canary < 0 || (size_t)f->roll.canary >= f->n_slots)
		return NULL;
	return f->slots[f->roll.canary];
}

bool trial_is_sound(const struct slot *s)
{
	const struct proc *p = s->current;

	return p && p->want && p->state == PROC_READY && !p->breaker;
}

/* The fewer the better: what loses least by being the first, and has room to be tried in. */
static int64_t cost_as_canary(const struct fleet *f, const struct slot *s)
{
	const struct proc *p = s->current;
	int64_t cost = 0;

	if (slot_n_busy_olds(s) >= conf_supervisor(f->house->conf)->max_old_generations)
		cost += INT32_MAX; /* it would have to wait */
	if (!trial_is_sound(s) || s->gen->number > f->roll.was->number)
		return cost - 1; /* no use as it is, or as untried as what follows */
	return cost + (p->board ? atomic_load(&p->board->running) : 0);
}

int trial_choose(const struct fleet *f)
{
	int64_t least = 0;
	int best = -1;

	for (size_t i = 0; i < f->n_slots; i++) {
		const struct slot *s = f->slots[i];
		int64_t cost;

		if (!s->roll_pending || !fleet_slot_wanted(f, s))
			continue;
		cost = cost_as_canary(f, s);
		if (best < 0 || cost < least) {
			best = (int)i;
			least = cost;
		}
	}
	return best;
}

/* What has no child that is ready has not even shown that it can be started. */
static bool is_started(const struct fleet *f, const struct proc *p)
{
	const struct conf_queue *q = conf_queue(p->gen->conf, f->queue);

	return !q || q->handler.kind != CONF_HANDLER_PIPE || p->started;
}

static struct canary_signs look_at(const struct fleet *f, const struct slot *s)
{
	const struct proc *p = s->current;
	int64_t now = clock_boot_ms();
	struct canary_signs signs = {
		.ready = p->state == PROC_READY,
		.parked = p->state == PROC_PARKED,
		.broken = p->breaker != NULL,
		.works = p->works,
	};

	if (!p->board)
		return signs;
	signs.open = is_started(f, p) && (f->quiet || (p->credit.held > 0 && p != f->quarantine &&
						       atomic_load(&p->board->consuming) != 0));
	signs.running = atomic_load(&p->board->running);
	signs.failed = atomic_load(&p->board->failed);
	for (uint32_t i = 0; i < p->board->n_tasks; i++) {
		struct board_task t;

		if (board_read_task(p->board, i, &t))
			signs.longest_ms = max_i64(signs.longest_ms, now - t.started_ms);
	}
	return signs;
}

static void pass(struct fleet *f, const struct slot *s, enum canary_verdict v)
{
	f->roll.proved = v == CANARY_WORKS || v == CANARY_LONG;
	f->roll.untried = f->roll.withhold = v == CANARY_UNSURE && f->roll.can_go_back;
	log_info("%s/%u, the first of generation %lld, passes: %s", f->queue, s->index,
		 (long long)f->roll.gen->number, canary_verdict_text(v));
	roll_step(f, ROLL_EV_TRIED);
}

bool trial_judge(struct fleet *f, struct slot *s)
{
	struct canary_signs signs = look_at(f, s);
	enum canary_verdict v = canary_judge(&f->roll.trial, &signs, clock_mono_ms());

	switch (v) {
	case CANARY_WAIT:
		if (!ev_is_active(&f->roll.timer))
			ev_timer_again(f->house->loop, &f->roll.timer);
		return false;
	case CANARY_BROKEN:
		if (f->roll.can_go_back) {
			roll_give_up(f, s);
			return false;
		}
		log_warning(
			"%s/%u: the new handler is broken, as the one before was; going on with "
			"the reload: %s",
			f->queue, s->index, s->current->breaker);
		roll_step(f, ROLL_EV_TRIED);
		return true;
	case CANARY_DEAD:
		roll_fail(f, s, "the new worker died after it had been ready");
		return false;
	case CANARY_WORKS:
	case CANARY_LONG:
	case CANARY_IDLE:
	case CANARY_UNSURE:
		break;
	}
	pass(f, s, v);
	return true;
}

struct slot *trial_find_broken(const struct fleet *f)
{
	for (size_t i = 0; f->roll.can_go_back && i < f->n_slots; i++) {
		const struct proc *p = f->slots[i]->current;

		if (p && p->want && p->breaker && p->gen == f->roll.gen)
			return f->slots[i];
	}
	return NULL;
}

/* Room for a task is all that it lacks. */
static bool is_triable(const struct fleet *f, const struct slot *s)
{
	const struct proc *p = s->current;

	return fleet_slot_wanted(f, s) && !s->roll_pending && p && p->gen == f->roll.gen &&
	       p->want && !p->redis_wait && p != f->quarantine && !f->quiet && s->lock_held &&
	       (p->state == PROC_STARTING || p->state == PROC_READY) &&
	       !handovers_hold(&f->handovers, s->index, clock_mono_ms());
}

bool fleet_withholds(const struct fleet *f, const struct slot *s)
{
	const struct slot *canary = fleet_canary(f);

	return f->roll.withhold && canary && s != canary && s->current != f->quarantine &&
	       s->current->gen == f->roll.gen && is_triable(f, canary);
}

/* The canary, as soon as it has room. */
static void look_on(struct fleet *f)
{
	struct roll *r = &f->roll;
	struct slot *s = fleet_canary(f);
	struct canary_signs signs;

	if (!r->withhold)
		return;
	if (!s || !is_triable(f, s) || s->current->credit.held == 0) {
		canary_begin(&r->trial, clock_mono_ms());
		return;
	}
	signs = look_at(f, s);
	switch (canary_judge(&r->trial, &signs, clock_mono_ms())) {
	case CANARY_WAIT:
		if (!ev_is_active(&r->timer))
			ev_timer_again(f->house->loop, &r->timer);
		return;
	case CANARY_WORKS:
	case CANARY_LONG:
		r->proved = true;
		r->untried = r->withhold = false;
		break;
	case CANARY_IDLE:
		r->untried = r->withhold = false;
		break;
	case CANARY_UNSURE:
	case CANARY_DEAD:
		r->withhold = false;
		break;
	case CANARY_BROKEN:
		return;
	}
	house_changed(f->house);
}

void trial_go_on(struct fleet *f)
{
	struct roll *r = &f->roll;
	bool broken = trial_find_broken(f) != NULL;

	if (!r->untried)
		return;
	look_on(f);
	for (size_t i = 0; i < f->n_slots && r->untried; i++) {
		const struct proc *p = f->slots[i]->current;

		if (!p || p->gen != r->gen)
			continue;
		/* With a task that runs long the handler has started: the breaker is a task's. */
		r->proved = p->works ||
			    (broken && look_at(f, f->slots[i]).longest_ms >= CANARY_LONG_MS);
		r->untried = !r->proved;
	}
	if (r->untried)
		return;
	r->withhold = false;
	log_info("%s: generation %lld is on trial no more: %s", f->queue, (long long)r->gen->number,
		 canary_verdict_text(r->proved ? CANARY_WORKS : CANARY_IDLE));
	house_changed(f->house);
}
