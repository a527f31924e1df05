/*
 * banned.h - calls that have bitten too many programs become compile errors.
 * Use buf.h for strings that grow, snprintf for fixed ones, strtoll with an end pointer for
 * numbers, gmtime_r for dates, sig.h for signals and spawn.h for programs.
 */
#ifndef REDISQ_BANNED_H
#define REDISQ_BANNED_H

/* The headers that declare them come first, or their prototypes would break. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BANNED(func) sorry_##func##_is_a_banned_function

#undef strcpy
#define strcpy(d, s) BANNED(strcpy)
#undef strcat
#define strcat(d, s) BANNED(strcat)
#undef strncpy
#define strncpy(d, s, n) BANNED(strncpy)
#undef strncat
#define strncat(d, s, n) BANNED(strncat)
#undef strtok
#define strtok(s, d) BANNED(strtok)
#undef sprintf
#define sprintf(...) BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) BANNED(vsprintf)
#undef atoi
#define atoi(s) BANNED(atoi)
#undef atol
#define atol(s) BANNED(atol)
#undef gmtime
#define gmtime(t) BANNED(gmtime)
#undef localtime
#define localtime(t) BANNED(localtime)
#undef system
#define system(s) BANNED(system)
#undef popen
#define popen(c, m) BANNED(popen)

#endif
