/*
 * oom.h - whether the kernel killed one of us for memory: the oom_kill counter of our memory cgroup
 * (memory.events of v2, memory.oom_control of v1). Without such a file the answer is always no.
 *
 * The counter says that somebody was killed, not who. So it is asked only about a child that died
 * of a SIGKILL that we did not send, and has to have grown while that child could be the one.
 */
#ifndef REDISQ_OOM_H
#define REDISQ_OOM_H

#include "buf.h"

struct oom_watch {
	int fd;       /* owned: the file with the counter, -1 = none */
	int64_t seen; /* kills that are explained, or too long ago */
	int64_t look; /* as of the last look */
};

void oom_watch_init(struct oom_watch *w);
/* The same with this file, NULL = none. */
void oom_watch_open(struct oom_watch *w, const char *path);
void oom_watch_release(struct oom_watch *w);
/* How many were killed so far. One small read. */
int64_t oom_watch_count(const struct oom_watch *w);
/* To be told from time to time: kills of before the last time explain no death any more. */
void oom_watch_look(struct oom_watch *w);
/* True when a kill is left to explain a death; it is explained then. */
bool oom_watch_explains(struct oom_watch *w);

/*
 * Where the counter is, from the texts of /proc/self/cgroup and /proc/self/mountinfo; owned, NULL =
 * nowhere. The memory controller may be in either hierarchy, and what is mounted (in a container)
 * may be only the branch we are in.
 */
char *oom_file(const char *cgroup, const char *mountinfo);

#endif
