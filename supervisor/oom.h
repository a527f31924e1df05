/*
 * oom.h - whether the kernel killed one of us for memory: the oom_kill counter of our cgroup
 * (v2 memory.events). Without such a file the answer is always no.
 */
#ifndef REDISQ_OOM_H
#define REDISQ_OOM_H

#include "base.h"

struct oom_watch {
	int fd; /* owned: memory.events, -1 = none */
	int64_t seen;
};

void oom_watch_init(struct oom_watch *w);
void oom_watch_release(struct oom_watch *w);
/* True when the counter has grown since the last call. One small read. */
bool oom_watch_grew(struct oom_watch *w);

#endif
