/*
 * stream_read.c - XREADGROUP: when, how many, how long; and what it brings.
 *
 * COUNT is the free credit and never anything else; without free credit nothing is sent (COUNT 0
 * would mean "no limit"). A read reserves its credit until its answer, or the end of its link. The
 * read blocks only when the stream was empty at the last look: under load it goes out together with
 * the settlements and returns at once.
 */
#include <inttypes.h>

#include "clock.h"
#include "stream.h"

/* ------------------------------------------------------------------ entries become tasks */

static void add_field(void *arg, struct slice name, struct slice value)
{
	task_add_field(arg, name, value);
}

bool stream_adopt(struct queue *q, const struct arrival *in)
{
	char text[BOARD_ID_MAX];
	struct task *t;

	slice_text(in->id, text, sizeof(text));
	t = worker_find_task(q->w, q, text);
	if (t) {
		/* Taken from ourselves: an id in the table is never started again. */
		t->token = in->token;
		worker_republish(q->w, t);
		t->evidence_ms = in->evidence_ms;
		t->lost = false; /* it was, and has come back */
		return false;
	}
	if (!in->fields)
		return false; /* deleted meanwhile; the next renewal finds the ghost */
	t = worker_free_task(q->w);
	task_begin(t, q, slice_str(text), in->token);
	t->partition = q->partition;
	t->n_partitions = q->c->partitions;
	if (reply_fields(in->fields, add_field, t) < 0)
		log_error("entry %s has an odd number of fields", text);
	task_parsed(t);
	t->suspicion =
		suspect_judge(in->crash_record, q->c, t->crash_cause, sizeof(t->crash_cause));
	t->evidence_ms = in->evidence_ms;
	if (in->has_checkpoint)
		buf_add(&t->checkpoint, in->checkpoint.data, in->checkpoint.len);
	else if (task_ran_before(t))
		stream_ask_checkpoint(q, t);
	partitions_count(q->w, q, 1);
	worker_task_event(q->w, t, TASK_ON_FETCH);
	return true;
}

bool stream_start_fetched(struct queue *q, int64_t now)
{
	struct list *fetched = &q->w->tasks.in[TASK_FETCHED];
	bool stale = false;
	struct list *it, *tmp;

	list_each_safe (it, tmp, fetched) {
		struct task *t = list_entry(it, struct task, state_link);

		if (t->queue != q)
			continue;
		if (now >= t->evidence_ms) {
			stale = true;
			continue;
		}
		/* One that is but given back needs none. */
		if (t->wants_checkpoint && !q->w->stopping)
			continue;
		if (!q->w->hops->starts_at_once && !starts_take(&q->w->starts, clock_mono_ms())) {
			worker_turn_again(q->w);
			break;
		}
		q->events->on_task(q->w, q, t);
	}
	return stale;
}

struct arrivals {
	struct queue *q;
	int n_new;
	int64_t evidence_ms;
};

static void on_entry(void *arg, struct slice id, const struct redisReply *fields)
{
	struct arrivals *in = arg;

	/* More than was asked for has no credit: the next renewal finds it and decides. */
	if (in->n_new == in->q->read_asked) {
		log_error("XREADGROUP brought more than COUNT entries");
		return;
	}
	if (stream_adopt(in->q, &(struct arrival){.id = id,
						  .token = 1,
						  .fields = fields,
						  .evidence_ms = in->evidence_ms}))
		in->n_new++;
}

/* ------------------------------------------------------------------ the read */

void stream_read_over(struct queue *q, int n_new)
{
	q->full = q->reading == READ_SENT && q->read_asked > 0 && n_new == q->read_asked;
	q->reading = READ_NONE;
	q->looked_ms = clock_boot_ms();
	ledger_got(&q->w->ledger, LEDGER_READ, q->read_asked, n_new);
	q->read_asked = 0;
}

void stream_nothing_new(struct queue *q)
{
	if (q->w->breaker.state == BREAKER_HALF_OPEN && !partitions_have_more(q->w))
		partitions_scan(q->w);
}

static void on_read(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;
	struct arrivals in = {.q = q};
	int n;

	if (reply_kind(r) != REPLY_OK || q->phase != STREAM_OPEN) {
		/* Fenced meanwhile: what it brought is pending under a name that is not ours. */
		stream_read_over(q, 0);
		stream_trouble(q, r, STREAM_OP_READ);
		return;
	}
	stream_fine(q, STREAM_OP_READ);
	in.evidence_ms = lease_evidence(q->read_sent_ms, q->c->lease);
	n = reply_entries(r, on_entry, &in);
	if (n < 0)
		log_error("XREADGROUP answered in a shape that is not understood; entries it may "
			  "have "
			  "brought are found by the next renewal");
	stream_read_over(q, in.n_new);
	q->maybe_more = n > 0;
	if (n == 0)
		stream_nothing_new(q);
	if (n > 0)
		q->last_entry_ms = clock_boot_ms();
	stream_start_fetched(q, clock_boot_ms());
}

