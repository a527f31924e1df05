/*
 * err.h - an error for a person to read: "file:line: what; what to do". For start-up,
 * configuration and the command line; running code uses 0/-1 with errno, or an enum.
 */
#ifndef REDISQ_ERR_H
#define REDISQ_ERR_H

#include "base.h"

/* The exit codes of all three programs; a contract. */
enum {
	EXIT_OK = 0,
	EXIT_FORCED = 1, /* stopped, but a handler or worker was signalled at a limit */
	EXIT_USAGE = 64,
	EXIT_UNREACHABLE = 69,
	EXIT_CRASH_LOOP = 70, /* a slot was in a crash loop and on_crash_loop = exit */
	EXIT_ALREADY_RUNNING = 73,
	EXIT_CONFIG = 78,
};

struct err {
	int code; /* an exit code, 0 = no error */
	char text[512];
};

/* Fills `e` (may be NULL) and returns -1, so that `return err_set(...)` reads well. */
int err_set(struct err *e, int code, const char *fmt, ...) ATTR_PRINTF(3, 4);

#endif
