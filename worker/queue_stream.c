/*
 * queue_stream.c - the back end: its links, its turn and its alarm. See stream.h.
 *
 * Invariants: no task is asked for before both links stand and the name is proved
 * (stream_can_send); with one link what we have is renewed, and then settled, and what the dead had
 * is handed over, which needs no name; every error goes through stream_trouble(); the queue never
 * leaves its loop for an error.
 */
#include <inttypes.h>

#include "clock.h"
#include "stream.h"

static const char *phase_word(enum stream_phase p)
{
	static const char *const words[] = {
#define X(name, word) word,
		STREAM_PHASES(X)
#undef X
	};

	return words[p];
}

void stream_set_phase(struct queue *q, enum stream_phase phase, const char *why)
{
	log_state(q->what, phase_word(q->phase), phase_word(phase), why);
	q->phase = phase;
}

bool stream_linked(const struct queue *q)
{
	return rconn_is_ready(q->fetch) && rconn_is_ready(q->cmd);
}

struct rconn *stream_link(struct queue *q)
{
	bool busy = q->reading == READ_BLOCKED || q->reading == READ_UNBLOCKING;

	return busy || !rconn_is_ready(q->fetch) ? q->cmd : q->fetch;
}

struct rconn *stream_any_link(struct queue *q)
{
	struct rconn *c = rconn_is_ready(q->cmd) ? q->cmd : stream_link(q);

	return rconn_is_ready(c) ? c : NULL;
}

bool stream_can_send(const struct queue *q, int64_t now_ms)
{
	return q->phase == STREAM_OPEN && now_ms >= q->pause_until_ms && now_ms < q->name_until_ms;
}

int stream_send(struct rconn *c, struct args *a, int64_t extra_ms, rconn_reply_fn *fn, void *arg)
{
	int r = rconn_send(c, a->n, args_done(a), extra_ms, fn, arg);

	args_release(a);
	return r;
}

int stream_script(struct queue *q, struct rconn *c, enum script_id id, int n_keys, struct args *a,
		  rconn_reply_fn *fn, void *arg)
{
	int r;

	if (q->kind->on_lists) {
		id = script_on_list(id);
		n_keys = stream_add_list_args(q, n_keys, a);
	}
	r = script_send(c, q->cmd, id, n_keys, a->n, args_done(a), 0, fn, arg);

	args_release(a);
	return r;
}

/* ------------------------------------------------------------------ the links */

/* What was proved on the old link is not proved any more: renew before anything else. */
static void forget_evidence(struct queue *q)
{
	struct task_table *tt = &q->w->tasks;

	q->name_until_ms = 0;
	for (int i = 0; i < tt->n_rows; i++)
		if (tt->rows[i].queue == q)
			tt->rows[i].evidence_ms = 0;
}

/* A request without an answer for longer than this, beyond its BLOCK: nobody consumes. */
#define SILENCE_MS 5000

/* Publishes whether we consume; in how many ms that ends if nothing comes, INT64_MAX = never. */
static int64_t publish_consuming(struct queue *q)
{
	int64_t now = clock_mono_ms();
	int64_t at =
		min_i64(rconn_silent_at(q->fetch, SILENCE_MS), rconn_silent_at(q->cmd, SILENCE_MS));

	q->events->on_consuming(q->w, q,
				q->phase == STREAM_OPEN && !q->moving && !q->hindered &&
					stream_linked(q) && now < at);
	return at == INT64_MAX || now >= at ? INT64_MAX : at - now;
}

static void publish_links(struct queue *q)
{
	struct board_name *b = &q->w->board->names[q->partition];

	atomic_store(&b->client_id[0], rconn_is_ready(q->fetch) ? rconn_client_id(q->fetch) : 0);
	atomic_store(&b->client_id[1], rconn_is_ready(q->cmd) ? rconn_client_id(q->cmd) : 0);
	snprintf(b->run_id, sizeof(b->run_id), "%s", rconn_run_id(q->cmd));
	publish_consuming(q);
}

/* The other one need not wait any longer; nor may it stay where `c` has not found the master. */
static void link_up(struct queue *q, struct rconn *c, struct rconn *other)
{
	rconn_hurry(other, c);
	if (rconn_is_ready(other) && !rconn_same_server(c, other))
		rconn_drop_to(other, c, "the other link has found Redis elsewhere");
	publish_links(q);
	if (!q->scripts_loaded && stream_any_link(q)) {
		/* One that Redis does not know would be sent again, behind a read that blocks. */
		script_load_all(stream_any_link(q), q->kind->on_lists);
		q->scripts_loaded = true;
	}
	if (!stream_linked(q))
		return;
	if (strcmp(q->where.data, rconn_where(q->cmd)) != 0)
		stale_other_server(&q->stale);
	buf_clear(&q->where);
	buf_adds(&q->where, rconn_where(q->cmd));
	stale_linked(&q->stale, clock_boot_ms());
	q->policy_at_ms = 0;
	q->events->on_linked(q->w, q, rconn_where(q->cmd));
	stream_make_record(q);
	stream_try_options(q);
}

