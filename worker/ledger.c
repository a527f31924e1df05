/* ledger.c - see ledger.h. */
#include "ledger.h"

int ledger_in_use(const struct ledger *l)
{
	return l->held + l->returned + l->asked[LEDGER_READ] + l->asked[LEDGER_CLAIM];
}

static void check(const struct ledger *l)
{
	INVARIANT(l->held >= 0 && l->asked[LEDGER_READ] >= 0 && l->asked[LEDGER_CLAIM] >= 0);
	INVARIANT(l->leaving >= 0 && l->returned >= 0 && l->put_off >= 0);
	INVARIANT(ledger_in_use(l) - l->returned <= l->credit && l->credit <= l->concurrency);
}

void ledger_init(struct ledger *l, int concurrency, int most)
{
	INVARIANT(most >= 2 * concurrency);
	*l = (struct ledger){.concurrency = concurrency, .most = most};
}

int ledger_grant(struct ledger *l, int n)
{
	int room = l->concurrency - l->credit;
	int taken = n < room ? n : room;

	if (l->draining || taken < 0)
		taken = 0;
	l->credit += taken;
	check(l);
	return n - taken;
}

int ledger_free(const struct ledger *l)
{
	int used = ledger_in_use(l);
	int n = l->credit - used;
	int most = l->most - l->put_off;
	int room = (most < 2 * l->concurrency ? most : 2 * l->concurrency) - used - l->leaving;

	if (room < n)
		n = room;
	return l->draining || n < 0 ? 0 : n;
}

int ledger_ask(struct ledger *l, enum ledger_ask what, int want)
{
	int n = ledger_free(l);

	if (want < n)
		n = want;
	if (n <= 0)
		return 0;
	l->asked[what] += n;
	check(l);
	return n;
}

void ledger_got(struct ledger *l, enum ledger_ask what, int asked, int got)
{
	INVARIANT(got <= asked);
	l->asked[what] -= asked;
	l->held += got;
	check(l);
}

void ledger_leave(struct ledger *l, enum ledger_place *p)
{
	if (*p != LEDGER_HELD)
		return; /* one that was returned keeps its credit until it is really gone */
	l->held--;
	l->leaving++;
	*p = LEDGER_LEAVING;
	check(l);
}

void ledger_return(struct ledger *l, enum ledger_place *p)
{
	if (*p != LEDGER_LEAVING)
		return;
	l->leaving--;
	l->returned++;
	*p = LEDGER_RETURNED;
	check(l);
}

void ledger_put_off(struct ledger *l, enum ledger_place *p)
{
	if (*p == LEDGER_PUT_OFF)
		return;
	ledger_gone(l, *p);
	l->put_off++;
	*p = LEDGER_PUT_OFF;
}

void ledger_gone(struct ledger *l, enum ledger_place p)
{
	switch (p) {
	case LEDGER_HELD:
		l->held--;
		break;
	case LEDGER_LEAVING:
		l->leaving--;
		break;
	case LEDGER_RETURNED:
		l->returned--;
		break;
	case LEDGER_PUT_OFF:
		l->put_off--;
		break;
	}
	check(l);
}

void ledger_drain(struct ledger *l)
{
	l->draining = true;
}

int ledger_shrink(struct ledger *l)
{
	return l->draining ? ledger_give_back(l, 0) : 0;
}

int ledger_give_back(struct ledger *l, int keep)
{
	int floor = ledger_in_use(l) > keep ? ledger_in_use(l) : keep;
	int n = l->credit - floor;

	if (n <= 0)
		return 0;
	l->credit -= n;
	check(l);
	return n;
}

bool ledger_is_idle(const struct ledger *l)
{
	return ledger_in_use(l) + l->leaving + l->put_off == 0;
}
