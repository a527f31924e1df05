/*
 * env.h - looking into an environment that is held as data (as environ): NULL-terminated
 * NAME=VALUE strings. Plain code; the process's own environment is not touched.
 */
#ifndef REDISQ_ENV_H
#define REDISQ_ENV_H

#include "base.h"

/* The value of the first NAME; NULL: not there, or `env` is NULL. Borrowed from `env`. */
const char *env_value(char *const *env, const char *name);

#endif
