/* rconn_fifo.c - see rconn_fifo.h. */
#include "rconn_fifo.h"

void fifo_release(struct rconn_fifo *f)
{
	free(f->ring);
	memset(f, 0, sizeof(*f));
}

static struct rconn_pending *at(const struct rconn_fifo *f, size_t i)
{
	return &f->ring[(f->first + i) & (f->cap - 1)];
}

static void grow(struct rconn_fifo *f)
{
	size_t cap = f->cap ? f->cap * 2 : 16;
	struct rconn_pending *ring = xcalloc(cap, sizeof(*ring));

	for (size_t i = 0; i < f->n; i++)
		ring[i] = *at(f, i);
	free(f->ring);
	f->ring = ring;
	f->cap = cap;
	f->first = 0;
}

int64_t fifo_push(struct rconn_fifo *f, int64_t now_ms, int64_t timeout_ms,
		  const struct rconn_arg *verb, rconn_reply_fn *fn, void *arg)
{
	struct rconn_pending *p;
	size_t len = verb->len < RCONN_VERB_MAX ? verb->len : RCONN_VERB_MAX - 1;

	if (f->n == f->cap)
		grow(f);
	p = at(f, f->n);
	p->fn = fn;
	p->arg = arg;
	p->sent_ms = now_ms;
	p->due_ms = now_ms + timeout_ms;
	if (f->n > 0)
		p->due_ms = max_i64(p->due_ms, f->last_due_ms);
	memcpy(p->verb, verb->data, len);
	p->verb[len] = '\0';
	f->last_due_ms = p->due_ms;
	f->n++;
	return p->due_ms;
}

const struct rconn_pending *fifo_head(const struct rconn_fifo *f)
{
	return f->n ? at(f, 0) : NULL;
}

bool fifo_pop(struct rconn_fifo *f, struct rconn_pending *out)
{
	if (!f->n)
		return false;
	*out = *at(f, 0);
	f->first = (f->first + 1) & (f->cap - 1);
	f->n--;
	return true;
}
