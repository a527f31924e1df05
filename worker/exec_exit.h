/*
 * exec_exit.h - how a program's end reads as an outcome. The table of exit codes is a contract;
 * redisq-worker(8) prints it. Pure.
 */
#ifndef REDISQ_EXEC_EXIT_H
#define REDISQ_EXEC_EXIT_H

#include "answer.h"
#include "outcome.h"
#include "spawn.h"

/* Why we stopped it, if we did. */
enum exec_stop { EXEC_NOT_STOPPED, EXEC_STOP_TIMEOUT, EXEC_STOP_CANCEL };

/* "30m", "1500ms" */
void exec_duration(int64_t ms, char out[32]);

/* Fills kind, error, exit_code, signal, delay_ms. `timeout_ms` is for the message. */
void exec_outcome(struct outcome *o, const struct child_exit *x, const struct answer *a,
		  enum exec_stop stop, int64_t timeout_ms);
/* The kernel killed somebody here for memory while it ran: says so where that fits its end. */
void exec_oom(struct outcome *o);

#endif
