/*
 * ledger.h - the credit ledger: how many tasks this worker may have, has, and has asked for.
 *
 *     held + asked(read) + asked(claim) <= credit <= concurrency
 *
 * Credit is granted by the supervisor (a worker on its own grants it to itself). held counts from
 * the reply that brought a task until the answer that settled it. What a read or a claim asks for
 * is reserved until its reply or the end of its link, whether or not it brings anything. In a
 * drain the credit shrinks to what is in use, and what shrank is freed for others: that is how
 * workers x concurrency holds during a reload.
 *
 * Settling and reading are one write on one link, and Redis does them in that order: the read that
 * follows may already count on the credit of the tasks settled before it. Those are `leaving`: no
 * handler, no credit. If Redis then refuses the settlement they are `returned`: they take credit
 * again, maybe more than there is, and nothing is asked for until they are settled. Over another
 * link (that of another partition) a read may overtake the settlements: it is not sent where they
 * and all that is in use would come to more than 2 x concurrency. So there are never more tasks
 * than that under way, and never more than credit with a handler.
 *
 * Where Redis cannot take the settlements of one partition they are put off: no handler, no credit,
 * so that the others go on. It is for the queue to ask for nothing more in that one; what it had
 * asked for comes to 2 x concurrency with what was settled before it. What is put off and what is
 * under way are never more than `most`, together: as many tasks as the table has rows. Pure.
 */
#ifndef REDISQ_LEDGER_H
#define REDISQ_LEDGER_H

#include "base.h"

enum ledger_ask { LEDGER_READ, LEDGER_CLAIM, LEDGER_N_ASKS };

struct ledger {
	int concurrency;
	int credit;
	int held;
	int leaving;
	int returned;
	int put_off;
	int most;
	int asked[LEDGER_N_ASKS];
	bool draining;
};

/* most: tasks at all; at least 2 x concurrency. */
void ledger_init(struct ledger *l, int concurrency, int most);
/* More credit; never above the concurrency (the rest is returned: not wanted). */
int ledger_grant(struct ledger *l, int n);
/* What takes credit: held, returned and asked for, together. */
int ledger_in_use(const struct ledger *l);
/* What may be asked for now. */
int ledger_free(const struct ledger *l);
/* Reserves up to `want`; returns how much. */
int ledger_ask(struct ledger *l, enum ledger_ask what, int want);
/* The reply is there (or its link is gone): `asked` is released, `got` <= asked are held now. */
void ledger_got(struct ledger *l, enum ledger_ask what, int asked, int got);

/* Where a task stands in the ledger. */
enum ledger_place { LEDGER_HELD, LEDGER_LEAVING, LEDGER_RETURNED, LEDGER_PUT_OFF };
/* Its settlement goes out in front of a read, on the same link. */
void ledger_leave(struct ledger *l, enum ledger_place *p);
/* The settlement was refused, or its answer lost. */
void ledger_return(struct ledger *l, enum ledger_place *p);
/* It has ended and cannot be settled now: no other partition is to wait for that. It stays put off,
 * however often its settlement is tried. */
void ledger_put_off(struct ledger *l, enum ledger_place *p);
/* The task is settled or disowned: its slot is free. */
void ledger_gone(struct ledger *l, enum ledger_place p);
/* Nothing new from now on. */
void ledger_drain(struct ledger *l);
/* In a drain: lowers the credit to what is in use and returns by how much (for "freed N"). */
int ledger_shrink(struct ledger *l);
/* Lowers the credit to what is in use, but not below `keep`; returns by how much. */
int ledger_give_back(struct ledger *l, int keep);
/* No task at all, and nothing asked for. */
bool ledger_is_idle(const struct ledger *l);

#endif
