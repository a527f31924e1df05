/* slot.c - see slot.h. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "fleet.h"
#include "lock.h"
#include "log.h"
#include "slot.h"

struct slot *slot_new(struct fleet *fleet, unsigned index, struct generation *gen)
{
	struct slot *s = xcalloc(1, sizeof(*s));

	s->fleet = fleet;
	s->index = index;
	s->log = slotlog_get(fleet->house->logs, fleet->queue, index);
	s->lock_fd = -1;
	s->gen = generation_get(gen);
	list_init(&s->olds);
	restart_init(&s->restart);
	return s;
}

void slot_free(struct slot *s)
{
	INVARIANT(!slot_has_process(s) && list_empty(&s->olds));
	if (s->current)
		proc_free(s->current);
	if (s->next)
		proc_free(s->next);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	slotlog_put(s->log);
	generation_put(s->gen);
	restart_release(&s->restart);
	free(s->next_failed);
	free(s->lock_error);
	free(s);
}

bool slot_has_process(const struct slot *s)
{
	struct list *it;

	if ((s->current && proc_has_process(s->current)) || (s->next && proc_has_process(s->next)))
		return true;
	list_each (it, &s->olds)
		if (proc_has_process(list_entry(it, struct proc, link)))
			return true;
	return false;
}

void tally_add_board(struct tally *t, const struct board *b)
{
	if (!b)
		return;
	t->done += atomic_load_explicit(&b->done, memory_order_relaxed);
	t->failed += atomic_load_explicit(&b->failed, memory_order_relaxed);
	t->lost_leases += atomic_load_explicit(&b->lost_leases, memory_order_relaxed);
	t->log_dropped += atomic_load_explicit(&b->log_dropped, memory_order_relaxed);
}

void tally_add(struct tally *t, const struct tally *more)
{
	t->done += more->done;
	t->failed += more->failed;
	t->lost_leases += more->lost_leases;
	t->log_dropped += more->log_dropped;
}

/* Under the same number, which its procs hand on. Workers that are there keep the lock on the file
 * that was removed, those that come get the one that counts. */
static void renew_lock(struct slot *s)
{
	int fd;

	if (!slot_lock_is_lost(s->lock_fd))
		return;
	fd = slot_lock_open(s->fleet->house->run_dir, s->fleet->queue, s->index);
	if (fd < 0)
		return; /* the next look tries again */
	if (dup3(fd, s->lock_fd, O_CLOEXEC) >= 0)
		s->lock_held = false;
	close(fd);
}

/* Opened late, too: a full disk may have been cleared. Said once, and again when it is mended. */
static void open_lock(struct slot *s)
{
	if (s->lock_fd >= 0) {
		renew_lock(s);
		return;
	}
	s->lock_fd = slot_lock_open(s->fleet->house->run_dir, s->fleet->queue, s->index);
	if (s->lock_fd >= 0) {
		if (s->lock_error)
			log_info("slot lock of %s/%u: made", s->fleet->queue, s->index);
		free(s->lock_error);
		s->lock_error = NULL;
		return;
	}
	if (s->lock_error)
		return;
	s->lock_error = xasprintf("no slot lock: %s", strerror(errno));
	log_error("slot lock of %s/%u below %s: %s; the slot gets no tasks without it",
		  s->fleet->queue, s->index, s->fleet->house->run_dir, strerror(errno));
}

bool slot_lock(struct slot *s)
{
	open_lock(s);
	if (!s->lock_held && s->lock_fd >= 0)
		s->lock_held = slot_lock_try(s->lock_fd);
	return s->lock_held;
}

static struct proc *new_proc(struct slot *s, struct generation *gen)
{
	open_lock(s);
	return proc_new(s->fleet->house, s->fleet->queue, s->index, s->log, s->lock_fd, gen,
			&fleet_proc_events, s);
}

static void retire(struct slot *s, struct proc *p)
{
	if (proc_has_process(p))
		list_append(&s->olds, &p->link);
	else
		proc_free(p);
}

void slot_run(struct slot *s)
{
	/* One that was told to leave is not called back: it finishes beside its successor. */
	if (s->current && !s->current->want && proc_has_process(s->current)) {
		retire(s, s->current);
		s->current = NULL;
	}
	if (!s->current)
		s->current = new_proc(s, s->gen);
	if (s->current->state == PROC_STOPPED) {
		proc_set_generation(s->current, s->gen);
		proc_start(s->current);
	}
}

static void leave(struct proc *p, int64_t ms, bool fast)
{
	if (fast)
		proc_stop(p);
	else
		proc_drain(p, ms);
}

void slot_leave(struct slot *s, int64_t ms, bool fast)
{
	struct list *it;

	slot_dismiss_next(s);
	if (s->current && s->current->state != PROC_STOPPED)
		leave(s->current, ms, fast);
	list_each (it, &s->olds) {
		struct proc *p = list_entry(it, struct proc, link);

		if (proc_has_process(p))
			leave(p, ms, fast);
	}
}

void slot_unpark(struct slot *s)
{
	s->stopped = false;
	restart_forget(&s->restart);
	if (s->current && (s->current->state == PROC_PARKED || s->current->state == PROC_BACKOFF)) {
		proc_set_generation(s->current, s->gen);
		proc_start(s->current);
	}
}

void slot_start_next(struct slot *s, struct generation *gen)
{
	free(s->next_failed);
	s->next_failed = NULL;
	s->next = new_proc(s, gen);
	proc_start(s->next);
}

void slot_promote(struct slot *s, int64_t ms)
{
	struct proc *old = s->current;

	s->current = s->next;
	s->next = NULL;
	generation_set(&s->gen, s->current->gen);
	if (!s->recycling)
		restart_forget(&s->restart);
	s->recycling = false;
	if (!old)
		return;
	if (proc_has_process(old) && old->want)
		proc_drain(old, ms);
	retire(s, old);
}

void slot_go_back(struct slot *s, struct generation *gen, int64_t ms)
{
	generation_set(&s->gen, gen);
	restart_forget(&s->restart);
	/* One that leaves already keeps the limit that it was told. */
	if (s->current && s->current->want && s->current->state != PROC_STOPPED)
		proc_drain(s->current, ms);
}

void slot_dismiss_next(struct slot *s)
{
	struct proc *p = s->next;

	if (!p)
		return;
	s->next = NULL;
	if (proc_has_process(p))
		proc_stop(p);
	retire(s, p);
}

void slot_bury_olds(struct slot *s)
{
	struct list *it, *tmp;

	list_each_safe (it, tmp, &s->olds) {
		struct proc *p = list_entry(it, struct proc, link);

		if (!proc_has_process(p))
			proc_free(p);
	}
}

int slot_n_busy_olds(const struct slot *s)
{
	struct list *it;
	int n = 0;

	list_each (it, &s->olds) {
		struct proc *p = list_entry(it, struct proc, link);

		if (p->board && atomic_load(&p->board->running) > 0)
			n++;
	}
	return n;
}
