/* reach.c - see reach.h. */
#include "reach.h"

#define NAMES_MAX 120 /* bytes of an error's names */

bool reach_is_lost(const struct reach *x, const struct parts *p, size_t i)
{
	for (size_t k = 0; k < x->lost.n; k++)
		if (strcmp(x->lost.v[k], p->v[i].name) == 0)
			return true;
	return false;
}

enum reach_result reach_failed(struct reach *x, const struct parts *p, size_t i, struct err *e)
{
	if (e->code != EXIT_UNREACHABLE || !redis_is_cluster(x->redis) ||
	    (!p->is_spread && !x->takes_single))
		return REACH_END;
	if (!x->lost.n)
		snprintf(x->why, sizeof(x->why), "%s", redis_why(x->redis));
	x->lost_a_single |= !p->is_spread && p->number < 0;
	strv_add(&x->lost, p->v[i].name);
	redis_be_hasty(x->redis, true);
	*e = (struct err){0};
	return REACH_LOST;
}

enum reach_result reach_turn_to(struct reach *x, const struct parts *p, size_t i, struct err *e)
{
	if (reach_is_lost(x, p, i))
		return REACH_AWAY;
	if (redis_serve(x->redis, &p->v[i], e) == 0)
		return REACH_THERE;
	return reach_failed(x, p, i, e);
}

void reach_release(struct reach *x)
{
	strv_release(&x->lost);
}

size_t reach_n_lost(const struct reach *x, const struct parts *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		n += reach_is_lost(x, p, i);
	return n;
}

void reach_add_remark(const struct reach *x, const struct parts *p, struct buf *out)
{
	size_t n_lost = reach_n_lost(x, p), n = 0;

	if (n_lost == 0 || !p->is_spread)
		return;
	buf_addf(out, "%s: without partition%s ", parts_name(p), n_lost == 1 ? "" : "s");
	for (size_t i = 0; i < p->n; i++)
		if (reach_is_lost(x, p, i))
			buf_addf(out, "%s%zu", n++ ? ", " : "", i);
	buf_adds(out, ", which cannot be reached\n");
}

int reach_end(const struct reach *x, struct err *e)
{
	struct buf names = BUF_INIT;
	size_t n = 0;

	if (x->lost.n == 0)
		return 0;
	for (; n < x->lost.n && names.len < NAMES_MAX; n++)
		buf_addf(&names, "%s%s", n ? ", " : "", x->lost.v[n]);
	if (n < x->lost.n)
		buf_addf(&names, " and %zu more", x->lost.n - n);
	err_set(e, EXIT_UNREACHABLE, "%s%s %.150s cannot be reached: %.330s",
		x->lost_a_single ? "queue" : "partition", x->lost.n == 1 ? "" : "s", names.data,
		x->why);
	buf_release(&names);
	return -1;
}

int reach_not_found(const struct reach *x, const char *what, const char *id, struct err *e)
{
	struct err why = {0};

	INVARIANT(reach_end(x, &why) != 0);
	return err_set(e, why.code, "no %s %.80s in the others; %.400s", what, id, why.text);
}
