/* control_socket.c - see control_socket.h. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "control_socket.h"

#define BACKLOG 64

static int bind_path(int fd, const char *path, struct stat *made)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	mode_t before;
	int rc;

	memcpy(sa.sun_path, path, strlen(path) + 1);
	before = umask(0177); /* never reachable for others, not even for a moment */
	rc = bind(fd, (const struct sockaddr *)&sa, sizeof(sa));
	umask(before);
	if (rc == 0)
		rc = lstat(path, made);
	return rc;
}

/* Is somebody listening at this socket? 1, 0 = a left-over, -1 with errno. */
static int is_answered(const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc, error;

	if (fd < 0)
		return -1;
	memcpy(sa.sun_path, path, strlen(path) + 1);
	rc = connect(fd, (const struct sockaddr *)&sa, sizeof(sa));
	error = errno;
	close(fd);
	if (rc == 0 || error == EAGAIN) /* EAGAIN: too many wait there already */
		return 1;
	errno = error;
	return error == ECONNREFUSED || error == ENOENT ? 0 : -1;
}

int control_socket_open(struct control_socket *s, const char *path, struct err *e)
{
	struct stat st;
	int fd = -1;

	if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return err_set(e, EXIT_CONFIG,
			       "control socket %s: the path has more than 107 bytes; set a shorter "
			       "supervisor.control_socket",
			       path);
	if (lstat(path, &st) == 0) {
		if (!S_ISSOCK(st.st_mode))
			return err_set(e, EXIT_CONFIG,
				       "control socket %s: something else is there; move it away",
				       path);
		/* The lock is on the pid file: two of those may name one socket. */
		switch (is_answered(path)) {
		case 1:
			return err_set(e, EXIT_ALREADY_RUNNING,
				       "control socket %s: another supervisor answers there; stop "
				       "it, or give this one its own supervisor.name",
				       path);
		case 0:
			break;
		default:
			goto fail;
		}
		if (unlink(path) != 0 && errno != ENOENT)
			goto fail;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind_path(fd, path, &st) != 0 || listen(fd, BACKLOG) != 0)
		goto fail;
	s->fd = fd;
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	return 0;
fail:
	err_set(e, EXIT_CONFIG, "control socket %s: %s; is the directory there and writable?", path,
		strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

bool control_socket_is_ours(const struct control_socket *s, const char *path)
{
	struct stat st;

	/* Our open descriptor keeps the inode: another file cannot have its number. */
	return s->fd >= 0 && lstat(path, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino;
}

void control_socket_close(struct control_socket *s, const char *path)
{
	if (control_socket_is_ours(s, path))
		unlink(path);
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}
