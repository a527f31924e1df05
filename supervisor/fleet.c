/* fleet.c - see fleet.h. */
#include <unistd.h>

#include "clock.h"
#include "earlier.h"
#include "fleet.h"
#include "log.h"

#define LOCK_RETRY_S 0.25
/* To a worker that was left alone, beyond the limits of a drain. */
#define LEAVE_EXTRA_MS 1000
/* A fat worker that could not be replaced is tried again after this. */
#define RECYCLE_RETRY_MS 30000

static void on_lock_timer(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	house_changed(container_of(t, struct fleet, lock_timer)->house);
}

static void on_order_timer(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	house_changed(container_of(t, struct fleet, order_timer)->house);
}

struct fleet *fleet_new(struct house *house, const char *queue, struct generation *gen)
{
	struct fleet *f = xcalloc(1, sizeof(*f));

	list_init(&f->link);
	list_init(&f->graves);
	f->house = house;
	f->queue = xstrdup(queue);
	f->gen = generation_get(gen);
	f->workers_set = -1;
	handovers_init(&f->handovers);
	ev_timer_init(&f->order_timer, on_order_timer, 0., HANDOVER_LOOK_MS / 1000.0);
	fleet_suspects_init(f);
	fleet_roll_init(f);
	ev_timer_init(&f->lock_timer, on_lock_timer, LOCK_RETRY_S, LOCK_RETRY_S);
	house_changed(house);
	return f;
}

void fleet_free(struct fleet *f)
{
	INVARIANT(fleet_is_gone(f));
	ev_timer_stop(f->house->loop, &f->lock_timer);
	ev_timer_stop(f->house->loop, &f->order_timer);
	ev_timer_stop(f->house->loop, &f->suspects_timer);
	if (handovers_n_open(&f->handovers) > 0)
		log_warning("%s ends before everybody has what %zu dead worker%s of it had "
			    "pending; what was given back runs as soon as a worker is there, the "
			    "rest when the lease is over",
			    f->queue, handovers_n_open(&f->handovers),
			    handovers_n_open(&f->handovers) == 1 ? "" : "s");
	handovers_release(&f->handovers);
	for (size_t i = 0; i < f->n_slots; i++) {
		slot_bury_olds(f->slots[i]);
		slot_free(f->slots[i]);
	}
	free(f->slots);
	list_remove(&f->link);
	fleet_roll_release(f);
	generation_put(f->gen);
	free(f->queue);
	free(f);
}

static const struct conf_queue *queue_conf(const struct fleet *f, const struct generation *gen)
{
	const struct conf_queue *q = conf_queue(gen->conf, f->queue);

	INVARIANT(q != NULL);
	return q;
}

unsigned fleet_wanted(const struct fleet *f)
{
	if (f->workers_set >= 0)
		return (unsigned)f->workers_set;
	return (unsigned)max_i64(queue_conf(f, fleet_safe_generation(f))->workers, 0);
}

bool fleet_slot_wanted(const struct fleet *f, const struct slot *s)
{
	return !f->leaving && !s->stopped && s->index < fleet_wanted(f);
}

int64_t fleet_parallelism(const struct fleet *f)
{
	int64_t sum = 0;

	for (size_t i = 0; i < f->n_slots; i++)
		if (fleet_slot_wanted(f, f->slots[i]))
			sum += queue_conf(f, f->slots[i]->gen)->concurrency;
	return sum;
}

int fleet_concurrency(const struct fleet *f)
{
	int most = 0;

	for (size_t i = 0; i < f->n_slots; i++)
		most = (int)max_i64(most, queue_conf(f, f->slots[i]->gen)->concurrency);
	return most ? most : queue_conf(f, f->gen)->concurrency;
}

int fleet_partitions(const struct fleet *f)
{
	return queue_conf(f, f->gen)->partitions;
}

const char *fleet_backend(const struct fleet *f)
{
	return queue_conf(f, f->gen)->backend == CONF_BACKEND_LIST ? "list" : "stream";
}

struct tally fleet_tally(const struct fleet *f)
{
	struct tally sum = f->past;

	for (size_t i = 0; i < f->n_slots; i++) {
		const struct slot *s = f->slots[i];
		struct list *it;

		tally_add(&sum, &s->past);
		tally_add_board(&sum, s->current ? s->current->board : NULL);
		tally_add_board(&sum, s->next ? s->next->board : NULL);
		list_each (it, &s->olds)
			tally_add_board(&sum, list_entry(it, struct proc, link)->board);
	}
	return sum;
}

static void make_slots(struct fleet *f)
{
	size_t n = fleet_wanted(f);

	if (f->leaving || n <= f->n_slots)
		return;
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers, indeed */
	f->slots = xrealloc(f->slots, n * sizeof(*f->slots));
	while (f->n_slots < n) {
		struct slot *s = slot_new(f, (unsigned)f->n_slots, fleet_safe_generation(f));

		s->roll_pending = s->gen != f->gen;
		f->slots[f->n_slots++] = s;
	}
}

