/* daemon.c - see daemon.h. */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon.h"

static void wait_for_child(pid_t pid, int fd) ATTR_NORETURN;
static void wait_for_child(pid_t pid, int fd)
{
	char ok;
	ssize_t n;
	int status = 0;

	do
		n = read(fd, &ok, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		_exit(0);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

int daemon_begin(struct daemon *d, struct err *e)
{
	int fds[2];
	pid_t pid;

	d->fd = -1;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(e, 1, "-D: %s", strerror(errno));
	pid = fork();
	if (pid < 0) {
		err_set(e, 1, "-D: fork: %s", strerror(errno));
		close(fds[0]);
		close(fds[1]);
		return -1;
	}
	if (pid > 0) {
		close(fds[1]);
		wait_for_child(pid, fds[0]);
	}
	close(fds[0]);
	d->fd = fds[1];
	if (setsid() < 0)
		return err_set(e, 1, "-D: setsid: %s", strerror(errno));
	return 0;
}

void daemon_ready(struct daemon *d)
{
	int null;

	if (d->fd < 0)
		return;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		for (int fd = 0; fd <= 2; fd++)
			dup2(null, fd);
		close(null);
	}
	while (write(d->fd, "", 1) < 0 && errno == EINTR)
		;
	close(d->fd);
	d->fd = -1;
}
