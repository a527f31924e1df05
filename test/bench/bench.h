/*
 * bench.h - what the small programs of the benchmark share: they are told "go" on stdin, so that
 * all sides of a comparison start when they are ready, and they end the benchmark at any error.
 */
#ifndef REDISQ_BENCH_H
#define REDISQ_BENCH_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

__attribute__((format(printf, 1, 2), noreturn)) static inline void die(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

/* The clock that every side's time stamps are taken from; Node's process.hrtime() is the same. */
static inline int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Says "ready", returns when a line has come. */
static inline void wait_for_go(void)
{
	char line[16];

	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		die("no go");
}

static inline long number(const char *text, long min, long max)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (errno || *end || end == text || n < min || n > max)
		die("%s: not a number from %ld to %ld", text, min, max);
	return n;
}

#endif
