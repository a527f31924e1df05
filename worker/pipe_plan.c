/* pipe_plan.c - see pipe_plan.h. */
#include "pipe_plan.h"

/* ------------------------------------------------------------------ states */

struct cell {
	bool ok;
	enum pipe_state next;
};

#define GO(state) \
	{ \
		.ok = true, .next = PIPE_##state \
	}

/* The empty cell means "cannot happen". */
static const struct cell table[PIPE_N_STATES][PIPE_N_EVENTS] = {
	[PIPE_STARTING] = {[PIPE_ON_READY] = GO(READY),
			   [PIPE_ON_DRAIN] = GO(DRAINING),
			   [PIPE_ON_TERM] = GO(TERMED),
			   [PIPE_ON_KILL] = GO(KILLED),
			   [PIPE_ON_DEATH] = GO(GONE)},
	[PIPE_READY] = {[PIPE_ON_DRAIN] = GO(DRAINING),
			[PIPE_ON_TERM] = GO(TERMED),
			[PIPE_ON_KILL] = GO(KILLED),
			[PIPE_ON_DEATH] = GO(GONE)},
	[PIPE_DRAINING] = {[PIPE_ON_TERM] = GO(TERMED),
			   [PIPE_ON_KILL] = GO(KILLED),
			   [PIPE_ON_DEATH] = GO(GONE)},
	[PIPE_TERMED] = {[PIPE_ON_KILL] = GO(KILLED), [PIPE_ON_DEATH] = GO(GONE)},
	[PIPE_KILLED] = {[PIPE_ON_DEATH] = GO(GONE)},
};

enum pipe_state pipe_next(enum pipe_state s, enum pipe_event ev)
{
	const struct cell *c = &table[s][ev];

	return c->ok ? c->next : PIPE_N_STATES;
}

const char *pipe_state_word(enum pipe_state s)
{
	static const char *const words[] = {
#define X(name, word) word,
		PIPE_STATES(X)
#undef X
	};

	return s < PIPE_N_STATES ? words[s] : "?";
}

const char *pipe_event_word(enum pipe_event ev)
{
	static const char *const words[] = {
#define X(name, word) word,
		PIPE_EVENTS(X)
#undef X
	};

	return ev < PIPE_N_EVENTS ? words[ev] : "?";
}

/* ------------------------------------------------------------------ who gets a task */

bool pipe_fits(const struct pipe_view *v, bool apart)
{
	if (v->state != PIPE_READY || v->apart || v->n_runs >= v->slots)
		return false;
	if (v->max_tasks > 0 && v->n_given >= v->max_tasks)
		return false;
	return !apart || v->n_runs == 0;
}

bool pipe_better(const struct pipe_view *a, const struct pipe_view *b)
{
	if (a->worn != b->worn)
		return !a->worn;
	if (a->slots - a->n_runs != b->slots - b->n_runs)
		return a->slots - a->n_runs > b->slots - b->n_runs;
	return a->n_runs < b->n_runs;
}

/* ------------------------------------------------------------------ how many */

int pipe_wanted(const struct pipe_census *c)
{
	int base = c->slots > 0 ? (c->concurrency + c->slots - 1) / c->slots : 1;
	int n = base + c->n_apart;

	return n < c->concurrency ? n : c->concurrency;
}

bool pipe_start_one(const struct pipe_census *c)
{
	int wanted = pipe_wanted(c);

	return c->n_fresh < wanted && c->n_all - c->n_busy <= wanted;
}

bool pipe_drain_worn(const struct pipe_census *c)
{
	return c->n_worn > 0 && c->n_ready + c->n_worn > pipe_wanted(c);
}

bool pipe_drain_idle(const struct pipe_census *c)
{
	return c->n_ready > pipe_wanted(c);
}

/* ------------------------------------------------------------------ replacing */

int64_t pipe_limit(int64_t limit, int dice)
{
	/* Divided first: a limit of bytes may be large. */
	int64_t off = limit / 10000 * dice + limit % 10000 * dice / 10000;

	return limit - off;
}
