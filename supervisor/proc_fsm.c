/* proc_fsm.c - see proc_fsm.h. */
#include "proc_fsm.h"

struct cell {
	bool possible; /* false: the empty cell, cannot happen */
	struct proc_step step;
};

#define GO(to, what) \
	{ \
		.possible = true, .step = {.next = PROC_##to, .effects = (unsigned)(what) } \
	}

#define SPAWN (PROC_DO_SPAWN | PROC_DO_ARM_READY)
#define LEAVE (PROC_DO_SAY_DRAIN | PROC_DO_ARM_DRAIN)
#define LEAVE_NOW (PROC_DO_SAY_STOP | PROC_DO_ARM_STOP)
#define ABORT (PROC_DO_ABORT | PROC_DO_ARM_KILL)
#define KILL (PROC_DO_KILL | PROC_DO_ARM_KILL)
#define LATER PROC_DO_ARM_BACKOFF
#define STAY 0
#define REST PROC_DO_NO_TIMER

/* A process in this state may die: what follows does not depend on which state it was. */
#define MAY_DIE \
	[PROC_EV_DIED_GONE] = GO(STOPPED, REST), [PROC_EV_DIED_AGAIN] = GO(STARTING, SPAWN), \
	[PROC_EV_DIED_BACKOFF] = GO(BACKOFF, LATER), [PROC_EV_DIED_PARK] = GO(PARKED, REST)

static const struct cell table[PROC_N_STATES][PROC_N_EVENTS] =
	{
		[PROC_STOPPED] =
			{
				[PROC_EV_START] = GO(STARTING, SPAWN),
				[PROC_EV_DRAIN] = GO(STOPPED, STAY),
				[PROC_EV_STOP] = GO(STOPPED, STAY),
			},
		[PROC_STARTING] =
			{
				[PROC_EV_START] = GO(STARTING, STAY),
				/* Fails closed, but not for Redis' sake. */
				[PROC_EV_REDIS_WAIT] = GO(STARTING, PROC_DO_NO_TIMER),
				[PROC_EV_IS_READY] = GO(READY, PROC_DO_ARM_STABLE),
				[PROC_EV_DRAIN] = GO(DRAINING, LEAVE),
				[PROC_EV_STOP] = GO(DRAINING, LEAVE_NOW),
				[PROC_EV_STUCK] = GO(KILLING, ABORT),
				[PROC_EV_CUT_OFF] = GO(KILLING, PROC_DO_ARM_KILL),
				[PROC_EV_TIMEOUT] = GO(KILLING, KILL),
				MAY_DIE,
			},
		[PROC_READY] =
			{
				[PROC_EV_START] = GO(READY, STAY),
				/* It stays ready when Redis goes away. */
				[PROC_EV_REDIS_WAIT] = GO(READY, STAY),
				/* Fenced, it comes back under another name. */
				[PROC_EV_IS_READY] = GO(READY, STAY),
				[PROC_EV_DRAIN] = GO(DRAINING, LEAVE),
				[PROC_EV_STOP] = GO(DRAINING, LEAVE_NOW),
				[PROC_EV_STUCK] = GO(KILLING, ABORT),
				[PROC_EV_CUT_OFF] = GO(KILLING, PROC_DO_ARM_KILL),
				[PROC_EV_TIMEOUT] = GO(READY, PROC_DO_STABLE | PROC_DO_NO_TIMER),
				MAY_DIE,
			},
		[PROC_DRAINING] =
			{
				/* Wanted again: the next one starts when this one has left. */
				[PROC_EV_START] = GO(DRAINING, STAY),
				[PROC_EV_REDIS_WAIT] = GO(DRAINING, STAY),
				[PROC_EV_IS_READY] = GO(DRAINING, STAY),
				/* Said again with another limit: a reload's drain meets a stop. */
				[PROC_EV_DRAIN] = GO(DRAINING, LEAVE),
				[PROC_EV_STOP] = GO(DRAINING, LEAVE_NOW),
				[PROC_EV_STUCK] = GO(KILLING, ABORT),
				/* It closes the channel on its way out. */
				[PROC_EV_CUT_OFF] = GO(DRAINING, STAY),
				[PROC_EV_TIMEOUT] = GO(KILLING, KILL),
				MAY_DIE,
			},
		[PROC_KILLING] =
			{
				[PROC_EV_START] = GO(KILLING, STAY),
				[PROC_EV_REDIS_WAIT] = GO(KILLING, STAY),
				[PROC_EV_IS_READY] = GO(KILLING, STAY),
				[PROC_EV_DRAIN] = GO(KILLING, STAY),
				[PROC_EV_STOP] = GO(KILLING, STAY),
				[PROC_EV_STUCK] = GO(KILLING, STAY),
				[PROC_EV_CUT_OFF] = GO(KILLING, STAY),
				[PROC_EV_TIMEOUT] = GO(KILLING, KILL),
				MAY_DIE,
			},
		[PROC_BACKOFF] =
			{
				/* The operator does not wait. */
				[PROC_EV_START] = GO(STARTING, SPAWN),
				[PROC_EV_DRAIN] = GO(STOPPED, REST),
				[PROC_EV_STOP] = GO(STOPPED, REST),
				[PROC_EV_TIMEOUT] = GO(STARTING, SPAWN),
			},
		[PROC_PARKED] =
			{
				[PROC_EV_START] = GO(STARTING, SPAWN),
				[PROC_EV_DRAIN] = GO(STOPPED, REST),
				[PROC_EV_STOP] = GO(STOPPED, REST),
			},
};

bool proc_fsm_step(enum proc_state state, enum proc_event event, struct proc_step *step)
{
	const struct cell *c;

	INVARIANT(state < PROC_N_STATES && event < PROC_N_EVENTS);
	c = &table[state][event];
	if (c->possible)
		*step = c->step;
	else
		*step = (struct proc_step){.next = state, .effects = 0};
	return c->possible;
}

const char *proc_state_word(enum proc_state s)
{
#define PROC_WORD(name, text) [PROC_##name] = text,
	static const char *const words[] = {PROC_STATES(PROC_WORD)};
#undef PROC_WORD

	return words[s];
}

const char *proc_event_word(enum proc_event e)
{
#define PROC_WORD(name, text) [PROC_EV_##name] = text,
	static const char *const words[] = {PROC_EVENTS(PROC_WORD)};
#undef PROC_WORD

	return words[e];
}

bool proc_state_has_process(enum proc_state s)
{
	return s == PROC_STARTING || s == PROC_READY || s == PROC_DRAINING || s == PROC_KILLING;
}
