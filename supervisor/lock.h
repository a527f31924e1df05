/*
 * lock.h - the locks that outlive crashes: flock(2) on files that are never removed.
 *
 * The instance: <pid_file>.lock, held by the supervisor alone, decides who runs; what the pid file
 * says is information only. A slot: one file in the run directory, its descriptor inherited by the
 * slot's workers (not by handlers), so that a new supervisor beside a dying generation sees which
 * slots still run tasks. Descriptors are CLOEXEC.
 *
 * Whoever cleans up /run or /tmp may remove the files all the same: a lock on a file that is gone
 * keeps nobody out. Both kinds are looked at now and then, and made again.
 */
#ifndef REDISQ_LOCK_H
#define REDISQ_LOCK_H

#include "base.h"
#include "err.h"

struct instance_lock {
	int fd;         /* owned, -1 */
	char *pid_file; /* owned */
};

/*
 * Takes the lock and writes the pid file. -1: EXIT_ALREADY_RUNNING (names the pid and the file),
 * or EXIT_CONFIG when the files cannot be made.
 */
int instance_lock_take(struct instance_lock *l, const char *pid_file,
		       struct err *e) ATTR_MUST_CHECK;
enum instance_lock_is { LOCK_STANDS, LOCK_MADE_AGAIN, LOCK_ANOTHERS, LOCK_FAILS };
/*
 * Whether the files are still there; makes them again, and their directory. LOCK_ANOTHERS: a second
 * supervisor has taken the place meanwhile. LOCK_FAILS: they cannot be made, with errno.
 */
enum instance_lock_is instance_lock_check(struct instance_lock *l);
/* Removes the pid file (not the lock file, and not another's) and lets go. */
void instance_lock_release(struct instance_lock *l);

/*
 * Opens (makes) the lock file of a slot under `run_dir`, and that directory if it was removed; not
 * locked yet. -1 with errno.
 */
int slot_lock_open(const char *run_dir, const char *queue, unsigned slot);
/* The file that was opened is no more: another open would make a new one. */
bool slot_lock_is_lost(int fd);
/* Without waiting: true when the lock is held by this descriptor now. */
bool slot_lock_try(int fd);

#endif
