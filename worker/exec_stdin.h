/*
 * exec_stdin.h - what a program that is started for a task reads: filled before the start (a pipe
 * if it fits, else a memory file), so that nobody has to wait for a reader.
 */
#ifndef REDISQ_EXEC_STDIN_H
#define REDISQ_EXEC_STDIN_H

#include "conf.h"
#include "task.h"

/* The payload, or all fields as JSON (queue's `stdin`). An fd (CLOEXEC) that the caller closes, -1
 * with errno. */
int exec_stdin(const struct conf_queue *q, const struct task *t) ATTR_MUST_CHECK;

#endif
