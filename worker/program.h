/*
 * program.h - is the program of a handler there? Looked at before anything is fetched.
 */
#ifndef REDISQ_PROGRAM_H
#define REDISQ_PROGRAM_H

#include "conf.h"

/* As it would be started: from cwd, or on the PATH of `env`. -1 with what is wrong. */
int program_check(const struct conf_queue *q, const struct strv *env,
		  struct err *e) ATTR_MUST_CHECK;

#endif
