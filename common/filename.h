/*
 * filename.h - a name that may hold any bytes, as a part of a file's name. Plain code.
 */
#ifndef REDISQ_FILENAME_H
#define REDISQ_FILENAME_H

#include "buf.h"

/*
 * Appends `name` with every byte outside [A-Za-z0-9._-] as %XX, at most FILENAME_STEM_MAX bytes: a
 * longer one is cut and ends in '~' and a checksum of the whole, so that two long names stay two
 * and a prefix and a suffix still fit into the 255 bytes of a file name.
 */
#define FILENAME_STEM_MAX 200
void filename_stem(struct buf *out, const char *name);

#endif
