/*
 * lease.h - the rules of ownership in time: until when a worker may believe that a task is its own,
 * and what it may take from others. Pure; all times in ms on the boot clock unless said otherwise.
 *
 * Evidence. An answer of Redis proves ownership from the moment the question was *sent*: the lease
 * runs from then, minus a margin. Past its evidence a task is renewed before it is started or
 * settled; past the evidence of the name nothing at all is read.
 */
#ifndef REDISQ_LEASE_H
#define REDISQ_LEASE_H

#include "base.h"

/* Until when an answer to a question sent at `sent_ms` is evidence. */
int64_t lease_evidence(int64_t sent_ms, int64_t lease_ms);
/* Enough of it is left that nothing sent now can come after its end, unless something stalls. */
bool lease_is_fresh(int64_t evidence_ms, int64_t now_ms, int64_t lease_ms);
/* How often to renew. */
int64_t lease_renew_every(int64_t lease_ms);
/* How often to look for entries that somebody let go of. */
int64_t lease_scan_every(int64_t lease_ms);

/*
 * Stale entries may be taken only after one lease of unbroken connection (idle time runs on while
 * Redis or we were away), and not while Redis's clock has jumped against ours. Where we stood
 * still the owner of an entry may have done so, too, on the same machine, and be woken after us.
 */
struct stale_guard {
	int64_t linked_ms; /* since when both links stand and we run; 0 = they do not */
	int64_t looked_ms; /* the last look, 0 = none yet */
	int64_t offset_ms; /* Redis TIME minus boot clock, as last seen */
	bool have_offset;
	int64_t paused_until_ms;
};

void stale_linked(struct stale_guard *g, int64_t now_ms);
void stale_unlinked(struct stale_guard *g);
/* Redis answers, but cannot do what keeps a lease alive: others could not renew theirs, either. The
 * connection counts from now. */
void stale_unserved(struct stale_guard *g, int64_t now_ms);
/* It is another server from now on, with a clock of its own. */
void stale_other_server(struct stale_guard *g);
/* To be told each turn of the loop, which is never further apart than the renewals: a longer gap
 * is a stall, and counts as a broken connection. */
void stale_look(struct stale_guard *g, int64_t now_ms, int64_t lease_ms);
/* Tells Redis's time; true when it jumped and taking is paused for one lease. */
bool stale_redis_time(struct stale_guard *g, int64_t redis_ms, int64_t now_ms, int64_t lease_ms);
bool stale_allowed(const struct stale_guard *g, int64_t now_ms, int64_t lease_ms);

/* Was released by its owner: its idle time is that of 1970. */
bool lease_is_released(int64_t idle_ms);

/*
 * An entry pending under our own name that is not in our table: the reply that brought it was
 * lost. Ours to take (or to release) once no read that is still unanswered can have brought it.
 * `oldest_read_ms`: when that was sent, 0 = none.
 */
bool lease_extra_is_lost(int64_t idle_ms, int64_t block_ms, int64_t oldest_read_ms, int64_t now_ms);

#endif
