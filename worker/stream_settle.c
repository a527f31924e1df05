/*
 * stream_settle.c - verdicts go to Redis in batches, and stay on record until it has answered.
 *
 * A settlement is fenced by the entry's token, so it may be sent again after a lost link: "gone"
 * then means that the first one was applied. One that goes out in front of a read on the same link
 * lets that read use its credit (ledger_leave).
 *
 * In one of several partitions none may keep credit from the others for long: where nothing can be
 * settled it is put off, and what was fetched and cannot be started is given back.
 */
#include "clock.h"
#include "stream.h"

#define BATCH_BYTES (1024 * 1024) /* of results and checkpoints; one task may exceed it */
/* No more settlements while so much waits to be written: an answer, or room, brings the next turn.
 */
#define UNSENT_MAX (8 * 1024 * 1024)

/* ------------------------------------------------------------------ the words of one settlement */

static void add_pair(struct args *a, const char *name, const char *value)
{
	args_str(a, name);
	args_str(a, value);
}

/* What a dead letter says about its death. */
static int add_post_mortem(struct args *a, const struct queue *q, const struct task *t)
{
	const struct outcome *o = &t->outcome;
	int before = a->n;

	add_pair(a, "redisq.reason", t->verdict.reason);
	add_pair(a, "redisq.error", o->error);
	if (o->exit_code >= 0) {
		args_str(a, "redisq.exit");
		args_int(a, o->exit_code);
	}
	if (o->signal > 0) {
		args_str(a, "redisq.signal");
		args_int(a, o->signal);
	}
	if (o->usage[0])
		add_pair(a, "redisq.usage", o->usage);
	args_str(a, "redisq.stderr");
	args_slice(a, slice_of(o->last_words.data, o->last_words.len));
	add_pair(a, "redisq.worker", q->consumer);
	add_pair(a, "redisq.host", q->w->host);
	return a->n - before;
}

static const char *follow_word(enum conf_follow f)
{
	static const char *const words[] = {"retry", "dead", "hold"};

	return words[f];
}

static int add_verdict(struct args *a, const struct queue *q, const struct task *t)
{
	const struct verdict *v = &t->verdict;
	int before = a->n;

	switch (v->op) {
	case VERDICT_DONE:
	case VERDICT_RELEASE:
		break;
	case VERDICT_SUSPECT:
		args_join(a, OBITUARY_BESIDE, t->outcome.error);
		break;
	case VERDICT_RETRY:
		args_int(a, v->delay_ms);
		args_int(a, v->attempt);
		args_int(a, v->snoozes);
		break;
	case VERDICT_CRASH:
		args_int(a, v->delay_ms);
		args_int(a, q->c->retry_delay_max);
		args_int(a, v->jitter_percent);
		args_int(a, q->c->max_crashes);
		args_str(a, follow_word(v->follow));
		args_str(a, t->outcome.error);
		add_post_mortem(a, q, t);
		break;
	case VERDICT_DEAD:
	case VERDICT_HOLD:
		add_post_mortem(a, q, t);
		break;
	}
	return a->n - before;
}

static const char *op_word(enum verdict_op op)
{
	switch (op) {
	case VERDICT_DONE:
		return "D";
	case VERDICT_RETRY:
		return "R";
	case VERDICT_CRASH:
		return "K";
	case VERDICT_SUSPECT:
		return "S";
	case VERDICT_DEAD:
		return "X";
	case VERDICT_HOLD:
		return "H";
	case VERDICT_RELEASE:
		break;
	}
	return "L";
}

int64_t stream_wanted_ms(const struct queue *q, const struct task *t)
{
	int64_t ttl = t->result_ttl_ms >= 0 ? t->result_ttl_ms : q->c->result_ttl;

	switch (t->verdict.op) {
	case VERDICT_DONE:
		return t->outcome.result.len > 0 || t->result_ttl_ms > 0 ? ttl : 0;
	case VERDICT_CRASH:
	case VERDICT_DEAD:
	case VERDICT_HOLD:
		return ttl;
	case VERDICT_RETRY:
	case VERDICT_SUSPECT:
	case VERDICT_RELEASE:
		break;
	}
	return 0;
}

