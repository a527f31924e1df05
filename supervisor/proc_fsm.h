/*
 * proc_fsm.h - the life of a worker process as a table: (state, event) -> next state and effects.
 *
 * Pure: what is wanted of the worker (`want`) is kept beside the state by the owner; what a death
 * leads to is decided by restart.h and comes in as one of the DIED events; effects are a bit mask
 * that proc.c carries out. Each state has at most one timer, TIMEOUT is its end:
 *
 *   stopped   no process, none wanted
 *   starting  running, not ready yet                      timer: ready_timeout
 *   ready     consumes, or will when it has credit        timer: stable_after
 *   draining  told to leave                               timer: its drain limit
 *   killing   signalled, or cut off; SIGKILL follows      timer: kill_timeout
 *   backoff   no process; the next start waits            timer: the delay
 *   parked    no process until HUP or start
 */
#ifndef REDISQ_PROC_FSM_H
#define REDISQ_PROC_FSM_H

#include "base.h"

#define PROC_STATES(X) \
	X(STOPPED, "stopped") \
	X(STARTING, "starting") \
	X(READY, "ready") \
	X(DRAINING, "draining") \
	X(KILLING, "killing") \
	X(BACKOFF, "backoff") \
	X(PARKED, "parked")

#define PROC_EVENTS(X) \
	X(START, "start")                 /* somebody wants it to run */ \
	X(REDIS_WAIT, "redis-wait")       /* its word: Redis cannot be used */ \
	X(IS_READY, "ready")              /* its word */ \
	X(DRAIN, "drain")                 /* leave when your tasks are done */ \
	X(STOP, "stop")                   /* leave now, give the tasks back */ \
	X(STUCK, "stuck")                 /* its heartbeat stands still */ \
	X(CUT_OFF, "channel lost")        /* end of file on the channel */ \
	X(TIMEOUT, "timeout")             /* the state's timer */ \
	X(DIED_GONE, "gone")              /* dead and buried; not wanted any more */ \
	X(DIED_AGAIN, "died, restart")    /* ...: start the next at once */ \
	X(DIED_BACKOFF, "died, back-off") /* ...: start the next after a delay */ \
	X(DIED_PARK, "died, park")        /* ...: start none */

#define PROC_ENUM(name, text) PROC_##name,
enum proc_state { PROC_STATES(PROC_ENUM) PROC_N_STATES };
#undef PROC_ENUM
#define PROC_ENUM(name, text) PROC_EV_##name,
enum proc_event { PROC_EVENTS(PROC_ENUM) PROC_N_EVENTS };
#undef PROC_ENUM

/* What to do on entering the next state, in this order. */
enum proc_effect {
	PROC_DO_STABLE = 1 << 0,    /* it has been ready for stable_after */
	PROC_DO_SPAWN = 1 << 1,     /* start the process */
	PROC_DO_SAY_DRAIN = 1 << 2, /* word: drain MS */
	PROC_DO_SAY_STOP = 1 << 3,  /* word: stop */
	PROC_DO_ABORT = 1 << 4,     /* SIGABRT: a trace before the end */
	PROC_DO_KILL = 1 << 5,      /* SIGKILL */
	PROC_DO_NO_TIMER = 1 << 6,
	PROC_DO_ARM_READY = 1 << 7,
	PROC_DO_ARM_STABLE = 1 << 8,
	PROC_DO_ARM_DRAIN = 1 << 9,
	PROC_DO_ARM_STOP = 1 << 10,
	PROC_DO_ARM_KILL = 1 << 11,
	PROC_DO_ARM_BACKOFF = 1 << 12,
};

struct proc_step {
	enum proc_state next;
	unsigned effects; /* of enum proc_effect */
};

/* False: the event cannot happen in this state (a fault of ours; the state is kept). */
bool proc_fsm_step(enum proc_state state, enum proc_event event,
		   struct proc_step *step) ATTR_MUST_CHECK;

const char *proc_state_word(enum proc_state s);
const char *proc_event_word(enum proc_event e);
/* There is a process in this state (it may be dead, but it is not buried). */
bool proc_state_has_process(enum proc_state s);

#endif
