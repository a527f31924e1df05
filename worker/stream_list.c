/*
 * stream_list.c - a queue that is a list: its reads. All else is as with a stream.
 *
 * A read that waits moves one item aside (BLMOVE, BRPOPLPUSH before 6.2), where it is nobody's task
 * yet: list_fetch.lua makes it one, with an id and a token, and takes as many more from the list as
 * there are free slots; under load it goes out behind the settlements, in one write. An item whose
 * fetch never comes goes back: by us when we have no slot for it, by the script that removes a
 * name, by the handover after our death; or it is fetched by another, who looks at all that lies
 * there every few seconds. So it can neither be lost, however late the move is, nor run twice, and
 * no crash is charged for it.
 */
#include "clock.h"
#include "stream.h"

/* ------------------------------------------------------------------ what scripts are told */

/* The list of each consumer whose claim record is among the keys, and our own. */
static int add_processing(const struct queue *q, const struct rconn_arg *keys, int n_keys,
			  struct args *out)
{
	size_t len = strlen(q->keys.claim);
	char name[BOARD_NAME_MAX];
	int n = 1;

	args_join(out, q->keys.processing, q->consumer);
	for (int i = 0; i < n_keys; i++) {
		if (keys[i].len <= len || memcmp(keys[i].data, q->keys.claim, len) != 0)
			continue;
		slice_text(slice_of(keys[i].data + len, keys[i].len - len), name, sizeof(name));
		args_join(out, q->keys.processing, name);
		n++;
	}
	return n;
}

int stream_add_list_args(const struct queue *q, int n_keys, struct args *a)
{
	const struct rconn_arg *v = args_done(a);
	const char *more[KEYS_OF_LIST];
	struct args all;
	int n_more = KEYS_OF_LIST;

	keys_of_list(&q->keys, more);
	args_init(&all);
	for (int i = 0; i < n_keys; i++)
		args_slice(&all, slice_of(v[i].data, v[i].len));
	for (int i = 0; i < KEYS_OF_LIST; i++)
		args_str(&all, more[i]);
	n_more += add_processing(q, v, n_keys, &all);
	for (int i = n_keys; i < a->n; i++)
		args_slice(&all, slice_of(v[i].data, v[i].len));
	args_str(&all, q->keys.stream);
	args_str(&all, q->keys.prefix);
	args_str(&all, q->c->group);
	args_adopt(a, &all);
	return n_keys + n_more;
}

/* ------------------------------------------------------------------ the fetch */

static void on_fetched(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;
	const struct redisReply *list = reply_at(r, 1);
	int64_t first = reply_int(reply_at(r, 0), -1);
	int n = (int)reply_len(list);
	bool given_back;
	int n_new;

	if (reply_kind(r) != REPLY_OK || q->phase != STREAM_OPEN) {
		stream_read_over(q, 0);
		stream_trouble(q, r, STREAM_OP_READ);
		return;
	}
	if (first != 1) {
		stream_read_over(q, 0);
		if (first == 0)
			q->name_until_ms = 0; /* no claim in Redis: the renewal finds out why */
		else
			stream_odd(q, STREAM_OP_READ);
		return;
	}
	stream_fine(q, STREAM_OP_READ);
	/* What we had no slot for went back: it lies there. */
	given_back = q->arrived && q->read_asked == 0;
	q->arrived = false;
	n_new = stream_adopt_all(q, list, q->read_asked,
				 lease_evidence(q->read_sent_ms, q->c->lease));
	q->maybe_more = n > 0 || given_back;
	if (n == 0 && q->read_asked > 0)
		stream_nothing_new(q);
	stream_read_over(q, n_new);
	if (n > 0)
		q->last_entry_ms = clock_boot_ms();
	stream_start_fetched(q, clock_boot_ms());
}

