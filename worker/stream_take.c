/*
 * stream_take.c - entries that somebody let go of: released ones at once, stale ones by the rules
 * of lease.h; one loop per worker, a page at a time, never more than there is credit for. And the
 * names of consumers that are gone and have nothing pending.
 */
#include "clock.h"
#include "stream.h"
#include "suspect.h"

#define REFUSED_MS 20

/* ------------------------------------------------------------------ take */

int stream_adopt_all(struct queue *q, const struct redisReply *list, int max, int64_t evidence_ms)
{
	int n_new = 0;

	for (size_t i = 0; i < reply_len(list) && n_new < max; i++) {
		const struct redisReply *e = reply_at(list, i);

		if (stream_adopt(q,
				 &(struct arrival){.id = reply_slice(reply_at(e, 0)),
						   .token = (uint64_t)reply_int(reply_at(e, 1), 0),
						   .fields = reply_at(e, 2),
						   .crash_record = reply_slice(reply_at(e, 3)),
						   .has_checkpoint = true,
						   .checkpoint = reply_slice(reply_at(e, 4)),
						   .evidence_ms = evidence_ms}))
			n_new++;
	}
	return n_new;
}

/*
 * When to look again after a take that brought `n_new`. Where another was quicker a second look, at
 * once, shows what else is there; what is refused over and over is left alone for longer and
 * longer.
 */
static void plan_next_look(struct queue *q, bool fine, int n_new)
{
	int64_t pass = lease_scan_every(q->c->lease);

	q->n_takes_refused = fine && n_new == 0 ? q->n_takes_refused + 1 : 0;
	q->take_first = q->w->quarantine;
	q->take_hold_ms = 0;
	if (!fine)
		q->take_hold_ms = clock_boot_ms() + pass;
	else if (q->n_takes_refused > 1)
		q->take_hold_ms =
			clock_boot_ms() + backoff_ms(REFUSED_MS, pass, q->n_takes_refused - 1);
	else
		q->scan_now = true; /* where there was one there may be more */
}

static void on_taken(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;
	const struct redisReply *list = reply_at(r, 1);
	int64_t evidence = lease_evidence(q->take_sent_ms, q->c->lease);
	bool fine = reply_kind(r) == REPLY_OK && q->phase == STREAM_OPEN;
	int n_new = fine ? stream_adopt_all(q, list, q->take_asked, evidence) : 0;

	ledger_got(&q->w->ledger, LEDGER_CLAIM, q->take_asked, n_new);
	q->take_asked = 0;
	plan_next_look(q, fine, n_new);
	if (!fine) {
		stream_trouble(q, r, STREAM_OP_TAKE);
		return;
	}
	stream_fine(q, STREAM_OP_TAKE);
	if (reply_int(reply_at(r, 0), 1) == 0) {
		if (q->phase == STREAM_OPEN)
			q->name_until_ms = 0; /* no claim in Redis: the renewal finds out why */
		return;
	}
	if (n_new > 0)
		log_info("took over %d task%s", n_new, n_new == 1 ? "" : "s");
	stream_start_fetched(q, clock_boot_ms());
}

void stream_take(struct queue *q, const struct candidate *list, int n, int64_t now)
{
	struct args a;

	if (n == 0)
		return;
	args_init(&a);
	args_str(&a, q->keys.stream);
	args_str(&a, q->keys.crash);
	args_str(&a, q->keys.names);
	args_join(&a, q->keys.claim, q->consumer);
	args_str(&a, q->keys.ckpt);
	args_str(&a, q->keys.progress);
	for (int i = 0; i < n; i++)
		args_join(&a, q->keys.claim, list[i].owner);
	args_str(&a, q->c->group);
	args_str(&a, q->consumer);
	args_str(&a, q->nonce);
	args_int(&a, q->c->lease);
	args_int(&a, stale_allowed(&q->stale, now, q->c->lease));
	args_int(&a, q->c->foreign_idle);
	args_int(&a, n);
	for (int i = 0; i < n; i++) {
		args_str(&a, list[i].id);
		args_str(&a, list[i].owner);
		args_int(&a, (int64_t)list[i].token);
	}
	q->take_asked = n;
	q->take_sent_ms = now;
	if (stream_script(q, stream_link(q), SCRIPT_TAKE, 6 + n, &a, on_taken, q) < 0)
		on_taken(q, NULL);
}

