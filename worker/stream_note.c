/*
 * stream_note.c - what running tasks say about themselves goes to Redis: checkpoints in the turn
 * in which they were said, progress at most once a second per task. And what the attempt before has
 * left comes from there, before a task starts.
 *
 * A note is sent again until Redis has it, in place of the one before. Nothing waits for that, not
 * even the settlement: it carries a checkpoint that is not known to be kept (stream_settle.c). One
 * that arrives after that is refused by the script: the task is gone, released, or another's. So is
 * one that was said over a link which was lost since, lest it overwrites what was said afterwards:
 * the claim record has the number of links lost, and after a loss it is renewed before a note goes.
 */
#include "clock.h"
#include "stream.h"

#define PROGRESS_EVERY_MS 1000
#define BATCH_BYTES (1024 * 1024) /* of one command */
#define UNDER_WAY_MAX 8           /* commands */
#define RETRY_MS 200
#define RETRY_CAP_MS 5000

/* One command's worth. Owned by its reply. */
struct note_batch {
	struct queue *q; /* borrowed */
	int n;
	size_t bytes;
	struct {
		struct task *task; /* borrowed until it is sent */
		char id[BOARD_ID_MAX];
		uint64_t token;
		enum task_note what;
		unsigned said;
	} item[];
};

static bool unsent(const struct task *t, enum task_note what)
{
	return t->notes[what].said != t->notes[what].sent;
}

static struct slice value_of(const struct task *t, enum task_note what)
{
	const struct buf *b = what == NOTE_CHECKPOINT ? &t->checkpoint : &t->progress;

	return slice_of(b->data, b->len);
}

/* ------------------------------------------------------------------ answers */

static void failed(struct queue *q, const struct redisReply *r)
{
	int64_t now = clock_boot_ms();

	q->note_hold_ms = q->note_at_ms =
		now + backoff_ms(RETRY_MS, RETRY_CAP_MS, ++q->n_notes_bad);
	/* Once, until it works again: the tasks themselves are none the worse for it. */
	if (r && !q->notes_said)
		log_warning("keeping checkpoints and progress: %s; trying again, the tasks go on",
			    reply_error_text(r));
	q->notes_said |= r != NULL;
	stream_find_denied(q, r);
}

static void worked(struct queue *q)
{
	if (q->notes_said)
		log_info("checkpoints and progress are kept again");
	q->notes_said = false;
	q->n_notes_bad = 0;
}

static void on_noted(void *arg, const struct redisReply *r)
{
	struct note_batch *b = arg;
	struct queue *q = b->q;
	bool ok = reply_kind(r) == REPLY_OK && reply_len(r) == (size_t)b->n;

	q->n_notes_sent--;
	for (int i = 0; i < b->n; i++) {
		struct task *t = worker_find_task(q->w, q, b->item[i].id);
		struct note *note;

		if (!t)
			continue;
		note = &t->notes[b->item[i].what];
		/* Refused is an answer, too, unless the token is another by now. */
		if (!ok || t->token != b->item[i].token)
			note->sent = note->kept;
		else if (reply_int(reply_at(r, (size_t)i), 0) == 1 && b->item[i].said > note->kept)
			note->kept = b->item[i].said;
	}
	q->note_at_ms = 0; /* there may be more to send by now */
	if (ok)
		worked(q);
	else
		failed(q, r);
	free(b);
}

/* ------------------------------------------------------------------ what was left */

/* Asked for a task that may be gone when the answer comes. Owned by its reply. */
struct question {
	struct queue *q; /* borrowed */
	char id[BOARD_ID_MAX];
	uint64_t token;
};

static void on_checkpoint(void *arg, const struct redisReply *r)
{
	struct question *ask = arg;
	struct queue *q = ask->q;
	struct task *t = worker_find_task(q->w, q, ask->id);
	bool ok = reply_kind(r) == REPLY_OK;

	if (ok)
		stream_fine(q, STREAM_OP_CHECKPOINT);
	else
		stream_trouble(q, r, STREAM_OP_CHECKPOINT);
	if (t && t->state == TASK_FETCHED) {
		if (ok && t->token == ask->token) {
			struct slice left = reply_slice(r);

			buf_clear(&t->checkpoint);
			buf_add(&t->checkpoint, left.data, left.len);
			t->wants_checkpoint = false;
		}
		t->asked_checkpoint = false;
		q->ask_checkpoints |= t->wants_checkpoint;
	}
	free(ask);
}

