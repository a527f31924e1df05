/*
 * control_socket.h - the socket file of control.h: made, recognised, taken away. Nobody else's is
 * ever taken: the lock of an instance is on its pid file, and two of those may name one socket.
 */
#ifndef REDISQ_CONTROL_SOCKET_H
#define REDISQ_CONTROL_SOCKET_H

#include <sys/types.h>

#include "err.h"

struct control_socket {
	int fd;    /* owned: listening; -1 = not open */
	dev_t dev; /* of the file we made */
	ino_t ino;
};

/*
 * Listens at `path`, mode 0600. A left-over of before is replaced. -1 with `e`, nothing changed:
 * exit code 73 where somebody answers there, otherwise 78.
 */
int control_socket_open(struct control_socket *s, const char *path, struct err *e) ATTR_MUST_CHECK;
/* Is what lies at `path` the one we listen at? */
bool control_socket_is_ours(const struct control_socket *s, const char *path);
/* Removes the file, if it is ours. */
void control_socket_close(struct control_socket *s, const char *path);

#endif
