/* noop_exec.c - an exec handler that notes how late it was started. */
#include "latency.h"

int main(void)
{
	int64_t now = now_ns();
	int fd = latency_open();
	char payload[64];
	ssize_t n = read(STDIN_FILENO, payload, sizeof(payload));

	if (n < 0)
		die("stdin: %s", strerror(errno));
	if (fd >= 0)
		latency_write(fd, now, payload, (size_t)n);
	return 0;
}
