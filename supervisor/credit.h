/*
 * credit.h - how many tasks the workers of one queue may run at once, all generations together.
 *
 * The pool owns two numbers: the limit (the sum of the concurrency of the slots whose lock is held)
 * and what is out, granted and not freed, whoever holds it. A grant never takes what is out above
 * the limit; a limit that was lowered takes nothing back, it only holds until holders have freed
 * enough. A dead holder's credit stays out until credit_close(): the caller does that when the
 * worker and all of its handlers are gone. Pure: no clock, no loop, no log.
 */
#ifndef REDISQ_CREDIT_H
#define REDISQ_CREDIT_H

#include "base.h"

struct credit_pool {
	int64_t limit;
	int64_t out;
};

/* What one worker holds. */
struct credit_account {
	int64_t held;
};

/* Negative limits count as 0. */
void credit_set_limit(struct credit_pool *p, int64_t limit);
/*
 * Grants as much as there is, at most what the account lacks to `target`; returns how much was
 * granted (0 when it has enough or nothing is free).
 */
int64_t credit_grant(struct credit_pool *p, struct credit_account *a, int64_t target);
/* The holder lowered its own limit by `n`; more than it holds counts as all of it. Returns what
 * came back. */
int64_t credit_free(struct credit_pool *p, struct credit_account *a, int64_t n);
/* Everything the account holds comes back. */
void credit_close(struct credit_pool *p, struct credit_account *a);
/* Moves everything `from` holds to `to`: out all the same, in other hands. */
void credit_move(struct credit_account *from, struct credit_account *to);

#endif
