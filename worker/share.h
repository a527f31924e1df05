/*
 * share.h - which of the partitions of a queue reads next, how many, and for how long: the free
 * credit of one worker, shared fairly by all the partitions that it serves. Pure.
 *
 * A read reserves the credit it asks for until its answer. So a partition that was empty at the
 * last look waits with 1, and whatever is left is for those where more lies, so that each comes to
 * have as many tasks as the others. Where there is not credit enough for all to wait and one to
 * spare, waits are short and take turns, and in between each partition is looked at without
 * waiting. While one has more than it may take, the empty ones do not wait at all, and are looked
 * at now and then. Before any of this comes what was let go of: one place is left for each
 * partition in which that waits. And before all: what a wait has brought has the credit that the
 * wait had. For one whose node does not answer nobody is held up.
 */
#ifndef REDISQ_SHARE_H
#define REDISQ_SHARE_H

#include "base.h"

enum share_state {
	SHARE_OUT,     /* cannot read, whatever the credit */
	SHARE_EMPTY,   /* as seen at the last look */
	SHARE_MORE,    /* there may be more */
	SHARE_ASKED,   /* its answer is near unless its node hangs, or it is about to take something
			  over */
	SHARE_WAITING, /* blocked in a read */
};

struct share {
	enum share_state state;
	bool more;         /* there may be, whatever it is doing */
	bool full;         /* its last read that did not wait brought all that it asked for */
	bool brought;      /* its wait has moved something, which goes back if there is no credit */
	bool quiet;        /* and has brought nothing for long */
	bool takes;        /* what was let go of waits there for credit, whatever it is doing */
	bool busy;         /* and an answer is near, before it can use any */
	bool able;         /* Redis lets us have what was let go of there */
	int64_t looked_ms; /* when it answered last */
	int64_t asked_ms;  /* SHARE_ASKED: since when it owes an answer; INT64_MAX = it owes none */
	int n_tasks;       /* it has already */
};

struct share_grant {
	int n;           /* how many to ask for; 0 = none now */
	bool wait;       /* blocked, if it is empty */
	int64_t wait_ms; /* at most; INT64_MAX = no limit of ours */
	bool again;     /* others come first, and may have had their turn: another turn is needed */
	bool end_waits; /* others hold credit in waits that is needed here */
	int64_t again_ms; /* it was looked at too lately: ask again in so many ms, as what wakes us
			     else may not come; 0 = no need */
};

#define SHARE_LOOK_MS 100   /* how old a look may be while others have more, and an answer late */
#define SHARE_TURN_MS 200   /* how long a wait is that others wait behind */
#define SHARE_QUIET_MS 1000 /* the same where nothing has come for long */

/* What partition `i` of `n` may do with `free` credit. */
struct share_grant share_ask(const struct share *all, int n, int i, int free, int64_t now_ms);

#endif
