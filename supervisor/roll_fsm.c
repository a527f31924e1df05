/* roll_fsm.c - see roll_fsm.h. */
#include "roll_fsm.h"

struct cell {
	bool possible; /* false: the empty cell, cannot happen */
	enum roll_phase next;
};

#define GO(to) \
	{ \
		.possible = true, .next = ROLL_##to \
	}

static const struct cell table[ROLL_N_PHASES][ROLL_N_EVENTS] = {
	[ROLL_IDLE] =
		{
			[ROLL_EV_RELOAD] = GO(CANARY),
			[ROLL_EV_RESTART] = GO(REST),
		},
	[ROLL_CANARY] =
		{
			/* Overtaken: what comes now is as unproved as what it replaces. */
			[ROLL_EV_RELOAD] = GO(CANARY),
			[ROLL_EV_RESTART] = GO(CANARY),
			[ROLL_EV_TRIED] = GO(REST),
			[ROLL_EV_BROKE] = GO(BACK),
			[ROLL_EV_OVER] = GO(IDLE),
		},
	[ROLL_REST] =
		{
			[ROLL_EV_RELOAD] = GO(CANARY),
			[ROLL_EV_RESTART] = GO(REST),
			[ROLL_EV_UNTRIED] = GO(WATCH),
			[ROLL_EV_BROKE] = GO(BACK),
			[ROLL_EV_OVER] = GO(IDLE),
		},
	[ROLL_WATCH] =
		{
			[ROLL_EV_RELOAD] = GO(CANARY),
			[ROLL_EV_RESTART] = GO(REST),
			[ROLL_EV_BROKE] = GO(BACK),
			[ROLL_EV_OVER] = GO(IDLE),
		},
	[ROLL_BACK] =
		{
			[ROLL_EV_RELOAD] = GO(CANARY),
			[ROLL_EV_RESTART] = GO(BACK),
			[ROLL_EV_OVER] = GO(IDLE),
		},
};

bool roll_fsm_step(enum roll_phase phase, enum roll_event event, enum roll_phase *next)
{
	const struct cell *c;

	INVARIANT(phase < ROLL_N_PHASES && event < ROLL_N_EVENTS);
	c = &table[phase][event];
	*next = c->possible ? c->next : phase;
	return c->possible;
}

const char *roll_phase_word(enum roll_phase p)
{
#define ROLL_WORD(name, text) [ROLL_##name] = text,
	static const char *const words[] = {ROLL_PHASES(ROLL_WORD)};
#undef ROLL_WORD

	return words[p];
}

const char *roll_event_word(enum roll_event e)
{
#define ROLL_WORD(name, text) [ROLL_EV_##name] = text,
	static const char *const words[] = {ROLL_EVENTS(ROLL_WORD)};
#undef ROLL_WORD

	return words[e];
}