static void link_down(struct queue *q, struct rconn *c, const char *why)
{
	q->scripts_loaded = false;
	q->no_short_way = false;
	q->moving = false;
	q->arrived = q->kind->on_lists; /* by a read whose answer was lost */
	q->look_aside_ms = 0;
	stale_unlinked(&q->stale);
	forget_evidence(q);
	q->n_links_lost++;
	stream_make_record(q);
	publish_links(q);
	stream_complain(q, "%s link to %s: %s", c == q->fetch ? "fetch" : "cmd", rconn_where(c),
			why);
	/* Once it was open it is the server that has changed, and may change back. */
	if (rconn_needs_other_url(c) && q->phase == STREAM_CONNECTING)
		stream_refuse(q, why);
	else if (q->phase != STREAM_LEFT)
		q->events->on_wait(q->w, q, why);
}

static void fetch_up(void *arg)
{
	struct queue *q = arg;

	link_up(q, q->fetch, q->cmd);
}

static void cmd_up(void *arg)
{
	struct queue *q = arg;

	link_up(q, q->cmd, q->fetch);
}

static void fetch_down(void *arg, const char *why)
{
	struct queue *q = arg;

	link_down(q, q->fetch, why);
}

static void cmd_down(void *arg, const char *why)
{
	struct queue *q = arg;

	link_down(q, q->cmd, why);
}

/* ------------------------------------------------------------------ the turn */

/* Ready: the first read or claim is on its way, or there is no credit for one. */
static void announce(struct queue *q)
{
	if (q->announced || (q->reading == READ_NONE && !q->take_asked && worker_may_ask(q->w) > 0))
		return;
	q->announced = true;
	q->events->on_ready(q->w, q, q->consumer);
}

/*
 * Everything an open queue does, in the order that makes one write: what keeps ownership first,
 * then the settlements, then the read that counts on the credit they free.
 */
static void turn_open(struct queue *q, int64_t now)
{
	bool stale;

	if (!stream_any_link(q))
		return;
	/* First: others wait for it, and it needs neither our name nor credit. */
	q->handover_at_ms = stream_handovers(q, now);
	stream_note_flush(q, now);
	stream_ask_checkpoints(q, now);
	stale = now >= q->name_until_ms;
	if (!stale)
		stale = stream_start_fetched(q, now);
	if (stream_can_send(q, now) && stream_settle_flush(q, now))
		stale = true;
	if (stale || now >= q->renew_at_ms)
		stream_renew(q, now);
	/* With one link what runs is kept and settled; both are needed for more. */
	if (!stream_can_send(q, now) || !stream_linked(q))
		return;
	stream_look_at_policy(q, now);
	stream_promote(q, now);
	if (!stream_has_put_off(q)) {
		stream_scan(q, now);
		q->kind->read(q, now);
	}
	announce(q);
}

static void set_alarm(struct queue *q, int64_t now)
{
	int64_t complain = complaint_due(&q->w->complaint, now);
	int64_t silent = publish_consuming(q);
	/* What is unanswered wakes the loop itself. */
	int64_t renew = q->renewing ? INT64_MAX : max_i64(q->renew_at_ms, q->renew_hold_ms);
	int64_t at = min_i64(renew, q->handover_at_ms);

	if (q->phase != STREAM_OPEN || !stream_any_link(q))
		at = INT64_MAX;
	else if (q->promote_at_ms > now && q->promote_at_ms < at)
		at = q->promote_at_ms;
	if (q->take_first && q->take_hold_ms > now && q->take_hold_ms < at)
		at = q->take_hold_ms;
	if (q->ask_at_ms > now)
		at = min_i64(at, q->ask_at_ms);
	if (q->pause_until_ms > now && q->pause_until_ms < at)
		at = q->pause_until_ms;
	if (max_i64(q->note_at_ms, q->note_hold_ms) > now)
		at = min_i64(at, max_i64(q->note_at_ms, q->note_hold_ms));
	at = min_i64(at, complain);
	/* Where the link itself is given up first there is nothing to look at. */
	if (silent < INT64_MAX && conf_redis(q->w->conf)->command_timeout > SILENCE_MS)
		at = min_i64(at, now + silent);
	ev_timer_stop(q->w->loop, &q->alarm);
	if (at == INT64_MAX)
		return;
	ev_timer_set(&q->alarm, (double)max_i64(at - now, 1) / 1000.0, 0.0);
	ev_timer_start(q->w->loop, &q->alarm);
}

/* It has nothing, and has asked for nothing. */
static bool is_idle(const struct queue *q)
{
	const struct task_table *tt = &q->w->tasks;

	for (int i = 0; i < tt->n_rows; i++)
		if (tt->rows[i].state != TASK_GONE && tt->rows[i].queue == q)
			return false;
	return q->reading == READ_NONE && !q->take_asked;
}

