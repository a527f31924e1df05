/*
 * suspects.c - sets one worker of a queue aside for the suspects of a crash, which run alone.
 *
 * Level-triggered: from the first word of suspects until the worker set aside says "cleared", the
 * choice is looked at again at every change, and once a second while another may become better. A
 * worker that leaves is none any more; one that cannot take a task, or has others to finish first,
 * gives way to one that can. One that runs a suspect keeps its place: else what it takes next
 * would run beside it.
 *
 * It is chosen before the successor of a dead worker gets its credit, and so before that one has
 * filled up with new tasks. Which entries are suspects the workers judge; here it is enough that
 * there may be some: a worker that finds none says "cleared".
 */
#include "clock.h"
#include "fleet.h"
#include "log.h"

/* How long they wait for a worker with nothing to finish, where one is about to start. */
#define PATIENCE_MS 10000
/* A choice is kept as long, unless it leaves: time to hear of it, and to start one. */
#define DWELL_MS 1000
#define LOOK_S 1.0

/* How soon it can run a suspect; the smaller the better. */
enum fitness {
	FIT_NOW,    /* nothing to finish, or a suspect runs */
	FIT_SOON,   /* about to be ready */
	FIT_BUSY,   /* has others' tasks to finish first */
	FIT_UNABLE, /* no credit and none to give it, no Redis, or its handler is broken */
	FIT_NEVER,  /* it leaves, or there is no process */
};

struct choice {
	struct proc *proc; /* borrowed; NULL = nobody */
	enum fitness fitness;
	int64_t n_running;
};

static bool in_charge(const struct fleet *f, const struct slot *s)
{
	const struct proc *p = s->current;

	return p && p->want && p->chan && p->board && fleet_slot_wanted(f, s) &&
	       (p->state == PROC_READY || p->state == PROC_STARTING);
}

static bool has_credit(const struct fleet *f, const struct slot *s)
{
	return s->current->credit.held > 0 || (s->lock_held && f->credit.out < f->credit.limit);
}

/* A task that it took since it was set aside. What another had before has a larger token. */
static bool is_suspect(const struct fleet *f, const struct board_task *t)
{
	return t->token > 1 && t->started_ms >= f->aside_boot_ms;
}

/* In the worker set aside. */
static void count_tasks(const struct fleet *f, bool *suspect, bool *other)
{
	struct board *b = f->quarantine->board;

	*suspect = *other = false;
	for (uint32_t i = 0; i < b->n_tasks && !(*suspect && *other); i++) {
		struct board_task t;

		if (board_read_task(b, i, &t))
			*(is_suspect(f, &t) ? suspect : other) = true;
	}
}

static struct choice look_at(const struct fleet *f, const struct slot *s)
{
	struct choice c = {.proc = s->current, .fitness = FIT_NEVER};
	bool suspect = false, other;

	if (!in_charge(f, s))
		return c;
	c.n_running = atomic_load(&c.proc->board->running);
	other = c.n_running > 0;
	if (other && c.proc == f->quarantine)
		count_tasks(f, &suspect, &other);
	if (suspect && !other)
		c.fitness = FIT_NOW;
	else if (c.proc->redis_wait || c.proc->breaker || !has_credit(f, s))
		c.fitness = FIT_UNABLE;
	else if (c.proc->state == PROC_STARTING)
		c.fitness = FIT_SOON;
	else
		c.fitness = other ? FIT_BUSY : FIT_NOW;
	return c;
}

/* The best, and of equals the one with the fewest to finish. `coming`: a process will start. */
static struct choice look_at_all(const struct fleet *f, bool *coming)
{
	struct choice best = {.fitness = FIT_NEVER};

	*coming = false;
	for (size_t i = 0; i < f->n_slots; i++) {
		const struct slot *s = f->slots[i];
		struct choice c = look_at(f, s);

		if (s->current && fleet_slot_wanted(f, s))
			*coming |= s->current->state == PROC_BACKOFF || s->current->redis_wait;
		if (c.fitness < best.fitness ||
		    (c.fitness == best.fitness && c.fitness != FIT_NEVER &&
		     c.n_running < best.n_running))
			best = c;
	}
	return best;
}

/* The one set aside as it is now; FIT_NEVER when there is none, or it is not in charge any more. */
static struct choice present(const struct fleet *f)
{
	for (size_t i = 0; f->quarantine && i < f->n_slots; i++)
		if (f->slots[i]->current == f->quarantine)
			return look_at(f, f->slots[i]);
	return (struct choice){.fitness = FIT_NEVER};
}

static void nobody(struct fleet *f)
{
	f->quarantine = NULL;
	f->suspects_ms = clock_mono_ms();
}

static void set_aside(struct fleet *f, struct proc *p)
{
	struct proc *was = f->quarantine;

	INVARIANT(p != NULL);
	if (was && was->want)
		proc_say_ordinary(was);
	f->quarantine = p;
	f->suspects_new = false;
	f->aside_ms = clock_mono_ms();
	f->aside_boot_ms = clock_boot_ms();
	log_info("worker %d of %s/%u is set aside for suspects of a crash", (int)p->pid, f->queue,
		 p->slot);
	proc_say_quarantine(p);
	proc_say_scan(p);
}

/* Returns true when there is nothing to look for any more until something changes. */
static bool tend(struct fleet *f)
{
	int64_t now = clock_mono_ms();
	struct choice is, best;
	bool coming;

	is = present(f);
	if (f->quarantine && is.fitness == FIT_NEVER)
		nobody(f);
	if (is.fitness == FIT_NOW)
		return true;
	best = look_at_all(f, &coming);
	if (best.fitness >= is.fitness)
		return false;
	if (f->quarantine && now - f->aside_ms < DWELL_MS)
		return false;
	if (best.fitness > FIT_SOON && coming && now - f->suspects_ms < PATIENCE_MS)
		return false;
	set_aside(f, best.proc);
	return best.fitness == FIT_NOW;
}

void fleet_suspects(struct fleet *f, const struct proc *who)
{
	if (!f->suspects)
		f->suspects_ms = clock_mono_ms();
	f->suspects = true;
	/* The one set aside looks again when it hears that it is, and when it has handed over. */
	if (who != f->quarantine)
		f->suspects_new = true;
	house_changed(f->house);
}

void fleet_cleared(struct fleet *f, const struct proc *p)
{
	if (f->quarantine != p)
		return;
	nobody(f);
	/* Heard of since: it may have looked before they were there. */
	f->suspects = f->suspects_new;
	house_changed(f->house);
}

void fleet_forget_suspects_of(struct fleet *f, const struct proc *p)
{
	if (f->quarantine == p)
		nobody(f);
}

static void on_look(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	house_changed(container_of(t, struct fleet, suspects_timer)->house);
}

void fleet_suspects_init(struct fleet *f)
{
	ev_timer_init(&f->suspects_timer, on_look, 0., LOOK_S);
}

void fleet_tend_suspects(struct fleet *f)
{
	if (!f->suspects || tend(f))
		ev_timer_stop(f->house->loop, &f->suspects_timer);
	else if (!ev_is_active(&f->suspects_timer))
		ev_timer_again(f->house->loop, &f->suspects_timer);
}
