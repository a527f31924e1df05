/*
 * suspects.c - sets one worker of a queue aside for the suspects of a crash, which run alone.
 *
 * It is chosen before the successor of a dead worker gets its credit, and so before that one has
 * filled up with new tasks: a worker that is set aside while it is busy runs no suspect before it
 * has finished, be it in hours. Which entries are suspects the workers judge; here it is enough
 * that there may be some: a worker that finds none says "cleared".
 */
#include "clock.h"
#include "fleet.h"
#include "log.h"

/* How long they wait for a worker with nothing to finish, where one is about to start. */
#define PATIENCE_MS 10000

static bool can_run(const struct proc *p)
{
	return p && p->want && p->chan && p->board &&
	       (p->state == PROC_READY || p->state == PROC_STARTING);
}

/* The smaller the better: nothing to finish first, then about to be ready, then few to finish. */
static int64_t burden(const struct proc *p)
{
	if (p->state == PROC_STARTING)
		return p->redis_wait ? INT64_MAX - 1 : 1;
	return 2 * (int64_t)atomic_load(&p->board->running);
}

static struct proc *choose(const struct fleet *f)
{
	struct proc *best = NULL;
	int64_t least = INT64_MAX;
	bool coming = false; /* one that will have nothing to finish */
	bool patient = clock_mono_ms() - f->suspects_ms < PATIENCE_MS;

	for (size_t i = 0; i < f->n_slots; i++) {
		struct proc *p = f->slots[i]->current;

		/* Without the lock there is no credit before an old supervisor's worker leaves. */
		if (!fleet_slot_wanted(f, f->slots[i]) || !f->slots[i]->lock_held)
			continue;
		coming |= p && (p->state == PROC_BACKOFF || p->redis_wait);
		if (can_run(p) && burden(p) < least) {
			best = p;
			least = burden(p);
		}
	}
	return least > 1 && coming && patient ? NULL : best;
}

void fleet_suspects(struct fleet *f)
{
	if (!f->suspects)
		f->suspects_ms = clock_mono_ms();
	f->suspects = true;
	house_changed(f->house);
}

void fleet_tend_suspects(struct fleet *f)
{
	struct proc *p = f->quarantine;

	if (!f->suspects)
		return;
	if (!can_run(p)) {
		p = choose(f);
		if (!p)
			return; /* at the next change, or when somebody finds them again */
		log_info("worker %d of %s/%u is set aside for suspects of a crash", (int)p->pid,
			 f->queue, p->slot);
	}
	f->suspects = false;
	f->quarantine = p;
	/* Said again to one that may just have cleared itself, it holds. */
	proc_say_quarantine(p);
	proc_say_scan(p);
}
