/*
 * complaint.h - trouble, said at most once a second, and the latest always, late if need be: why a
 * link does not come back is news, that it has gone is not. What was said of late, but for its
 * numbers, is said again only after twice as long each time, up to COMPLAINT_EVERY_MAX_MS. One for
 * all that a worker is connected to: what goes wrong goes wrong for all of it at once.
 */
#ifndef REDISQ_COMPLAINT_H
#define REDISQ_COMPLAINT_H

#include "base.h"

#define COMPLAINT_EVERY_MS 1000
#define COMPLAINT_EVERY_MAX_MS 32000
#define COMPLAINTS_KEPT 4

struct complaint {
	char text[256]; /* not said yet; "" = none */
	unsigned n_left_out;
	int64_t due_ms;                 /* when the next may be said, boot clock */
	int64_t every_ms;               /* after what is said next; 0 = not begun */
	uint64_t said[COMPLAINTS_KEPT]; /* of what was said last: what it was, numbers apart */
	unsigned n_said;
};

void complaint_add(struct complaint *c, const char *text);
/* Says what may be said by now; when the next is due (boot clock), INT64_MAX = nothing waits. */
int64_t complaint_due(struct complaint *c, int64_t now_ms);
/* Last words need not wait. */
void complaint_end(struct complaint *c);

#endif
