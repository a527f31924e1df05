/*
 * args.h - builds the arguments of one Redis command. Strings are borrowed until the command was
 * sent; numbers and joined texts are kept inside. Plain code.
 */
#ifndef REDISQ_ARGS_H
#define REDISQ_ARGS_H

#include "buf.h"
#include "rconn.h"

struct args {
	struct rconn_arg *v; /* owned; data == NULL: `len` is where it lies in `kept` */
	int n;
	int cap;
	struct buf kept;    /* NUL-terminated texts */
	struct buf adopted; /* likewise, of args_adopt() */
};

void args_init(struct args *a);
void args_release(struct args *a);
void args_str(struct args *a, const char *text);
void args_slice(struct args *a, struct slice s);
void args_int(struct args *a, int64_t n);
/* One argument made of two texts; kept inside. */
void args_join(struct args *a, const char *front, const char *back);
/* A number that is not known yet; its place, for args_set_int(). */
int args_reserve(struct args *a);
void args_set_int(struct args *a, int place, int64_t n);
/* Takes over those of `from`, which may borrow from texts that are kept in `a`: those stay. */
void args_adopt(struct args *a, struct args *from);
/* After the last argument: the array to send. */
const struct rconn_arg *args_done(struct args *a);

#endif
