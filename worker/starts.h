/*
 * starts.h - how many tasks are started in one turn of the loop, all partitions together: a start
 * waits for the child's exec, and so long nobody looks at anything else. Pure.
 */
#ifndef REDISQ_STARTS_H
#define REDISQ_STARTS_H

#include "base.h"

#define STARTS_PER_TURN 16
#define STARTS_PER_TURN_MS 10

struct starts {
	int n;            /* in this turn */
	int64_t until_ms; /* when they have taken long enough */
};

/* A turn begins. */
void starts_turn(struct starts *s);
/* May one more be started in this turn? Then it counts. One always may. */
bool starts_take(struct starts *s, int64_t now_ms);

#endif
