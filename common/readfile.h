/*
 * readfile.h - a small file read whole, at once: /proc, /sys, pid files. Bounded, never blocks on
 * a FIFO; not for payloads and not for configuration, whose readers have more to say.
 */
#ifndef REDISQ_READFILE_H
#define REDISQ_READFILE_H

#include "buf.h"

/*
 * Appends at most `max` bytes of the file (the rest is left out). 0, or -1 with errno, and then
 * `out` is as it was.
 */
int readfile(const char *path, size_t max, struct buf *out) ATTR_MUST_CHECK;
/* The first number in the file, `otherwise` when it cannot be read. */
int64_t readfile_number(const char *path, int64_t otherwise);

#endif
