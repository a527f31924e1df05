/*
 * stream_kind.c - the first step of opening a queue: is what lies there of the kind that it is to
 * be (kind.h)? One round trip. A worker that went on where it is not would run what it gets, and
 * could settle none of it; refused, it leaves the queue to those who serve it as it is.
 */
#include "kind.h"
#include "stream.h"

struct asking {
	struct queue *q; /* borrowed */
	size_t row;      /* whose answer is next */
	struct kind_found found;
	bool has_failed;
};

static void decide(struct queue *q, const struct kind_found *found)
{
	struct buf what = BUF_INIT, cure = BUF_INIT;

	if (kind_conflict(found, q->kind->on_lists, &q->keys, &what, &cure)) {
		buf_addf(&what, "; %s", cure.data);
		stream_refuse(q, what.data);
	} else {
		q->kind->open(q);
	}
	buf_release(&what);
	buf_release(&cure);
}

static void on_type(void *arg, const struct redisReply *r)
{
	struct asking *a = arg;
	struct queue *q = a->q;

	if (a->has_failed || stream_opening_ended(q, r)) {
		a->has_failed = true;
	} else if (reply_kind(r) == REPLY_OK) {
		kind_note(&a->found, a->row, reply_slice(r));
	} else if (reply_kind(r) != REPLY_DENIED) { /* else it is not told */
		a->has_failed = true;
		q->asking_open = false;
		stream_trouble(q, r, STREAM_OP_OPEN);
	}
	if (++a->row < KIND_KEYS)
		return;
	if (!a->has_failed)
		decide(q, &a->found);
	free(a);
}

void stream_ask_kind(struct queue *q)
{
	struct asking *a = xcalloc(1, sizeof(*a));
	size_t n_sent = 0;

	a->q = q;
	for (size_t row = 0; row < KIND_KEYS; row++) {
		struct args args;

		args_init(&args);
		args_str(&args, "TYPE");
		args_str(&args, kind_key(&q->keys, row));
		/* A link never falls inside a call: either all of them are sent or none. */
		n_sent += stream_send(q->cmd, &args, 0, on_type, a) == 0;
	}
	if (n_sent == 0) {
		q->asking_open = false;
		free(a);
	}
}