/* What goes in front of a verdict: W, that its end is wanted, and C, a checkpoint that Redis is not
 * known to have. */
static void add_front(struct args *a, const struct queue *q, const struct task *t)
{
	const struct note *n = &t->notes[NOTE_CHECKPOINT];
	int64_t ttl = stream_wanted_ms(q, t);

	if (ttl > 0) {
		args_str(a, "W");
		args_str(a, t->id);
		args_int(a, 0);
		args_int(a, 2);
		args_int(a, ttl);
		args_slice(a, slice_of(t->outcome.result.data, t->outcome.result.len));
	}
	if (n->said != n->kept && t->verdict.op != VERDICT_DONE) {
		args_str(a, "C");
		args_str(a, t->id);
		args_int(a, 0);
		args_int(a, 1);
		args_slice(a, slice_of(t->checkpoint.data, t->checkpoint.len));
	}
}

static void add_task(struct args *a, const struct queue *q, const struct task *t)
{
	int place;

	add_front(a, q, t);
	args_str(a, op_word(t->verdict.op));
	args_str(a, t->id);
	args_int(a, (int64_t)t->token);
	place = args_reserve(a);
	args_set_int(a, place, add_verdict(a, q, t));
}

/* ------------------------------------------------------------------ answers */

static void gone(struct queue *q, struct task *t, enum task_event ev)
{
	list_remove(&t->link);
	worker_task_event(q->w, t, ev);
	q->events->on_gone(q->w, q, t);
}

void stream_lose(struct queue *q, struct task *t, const char *why)
{
	bool has_handler = t->state == TASK_RUNNING;

	if (t->lost)
		return;
	t->lost = true;
	q->events->on_lost(q->w, q, t, why);
	if (!has_handler)
		gone(q, t, TASK_ON_DISOWN);
}

void stream_settled(struct queue *q, struct task *t, int64_t answer)
{
	switch (answer) {
	case 1:
		break;
	case 0:
		if (!t->resent && !t->orphan) {
			stream_lose(q, t, "its entry was acknowledged by somebody else");
			return;
		}
		break; /* applied the first time */
	case 2:
		log_warning("task %s: its entry was deleted by somebody while it ran", t->label);
		break;
	default:
		stream_lose(q, t, STREAM_ANOTHERS);
		return;
	}
	gone(q, t, TASK_ON_SETTLE);
}

void stream_settle_again(struct queue *q, struct task *t)
{
	list_remove(&t->link);
	t->sent = false;
	t->resent = true;
	ledger_return(&q->w->ledger, &t->place);
	list_append(&q->to_settle, &t->link);
}

/* How long what was fetched waits for Redis to be there again, so that it can be started. */
#define NOT_STARTED_MS 1000

bool stream_has_put_off(const struct queue *q)
{
	struct list *it;

	list_each (it, &q->to_settle)
		if (list_entry(it, struct task, link)->place == LEDGER_PUT_OFF)
			return true;
	return false;
}

/* Nobody knows whether it is still ours, or what its attempt before has left. Where that was just
 * asked again the answer may be good. */
static bool cannot_start(const struct task *t, int64_t now)
{
	return now >= t->evidence_ms || (t->wants_checkpoint && !t->asked_checkpoint);
}

/* A settlement, too. */
static void give_back_unstarted(struct queue *q, int64_t now)
{
	struct list *it, *tmp;

	list_each_safe (it, tmp, &q->w->tasks.in[TASK_FETCHED]) {
		struct task *t = list_entry(it, struct task, state_link);

		if (t->queue == q && cannot_start(t, now)) {
			outcome_init(&t->outcome);
			worker_finished(q->w, t);
		}
	}
}

