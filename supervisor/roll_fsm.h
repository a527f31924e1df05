/*
 * roll_fsm.h - the phases of a roll as a table: (phase, event) -> next phase.
 *
 *   idle    none under way
 *   canary  a reload's first slot: its new worker is in charge and has to prove the handler, the
 *           other slots keep their workers
 *   rest    the slots that are to be done, one after the other; a restart begins here
 *   watch   done, and the reload says so; but the new generation had no room to be tried in, and
 *           its first tasks still decide
 *   back    the new generation failed: its workers leave, those of the generation before start
 *
 * Pure. What an event means for slots and processes is roll.c's.
 */
#ifndef REDISQ_ROLL_FSM_H
#define REDISQ_ROLL_FSM_H

#include "base.h"

#define ROLL_PHASES(X) \
	X(IDLE, "idle") \
	X(CANARY, "canary") \
	X(REST, "rest") \
	X(WATCH, "watch") \
	X(BACK, "back")

#define ROLL_EVENTS(X) \
	X(RELOAD, "reload")   /* every slot, with a new generation */ \
	X(RESTART, "restart") /* one slot, with the newest one */ \
	X(TRIED, "tried")     /* the canary has shown what can be seen of it */ \
	X(UNTRIED, "untried") /* nothing is left to do but to see the first task of it */ \
	X(BROKE, "broke")     /* a new worker failed, and there is something to go back to */ \
	X(OVER, "over")       /* nothing is left to do, or it cannot go on */

#define ROLL_ENUM(name, text) ROLL_##name,
enum roll_phase { ROLL_PHASES(ROLL_ENUM) ROLL_N_PHASES };
#undef ROLL_ENUM
#define ROLL_ENUM(name, text) ROLL_EV_##name,
enum roll_event { ROLL_EVENTS(ROLL_ENUM) ROLL_N_EVENTS };
#undef ROLL_ENUM

/* False: the event cannot happen in this phase (a fault of ours; `next` is the phase). */
bool roll_fsm_step(enum roll_phase phase, enum roll_event event,
		   enum roll_phase *next) ATTR_MUST_CHECK;

const char *roll_phase_word(enum roll_phase p);
const char *roll_event_word(enum roll_event e);

#endif
