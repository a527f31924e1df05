/*
 * facts.h - what requests wait for, and why it does not hold yet or never will.
 *
 * A fact fails, rather than waits for ever, when somebody has asked for the contrary meanwhile.
 */
#ifndef REDISQ_FACTS_H
#define REDISQ_FACTS_H

#include "waiters.h"

struct fleet;
struct slot;

extern const struct fact fact_stopped;   /* the target has no process any more */
extern const struct fact fact_started;   /* the target's wanted slots are ready */
extern const struct fact fact_scaled;    /* ... and the surplus ones are gone */
extern const struct fact fact_reloaded;  /* no reload is going on, and the last one went through */
extern const struct fact fact_restarted; /* the target is rolled, and ready */
extern const struct fact fact_ended;     /* the supervisor has nothing left to do */

typedef void slot_visit_fn(struct fleet *f, struct slot *s, void *arg);

/* Every slot the target means. */
void target_each_slot(const struct supervisor *sv, const struct target *t, slot_visit_fn *fn,
		      void *arg);

#endif
