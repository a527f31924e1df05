/*
 * breaker.h - stops fetching when the handler itself is broken, so that it cannot burn through the
 * queue. closed -> (a broken handler) -> open -> (delay) -> half open: one task is tried -> closed,
 * or open again. Pure: told the time, answers what may be fetched.
 */
#ifndef REDISQ_BREAKER_H
#define REDISQ_BREAKER_H

#include "base.h"

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };

struct breaker {
	enum breaker_state state;
	int64_t delay_ms;
	int64_t probe_at_ms; /* when open: monotonic time of the next try */
};

void breaker_init(struct breaker *b, int64_t delay_ms);
/* The handler proved broken; true when that opened it (the first to say so logs it). */
bool breaker_broken(struct breaker *b, int64_t now_ms);
/* The handler worked, whatever the task's fate; true when that closed it. */
bool breaker_worked(struct breaker *b);
/* Tells an open breaker the time; true when it became half open. */
bool breaker_tick(struct breaker *b, int64_t now_ms);
/* How many tasks may be held and asked for in all: none, one, or `credit`. */
int breaker_limit(const struct breaker *b, int credit);

#endif
