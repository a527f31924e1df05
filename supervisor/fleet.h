/*
 * fleet.h - one queue: its slots, its credit, how many there should be, and its roll.
 *
 * Level-triggered: verbs, signals and deaths only change what is wanted or what is; at the end of
 * the loop turn fleet_reconcile() compares the two and acts. Invariant: credit out <= the limit at
 * the moment of each grant, all generations and graves together; the limit is the sum over the
 * wanted slots of the concurrency each one's worker in charge was started with.
 */
#ifndef REDISQ_FLEET_H
#define REDISQ_FLEET_H

#include "canary.h"
#include "handover.h"
#include "roll_fsm.h"
#include "slot.h"

/* Handlers that would not die with their worker: their credit stays out until they do. */
struct grave {
	struct list link;
	struct groups groups; /* owned */
	struct credit_account credit;
};

struct roll {
	enum roll_phase phase;
	struct generation *gen; /* owned reference: what the new workers run; NULL when idle */
	struct generation *was; /* owned reference: what ran before a reload; NULL for a restart */
	bool can_go_back;       /* ... and worked */
	bool proved;            /* a task has shown that the handler of `gen` works */
	bool untried;           /* ... had no room for one, or only such as told nothing */
	bool withhold;          /* ... so the canary gets the first that comes free */
	int canary;             /* the slot that is tried first; -1 = none is */
	struct canary trial;
	char *why_back;   /* owned: why it goes back */
	char *failed;     /* owned: why the last roll stopped, NULL = it did not */
	int64_t ended_ms; /* monotonic: when the last one did */
	ev_timer timer;   /* runs while the canary is looked at */
};

struct fleet {
	struct list link;
	struct house *house;    /* borrowed */
	char *queue;            /* owned */
	struct generation *gen; /* owned reference: the newest for this queue */
	struct slot **slots;    /* owned, each too; more than wanted while some drain */
	size_t n_slots;
	int workers_set; /* by scale, TTIN, TTOU; -1 = the configuration's */
	bool leaving;    /* the queue is to end: removed, or the supervisor drains */
	bool fast;       /* ... at once */
	bool quiet;
	struct tally past; /* of slots that were scaled away */
	struct credit_pool credit;
	struct list graves; /* of struct grave */
	struct roll roll;
	struct handovers handovers;
	struct proc *quarantine; /* borrowed: runs suspects of a crash only; NULL = none does */
	bool suspects;           /* there are some, until the one set aside has found none */
	bool suspects_new;       /* ... heard of after it was set aside */
	int64_t suspects_ms;     /* monotonic: since when they have nobody */
	int64_t aside_ms;        /* monotonic: when quarantine was set aside */
	int64_t aside_boot_ms;   /* ... on the clock of the boards */
	ev_timer suspects_timer; /* runs while a better choice may come */
	ev_timer order_timer;    /* runs while an order waits for its answer */
	ev_timer lock_timer;     /* runs while a wanted slot's lock is held by another generation */
};

#define FLEET_WORKERS_MAX 512

struct fleet *fleet_new(struct house *house, const char *queue, struct generation *gen);
/* Only when fleet_is_gone(). */
void fleet_free(struct fleet *f);

/* Another worker in the place of the slot's, with what the supervisor knows of its deaths kept. */
void fleet_recycle(struct fleet *f, struct slot *s);
/* Workers wanted. */
unsigned fleet_wanted(const struct fleet *f);
bool fleet_slot_wanted(const struct fleet *f, const struct slot *s);
/* What may run at once, as things stand. */
int64_t fleet_parallelism(const struct fleet *f);
/* Tasks at once in one worker: of those in charge, the most while a roll is changing it. */
int fleet_concurrency(const struct fleet *f);
/* "stream" or "list", as configured now. */
const char *fleet_backend(const struct fleet *f);
/* 1 = it has none. */
int fleet_partitions(const struct fleet *f);
/* What all workers of the queue have counted since the supervisor's start. */
struct tally fleet_tally(const struct fleet *f);
/* Acts on the difference between what is and what is wanted. */
void fleet_reconcile(struct fleet *f);
/* At the supervisor's tick: heartbeats, memory, graves. `boot_ms`: clock_boot_ms(). */
void fleet_tick(struct fleet *f, int64_t boot_ms);

/* Wanted workers from now on, survives reloads; clamped to 0 .. FLEET_WORKERS_MAX. */
void fleet_scale(struct fleet *f, int workers);
/* All workers leave; `fast` = give the tasks back now. */
void fleet_leave(struct fleet *f, bool fast);
/* A queue that was leaving is wanted again. */
void fleet_stay(struct fleet *f);
void fleet_set_quiet(struct fleet *f, bool quiet);
/* No process left. What cannot be killed is waited for by whoever stays, not by who leaves. */
bool fleet_has_left(const struct fleet *f);
/* At the supervisor's end: leaves workers behind that cannot be killed. */
void fleet_abandon_undead(struct fleet *f);
/* At the supervisor's end: forgets the graves and says so, which makes it a forced one. */
void fleet_leave_graves(struct fleet *f);
/* No process and no grave left. */
bool fleet_is_gone(const struct fleet *f);
/* Every wanted slot's worker is ready. */
bool fleet_is_ready(const struct fleet *f);
/* Every wanted slot is ready, waits for Redis, or waits for its next start: start-up is over. */
bool fleet_has_settled(const struct fleet *f);
/* All wanted slots were refused; the text, or NULL. */
const char *fleet_refused(const struct fleet *f);

/* roll.c: one slot at a time, the new worker ready before the old one is told to drain. */

void fleet_roll_init(struct fleet *f);
void fleet_roll_release(struct fleet *f);
/* Something is left to be done: it is not only being watched. */
bool fleet_is_rolling(const struct fleet *f);
/* What a slot starts with that is made now: not a generation that has yet to prove itself. */
struct generation *fleet_safe_generation(const struct fleet *f);
/* roll_trial.c: the slot whose new worker is on trial, NULL. */
struct slot *fleet_canary(const struct fleet *f);
/* The slot's worker, who is there, gets no credit before the canary has shown what it can. */
bool fleet_withholds(const struct fleet *f, const struct slot *s);
/* Every slot, with `gen`, one first and on trial; a roll under way starts anew with it. */
void fleet_roll_all(struct fleet *f, struct generation *gen);
/* One slot, with the newest generation; joins a roll under way. */
void fleet_roll_slot(struct fleet *f, struct slot *s);
/* The next step of the roll, if there is one to make. */
void fleet_roll_step(struct fleet *f);
void fleet_roll_abandon(struct fleet *f);

/* suspects.c: the worker that is set aside for them. */

void fleet_suspects_init(struct fleet *f);
/* There may be suspects of a crash; `who` has told of them. */
void fleet_suspects(struct fleet *f, const struct proc *who);
/* `p` says that it was set aside and has found none. */
void fleet_cleared(struct fleet *f, const struct proc *p);
/* It is dead. */
void fleet_forget_suspects_of(struct fleet *f, const struct proc *p);
/* Before credit is granted: who gets none of the new tasks. */
void fleet_tend_suspects(struct fleet *f);

/* fleet_events.c: what the workers tell, and what their deaths lead to. */

/* For roll.c and slot.c. */
extern const struct proc_events fleet_proc_events;
/* Gives out what handover.h has for the workers of the queue. */
void fleet_give_orders(struct fleet *f);

#endif
