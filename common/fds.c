/* fds.c - see fds.h. The limit before the raise is kept here, for the process as the limit is. */
#include <fcntl.h>
#include <unistd.h>

#include "fds.h"

static struct rlimit at_start;
static bool raised;

int fds_fill_standard(void)
{
	int fd;

	/* The lowest free number is given out: the first that is above 2 tells that all are there.
	 */
	do {
		fd = open("/dev/null", O_RDWR);
		if (fd < 0)
			return -1;
	} while (fd <= STDERR_FILENO);
	close(fd);
	return 0;
}

void fds_raise_limit(void)
{
	struct rlimit limit;

	if (raised || getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	at_start = limit;
	limit.rlim_cur = limit.rlim_max;
	/* Where it is refused, what there is has to do; conf_check_machine() counts. */
	raised = setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

bool fds_start_limit(struct rlimit *out)
{
	if (raised)
		*out = at_start;
	return raised;
}

int64_t fds_hard_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max > (rlim_t)INT64_MAX)
		return INT64_MAX;
	return (int64_t)limit.rlim_max;
}