/* ------------------------------------------------------------------ the names of the dead */

static void on_name_removed(void *arg ATTR_UNUSED, const struct redisReply *r)
{
	if (reply_kind(r) == REPLY_OK && reply_int(r, 0) == 1)
		log_debug("removed a consumer that is gone and had nothing pending");
}

static void on_names(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;

	if (reply_kind(r) != REPLY_OK || q->phase != STREAM_OPEN)
		return;
	for (size_t i = 0; i < reply_len(r); i++) {
		struct slice name = reply_slice(reply_at(r, i));
		struct buf key = BUF_INIT;
		struct args a;

		if (slice_eq_str(name, q->consumer))
			continue;
		buf_addf(&key, "%s%.*s", q->keys.claim, (int)name.len, name.data);
		args_init(&a);
		args_str(&a, q->keys.stream);
		args_str(&a, key.data);
		args_str(&a, q->keys.names);
		args_str(&a, q->c->group);
		args_slice(&a, name);
		args_str(&a, ""); /* only a name that nobody claims */
		if (stream_script(q, q->cmd, SCRIPT_DELCONSUMER, 3, &a, on_name_removed, NULL) < 0)
			i = reply_len(r); /* the link is down: next time */
		buf_release(&key);
	}
}

static void clean_names(struct queue *q, int64_t now)
{
	struct args a;

	if (now < q->names_at_ms)
		return;
	q->names_at_ms = now + max_i64(q->c->lease, STREAM_NAMES_EVERY_MS);
	args_init(&a);
	args_str(&a, "HKEYS");
	args_str(&a, q->keys.names);
	if (stream_send(q->cmd, &a, 0, on_names, q) < 0)
		q->names_at_ms = 0;
}

/* ------------------------------------------------------------------ scan */

static void pass_over(struct queue *q, int64_t now)
{
	snprintf(q->scan_from, sizeof(q->scan_from), "-");
	q->scan_at_ms = now + lease_scan_every(q->c->lease);
}

/* Who may take it: suspects are for the worker set aside, and that one takes nothing else. */
static bool is_for_us(struct queue *q, struct slice record, int *n_suspects)
{
	char cause[1];

	switch (suspect_judge(record, q->c, cause, sizeof(cause))) {
	case SUSPECT_GUILTY:
		return true; /* to be buried: by anyone */
	case SUSPECT_ALONE:
		*n_suspects += 1;
		return q->w->quarantine;
	case SUSPECT_NONE:
	case SUSPECT_APART:
		break;
	}
	return !q->w->quarantine;
}

/* What one page holds for us. */
struct picked {
	struct candidate *list; /* borrowed */
	int n;
	bool more; /* there was another, but no room */
	int n_suspects;
};

static void pick(struct queue *q, const struct redisReply *rows, bool stale_ok, int max,
		 struct picked *out)
{
	size_t n_rows = reply_len(rows) / 5;

