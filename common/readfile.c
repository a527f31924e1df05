/* readfile.c - see readfile.h. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "readfile.h"

#define CHUNK 4096
#define NUMBER_MAX 64

int readfile(const char *path, size_t max, struct buf *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	size_t begin = out->len;
	int rc = -1, saved;

	if (fd < 0)
		return -1;
	while (out->len - begin < max) {
		size_t left = max - (out->len - begin), want = left < CHUNK ? left : CHUNK;
		ssize_t n = read(fd, buf_reserve(out, want), want);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			goto out;
		if (n == 0)
			break;
		buf_commit(out, (size_t)n);
	}
	rc = 0;
out:
	saved = errno;
	if (rc < 0)
		buf_truncate(out, begin);
	close(fd);
	errno = saved;
	return rc;
}

int64_t readfile_number(const char *path, int64_t otherwise)
{
	struct buf text = BUF_INIT;
	int64_t n = otherwise;
	char *end;

	if (readfile(path, NUMBER_MAX, &text) == 0) {
		n = strtoll(text.data, &end, 10);
		if (end == text.data)
			n = otherwise;
	}
	buf_release(&text);
	return n;
}
