/*
 * clock.h - the three clocks, in milliseconds. Shells read them and hand `now` to plain code and
 * deciders, which never read a clock themselves.
 *
 * mono: deadlines and timers; stands still while the machine sleeps.
 * boot: evidence of ownership and heartbeats; goes on while the machine sleeps, as Redis does.
 * wall: what people read. Never for a deadline: it can jump.
 */
#ifndef REDISQ_CLOCK_H
#define REDISQ_CLOCK_H

#include "base.h"

int64_t clock_mono_ms(void);
int64_t clock_boot_ms(void);
int64_t clock_wall_ms(void);

#define CLOCK_STAMP_LEN 24 /* 2026-11-29T15:26:01.123Z */

/* Writes `wall_ms` (Unix time) as UTC text with its NUL. */
void clock_stamp(int64_t wall_ms, char out[CLOCK_STAMP_LEN + 1]);

#endif
