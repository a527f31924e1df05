/*
 * stream_care.c - what keeps an open queue alive: the lease of the name and of the entries that
 * run, and the delayed tasks that fall due.
 */
#include "clock.h"
#include "stream.h"

/* ------------------------------------------------------------------ renew */

/* What was asked about, in order; the table may have moved on when the answer comes. */
struct renewal {
	struct queue *q;
	int n;
	struct {
		struct task *task;
		char id[BOARD_ID_MAX];
		uint64_t token;
	} item[];
};

/* Still the same task, and nothing about it is under way that the renewal could cross. */
static struct task *same_task(struct renewal *r, int i)
{
	struct task *t = r->item[i].task;

	if (t->state == TASK_GONE || t->sent || t->lost || t->token != r->item[i].token ||
	    strcmp(t->id, r->item[i].id) != 0)
		return NULL;
	return t;
}

void stream_fence(struct queue *q)
{
	struct worker *w = q->w;

	log_error(
		"the name %s now belongs to another worker: stopping all tasks, taking a new name",
		q->consumer);
	stream_set_phase(q, STREAM_FENCED, "fenced");
	q->events->on_consuming(w, q, false);
	/* A settlement under way is refused by its script, and comes to the same end there. */
	for (int i = 0; i < w->tasks.n_rows; i++) {
		struct task *t = &w->tasks.rows[i];

		if (t->state != TASK_GONE && t->queue == q && !t->sent)
			stream_lose(q, t, STREAM_ANOTHERS);
	}
	q->events->on_fenced(w, q);
	stream_unblock(q);
}

/*
 * One that is not known to be lost yet, for a read under way may have brought it: looked at again
 * as soon as it can be known, not only when the leases are due.
 */
static void look_again_at(struct queue *q, int64_t idle, int64_t now)
{
	int64_t block = stream_block_max_ms(q);
	int64_t wait = idle <= 2 * block ? 2 * block - idle : block;

	q->renew_at_ms = min_i64(q->renew_at_ms, now + wait + 1);
}

/*
 * Entries pending under our name that are not in the table: the reply that brought them was lost.
 * Taken if there is credit; else released, so that somebody who has credit can take them.
 */
static void take_extras(struct queue *q, const struct redisReply *extras, int64_t now)
{
	int64_t oldest = q->reading == READ_NONE ? 0 : q->read_sent_ms;
	struct candidate list[STREAM_EXTRAS_MAX];
	int n = 0;

	if (q->take_asked)
		oldest = oldest ? min_i64(oldest, q->take_sent_ms) : q->take_sent_ms;
	for (size_t i = 0; i + 2 < reply_len(extras) && n < STREAM_EXTRAS_MAX; i += 3) {
		struct slice id = reply_slice(reply_at(extras, i));
		int64_t idle = reply_int(reply_at(extras, i + 1), 0);
		struct candidate *c = &list[n];

		snprintf(c->id, sizeof(c->id), "%.*s", (int)id.len, id.data);
		if (worker_find_task(q->w, q, c->id))
			continue;
		if (!lease_extra_is_lost(idle, stream_block_max_ms(q), oldest, now)) {
			look_again_at(q, idle, now);
			continue;
		}
		snprintf(c->owner, sizeof(c->owner), "%s", q->consumer);
		c->token = (uint64_t)reply_int(reply_at(extras, i + 2), 0);
		n++;
	}
	if (n > 0 && !q->take_asked) {
		int asked = ledger_ask(&q->w->ledger, LEDGER_CLAIM,
				       (int)min_i64(n, worker_may_ask(q->w)));

		stream_take(q, list, asked, now);
		stream_release(q, list + asked, n - asked);
	}
}

void stream_hear_time(struct queue *q, int64_t redis_ms, int64_t now)
{
	stale_look(&q->stale, now, q->c->lease); /* the turn comes after the answers */
	if (stale_redis_time(&q->stale, redis_ms, now, q->c->lease))
		log_warning(
			"Redis's clock jumped against ours; taking nothing stale for one lease");
}

static void apply(struct renewal *rn, const struct redisReply *r)
{
	struct queue *q = rn->q;
	int64_t until = lease_evidence(q->renew_sent_ms, q->c->lease);
	const struct redisReply *answers = reply_at(r, 2);
	int64_t now = clock_boot_ms();

	q->name_until_ms = until;
	stream_hear_time(q, reply_int(reply_at(r, 1), 0), now);
	for (int i = 0; i < rn->n; i++) {
		struct task *t = same_task(rn, i);
		int64_t answer = reply_int(reply_at(answers, (size_t)i), 0);

		if (!t)
			continue;
		if (answer == 2 && !t->orphan) {
			t->orphan = true;
			log_warning("task %s: its entry was deleted by somebody; it runs on",
				    t->label);
		}
		/* 0: settled by what we sent before, or deleted: nobody else can have it. */
		if (answer > 0 || (answer == 0 && (t->resent || t->orphan)))
			t->evidence_ms = until;
		else
			stream_lose(q, t, answer == 0 ? "its entry is gone" : STREAM_ANOTHERS);
	}
	take_extras(q, reply_at(r, 3), now);
}

/* {0}, or {1, time, one answer per task, extras}. */
static bool is_renewal(const struct renewal *rn, const struct redisReply *r)
{
	int64_t first = reply_int(reply_at(r, 0), -1);

	return (first == 0 && reply_len(r) == 1) ||
	       (first == 1 && reply_len(r) == 4 && reply_len(reply_at(r, 2)) == (size_t)rn->n);
}

