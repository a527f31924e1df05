/*
 * latency.h - a handler's part in measuring latency: how long ago was the moment that the payload
 * names? Written as a line to the file of BENCH_LATENCY; without that variable nothing is done.
 */
#ifndef REDISQ_BENCH_LATENCY_H
#define REDISQ_BENCH_LATENCY_H

#include <fcntl.h>
#include <inttypes.h>

#include "bench.h"

/* The file, or -1. */
static inline int latency_open(void)
{
	const char *path = getenv("BENCH_LATENCY");
	int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;

	if (path && fd < 0)
		die("%s: %s", path, strerror(errno));
	return fd;
}

/* `payload` begins with the digits of the moment and is `len` long. */
static inline void latency_write(int fd, int64_t now, const char *payload, size_t len)
{
	int64_t then = 0;
	char line[32];
	int n;

	for (size_t i = 0; i < len && payload[i] >= '0' && payload[i] <= '9'; i++)
		then = then * 10 + (payload[i] - '0');
	n = snprintf(line, sizeof(line), "%" PRId64 "\n", now - then);
	if (write(fd, line, (size_t)n) != n)
		die("BENCH_LATENCY: %s", strerror(errno));
}

#endif
