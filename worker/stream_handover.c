/*
 * stream_handover.c - lets everyone have what a dead worker had pending, on the supervisor's order.
 *
 * The order comes when the dead worker's handlers have been killed and reaped. Its steps, each in
 * front of the next for a reason:
 *   1. CLIENT KILL of its links, if they belong to this life of the server: a read it had sent may
 *      else be served after we looked (seen 15 times of 15 over a slow path).
 *   2. handover, page by page, each with what the dead ran of it: that is charged, all of it is
 *      released.                                                               -> "handed"
 *   3. after BLOCK + 1 s again, uncharged: what was delivered into the dying socket all the same.
 *      If there was something, once more, when it may have been taken.
 *   4. the consumer is removed, if nothing is pending for it any more.          -> "swept"
 * A link that is lost in between starts the step anew; every step may be done twice.
 */
#include <inttypes.h>

#include "clock.h"
#include "stream.h"

#define SECOND_LOOK_MS (STREAM_BLOCK_IDLE_MS + 1000)
#define LOOKS_MAX 3

/* As many as one page of the script may release. */
#define PAGE 1000

enum step { STEP_KILL, STEP_HAND, STEP_WAIT, STEP_REMOVE };

struct handover {
	struct list link;    /* queue's handovers */
	struct queue *q;     /* borrowed */
	struct obituary who; /* owned */
	enum step step;
	bool asking;
	int n_looks; /* that are over */
	char from[BOARD_ID_MAX];
	int at;          /* the first of who.ran behind `from` */
	int64_t n_moved; /* by this look */
	int64_t n_charged;
	int64_t look_at_ms;
};

static void begin_look(struct handover *h)
{
	snprintf(h->from, sizeof(h->from), "-");
	h->at = 0;
	h->n_moved = 0;
	h->step = STEP_KILL;
}

static void free_handover(struct handover *h)
{
	list_remove(&h->link);
	obituary_release(&h->who);
	free(h);
}

/* An answer that is none: the same step again, later. */
static bool failed(struct handover *h, const struct redisReply *r)
{
	h->asking = false;
	if (reply_kind(r) == REPLY_OK) {
		stream_fine(h->q, STREAM_OP_HANDOVER);
		return false;
	}
	stream_trouble(h->q, r, STREAM_OP_HANDOVER);
	return true;
}

/* What both scripts are told: the stream, the claim of the dead, keys of their own; who it was. */
static void args_about(struct args *a, const struct handover *h, const char *const *own, int n_own)
{
	const struct queue *q = h->q;

	args_init(a);
	args_str(a, q->keys.stream);
	args_join(a, q->keys.claim, h->who.consumer);
	for (int i = 0; i < n_own; i++)
		args_str(a, own[i]);
	args_str(a, q->c->group);
	args_str(a, h->who.consumer);
	args_str(a, h->who.nonce);
}

/* ------------------------------------------------------------------ 4: the consumer */

static void on_removed(void *arg, const struct redisReply *r)
{
	struct handover *h = arg;
	struct queue *q = h->q;

	if (failed(h, r))
		return;
	q->events->on_swept(q->w, q, &h->who);
	free_handover(h);
}

static int send_remove(struct handover *h)
{
	const char *const own[] = {h->q->keys.names};
	struct args a;

	args_about(&a, h, own, ARRAY_LEN(own));
	return stream_script(h->q, h->q->cmd, SCRIPT_DELCONSUMER, 2 + ARRAY_LEN(own), &a,
			     on_removed, h);
}

/* ------------------------------------------------------------------ 2: the entries */

static void handed(struct handover *h)
{
	struct queue *q = h->q;

	if (h->n_moved > 0)
		q->scan_now = true;
	if (h->n_looks++ == 0) {
		q->events->on_handed(q->w, q, &h->who, h->n_moved, h->n_charged);
	} else if (h->n_moved == 0 || h->n_looks == LOOKS_MAX) {
		h->step = STEP_REMOVE;
		return;
	}
	h->look_at_ms = clock_boot_ms() + SECOND_LOOK_MS;
	h->step = STEP_WAIT;
}

static void on_page(void *arg, const struct redisReply *r)
{
	struct handover *h = arg;
	struct queue *q = h->q;
	int64_t moved = reply_int(reply_at(r, 0), 0);
	struct slice last = reply_slice(reply_at(r, 2));

	if (failed(h, r))
		return;
	if (reply_at(r, 0) == NULL || (moved >= 0 && reply_len(r) != 3)) {
		stream_odd(q, STREAM_OP_HANDOVER);
		return;
	}
	if (moved < 0) {
		/* Another incarnation has the name: it was swept, or let go of by that one. */
		log_warning("the name of dead %s is another worker's now: nothing is handed over",
			    h->who.consumer);
		q->events->on_swept(q->w, q, &h->who);
		free_handover(h);
		return;
	}
	h->n_moved += moved;
	h->n_charged += reply_int(reply_at(r, 1), 0);
	if (last.len > 0) {
		snprintf(h->from, sizeof(h->from), "%.*s", (int)last.len, last.data);
		while (h->at < h->who.n_ran &&
		       obituary_compare_ids(h->who.ran[h->at].id, h->from) <= 0)
			h->at++;
		return;
	}
	handed(h);
}

