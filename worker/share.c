/* share.c - see share.h. */
#include "share.h"

static int count(const struct share *all, int n, enum share_state state)
{
	int found = 0;

	for (int i = 0; i < n; i++)
		found += all[i].state == state;
	return found;
}

/* Empty ones that were not looked at for `age_ms`, but for `i`. */
static int count_due(const struct share *all, int n, int i, int64_t age_ms, int64_t now)
{
	int found = 0;

	for (int k = 0; k < n; k++)
		found += k != i && all[k].state == SHARE_EMPTY && now - all[k].looked_ms >= age_ms;
	return found;
}

/* It should have answered: its node hangs, or is far away. */
static bool is_late(const struct share *s, int64_t now)
{
	return s->state == SHARE_ASKED && s->asked_ms <= now - SHARE_LOOK_MS;
}

/* Whose answer is near. */
static int count_near(const struct share *all, int n, int64_t now)
{
	int found = 0;

	for (int i = 0; i < n; i++)
		found += all[i].state == SHARE_ASKED && !is_late(&all[i], now);
	return found;
}

/* In how many others something waits to be taken over; of those that can go on with it in this turn
 * only `ready`. */
static int count_takes(const struct share *all, int n, int i, bool ready, int64_t now)
{
	int found = 0;

	for (int k = 0; k < n; k++)
		found += k != i && all[k].state != SHARE_OUT && !is_late(&all[k], now) &&
			 all[k].takes && !(ready && all[k].busy);
	return found;
}

/* What each of those where there is more has when `credit` is given to those that have least. */
static int level(const struct share *all, int n, int credit)
{
	int n_more = count(all, n, SHARE_MORE);

	for (int i = 0; i < n; i++)
		if (all[i].state == SHARE_MORE)
			credit += all[i].n_tasks;
	return n_more > 0 ? (credit + n_more - 1) / n_more : 0;
}

/*
 * There is more: its part, and the credit of those who wait for nothing. What a look at the empty
 * ones takes is left to them, as is the part of the others and what waits to be taken over, or they
 * would never come to it: credit becomes free where a task is settled, and that is where there is
 * more.
 */
static struct share_grant ask_for_more(const struct share *all, int n, int i, int free, int64_t now)
{
	int n_takes = count_takes(all, n, i, false, now);
	int n_due = count_due(all, n, i, SHARE_LOOK_MS, now) + n_takes;
	int n_later = n_takes - count_takes(all, n, i, true, now);
	int left = free > n_due ? free - n_due : 0;
	int part = level(all, n, left) - all[i].n_tasks;

	if (part > left)
		part = left;
	if (part < 0)
		part = 0;
	/* An answer wakes the loop by itself. */
	return (struct share_grant){.n = part,
				    .again = part < free - n_later,
				    .end_waits = free == 0 && all[i].full &&
						 count(all, n, SHARE_WAITING) > 0};
}

static int64_t turn_ms(const struct share *s)
{
	return s->quiet ? SHARE_QUIET_MS : SHARE_TURN_MS;
}

/* Others that need credit for what their waits have brought. */
static int count_brought(const struct share *all, int n, int i)
{
	int found = 0;

	for (int k = 0; k < n; k++)
		found += k != i && all[k].state == SHARE_MORE && all[k].brought;
	return found;
}

static struct share_grant ask(const struct share *all, int n, int i, int free, int64_t now)
{
	int n_empty = count(all, n, SHARE_EMPTY);
	int64_t age = now - all[i].looked_ms;

	if (all[i].state == SHARE_MORE)
		return ask_for_more(all, n, i, free, now);
	if (all[i].state != SHARE_EMPTY || free <= 0)
		return (struct share_grant){0};
	/* An answer will wake us: then it is known whether anybody needs the credit. But a node
	 * that hangs gives none, and its partition keeps nobody from waiting by then. */
	if (count(all, n, SHARE_MORE) + count_near(all, n, now) > 0) {
		if (age >= SHARE_LOOK_MS)
			return (struct share_grant){.n = 1};
		return (struct share_grant){.again_ms = SHARE_LOOK_MS - age};
	}
	if (free > n_empty)
		return (struct share_grant){.n = 1, .wait = true, .wait_ms = INT64_MAX};
	if (age >= turn_ms(&all[i]))
		return (struct share_grant){.n = 1};
	/* Who was not looked at for so long comes before anybody waits. */
	if (count_due(all, n, i, turn_ms(&all[i]), now) > 0)
		return (struct share_grant){.again = true};
	return (struct share_grant){.n = 1, .wait = true, .wait_ms = turn_ms(&all[i])};
}

struct share_grant share_ask(const struct share *all, int n, int i, int free, int64_t now)
{
	int n_brought = count_brought(all, n, i);
	struct share_grant may;

	if (n == 1)
		return (struct share_grant){
			.n = free, .wait = all[i].state == SHARE_EMPTY, .wait_ms = INT64_MAX};
	may = ask(all, n, i, free > n_brought ? free - n_brought : 0, now);
	if (may.n == 0 && all[i].brought && all[i].state == SHARE_MORE && free > 0)
		may.n = 1;
	return may;
}
