/*
 * eviction.h - may this Redis throw keys of ours away to make room? Read from INFO memory. Pure.
 */
#ifndef REDISQ_EVICTION_H
#define REDISQ_EVICTION_H

#include "buf.h"

#define EVICTION_POLICY_MAX 32

/*
 * True: there is a limit, and a policy other than noeviction; `policy` gets its name. volatile-*
 * counts, too: the names of workers are keys that expire. Without the two lines: false.
 */
bool eviction_threatens(struct slice info, char policy[EVICTION_POLICY_MAX]);

#endif
