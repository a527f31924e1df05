/*
 * roll.h - what roll.c, which carries a roll out, and roll_trial.c, which looks at the new
 * generation meanwhile, know of each other. Nobody else's.
 */
#ifndef REDISQ_ROLL_H
#define REDISQ_ROLL_H

#include "fleet.h"

/* ---- roll.c */
/* The one setter of the phase. */
void roll_step(struct fleet *f, enum roll_event event);
/* It is over; NULL: all is done. The text is copied. */
void roll_finish(struct fleet *f, const char *why_failed);
/*
 * Every slot that has a generation newer than the one before leaves it. `s` is where the reason
 * was seen. Only where can_go_back.
 */
void roll_go_back(struct fleet *f, const struct slot *s, const char *why);
/* ... for the open breaker of its worker in charge. */
void roll_give_up(struct fleet *f, const struct slot *s);
/* The worker that was to follow did not become ready, or did not stay. */
void roll_fail(struct fleet *f, struct slot *s, const char *why);

/* ---- roll_trial.c */
/* Its worker in charge is ready, and the handler not known to be broken. */
bool trial_is_sound(const struct slot *s);
/* The slot that goes first; -1 = none is to be rolled. */
int trial_choose(const struct fleet *f);
/* Phase canary, its new worker in charge: true when the rest may follow. */
bool trial_judge(struct fleet *f, struct slot *s);
/* After that phase, where it ended without a verdict: looks on, until roll.untried is false. */
void trial_go_on(struct fleet *f);
/* A slot whose worker is of the new generation and has its breaker open, where one could go back.
 */
struct slot *trial_find_broken(const struct fleet *f);

#endif
