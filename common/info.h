/*
 * info.h - the answer of INFO: lines "key:value", and what follows from some of them. Plain code.
 */
#ifndef REDISQ_INFO_H
#define REDISQ_INFO_H

#include "buf.h"

#define INFO_POLICY_MAX 32

/* The value of the line that begins with `key` ("maxmemory:"), without its end; empty when there is
 * no such line. Borrowed from `info`. */
struct slice info_value(struct slice info, const char *key);
/* As a number; `otherwise` where there is none. */
int64_t info_int(struct slice info, const char *key, int64_t otherwise);
/*
 * May this Redis throw keys of ours away to make room? `info` is INFO memory. True: there is a
 * limit, and a policy other than noeviction; `policy` gets its name. volatile-* counts, too: the
 * names of workers are keys that expire. Without the two lines: false.
 */
bool info_evicts(struct slice info, char policy[INFO_POLICY_MAX]);

#endif
