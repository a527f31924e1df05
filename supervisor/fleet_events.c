/*
 * fleet_events.c - what the workers of a queue tell, and what their deaths lead to: the next start,
 * orders to hand over what a dead one had pending, graves for handlers that would not die.
 */
#include <errno.h>

#include "clock.h"
#include "fleet.h"
#include "log.h"

/* One that has not become ready, since it waits for Redis, may do so for one partition of several:
 * what was pending in the others it can hand over. */
static bool can_carry_out(const struct proc *p, enum proc_state state)
{
	return p && p->chan && p->state == state &&
	       (state == PROC_STARTING ? p->redis_wait : p->was_ready);
}

/*
 * Every worker that can run a script for a dead one: those that are ready; when no such is left,
 * in a drain those that have not gone yet, else those that wait for Redis. What they release the
 * next start finds at once.
 */
void fleet_give_orders(struct fleet *f)
{
	static const enum proc_state states[] = {PROC_READY, PROC_DRAINING, PROC_STARTING};
	struct proc **heirs = xcalloc(f->n_slots, sizeof(*heirs));
	size_t n = 0;

	for (size_t k = 0; k < ARRAY_LEN(states) && n == 0; k++) {
		for (size_t i = 0; i < f->n_slots; i++) {
			struct proc *p = f->slots[i]->current;

			if (can_carry_out(p, states[k]))
				heirs[n++] = p;
		}
	}
	if (!handovers_assign(&f->handovers, heirs, n, clock_mono_ms()))
		ev_timer_stop(f->house->loop, &f->order_timer);
	else if (!ev_is_active(&f->order_timer))
		ev_timer_again(f->house->loop, &f->order_timer);
	free(heirs);
}

static void on_stable(void *arg, struct proc *p)
{
	struct slot *s = arg;

	if (p == s->current)
		restart_stable(&s->restart);
}

static void on_freed(void *arg, struct proc *p, int64_t n)
{
	struct slot *s = arg;

	credit_free(&s->fleet->credit, &p->credit, n);
}

static void tell_to_scan(struct fleet *f, const struct proc *except)
{
	for (size_t i = 0; i < f->n_slots; i++) {
		struct proc *p = f->slots[i]->current;

		if (p && p != except && p->state == PROC_READY)
			proc_say_scan(p);
	}
}

static void on_released(void *arg, struct proc *p)
{
	tell_to_scan(((struct slot *)arg)->fleet, p);
}

/* Credit that cannot come back yet. */
static void dig_grave(struct fleet *f, struct proc *p, struct groups *left)
{
	struct grave *g = xcalloc(1, sizeof(*g));

	groups_move(left, &g->groups);
	credit_move(&p->credit, &g->credit);
	list_init(&g->link);
	list_append(&f->graves, &g->link);
	log_error("%zu handler group%s of dead worker of %s/%u cannot be killed; keeping %lld "
		  "task place%s blocked until they are gone",
		  g->groups.n, g->groups.n == 1 ? "" : "s", f->queue, p->slot,
		  (long long)g->credit.held, g->credit.held == 1 ? "" : "s");
}

static char *why_next_failed(const struct fleet *f, const struct proc *p,
			     const struct last_exit *how)
{
	if (p->refused)
		return xasprintf("the new worker refused the queue: %s", p->refused);
	if (how->cause == CAUSE_SPAWN)
		return xasprintf("the new worker did not start: %s", strerror(how->code));
	if (how->cause == CAUSE_KILLED)
		return xasprintf("the new worker was not ready within %.1fs",
				 (double)conf_supervisor(f->house->conf)->ready_timeout / 1000.0);
	if (how->signal)
		return xasprintf("the new worker died of signal %d %s it was ready", how->signal,
				 p->was_ready ? "as soon as" : "before");
	return xasprintf("the new worker ended with exit %d %s it was ready", how->code,
			 p->was_ready ? "as soon as" : "before");
}

static void ask_for_the_end(struct slot *s)
{
	struct house *h = s->fleet->house;

	if (!h->crash_loop)
		h->crash_loop = xasprintf("%s/%u", s->fleet->queue, s->index);
}

static bool is_shortage(const struct last_exit *how)
{
	return how->cause == CAUSE_SPAWN && (how->code == EAGAIN || how->code == ENOMEM ||
					     how->code == EMFILE || how->code == ENFILE);
}

static enum restart_death whose_death(const struct proc *p, const struct obituary *who, int n_who)
{
	if (!p->was_ready)
		return RESTART_BEFORE_READY;
	for (int i = 0; i < n_who; i++)
		if (who[i].charge && who[i].n_ran > 0)
			return RESTART_CHARGED;
	return RESTART_IDLE;
}

