/*
 * stream_trouble.c - what is done about errors: the only place that waits, drops a link, makes the
 * group anew or refuses the queue.
 *
 * Each kind of request has a back-off of its own, so that one that goes well does not hide one that
 * never does; while any of them waits nothing new is sent, except what keeps our leases alive.
 */
#include "clock.h"
#include "cluster.h"
#include "stream.h"

#define BASE_MS 200
#define CAP_MS 5000
/* A slot that moves: work is to go on soon after. */
#define MOVING_CAP_MS 2000
/* A permission comes back when somebody has mended it: consuming again within 10 s of that. */
#define DENIED_CAP_MS 8000

static const char *op_word(enum stream_op op)
{
	static const char *const words[] = {
#define X(name, word) word,
		STREAM_OPS(X)
#undef X
	};

	return words[op];
}

void stream_complain(struct queue *q, const char *fmt, ...)
{
	struct buf text = BUF_INIT;
	va_list ap;

	if (q->c->partitions > 1)
		buf_addf(&text, "%s: ", q->what);
	va_start(ap, fmt);
	buf_vaddf(&text, fmt, ap);
	va_end(ap);
	complaint_add(&q->w->complaint, text.data);
	buf_release(&text);
}

/* The key of the queue, or of what a read needs, is of another type: who waits for tasks should
 * know, for nothing mends that but people. */
static void hindered(struct queue *q, const char *text)
{
	struct buf why = BUF_INIT;

	if (q->hindered)
		return;
	q->hindered = true;
	buf_addf(&why, "\"%s\" cannot be read: %s; see redisqctl doctor %s", q->keys.stream, text,
		 q->c->name);
	q->events->on_hindered(q->w, q, why.data);
	buf_release(&why);
}

void stream_fine(struct queue *q, enum stream_op op)
{
	if (op == STREAM_OP_READ && q->hindered) {
		q->hindered = false;
		q->events->on_hindered(q->w, q, NULL);
	}
	q->n_trouble[op] = 0;
	q->moving = false;
	if (q->pause_op == op)
		q->pause_until_ms = 0;
}

static void pause_for(struct queue *q, enum stream_op op, int64_t cap_ms)
{
	int64_t now = clock_boot_ms();
	int64_t until;

	/* Several that fail during one wait are one failure; but renewals do not wait it out. */
	if (op != STREAM_OP_RENEW && q->n_trouble[op] && q->pause_op == op &&
	    now < q->pause_until_ms)
		return;
	q->n_trouble[op]++;
	until = now + 1 + backoff_add_jitter_ms(&q->w->rng, BASE_MS, cap_ms, q->n_trouble[op], 25);
	if (until > q->pause_until_ms) {
		q->pause_until_ms = until;
		q->pause_op = op;
	}
}

void stream_pause(struct queue *q, enum stream_op op)
{
	pause_for(q, op, CAP_MS);
}

/*
 * The queue's slot is on its way to another node, or nobody has it. What runs goes on, and is
 * renewed as soon as that can be done; nothing is taken over for one lease after that, since its
 * owner could not renew it, either. Also without a cluster:// url: the answers are the same.
 */
static void wait_for_slot(struct queue *q, enum stream_op op, const char *text)
{
	pause_for(q, op, MOVING_CAP_MS);
	q->moving = true;
	stale_unserved(&q->stale, clock_boot_ms());
	log_limited(&q->moving_log, clock_mono_ms(), LOG_WARNING,
		    "%s: %.200s; waiting for the cluster, running tasks go on", op_word(op), text);
	q->events->on_wait(q->w, q, text);
}

/* A node of a cluster, and the url is not cluster://: said once, as it does not go away. */
static void misplaced(struct queue *q, enum stream_op op, const char *text)
{
	bool tls = strncmp(rconn_where(q->cmd), "rediss", 6) == 0;
	struct buf why = BUF_INIT;

	cluster_advice(text, "host", tls, &why);
	if (q->phase != STREAM_OPEN) {
		stream_refuse(q, why.data);
	} else {
		pause_for(q, op, DENIED_CAP_MS);
		if (!q->moved_said)
			stream_complain(q, "%s: %s", op_word(op), why.data);
		q->moved_said = true;
		q->events->on_wait(q->w, q, why.data);
	}
	buf_release(&why);
}

void stream_trouble(struct queue *q, const struct redisReply *r, enum stream_op op)
{
	enum reply_kind kind = reply_kind(r);
	const char *text = reply_error_text(r);
	const char *then = "trying again";

	if (kind == REPLY_OK || kind == REPLY_LOST)
		return;
	/* Refused, too, for whoever has what looks stale by now. */
	if (op == STREAM_OP_RENEW)
		stale_unserved(&q->stale, clock_boot_ms());
	switch (kind) {
	case REPLY_OK:
	case REPLY_LOST:
		return;
	case REPLY_NOGROUP:
		stream_complain(q, "%s: %s; creating the group again", op_word(op), text);
		stream_recreate_group(q);
		return;
	case REPLY_AGAIN:
		stream_complain(q, "%s: %s; reading again", op_word(op), text);
		return;
	case REPLY_MOVED:
		/* In a cluster the link itself falls, and follows. */
		if (!rconn_is_cluster(q->cmd))
			misplaced(q, op, text);
		return;
	case REPLY_MOVING:
		wait_for_slot(q, op, text);
		return;
	case REPLY_REDIRECT:
		/* The new link may well end at the same server: not more often than this. */
		pause_for(q, op, CAP_MS);
		rconn_drop(q->fetch, text);
		rconn_drop(q->cmd, text);
		then = "connecting again";
		break;
	case REPLY_WRONGTYPE:
		if (q->phase != STREAM_OPEN) {
			stream_refuse(q, text);
			return;
		}
		pause_for(q, op, CAP_MS);
		if (op == STREAM_OP_READ || op == STREAM_OP_WAIT)
			hindered(q, text);
		break;
	case REPLY_DENIED:
		pause_for(q, op, DENIED_CAP_MS);
		stream_find_denied(q, r);
		break;
	case REPLY_WAIT:
	case REPLY_OOM:
	case REPLY_BUSYGROUP:
	case REPLY_UNKNOWN:
	case REPLY_BAD:
		pause_for(q, op, CAP_MS);
		break;
	}
	stream_complain(q, "%s: %s; %s", op_word(op), text, then);
	q->events->on_wait(q->w, q, text);
}

void stream_odd(struct queue *q, enum stream_op op)
{
	pause_for(q, op, CAP_MS);
	stream_complain(q, "%s: Redis answered in a shape that is not understood; trying again",
			op_word(op));
}