/* Sooner than anything else that waits out the trouble, but never in a spin. */
static void again_soon(struct queue *q)
{
	int64_t now = clock_boot_ms();

	q->renew_hold_ms = now + max_i64(200, (q->pause_until_ms - now) / 4);
	q->renew_at_ms = q->renew_hold_ms;
}

static void on_renewed(void *arg, const struct redisReply *r)
{
	struct renewal *rn = arg;
	struct queue *q = rn->q;

	q->renewing = false;
	if (q->phase != STREAM_OPEN) {
		/* left or fenced meanwhile */
	} else if (reply_kind(r) != REPLY_OK) {
		stream_trouble(q, r, STREAM_OP_RENEW);
		again_soon(q);
	} else if (!is_renewal(rn, r)) {
		stream_odd(q, STREAM_OP_RENEW);
		again_soon(q);
	} else if (reply_int(reply_at(r, 0), 1) == 0) {
		stream_fence(q);
	} else {
		/* Refused until now; the others may not have tried again yet. */
		if (q->n_trouble[STREAM_OP_RENEW] > 0)
			stale_unserved(&q->stale, clock_boot_ms());
		apply(rn, r);
		stream_fine(q, STREAM_OP_RENEW);
	}
	free(rn);
}

void stream_renew(struct queue *q, int64_t now)
{
	struct worker *w = q->w;
	struct renewal *rn;
	struct args a;

	if (q->renewing || now < q->renew_hold_ms)
		return;
	rn = xcalloc(1, sizeof(*rn) + (size_t)w->tasks.n_used * sizeof(rn->item[0]));
	rn->q = q;
	for (int i = 0; i < w->tasks.n_rows; i++) {
		struct task *t = &w->tasks.rows[i];

		if (t->state == TASK_GONE || t->queue != q || t->sent || t->lost)
			continue;
		rn->item[rn->n].task = t;
		rn->item[rn->n].token = t->token;
		memcpy(rn->item[rn->n].id, t->id, sizeof(t->id));
		rn->n++;
	}
	args_init(&a);
	args_join(&a, q->keys.claim, q->consumer);
	args_str(&a, q->keys.stream);
	args_str(&a, q->keys.crash);
	args_str(&a, q->keys.names);
	args_str(&a, q->keys.ckpt);
	args_str(&a, q->keys.progress);
	args_str(&a, q->c->group);
	args_str(&a, q->consumer);
	args_str(&a, q->nonce);
	args_slice(&a, slice_of(q->record.data, q->record.len));
	args_int(&a, q->c->lease);
	args_int(&a, w->tasks.n_rows + STREAM_EXTRAS_MAX);
	args_int(&a, rn->n);
	for (int i = 0; i < rn->n; i++) {
		args_str(&a, rn->item[i].id);
		args_int(&a, (int64_t)rn->item[i].token);
	}
	q->renewing = true;
	q->renew_sent_ms = now;
	q->renew_at_ms = now + lease_renew_every(q->c->lease);
	if (stream_script(q, stream_any_link(q), SCRIPT_RENEW, 6, &a, on_renewed, rn) < 0)
		on_renewed(rn, NULL);
}

/* ------------------------------------------------------------------ promote */

static void on_promoted(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;
	int64_t now = clock_boot_ms();
	int64_t moved = reply_int(reply_at(r, 0), 0);
	int64_t redis_ms = reply_int(reply_at(r, 1), 0);
	int64_t due = reply_int(reply_at(r, 2), 0);

	q->promoting = false;
	if (!r || reply_kind(r) == REPLY_MOVED) {
		q->promote_at_ms = 0; /* as soon as there is a link again */
		return;
	}
	if (reply_kind(r) == REPLY_MOVING) {
		q->promote_at_ms = now; /* after the pause */
		stream_trouble(q, r, STREAM_OP_PROMOTE);
		return;
	}
	if (reply_kind(r) != REPLY_OK) {
		/* Delayed tasks wait; everything else goes on (at OOM, say). */
		q->promote_at_ms = now + 5000;
		log_limited(&q->promote_log, clock_mono_ms(), LOG_WARNING,
			    "moving delayed tasks back: %s; trying again", reply_error_text(r));
		stream_find_denied(q, r);
		return;
	}
	stream_fine(q, STREAM_OP_PROMOTE);
	if (moved >= STREAM_PROMOTE_LIMIT)
		q->promote_at_ms = now; /* more are due */
	else
		q->promote_at_ms = due > 0 ? now + max_i64(due - redis_ms, 0) + 1 : INT64_MAX;
	if (moved > 0)
		q->maybe_more = true;
}

void stream_due_in(struct queue *q, int64_t delay_ms)
{
	q->promote_at_ms = min_i64(q->promote_at_ms, clock_boot_ms() + delay_ms + 1);
}

void stream_promote(struct queue *q, int64_t now)
{
	struct args a;

	if (q->promoting || (now < q->promote_at_ms && now < q->promote_look_ms))
		return;
	args_init(&a);
	args_str(&a, q->keys.stream);
	args_str(&a, q->keys.delayed);
	args_str(&a, q->keys.bodies);
	args_str(&a, q->keys.dead);
	args_str(&a, q->keys.ckpt);
	args_str(&a, q->keys.crash);
	args_str(&a, q->keys.counters);
	args_int(&a, STREAM_PROMOTE_LIMIT);
	args_int(&a, q->c->dead_max);
	q->promoting = true;
	q->promote_at_ms = INT64_MAX;
	q->promote_look_ms = now + STREAM_LOOK_MS;
	if (stream_script(q, stream_link(q), SCRIPT_PROMOTE, 7, &a, on_promoted, q) < 0)
		on_promoted(q, NULL);
}
