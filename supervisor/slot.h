/*
 * slot.h - one numbered place of a queue: the worker that has it now, the one that is to follow
 * at a roll, and the old ones that still finish tasks. Owned by its fleet.
 *
 * `current` is in charge of the slot; in back-off or parked it is only a place. `next` exists
 * during a roll and gets no credit until it takes over. `olds` were told to leave.
 */
#ifndef REDISQ_SLOT_H
#define REDISQ_SLOT_H

#include "credit.h"
#include "proc.h"
#include "restart.h"

struct fleet;

/* What workers count on their boards. */
struct tally {
	int64_t done;
	int64_t failed;
	int64_t lost_leases;
	int64_t log_dropped;
};

/* Adds what a board says; NULL adds nothing. */
void tally_add_board(struct tally *t, const struct board *b);
void tally_add(struct tally *t, const struct tally *more);

struct slot {
	struct fleet *fleet; /* borrowed: the owner */
	unsigned index;
	struct slotlog *log; /* borrowed */
	int lock_fd;         /* owned, -1 = not open */
	bool lock_held;
	char *lock_error;        /* owned: why there is no lock file, NULL = there is */
	int64_t lock_awaited_ms; /* mono: another has the lock since; 0 = not so */
	struct generation *gen;  /* owned reference: what its next worker runs */
	struct proc *current;    /* owned, may be NULL */
	struct proc *next;       /* owned, may be NULL */
	struct list olds;        /* of struct proc, owned */
	bool stopped;            /* by the operator, until start */
	bool roll_pending;       /* a roll has this slot still to do */
	bool recycling;          /* ... its worker is worn out: deaths are not forgotten for that */
	struct restart restart;
	int64_t restarts; /* deaths that were followed by a start, or will be */
	struct last_exit last_exit;
	struct tally past; /* of the workers that are gone */
	char *next_failed; /* owned: why the worker that was to follow did not become ready */
};

struct slot *slot_new(struct fleet *fleet, unsigned index, struct generation *gen);
/* Only without processes. */
void slot_free(struct slot *s);
bool slot_has_process(const struct slot *s);

/* Makes `current` run: a new proc if there is none, a start if it rests. Parked stays parked. */
void slot_run(struct slot *s);
/* Tells every worker of the slot to leave; `fast`: now. `ms` as in proc_drain(). */
void slot_leave(struct slot *s, int64_t ms, bool fast);
/* The operator's start: deaths forgotten, back-off and parking ended. */
void slot_unpark(struct slot *s);
/* Starts `next` with `gen`. */
void slot_start_next(struct slot *s, struct generation *gen);
/* `next` becomes `current`, the old one is told to drain within `ms` (0 = no limit). */
void slot_promote(struct slot *s, int64_t ms);
/*
 * The worker in charge is told to drain within `ms` at once, and its successor runs `gen`: what it
 * runs is broken, and no use until the next one is ready.
 */
void slot_go_back(struct slot *s, struct generation *gen, int64_t ms);
/* Lets go of `next`. */
void slot_dismiss_next(struct slot *s);
/* Frees old workers that have left. */
void slot_bury_olds(struct slot *s);
/* Draining workers that still run tasks. */
int slot_n_busy_olds(const struct slot *s);
/* Tries for the lock; true when it is held. Where it cannot be made lock_error says why. */
bool slot_lock(struct slot *s);

#endif
