/*
 * so_lib.h - one shared library that handles tasks: found, loaded, looked at, and asked whether it
 * can work. What it must export is in redisq_handler.h.
 */
#ifndef REDISQ_SO_LIB_H
#define REDISQ_SO_LIB_H

#include "err.h"
#include "redisq_handler.h"

struct so_lib {
	void *dl;                         /* owned; NULL = not loaded */
	const struct redisq_handler *api; /* borrowed: the library's; NULL = not ready */
};

/*
 * Loads `path` and calls its init(); 0 at once when that was done before. -1: what is wrong in `e`,
 * and the file is looked at anew the next time. A path without '/' is one in the current directory.
 */
int so_lib_open(struct so_lib *l, const char *path, const struct redisq_host *host,
		struct err *e) ATTR_MUST_CHECK;
/* Calls fini() if init() went well. The code stays where it is: it may have left things behind. */
void so_lib_close(struct so_lib *l);

/* What is wrong with what a library exports, for people; NULL: nothing. Pure. */
const char *so_lib_fault(const struct redisq_handler *api, char out[128]);

#endif
