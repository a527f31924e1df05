/* share.c - see share.h. */
#include "share.h"

static int count(const struct share *all, int n, enum share_state state)
{
	int found = 0;

	for (int i = 0; i < n; i++)
		found += all[i].state == state;
	return found;
}

/* There is more: an equal part, at least 1, and that of those who wait for nothing. */
static struct share_grant ask_for_more(const struct share *all, int n, int i, int free)
{
	int n_more = count(all, n, SHARE_MORE);

	return (struct share_grant){.n = (free + n_more - 1) / n_more,
				    .end_waits = free == 0 && all[i].full &&
						 count(all, n, SHARE_WAITING) > 0};
}

static int64_t turn_ms(const struct share *s)
{
	return s->quiet ? SHARE_QUIET_MS : SHARE_TURN_MS;
}

/* Has an empty one other than `i` to be looked at before anybody waits? */
static bool others_are_due(const struct share *all, int n, int i, int64_t now)
{
	for (int k = 0; k < n; k++)
		if (k != i && all[k].state == SHARE_EMPTY &&
		    now - all[k].looked_ms >= turn_ms(&all[k]))
			return true;
	return false;
}

struct share_grant share_ask(const struct share *all, int n, int i, int free, int64_t now)
{
	int n_empty = count(all, n, SHARE_EMPTY);
	int64_t age = now - all[i].looked_ms;

	if (n == 1)
		return (struct share_grant){
			.n = free, .wait = all[i].state == SHARE_EMPTY, .wait_ms = INT64_MAX};
	if (all[i].state == SHARE_MORE)
		return ask_for_more(all, n, i, free);
	if (all[i].state != SHARE_EMPTY || free <= 0)
		return (struct share_grant){0};
	/* An answer will wake us: then it is known whether anybody needs the credit. */
	if (count(all, n, SHARE_MORE) + count(all, n, SHARE_ASKED) > 0)
		return (struct share_grant){.n = age >= SHARE_LOOK_MS};
	if (free > n_empty)
		return (struct share_grant){.n = 1, .wait = true, .wait_ms = INT64_MAX};
	if (age >= turn_ms(&all[i]))
		return (struct share_grant){.n = 1};
	if (others_are_due(all, n, i, now))
		return (struct share_grant){0};
	return (struct share_grant){.n = 1, .wait = true, .wait_ms = turn_ms(&all[i])};
}
