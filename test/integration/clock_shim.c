/*
 * clock_shim.c - clocks that jump: LD_PRELOAD=clock-shim.so CLOCK_SHIM=FILE program...
 *
 * FILE holds two int64_t, offsets in ns: the first is added to CLOCK_REALTIME (and its coarse kin),
 * to time() and to gettimeofday(), as when an operator or NTP sets the time; the second to
 * CLOCK_BOOTTIME, which with the first makes what a machine sees that has slept. A test writes them
 * while programs run, and every one of them that has the file mapped jumps at that moment.
 * CLOCK_MONOTONIC stays what it is. Reads the clocks by system calls, so that it may stand before a
 * sanitizer's library, and works before anything is initialised.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile struct {
	int64_t wall, boot;
} * offset; /* NULL: no file */

__attribute__((constructor)) static void map_offset(void)
{
	const char *path = getenv("CLOCK_SHIM");
	int saved = errno;
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *at;

	if (fd >= 0) {
		at = mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0);
		offset = at == MAP_FAILED ? NULL : at;
		close(fd);
	}
	errno = saved;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int64_t ns;

	if (syscall(SYS_clock_gettime, id, ts) < 0)
		return -1;
	if (!offset)
		return 0;
	ns = (int64_t)ts->tv_sec * 1000000000 + ts->tv_nsec;
	if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
		ns += offset->wall;
	else if (id == CLOCK_BOOTTIME)
		ns += offset->boot;
	ts->tv_sec = ns / 1000000000;
	ts->tv_nsec = ns % 1000000000;
	return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	struct timespec ts;

	(void)tz;
	if (clock_gettime(CLOCK_REALTIME, &ts) < 0)
		return -1;
	*tv = (struct timeval){.tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000};
	return 0;
}

time_t time(time_t *out)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (out)
		*out = ts.tv_sec;
	return ts.tv_sec;
}
