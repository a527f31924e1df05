/* terminal.c - see terminal.h. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "terminal.h"

enum terminal terminal_judge(int error)
{
	/* No terminal, its driver has gone, it was hung up. EMFILE says nothing about terminals. */
	return error == ENXIO || error == ENODEV || error == EIO ? TERMINAL_GONE : TERMINAL_UNKNOWN;
}

enum terminal terminal_look(void)
{
	int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return terminal_judge(errno);
	close(fd);
	return TERMINAL_THERE;
}