static enum proc_event after_death_of_current(struct slot *s, struct proc *p,
					      const struct last_exit *how, enum restart_death death)
{
	struct fleet *f = s->fleet;
	const struct conf_supervisor *sup = conf_supervisor(f->house->conf);
	struct restart_policy policy = {
		.delay_ms = sup->restart_delay,
		.delay_max_ms = sup->restart_delay_max,
		.window_ms = sup->crash_window,
		.limit = sup->crash_limit,
		.on_loop = sup->on_crash_loop == CONF_LOOP_PARK   ? RESTART_LOOP_PARK
			   : sup->on_crash_loop == CONF_LOOP_EXIT ? RESTART_LOOP_EXIT
								  : RESTART_LOOP_RETRY,
	};

	bool looped = s->restart.loop;
	enum restart_verdict verdict;

	if (p->refused)
		return PROC_EV_DIED_PARK;
	if (is_shortage(how)) {
		p->backoff_ms = restart_postpone(&s->restart, &policy, &f->house->rng);
		return PROC_EV_DIED_BACKOFF;
	}
	verdict = restart_decide(&s->restart, &policy, death, clock_mono_ms(), &f->house->rng,
				 &p->backoff_ms);
	if (verdict == RESTART_LATER && s->restart.loop && !looped)
		log_error("%s/%u is in a crash loop: more than %d deaths within %.0fs; starting it "
			  "every %.0fs from now on, see redisqctl logs",
			  f->queue, s->index, policy.limit, (double)policy.window_ms / 1000.0,
			  (double)policy.delay_max_ms / 1000.0);
	switch (verdict) {
	case RESTART_NOW:
		s->restarts++;
		return PROC_EV_DIED_AGAIN;
	case RESTART_LATER:
		s->restarts++;
		return PROC_EV_DIED_BACKOFF;
	case RESTART_PARK:
		log_error("%s/%u is in a crash loop: parked; mend it, then redisqctl start or HUP",
			  f->queue, s->index);
		return PROC_EV_DIED_PARK;
	case RESTART_EXIT:
		log_error("%s/%u is in a crash loop: ending, as on_crash_loop = exit says",
			  f->queue, s->index);
		ask_for_the_end(s);
		return PROC_EV_DIED_PARK;
	}
	return PROC_EV_DIED_PARK;
}

static void on_handed(void *arg, struct proc *p, int64_t order, int64_t moved)
{
	struct fleet *f = ((struct slot *)arg)->fleet;
	enum handed what = handovers_handed(&f->handovers, p, order, moved, clock_mono_ms());

	if (what != HANDED_NOTHING)
		tell_to_scan(f, NULL);
	if (what == HANDED_SUSPECTS)
		fleet_suspects(f, p);
	house_changed(f->house);
}

static void on_swept(void *arg, struct proc *p ATTR_UNUSED, int64_t order)
{
	struct fleet *f = ((struct slot *)arg)->fleet;

	handovers_swept(&f->handovers, order);
	house_changed(f->house); /* it may have been all that held a successor's credit */
}

static void on_again(void *arg, struct proc *p, int partition, const char *id)
{
	char prefix[PARTITION_PREFIX_MAX];

	partition_id_prefix(partition, proc_conf(p)->partitions, slice_str(id), prefix);
	handovers_runs_again(&((struct slot *)arg)->fleet->handovers, p, partition, prefix, id,
			     clock_mono_ms());
}

static void on_suspects(void *arg, struct proc *p)
{
	fleet_suspects(((struct slot *)arg)->fleet, p);
}

static void on_cleared(void *arg, struct proc *p)
{
	fleet_cleared(((struct slot *)arg)->fleet, p);
}

static void on_replace(void *arg, struct proc *p)
{
	struct slot *s = arg;

	if (p == s->current && fleet_slot_wanted(s->fleet, s))
		fleet_recycle(s->fleet, s);
}

static enum proc_event on_death(void *arg, struct proc *p, const struct last_exit *how,
				struct groups *left, struct obituary *who, int n_who)
{
	struct slot *s = arg;
	struct fleet *f = s->fleet;
	enum restart_death death = whose_death(p, who, n_who);

	fleet_forget_suspects_of(f, p);
	handovers_heir_died(&f->handovers, p);
	for (int i = 0; i < n_who; i++)
		handovers_add(&f->handovers, &who[i], p->slot, p->died_ms);
	house_changed(f->house);

	tally_add_board(&s->past, p->board);
	if (left->n > 0)
		dig_grave(f, p, left);
	credit_close(&f->credit, &p->credit);
	if (how->cause == CAUSE_EXIT && how->code == EXIT_CONFIG && !p->refused && !p->was_ready)
		p->refused = xstrdup("exit 78 without a reason; its log has more");
	if (p->want || how->signal || how->code != 0)
		s->last_exit = *how;
	if (!p->want)
		return PROC_EV_DIED_GONE;
	if (p == s->next) {
		free(s->next_failed);
		s->next_failed = why_next_failed(f, p, how);
		return PROC_EV_DIED_GONE;
	}
	return after_death_of_current(s, p, how, death);
}

const struct proc_events fleet_proc_events = {
	.on_stable = on_stable,
	.on_freed = on_freed,
	.on_released = on_released,
	.on_handed = on_handed,
	.on_swept = on_swept,
	.on_again = on_again,
	.on_suspects = on_suspects,
	.on_cleared = on_cleared,
	.on_replace = on_replace,
	.on_death = on_death,
};
