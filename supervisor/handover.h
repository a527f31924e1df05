/*
 * handover.h - the orders of one queue to let others have what a dead worker had pending.
 *
 * An order is made, for each partition of the queue, when a worker and its handlers are gone, given
 * to a worker of the queue that can do it, and kept until that one says that it is done; one that
 * does not answer in time, or dies, loses it to another. Doing it twice changes nothing, so nothing
 * here needs to be sure.
 *
 * An order may be long: a worker has one of each partition at a time to answer, and gets none while
 * it has not read what it was told before. Each time an order is given again it is waited for twice
 * as long.
 */
#ifndef REDISQ_HANDOVER_H
#define REDISQ_HANDOVER_H

#include "obituary.h"
#include "proc.h"

struct handovers {
	struct list orders; /* of struct order, owned */
	uint32_t last_number;
};

void handovers_init(struct handovers *h);
void handovers_release(struct handovers *h);
/* Dead workers of which an order is not carried out yet: what they had pending waits. */
size_t handovers_n_open(const struct handovers *h);
/* Takes over `who` (left empty); `died_ms` on the monotonic clock. Nothing to do: nothing is made.
 */
void handovers_add(struct handovers *h, struct obituary *who, unsigned slot, int64_t died_ms);
/*
 * The successor in `slot` gets no credit yet: what its predecessor had pending comes before what is
 * new, and cannot be taken before it was handed over. Never longer than HANDOVER_HOLD_MS.
 */
#define HANDOVER_HOLD_MS 2000
bool handovers_hold(const struct handovers *h, unsigned slot, int64_t now_ms);
/*
 * Gives out what nobody has in hand; `heirs` are those workers of the queue that can
 * do it. True while an order
 * waits for an answer: call again in HANDOVER_LOOK_MS.
 */
#define HANDOVER_LOOK_MS 1000
#define HANDOVER_ANSWER_MS 1000      /* is waited for at first */
#define HANDOVER_ANSWER_MAX_MS 30000 /* ... and at most */
bool handovers_assign(struct handovers *h, struct proc *const *heirs, size_t n, int64_t now_ms);
/* Its orders need another. */
void handovers_heir_died(struct handovers *h, const struct proc *heir);
enum handed {
	HANDED_NOTHING,  /* or nothing that is new */
	HANDED_SOME,     /* entries that others should look for now */
	HANDED_SUSPECTS, /* likewise; some of them ran when it crashed */
};
/* What an heir says of order `number`; `moved` entries, negative = it did not say how many. */
enum handed handovers_handed(struct handovers *h, struct proc *heir, int64_t number, int64_t moved,
			     int64_t now_ms);
void handovers_swept(struct handovers *h, int64_t number);
/* Task `id` of that partition runs again, in `heir`; `prefix` of its id for people (partition.h).
 */
void handovers_runs_again(struct handovers *h, const struct proc *heir, int partition,
			  const char *prefix, const char *id, int64_t now_ms);

#endif
