/*
 * terminal.h - whether this process has a controlling terminal. Asked at the start, and again at a
 * HUP, which a terminal that goes away sends as well as an operator.
 */
#ifndef REDISQ_TERMINAL_H
#define REDISQ_TERMINAL_H

#include "base.h"

/* UNKNOWN: it could not be looked at (no descriptor, no /dev/tty); proves nothing. */
enum terminal { TERMINAL_THERE, TERMINAL_GONE, TERMINAL_UNKNOWN };

enum terminal terminal_look(void);
/* What an errno of opening /dev/tty means. */
enum terminal terminal_judge(int error);

#endif