/*
 * With n = 0 what has arrived goes back. Of that only what our own wait has moved is for us: the
 * rest is on its way to others, who would look in vain. But one that died there leaves it: now and
 * then whoever comes first takes all.
 */
static void fetch(struct queue *q, int n, int64_t now)
{
	int n_moved = q->arrived ? 1 : 0;
	struct args a;

	if (now >= q->look_aside_ms) {
		n_moved = n;
		if (n > 0)
			q->look_aside_ms = now + STREAM_LOOK_MS;
	}
	args_init(&a);
	args_str(&a, q->keys.stream);
	args_join(&a, q->keys.claim, q->consumer);
	args_str(&a, q->keys.crash);
	args_str(&a, q->keys.ckpt);
	args_str(&a, q->c->group);
	args_str(&a, q->consumer);
	args_str(&a, q->nonce);
	args_int(&a, n);
	args_str(&a, q->c->payload_field);
	args_int(&a, n_moved);
	q->read_asked = n;
	q->read_sent_ms = now;
	q->reading = READ_SENT;
	if (stream_script(q, q->fetch, SCRIPT_LIST_FETCH, 4, &a, on_fetched, q) < 0)
		stream_read_over(q, 0);
}

/* ------------------------------------------------------------------ waiting for an item */

static void on_moved(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;
	enum reply_kind kind = reply_kind(r);

	stream_read_over(q, 0);
	q->arrived = true; /* it has, or we do not know */
	if ((kind == REPLY_UNKNOWN || kind == REPLY_DENIED) && !q->no_blmove) {
		q->no_blmove = true;
		return;
	}
	if (kind != REPLY_OK) {
		/* At OOM nothing is moved; the next fetch takes what there is all the same. */
		stream_trouble(q, r, STREAM_OP_WAIT);
		return;
	}
	stream_fine(q, STREAM_OP_WAIT);
	q->arrived = reply_is_string(r);
}

/* BRPOPLPUSH, which is for servers before 6.2, takes whole seconds only. */
static int64_t wait_ms(const struct queue *q, int64_t max_ms, int64_t now)
{
	int64_t ms = min_i64(stream_block_ms(q, now), max_ms);

	return q->no_blmove ? max_i64(ms / 1000, 1) * 1000 : ms;
}

static void wait_for_item(struct queue *q, int64_t max_ms, int64_t now)
{
	int64_t ms = wait_ms(q, max_ms, now);
	char seconds[24];
	struct args a;

	args_init(&a);
	args_str(&a, q->no_blmove ? "BRPOPLPUSH" : "BLMOVE");
	args_str(&a, q->keys.stream);
	args_str(&a, q->keys.arrived);
	if (!q->no_blmove) {
		args_str(&a, "RIGHT");
		args_str(&a, "LEFT");
	}
	snprintf(seconds, sizeof(seconds), q->no_blmove ? "%.0f" : "%.3f", (double)ms / 1000.0);
	args_str(&a, seconds);
	q->read_sent_ms = now;
	q->reading = READ_BLOCKED;
	if (stream_send(q->fetch, &a, ms, on_moved, q) < 0)
		stream_read_over(q, 0);
}

static void list_read(struct queue *q, int64_t now)
{
	struct share_grant may = {0};

	if (q->reading != READ_NONE)
		return;
	if (!q->take_first && !q->w->quarantine)
		may = stream_grant(q, now);
	if (may.n == 0 && !q->arrived)
		return;
	if (q->arrived || !may.wait || now >= q->look_aside_ms) {
		fetch(q, ledger_ask(&q->w->ledger, LEDGER_READ, may.n), now);
		return;
	}
	q->read_asked = ledger_ask(&q->w->ledger, LEDGER_READ, 1);
	if (q->read_asked > 0)
		wait_for_item(q, may.wait_ms, now);
}

const struct stream_kind stream_kind_list = {
	.word = "list",
	.length = "LLEN",
	.on_lists = true,
	.open = stream_take_name,
	.read = list_read,
};