/* Slots at the end that are neither wanted nor alive. */
static void drop_slots(struct fleet *f)
{
	while (f->n_slots > fleet_wanted(f) && !slot_has_process(f->slots[f->n_slots - 1])) {
		tally_add(&f->past, &f->slots[f->n_slots - 1]->past);
		slot_free(f->slots[--f->n_slots]);
	}
}

static int64_t drain_limit(const struct fleet *f)
{
	/* 0 on the channel means no limit; a drain_timeout of 0 means none at all is waited. */
	return max_i64(conf_supervisor(f->house->conf)->drain_timeout, 1);
}

static void set_wanted_state(struct fleet *f, struct slot *s)
{
	if (fleet_slot_wanted(f, s)) {
		slot_run(s);
	} else if ((s->current && s->current->want) || s->next) {
		slot_leave(s, drain_limit(f), f->fast);
	}
}

/* Who has it should leave in this time: its supervisor is gone. */
static int64_t leave_limit(const struct fleet *f, const struct slot *s)
{
	const struct conf_supervisor *sup = conf_supervisor(f->house->conf);

	return sup->drain_timeout + queue_conf(f, s->gen)->kill_grace + sup->kill_timeout +
	       LEAVE_EXTRA_MS;
}

static void await_lock(struct fleet *f, struct slot *s)
{
	int64_t now = clock_mono_ms();

	ev_timer_again(f->house->loop, &f->lock_timer);
	if (s->lock_error)
		return;
	if (s->lock_awaited_ms == 0) {
		s->lock_awaited_ms = now;
		log_info("%s/%u waits: a worker of an earlier supervisor still has tasks", f->queue,
			 s->index);
	} else if (now - s->lock_awaited_ms > leave_limit(f, s)) {
		s->lock_awaited_ms = now;
		earlier_kill(s->lock_fd);
	}
}

static void grant(struct fleet *f, struct slot *s)
{
	struct proc *p = s->current;
	int64_t n;

	if (!p || !p->want || !p->chan || (p->state != PROC_STARTING && p->state != PROC_READY))
		return;
	proc_say_quiet(p, f->quiet);
	if (!slot_lock(s)) {
		await_lock(f, s);
		return;
	}
	s->lock_awaited_ms = 0;
	if (handovers_hold(&f->handovers, s->index, clock_mono_ms()) || fleet_withholds(f, s))
		return;
	/* Set aside it runs one at a time: the rest is of use to others only. */
	n = credit_grant(&f->credit, &p->credit,
			 p == f->quarantine ? 1 : proc_conf(p)->concurrency);
	if (n > 0)
		proc_say_credit(p, n);
}

static void close_grave(struct fleet *f, struct grave *g)
{
	credit_close(&f->credit, &g->credit);
	list_remove(&g->link);
	groups_release(&g->groups);
	free(g);
}

static void tend_graves(struct fleet *f)
{
	struct list *it, *tmp;

	list_each_safe (it, tmp, &f->graves) {
		struct grave *g = list_entry(it, struct grave, link);

		if (groups_gone(&g->groups))
			close_grave(f, g);
	}
}

static void abandon(struct proc *p)
{
	if (p && p->undead && proc_has_process(p))
		proc_abandon(p);
}

void fleet_abandon_undead(struct fleet *f)
{
	for (size_t i = 0; i < f->n_slots; i++) {
		struct slot *s = f->slots[i];
		struct list *it;

		abandon(s->current);
		abandon(s->next);
		list_each (it, &s->olds)
			abandon(list_entry(it, struct proc, link));
	}
}

void fleet_leave_graves(struct fleet *f)
{
	tend_graves(f);
	while (!list_empty(&f->graves)) {
		struct grave *g = list_entry(f->graves.next, struct grave, link);

		log_error("%s: leaving process group %d behind: a handler that cannot be killed; "
			  "ps -s %d -o pid,stat,wchan,args shows what it waits for",
			  f->queue, (int)g->groups.v[0], (int)g->groups.session);
		f->house->forced = true;
		close_grave(f, g);
	}
}

/*
 * What may be granted. The share of a slot whose lock an earlier supervisor's worker holds is not
 * ours to give, to the slot or to any other: that worker runs tasks under it.
 */
static int64_t grantable(struct fleet *f)
{
	int64_t sum = 0;

	for (size_t i = 0; i < f->n_slots; i++)
		if (fleet_slot_wanted(f, f->slots[i]) && slot_lock(f->slots[i]))
			sum += queue_conf(f, f->slots[i]->gen)->concurrency;
	return sum;
}