	for (size_t k = 0; k < n_rows; k++) {
		/* Of suspects the youngest first: the one that crashed their worker most often is
		 * the one that started last, and the innocent need not run behind each other to
		 * find it. */
		size_t i = 5 * (q->w->quarantine ? n_rows - 1 - k : k);
		struct slice id = reply_slice(reply_at(rows, i));
		struct slice owner = reply_slice(reply_at(rows, i + 1));
		bool released = lease_is_released(reply_int(reply_at(rows, i + 2), 0));
		struct candidate c;

		/* The script judges in the end; here only what cannot succeed is left out. */
		if (owner.len >= sizeof(c.owner) || (!stale_ok && !released))
			continue;
		snprintf(c.id, sizeof(c.id), "%.*s", (int)id.len, id.data);
		if (worker_avoids(q->w, q->partition, c.id) && partitions_have_more(q->w))
			continue; /* there may be something better to try the handler with */
		if (worker_find_task(q->w, q, c.id))
			continue; /* our own, released, and its answer still under way */
		if (!is_for_us(q, reply_slice(reply_at(rows, i + 4)), &out->n_suspects))
			continue;
		if (out->n == max) {
			out->more = true;
			break;
		}
		snprintf(c.owner, sizeof(c.owner), "%.*s", (int)owner.len, owner.data);
		c.token = (uint64_t)reply_int(reply_at(rows, i + 3), 0);
		out->list[out->n++] = c;
	}
}

static void on_scanned(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;
	struct candidate list[STREAM_SCAN_PAGE];
	struct slice last = reply_slice(reply_at(r, 1));
	int64_t now = clock_boot_ms();
	struct picked picked = {.list = list};
	int max;

	q->scanning = false;
	if (reply_kind(r) != REPLY_OK) {
		pass_over(q, now);
		stream_trouble(q, r, STREAM_OP_SCAN);
		return;
	}
	stream_fine(q, STREAM_OP_SCAN);
	stream_hear_time(q, reply_int(reply_at(r, 0), 0), now);
	max = (int)min_i64(min_i64(q->c->read_count, STREAM_SCAN_PAGE), worker_may_ask(q->w));
	if (q->take_asked || !stream_can_send(q, now))
		max = 0;
	pick(q, reply_at(r, 2), stale_allowed(&q->stale, now, q->c->lease), max, &picked);
	if (picked.n_suspects > 0 && !q->w->quarantine)
		q->events->on_suspects(q->w, q, picked.n_suspects);
	if (picked.n > 0) {
		ledger_ask(&q->w->ledger, LEDGER_CLAIM, picked.n);
		pass_over(q, now);
		stream_take(q, list, picked.n, now);
	} else if (picked.more) {
		/* No credit: a read has reserved it, or all is busy. What was let go of comes
		 * before what is new: end the read, and spend the next credit here. */
		pass_over(q, now);
		q->take_first = true;
		partitions_hold(q->w);
	} else if (q->scan_now) {
		/* Asked for while this look was under way: what it has not seen says nothing. */
		pass_over(q, now);
	} else if (last.len == 0) {
		/* Set aside, it stays so until the suspect that runs has ended: alone. */
		q->take_first = q->w->quarantine && ledger_in_use(&q->w->ledger) > 0;
		pass_over(q, now);
		if (q->w->quarantine && !q->take_first)
			q->events->on_cleared(q->w, q);
	} else {
		snprintf(q->scan_from, sizeof(q->scan_from), "%.*s", (int)last.len, last.data);
		q->scan_now = true; /* the next page */
	}
}

void stream_scan(struct queue *q, int64_t now)
{
	struct args a;

	bool again = q->take_first && q->reading == READ_NONE && worker_may_ask(q->w) > 0 &&
		     now >= q->take_hold_ms;

	if (q->scanning || q->take_asked || (!q->scan_now && !again && now < q->scan_at_ms))
		return;
	clean_names(q, now);
	q->scan_now = false;
	args_init(&a);
	args_str(&a, q->keys.stream);
	args_str(&a, q->keys.names);
	args_str(&a, q->keys.crash);
	args_str(&a, q->c->group);
	args_str(&a, q->consumer);
	args_str(&a, q->scan_from);
	args_int(&a, STREAM_SCAN_PAGE);
	args_int(&a, q->c->lease);
	args_int(&a, q->c->foreign_idle);
	q->scanning = true;
	q->scan_sent_ms = now;
	if (stream_script(q, stream_link(q), SCRIPT_SCAN, 3, &a, on_scanned, q) < 0)
		on_scanned(q, NULL);
}
