/* cpus.h - how many CPUs this process may use: what "workers = max" means. */
#ifndef REDISQ_CPUS_H
#define REDISQ_CPUS_H

#include "base.h"

/*
 * CPUs of the affinity mask, lowered by the quotas of this process's cgroup and those above it
 * (v2 cpu.max, v1 cfs_quota; 1.5 CPUs count as 2). At least 1.
 */
int cpus_available(void);
/* "max 100000", "150000 100000" (cpu.max): whole CPUs rounded up; 0 = no quota. Plain. */
int cpus_of_quota(const char *text);

#endif