/* Since when an answer is owed that should be near, by the one that is owed longest. */
static int64_t asked_since(const struct queue *q)
{
	int64_t at = q->reading == READ_SENT ? q->read_sent_ms : INT64_MAX;

	if (q->scanning)
		at = min_i64(at, q->scan_sent_ms);
	if (q->take_asked)
		at = min_i64(at, q->take_sent_ms);
	return at;
}

struct share stream_look(const struct queue *q, int64_t now)
{
	struct share s = {
		.more = q->maybe_more || q->arrived,
		.full = q->full,
		.brought = q->arrived,
		.quiet = now - q->last_entry_ms > STREAM_LONG_IDLE_MS,
		.looked_ms = q->looked_ms,
		.asked_ms = asked_since(q),
		.takes = q->take_first && !q->take_asked && now >= q->take_hold_ms,
		.busy = q->scanning || q->reading != READ_NONE,
		.able = now < q->name_until_ms && q->n_trouble[STREAM_OP_SCAN] == 0 &&
			!stream_has_put_off(q),
	};

	if (!stream_linked(q) || !stream_can_send(q, now) || stream_has_put_off(q))
		s.state = SHARE_OUT;
	else if (q->reading == READ_BLOCKED || q->reading == READ_UNBLOCKING)
		s.state = SHARE_WAITING;
	else if (q->reading == READ_SENT || q->scanning || q->take_asked ||
		 (q->take_first && now >= q->take_hold_ms))
		s.state = SHARE_ASKED;
	else if (q->take_first)
		s.state = SHARE_OUT;
	else
		s.state = s.more ? SHARE_MORE : SHARE_EMPTY;
	return s;
}

int64_t stream_block_max_ms(const struct queue *q)
{
	/* Evidence counts from when the read was sent: it must outlive the block. */
	return min_i64(STREAM_BLOCK_IDLE_MS, q->c->lease / 4);
}

int64_t stream_block_ms(const struct queue *q, int64_t now)
{
	int64_t ms = now - q->last_entry_ms > STREAM_LONG_IDLE_MS ? STREAM_BLOCK_IDLE_MS
								  : STREAM_BLOCK_MS;

	if (rconn_client_id(q->fetch) == 0 || q->no_unblock)
		ms = STREAM_BLOCK_UNENDABLE_MS;
	return min_i64(ms, stream_block_max_ms(q));
}

struct share_grant stream_grant(struct queue *q, int64_t now)
{
	struct share_grant may = partitions_share(q->w, q, now);

	if (may.end_waits)
		partitions_hold(q->w);
	if (may.again)
		worker_turn_again(q->w);
	q->ask_at_ms = may.again_ms ? now + may.again_ms : 0;
	return may;
}

void stream_read(struct queue *q, int64_t now)
{
	int64_t block_ms = 0;
	struct share_grant may;
	struct args a;
	int n;

	if (q->reading != READ_NONE || q->take_first || q->w->quarantine)
		return;
	may = stream_grant(q, now);
	n = ledger_ask(&q->w->ledger, LEDGER_READ, may.n);
	if (n == 0)
		return;
	if (may.wait)
		block_ms = min_i64(stream_block_ms(q, now), may.wait_ms);
	args_init(&a);
	args_str(&a, "XREADGROUP");
	args_str(&a, "GROUP");
	args_str(&a, q->c->group);
	args_str(&a, q->consumer);
	args_str(&a, "COUNT");
	args_int(&a, n);
	if (may.wait) {
		args_str(&a, "BLOCK");
		args_int(&a, block_ms);
	}
	args_str(&a, "STREAMS");
	args_str(&a, q->keys.stream);
	args_str(&a, ">");
	q->read_asked = n;
	q->read_sent_ms = now;
	q->reading = may.wait ? READ_BLOCKED : READ_SENT;
	if (stream_send(q->fetch, &a, block_ms, on_read, q) < 0)
		stream_read_over(q, 0);
}

/* ------------------------------------------------------------------ ending a block */

static void on_unblocked(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;

	/* Where that is not possible the block ends by itself, and the next ones are short. */
	if (reply_kind(r) == REPLY_DENIED || reply_kind(r) == REPLY_UNKNOWN)
		q->no_unblock = true;
	if (r && reply_kind(r) != REPLY_OK)
		log_debug("CLIENT UNBLOCK: %s", reply_error_text(r));
	if (q->reading == READ_UNBLOCKING && reply_int(r, 0) == 0)
		q->reading = READ_BLOCKED;
}

void stream_unblock(struct queue *q)
{
	struct args a;

	if (q->reading != READ_BLOCKED || rconn_client_id(q->fetch) == 0 || q->no_unblock)
		return;
	args_init(&a);
	args_str(&a, "CLIENT");
	args_str(&a, "UNBLOCK");
	args_int(&a, rconn_client_id(q->fetch));
	/* The read must be on its way before what ends it. */
	rconn_flush(q->fetch);
	if (stream_send(q->cmd, &a, 0, on_unblocked, q) == 0)
		q->reading = READ_UNBLOCKING;
	rconn_flush(q->cmd);
}