static void queue_turn(struct queue *q)
{
	int64_t now = clock_boot_ms();

	stale_look(&q->stale, now, q->c->lease);
	switch (q->phase) {
	case STREAM_CONNECTING:
	case STREAM_OPENING:
		if (stream_linked(q) && now >= q->pause_until_ms)
			stream_open_step(q);
		break;
	case STREAM_OPEN:
		turn_open(q, now);
		break;
	case STREAM_FENCED:
		if (is_idle(q)) {
			stream_new_nonce(q);
			stream_set_phase(q, STREAM_CONNECTING, "a new name");
			if (stream_linked(q))
				stream_open_step(q);
		}
		break;
	case STREAM_LEAVING:
		stream_leave_step(q);
		break;
	case STREAM_LEFT:
		return;
	}
	if (stream_put_off(q, now))
		worker_turn_again(q->w); /* those who had their turn before can use the credit */
	set_alarm(q, now);
	rconn_flush(q->fetch);
	rconn_flush(q->cmd);
}

/* The turn, at the end of this iteration, does the work. */
static void on_alarm(struct ev_loop *loop ATTR_UNUSED, ev_timer *t ATTR_UNUSED,
		     int revents ATTR_UNUSED)
{
}

/* ------------------------------------------------------------------ the operations */

static struct queue *queue_open(struct worker *w, int partition, const struct queue_events *events)
{
	static const struct rconn_events fetch_events = {fetch_up, fetch_down};
	static const struct rconn_events cmd_events = {cmd_up, cmd_down};
	struct queue *q = xcalloc(1, sizeof(*q));
	char *stream = partition_stream(w->qc->name, partition, w->qc->partitions);
	const struct conf_redis *redis = conf_redis(w->conf);

	q->w = w;
	q->c = w->qc;
	q->partition = partition;
	if (q->c->partitions > 1)
		snprintf(q->what, sizeof(q->what), "partition %d", partition);
	else
		snprintf(q->what, sizeof(q->what), "queue");
	q->kind = w->qc->backend == CONF_BACKEND_LIST ? &stream_kind_list : &stream_kind;
	q->events = events;
	keys_init(&q->keys, stream);
	free(stream);
	buf_init(&q->record);
	buf_init(&q->where);
	list_init(&q->to_settle);
	list_init(&q->handovers);
	q->handover_at_ms = q->note_at_ms = INT64_MAX;
	q->promote_log.every_ms = 1000;
	q->moving_log.every_ms = 10000;
	snprintf(q->scan_from, sizeof(q->scan_from), "-");
	q->last_entry_ms = clock_boot_ms();
	ev_timer_init(&q->alarm, on_alarm, 0.0, 0.0);
	stream_new_nonce(q);
	q->fetch = rconn_new(w->loop, redis, "redisq:starting:fetch", &fetch_events, q);
	q->cmd = rconn_new(w->loop, redis, "redisq:starting:cmd", &cmd_events, q);
	rconn_set_key(q->fetch, q->keys.stream);
	rconn_set_key(q->cmd, q->keys.stream);
	rconn_watch_master(q->cmd);
	rconn_start(q->cmd);
	rconn_start(q->fetch);
	return q;
}

static void queue_settle(struct queue *q, struct task *t)
{
	list_append(&q->to_settle, &t->link);
}

static void queue_probe(struct queue *q)
{
	q->maybe_more = true;
}

static void queue_scan(struct queue *q)
{
	/* Before the next read, or that would spend the credit on what is new. */
	q->scan_now = q->take_first = true;
}

static void on_described(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;

	if (reply_kind(r) == REPLY_OK)
		log_info("waiting on %s \"%s\" at %s (from %s): %" PRId64 " entr%s", q->kind->word,
			 q->keys.stream, rconn_where(q->cmd),
			 conf_where(q->w->conf, CONF_REDIS, NULL, "url"), reply_int(r, 0),
			 reply_int(r, 0) == 1 ? "y" : "ies");
}

static void queue_describe(struct queue *q)
{
	struct args a;

	if (q->phase != STREAM_OPEN)
		return;
	args_init(&a);
	args_str(&a, q->kind->length);
	args_str(&a, q->keys.stream);
	if (stream_send(q->cmd, &a, 0, on_described, q) < 0)
		log_info("waiting for Redis at %s", rconn_where(q->cmd));
}

static void queue_leave(struct queue *q)
{
	if (q->phase == STREAM_LEFT) {
		q->events->on_left(q->w, q);
		return;
	}
	stream_set_phase(q, STREAM_LEAVING, "nothing is held any more");
	/* Now: the turn may be over, and the next one as far away as the next event. */
	stream_leave_step(q);
	rconn_flush(q->cmd);
}

static void queue_free(struct queue *q)
{
	if (!q)
		return;
	ev_timer_stop(q->w->loop, &q->alarm);
	q->phase = STREAM_LEFT;
	rconn_close(q->fetch);
	rconn_close(q->cmd);
	stream_forget_handovers(q);
	keys_release(&q->keys);
	buf_release(&q->record);
	buf_release(&q->where);
	free(q);
}

const struct queue_ops queue_stream_ops = {
	.open = queue_open,
	.look = stream_look,
	.turn = queue_turn,
	.settle = queue_settle,
	.note = stream_note,
	.hold = stream_unblock,
	.probe = queue_probe,
	.scan = queue_scan,
	.hand_over = stream_hand_over,
	.describe = queue_describe,
	.leave = queue_leave,
	.free = queue_free,
};
