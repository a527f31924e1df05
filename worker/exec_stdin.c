/* exec_stdin.c - see exec_stdin.h. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exec_stdin.h"
#include "fields.h"

#define PIPE_FITS 65536 /* what a new pipe holds without a reader */

static int write_all(int fd, struct slice s)
{
	while (s.len > 0) {
		ssize_t n = write(fd, s.data, s.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		s = slice_of(s.data + n, s.len - (size_t)n);
	}
	return 0;
}

/* The child's stdin with these bytes in it; -1 with errno. */
static int filled_stdin(struct slice s)
{
	int fds[2];
	int saved;

	if (s.len <= PIPE_FITS) {
		if (pipe2(fds, O_CLOEXEC) < 0)
			return -1;
		/* Never more than it holds: cannot block. Without CAP_SYS_RESOURCE pipes of a user
		 * with very many of them are smaller; then the memory file serves. */
		if (s.len <= (size_t)fcntl(fds[1], F_GETPIPE_SZ) && write_all(fds[1], s) == 0) {
			close(fds[1]);
			return fds[0];
		}
		close(fds[0]);
		close(fds[1]);
	}
	fds[0] = memfd_create("redisq-stdin", MFD_CLOEXEC);
	if (fds[0] < 0)
		return -1;
	if (write_all(fds[0], s) < 0 || lseek(fds[0], 0, SEEK_SET) < 0) {
		saved = errno;
		close(fds[0]);
		errno = saved;
		return -1;
	}
	return fds[0];
}

int exec_stdin(const struct conf_queue *q, const struct task *t)
{
	const struct field *payload = task_field(t, q->payload_field);
	struct buf json = BUF_INIT;
	int fd;

	if (payload && q->stdin == CONF_STDIN_PAYLOAD)
		return filled_stdin(payload->value);
	fields_json(t, NULL, &json);
	fd = filled_stdin(slice_of(json.data, json.len));
	buf_release(&json);
	return fd;
}
