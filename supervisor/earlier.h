/*
 * earlier.h - the end of a worker whose supervisor is gone and that does not leave.
 *
 * A worker that has lost its supervisor drains and is gone within a known time. One that is stopped
 * (SIGSTOP) or stuck does not, and nobody watches it any more: it would keep the lock of its slot,
 * and with it the slot's share, for ever. Who it is tells the lock's file, which it has open.
 */
#ifndef REDISQ_EARLIER_H
#define REDISQ_EARLIER_H

#include "base.h"

/*
 * SIGKILL to every worker that has the file of `fd` open and whose parent has not (a living
 * supervisor, this one too, has), and to all of its session. How many workers; looks through /proc.
 */
int earlier_kill(int fd);

#endif