void fleet_reconcile(struct fleet *f)
{
	bool locks_missing = false;

	make_slots(f);
	tend_graves(f);
	for (size_t i = 0; i < f->n_slots; i++) {
		slot_bury_olds(f->slots[i]);
		set_wanted_state(f, f->slots[i]);
	}
	fleet_roll_step(f);
	drop_slots(f);
	credit_set_limit(&f->credit, grantable(f));
	fleet_tend_suspects(f);
	if (f->quarantine)
		grant(f, f->slots[f->quarantine->slot]); /* chosen without, it comes first */
	if (fleet_canary(f))
		grant(f, fleet_canary(f)); /* the others wait for what it shows */
	for (size_t i = 0; i < f->n_slots; i++) {
		struct slot *s = f->slots[i];

		grant(f, s);
		if (s->next)
			proc_say_quiet(s->next, f->quiet);
		locks_missing |= fleet_slot_wanted(f, s) && !s->lock_held;
	}
	fleet_give_orders(f);
	if (!locks_missing)
		ev_timer_stop(f->house->loop, &f->lock_timer);
}

void fleet_recycle(struct fleet *f, struct slot *s)
{
	if (s->next || s->roll_pending)
		return;
	fleet_roll_slot(f, s);
	s->recycling = true;
}

static void check_memory(struct fleet *f, struct slot *s)
{
	int64_t limit = conf_supervisor(f->house->conf)->max_memory;
	struct proc *p = s->current;
	int64_t rss;

	if (limit <= 0 || !p || p->state != PROC_READY || s->next || s->roll_pending)
		return;
	if (f->roll.failed && clock_mono_ms() - f->roll.ended_ms < RECYCLE_RETRY_MS)
		return;
	rss = proc_measure_rss(p);
	if (rss <= limit)
		return;
	log_warning("worker %d of %s/%u uses %lldM, max_memory is %lldM; replacing it", (int)p->pid,
		    f->queue, s->index, (long long)(rss >> 20), (long long)(limit >> 20));
	fleet_recycle(f, s);
}

static void tick_proc(struct proc *p, int64_t boot_ms)
{
	if (p)
		proc_check_heartbeat(p, boot_ms);
}

void fleet_tick(struct fleet *f, int64_t boot_ms)
{
	for (size_t i = 0; i < f->n_slots; i++) {
		struct slot *s = f->slots[i];
		struct list *it;

		tick_proc(s->current, boot_ms);
		tick_proc(s->next, boot_ms);
		list_each (it, &s->olds)
			tick_proc(list_entry(it, struct proc, link), boot_ms);
		check_memory(f, s);
	}
	/* Both wait for something that tells nobody: handlers that die, tasks that end, or that
	 * run long (the canary's, while it is watched). */
	if (f->roll.phase != ROLL_IDLE || !list_empty(&f->graves))
		house_changed(f->house);
}

void fleet_scale(struct fleet *f, int workers)
{
	f->workers_set = (int)max_i64(0, min_i64(workers, FLEET_WORKERS_MAX));
	house_changed(f->house);
}

void fleet_leave(struct fleet *f, bool fast)
{
	f->leaving = true;
	f->fast |= fast;
	fleet_roll_abandon(f);
	for (size_t i = 0; i < f->n_slots; i++)
		slot_leave(f->slots[i], drain_limit(f), f->fast);
	house_changed(f->house);
}

void fleet_stay(struct fleet *f)
{
	f->leaving = false;
	f->fast = false;
	house_changed(f->house);
}

void fleet_set_quiet(struct fleet *f, bool quiet)
{
	f->quiet = quiet;
	house_changed(f->house);
}

bool fleet_has_left(const struct fleet *f)
{
	for (size_t i = 0; i < f->n_slots; i++)
		if (slot_has_process(f->slots[i]))
			return false;
	return true;
}

bool fleet_is_gone(const struct fleet *f)
{
	return fleet_has_left(f) && list_empty(&f->graves);
}

bool fleet_is_ready(const struct fleet *f)
{
	if (!f->leaving && f->n_slots < fleet_wanted(f))
		return false;
	for (size_t i = 0; i < f->n_slots; i++) {
		const struct proc *p = f->slots[i]->current;

		if (fleet_slot_wanted(f, f->slots[i]) && (!p || p->state != PROC_READY))
			return false;
	}
	return true;
}

bool fleet_has_settled(const struct fleet *f)
{
	if (f->n_slots < fleet_wanted(f))
		return f->leaving;
	for (size_t i = 0; i < f->n_slots; i++) {
		const struct proc *p = f->slots[i]->current;

		if (!fleet_slot_wanted(f, f->slots[i]))
			continue;
		if (!p || p->state == PROC_KILLING || (p->state == PROC_STARTING && !p->redis_wait))
			return false;
	}
	return true;
}

const char *fleet_refused(const struct fleet *f)
{
	const char *text = NULL;

	for (size_t i = 0; i < f->n_slots; i++) {
		const struct proc *p = f->slots[i]->current;

		if (!fleet_slot_wanted(f, f->slots[i]))
			continue;
		if (!p || p->state != PROC_PARKED || !p->refused)
			return NULL;
		text = p->refused;
	}
	return text;
}
