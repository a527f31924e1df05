/*
 * complaint.h - trouble, said at most once a second, and the latest always, late if need be: why a
 * link does not come back is news, that it has gone is not. One for all that a worker is connected
 * to: what goes wrong goes wrong for all of it at once.
 */
#ifndef REDISQ_COMPLAINT_H
#define REDISQ_COMPLAINT_H

#include "base.h"

struct complaint {
	char text[256]; /* not said yet; "" = none */
	unsigned n_left_out;
	int64_t due_ms; /* when the next may be said, boot clock */
};

void complaint_add(struct complaint *c, const char *text);
/* Says what may be said by now; when the next is due (boot clock), INT64_MAX = nothing waits. */
int64_t complaint_due(struct complaint *c, int64_t now_ms);
/* Last words need not wait. */
void complaint_end(struct complaint *c);

#endif
