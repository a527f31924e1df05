/* valgrind.h - valgrind keeps descriptors of its own and does not enforce RLIMIT_NOFILE as the
 * kernel does: tests of that limit are for the other runs. Valgrind 3.19 does not know
 * pidfd_open(2), which is how it gives itself away.
 */
#ifndef TEST_VALGRIND_H
#define TEST_VALGRIND_H

#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline bool without_real_fd_limits(void)
{
	long fd = syscall(SYS_pidfd_open, getpid(), 0);

	if (fd >= 0)
		close((int)fd);
	return fd < 0;
}

#endif