/* Is there anybody that is still kept by the trouble with checkpoints? */
static bool any_wants_checkpoint(const struct queue *q)
{
	struct list *it;

	list_each (it, &q->w->tasks.in[TASK_FETCHED]) {
		const struct task *t = list_entry(it, struct task, state_link);

		if (t->queue == q && t->wants_checkpoint)
			return true;
	}
	list_each (it, &q->to_settle)
		if (list_entry(it, struct task, link)->wants_checkpoint)
			return true;
	return false;
}

bool stream_put_off(struct queue *q, int64_t now)
{
	bool cannot = !stream_any_link(q) || q->n_trouble[STREAM_OP_SETTLE] > 0 ||
		      q->n_trouble[STREAM_OP_RENEW] > 0;
	bool any = false;
	struct list *it;

	/* Who was given back is not asked about again: no good answer would end it. */
	if (q->n_trouble[STREAM_OP_CHECKPOINT] > 0 && !any_wants_checkpoint(q))
		q->n_trouble[STREAM_OP_CHECKPOINT] = 0;
	if (q->c->partitions == 1 || (!cannot && q->n_trouble[STREAM_OP_CHECKPOINT] == 0)) {
		q->cannot_since_ms = 0;
		return false;
	}
	if (!q->cannot_since_ms)
		q->cannot_since_ms = now;
	if (now - q->cannot_since_ms >= NOT_STARTED_MS)
		give_back_unstarted(q, now);
	list_each (it, &q->to_settle) {
		struct task *t = list_entry(it, struct task, link);

		if (!cannot && !t->wants_checkpoint)
			continue;
		any |= t->place != LEDGER_PUT_OFF;
		ledger_put_off(&q->w->ledger, &t->place);
	}
	return any;
}

/* One command's worth of settlements. Owned by its reply. */
struct settle_batch {
	struct queue *q; /* borrowed */
	int n;
	struct task *tasks[]; /* borrowed */
};

/* One of the four answers for each task. */
static bool is_settlement(const struct redisReply *r, int n)
{
	if (reply_len(r) != (size_t)n)
		return false;
	for (int i = 0; i < n; i++) {
		int64_t answer = reply_int(reply_at(r, (size_t)i), INT64_MAX);

		if (answer < -1 || answer > 2)
			return false;
	}
	return true;
}

static void on_settled(void *arg, const struct redisReply *r)
{
	struct settle_batch *batch = arg;
	struct queue *q = batch->q;
	int n = batch->n;
	enum reply_kind kind = reply_kind(r);
	bool ok = kind == REPLY_OK && is_settlement(r, n);

	for (int i = 0; i < n; i++) {
		struct task *t = batch->tasks[i];

		if (!ok && q->phase == STREAM_FENCED)
			stream_lose(q, t, STREAM_ANOTHERS); /* the name it was sent under is gone */
		else if (!ok)
			stream_settle_again(q, t);
		else
			stream_settled(q, t, reply_int(reply_at(r, (size_t)i), 0));
	}
	if (ok)
		stream_fine(q, STREAM_OP_SETTLE);
	else if (kind == REPLY_OK)
		stream_odd(q, STREAM_OP_SETTLE);
	else
		stream_trouble(q, r, STREAM_OP_SETTLE);
	/* One task's bad body must not hold up its neighbours for ever. */
	q->split = kind == REPLY_BAD && n > 1;
	free(batch);
}

/* ------------------------------------------------------------------ sending */

static struct settle_batch *collect(struct queue *q, int64_t now, bool *stale)
{
	struct settle_batch *b = NULL;
	int max = q->split ? 1 : STREAM_SETTLE_BATCH;
	size_t bytes = 0;
	struct list *it, *tmp;

