/* credit.c - see credit.h. */
#include "credit.h"

void credit_set_limit(struct credit_pool *p, int64_t limit)
{
	p->limit = max_i64(limit, 0);
}

int64_t credit_grant(struct credit_pool *p, struct credit_account *a, int64_t target)
{
	int64_t n = min_i64(target - a->held, p->limit - p->out);

	if (n <= 0)
		return 0;
	a->held += n;
	p->out += n;
	return n;
}

int64_t credit_free(struct credit_pool *p, struct credit_account *a, int64_t n)
{
	n = max_i64(0, min_i64(n, a->held));
	INVARIANT(n <= p->out);
	a->held -= n;
	p->out -= n;
	return n;
}

void credit_close(struct credit_pool *p, struct credit_account *a)
{
	credit_free(p, a, a->held);
}

void credit_move(struct credit_account *from, struct credit_account *to)
{
	INVARIANT(from != to);
	to->held += from->held;
	from->held = 0;
}