static int send_page(struct handover *h)
{
	struct queue *q = h->q;
	const char *const own[] = {q->keys.crash, q->keys.ckpt, q->keys.progress};
	struct args a;

	bool charge = h->who.charge && h->n_looks == 0;
	int end = charge ? (int)min_i64(h->at + PAGE, h->who.n_ran) : h->at;

	args_about(&a, h, own, ARRAY_LEN(own));
	args_int(&a, charge);
	args_int(&a, q->c->lease + SECOND_LOOK_MS);
	args_str(&a, h->from);
	/* No further than the list reaches, if it has to be cut. */
	args_str(&a, charge && end < h->who.n_ran ? h->who.ran[end - 1].id : "+");
	args_str(&a, h->who.cause);
	args_int(&a, end - h->at);
	for (int i = h->at; i < end; i++) {
		args_str(&a, h->who.ran[i].id);
		args_int(&a, (int64_t)h->who.ran[i].token);
	}
	return stream_script(q, q->cmd, SCRIPT_HANDOVER, 2 + ARRAY_LEN(own), &a, on_page, h);
}

/* ------------------------------------------------------------------ 1: the links */

static void on_killed(void *arg ATTR_UNUSED, const struct redisReply *r)
{
	/* Gone already, or CLIENT is forbidden: the second look is there for that. */
	if (r && reply_kind(r) != REPLY_OK)
		log_debug("CLIENT KILL: %s", reply_error_text(r));
}

/* Goes out in front of the first page, in one write: no answer needs to be waited for. */
static void send_kills(struct handover *h)
{
	struct queue *q = h->q;

	if (!h->who.run_id[0] || strcmp(h->who.run_id, rconn_run_id(q->cmd)) != 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(h->who.client_id); i++) {
		struct args a;

		if (h->who.client_id[i] <= 0)
			continue;
		args_init(&a);
		args_str(&a, "CLIENT");
		args_str(&a, "KILL");
		args_str(&a, "ID");
		args_int(&a, h->who.client_id[i]);
		if (stream_send(q->cmd, &a, 0, on_killed, NULL) < 0)
			return;
	}
}

/* ------------------------------------------------------------------ the turn */

static void go_on(struct handover *h, int64_t now)
{
	int r = 0;

	if (h->step == STEP_WAIT && now >= h->look_at_ms)
		begin_look(h);
	if (h->asking || h->step == STEP_WAIT)
		return;
	if (h->step == STEP_KILL) {
		send_kills(h);
		h->step = STEP_HAND;
	}
	h->asking = true;
	if (h->step == STEP_HAND)
		r = send_page(h);
	else
		r = send_remove(h);
	if (r < 0)
		h->asking = false;
}

int64_t stream_handovers(struct queue *q, int64_t now)
{
	struct list *it, *tmp;
	int64_t next = INT64_MAX;

	/* The end of a pause, and a link that comes back, wake the loop themselves: a time that has
	 * passed would be an alarm that goes off at once, again and again. */
	if (!rconn_is_ready(q->cmd) || now < q->pause_until_ms)
		return INT64_MAX;
	list_each_safe (it, tmp, &q->handovers)
		go_on(list_entry(it, struct handover, link), now);
	list_each (it, &q->handovers) {
		const struct handover *h = list_entry(it, struct handover, link);

		if (h->step == STEP_WAIT)
			next = min_i64(next, h->look_at_ms);
	}
	return next;
}

/* Given again because we were silent: it is in hand, and not twice. */
static bool has_order(const struct queue *q, uint32_t order)
{
	struct list *it;

	list_each (it, &q->handovers)
		if (list_entry(it, struct handover, link)->who.order == order)
			return true;
	return false;
}

void stream_hand_over(struct queue *q, struct obituary *who)
{
	struct handover *h;

	if (has_order(q, who->order)) {
		obituary_release(who);
		return;
	}
	h = xcalloc(1, sizeof(*h));
	h->q = q;
	h->who = *who;
	obituary_init(who);
	obituary_sort(&h->who);
	begin_look(h);
	list_append(&q->handovers, &h->link);
	if (q->phase != STREAM_OPEN)
		return; /* with the turns of an open queue */
	stream_handovers(q, clock_boot_ms());
	rconn_flush(q->cmd);
}

void stream_forget_handovers(struct queue *q)
{
	while (!list_empty(&q->handovers))
		free_handover(list_entry(q->handovers.next, struct handover, link));
}