void stream_ask_checkpoint(struct queue *q, struct task *t)
{
	t->wants_checkpoint = true;
	q->ask_checkpoints = true;
}

void stream_ask_checkpoints(struct queue *q, int64_t now)
{
	struct list *it;

	if (!q->ask_checkpoints || !stream_can_send(q, now) || !rconn_is_ready(stream_link(q)))
		return;
	q->ask_checkpoints = false;
	list_each (it, &q->w->tasks.in[TASK_FETCHED]) {
		struct task *t = list_entry(it, struct task, state_link);
		struct question *ask;
		struct args a;

		if (t->queue != q || !t->wants_checkpoint || t->asked_checkpoint)
			continue;
		ask = xcalloc(1, sizeof(*ask));
		ask->q = q;
		ask->token = t->token;
		memcpy(ask->id, t->id, sizeof(t->id));
		args_init(&a);
		args_str(&a, "HGET");
		args_str(&a, q->keys.ckpt);
		args_str(&a, t->id);
		t->asked_checkpoint = true;
		if (stream_send(stream_link(q), &a, 0, on_checkpoint, ask) < 0)
			on_checkpoint(ask, NULL);
	}
}

/* ------------------------------------------------------------------ sending */

static void collect(struct note_batch *b, struct task *t, enum task_note what)
{
	struct slice value = value_of(t, what);
	struct note *note = &t->notes[what];

	b->item[b->n].task = t;
	b->item[b->n].token = t->token;
	b->item[b->n].what = what;
	b->item[b->n].said = note->sent = note->said;
	memcpy(b->item[b->n].id, t->id, sizeof(t->id));
	b->n++;
	b->bytes += value.len;
}

/* What is due now; when the rest is, in q->note_at_ms. */
static struct note_batch *collect_all(struct queue *q, int64_t now)
{
	int cap = 2 * q->w->tasks.n_used;
	struct note_batch *b = xcalloc(1, sizeof(*b) + (size_t)cap * sizeof(b->item[0]));
	struct list *it;

	b->q = q;
	q->note_at_ms = INT64_MAX;
	list_each (it, &q->w->tasks.in[TASK_RUNNING]) {
		struct task *t = list_entry(it, struct task, state_link);

		if (t->queue != q || t->lost)
			continue;
		if (b->bytes >= BATCH_BYTES) {
			q->note_at_ms = now;
			break;
		}
		if (unsent(t, NOTE_CHECKPOINT))
			collect(b, t, NOTE_CHECKPOINT);
		if (!unsent(t, NOTE_PROGRESS))
			continue;
		if (now < t->progress_at_ms) {
			q->note_at_ms = min_i64(q->note_at_ms, t->progress_at_ms);
			continue;
		}
		t->progress_at_ms = now + PROGRESS_EVERY_MS;
		collect(b, t, NOTE_PROGRESS);
	}
	return b;
}

static void send_notes(struct queue *q, struct note_batch *b)
{
	struct args a;

	args_init(&a);
	args_str(&a, q->keys.stream);
	args_str(&a, q->keys.ckpt);
	args_str(&a, q->keys.progress);
	args_join(&a, q->keys.claim, q->consumer);
	args_str(&a, q->c->group);
	args_str(&a, q->consumer);
	args_int(&a, q->n_links_lost);
	args_int(&a, b->n);
	for (int i = 0; i < b->n; i++) {
		const struct task *t = b->item[i].task;

		args_str(&a, b->item[i].what == NOTE_CHECKPOINT ? "C" : "P");
		args_str(&a, t->id);
		args_int(&a, (int64_t)t->token);
		args_slice(&a, value_of(t, b->item[i].what));
	}
	q->n_notes_sent++;
	if (stream_script(q, stream_any_link(q), SCRIPT_CHECKPOINT, 4, &a, on_noted, b) < 0)
		on_noted(b, NULL);
}

void stream_note(struct queue *q, struct task *t)
{
	(void)t; /* found by its state */
	q->note_at_ms = min_i64(q->note_at_ms, clock_boot_ms());
}

void stream_note_flush(struct queue *q, int64_t now)
{
	struct note_batch *b;

	if (q->n_notes_sent >= UNDER_WAY_MAX || now < q->note_at_ms || now < q->note_hold_ms ||
	    q->phase != STREAM_OPEN || now >= q->name_until_ms || !stream_any_link(q))
		return;
	b = collect_all(q, now);
	if (b->n > 0)
		send_notes(q, b);
	else
		free(b);
}