	list_each_safe (it, tmp, &q->to_settle) {
		struct task *t = list_entry(it, struct task, link);

		if (now >= t->evidence_ms) {
			*stale = true;
			continue;
		}
		if (!b) {
			b = xcalloc(1, sizeof(*b) + (size_t)max * sizeof(b->tasks[0]));
			b->q = q;
		}
		list_remove(&t->link);
		b->tasks[b->n++] = t;
		bytes += t->outcome.result.len + t->checkpoint.len;
		if (b->n == max || bytes >= BATCH_BYTES)
			break;
	}
	return b;
}

/* The keys and arguments in front of the tasks; returns how many of them are keys. */
static int add_head(struct args *a, const struct queue *q, struct task *const *tasks, int n)
{
	int n_keys;

	args_str(a, q->keys.stream);
	args_str(a, q->keys.delayed);
	args_str(a, q->keys.bodies);
	args_str(a, q->keys.dead);
	args_str(a, q->keys.held);
	args_str(a, q->keys.counters);
	args_str(a, q->keys.ckpt);
	args_str(a, q->keys.crash);
	args_str(a, q->keys.progress);
	for (int i = 0; tasks && i < n; i++) {
		if (stream_wanted_ms(q, tasks[i]) == 0)
			continue;
		args_join(a, q->keys.result, tasks[i]->label);
		args_join(a, q->keys.failed, tasks[i]->label);
	}
	n_keys = a->n;
	args_str(a, q->c->group);
	args_str(a, q->consumer);
	args_int(a, q->c->on_done == CONF_DONE_ACK);
	args_int(a, q->c->dead_max);
	args_int(a, n);
	return n_keys;
}

static void on_released(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;

	/* An error changes nothing: the next renewal finds the same entries again. */
	if (reply_kind(r) == REPLY_OK)
		q->events->on_released(q->w, q, (int)reply_len(r));
}

void stream_release(struct queue *q, const struct candidate *list, int n)
{
	struct args a;
	int n_keys;

	if (n == 0)
		return;
	args_init(&a);
	n_keys = add_head(&a, q, NULL, n);
	for (int i = 0; i < n; i++) {
		args_str(&a, op_word(VERDICT_RELEASE));
		args_str(&a, list[i].id);
		args_int(&a, (int64_t)list[i].token);
		args_int(&a, 0);
	}
	if (stream_script(q, stream_link(q), SCRIPT_SETTLE, n_keys, &a, on_released, q) < 0)
		log_debug("no link to release %d entries over", n);
}

static void send_batch(struct queue *q, struct settle_batch *b)
{
	struct rconn *link = stream_link(q);
	struct args a;
	int n_keys;

	args_init(&a);
	n_keys = add_head(&a, q, b->tasks, b->n);
	for (int i = 0; i < b->n; i++) {
		struct task *t = b->tasks[i];

		add_task(&a, q, t);
		t->sent = true;
		if (link == q->fetch)
			ledger_leave(&q->w->ledger, &t->place);
		/* A retry of ours is due then; others find it at their next look. */
		if (t->verdict.op == VERDICT_RETRY || t->verdict.op == VERDICT_CRASH)
			stream_due_in(q, t->verdict.delay_ms);
	}
	if (stream_script(q, link, SCRIPT_SETTLE, n_keys, &a, on_settled, b) < 0)
		on_settled(b, NULL);
}

bool stream_settle_flush(struct queue *q, int64_t now)
{
	struct settle_batch *b;
	bool stale = false;

	/* The answer of a read without BLOCK is near, and what ends until then goes out with the
	 * next one: one command for many, and the read can count on all their credit. */
	if (q->reading == READ_SENT)
		return false;
	if (stream_can_send(q, now))
		stream_done_flush(q, now);
	while (stream_can_send(q, now) && rconn_is_ready(stream_link(q)) &&
	       rconn_n_unsent(stream_link(q)) < UNSENT_MAX && (b = collect(q, now, &stale)))
		send_batch(q, b);
	return stale;
}
