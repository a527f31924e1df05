/*
 * rconn.c - see rconn.h. Owns the life of one link: its state and its timer. Not the making of a
 * connection (rconn_connect), its bytes (rconn_bytes) and protocol (rconn_resp), the commands that
 * wait (rconn_fifo), the first words (rconn_greet), the look-up of names (rconn_dns) or how bytes
 * travel (transport).
 *
 * Invariants
 *  - link_step() alone changes the state, by the table below.
 *  - What fails is only noted (link_fail()) and acted upon in on_turn(), at the end of the loop
 *    turn, with none of our own frames below: callbacks never see the link fall inside their calls.
 *  - `epoch` changes whenever the socket goes; whoever called a callback compares it afterwards.
 *  - The timer is armed at or before the earliest deadline and looks at the clock when it fires:
 *    commands that are answered in time never touch it.
 */
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "clock.h"
#include "log.h"
#include "rconn_link.h"

/* Bounds: more than these and the link is dropped. */
#define UNSENT_MAX (128 * 1024 * 1024)
#define PENDING_MAX 65536

#define X(name, word) word,
static const char *const state_words[] = {LINK_STATES(X)};
static const char *const event_words[] = {LINK_EVENTS(X)};
#undef X

enum effect { FX_CONNECT = 1, FX_GREET, FX_HOP, FX_UP, FX_FALL, FX_CLOSE, FX_FREE };

struct cell {
	enum effect effect; /* 0: cannot happen */
	enum link_state next;
};

static const struct cell table[N_STATES][N_EVENTS] = {
	[DOWN][ON_START] = {FX_CONNECT, CONNECTING},
	[DOWN][ON_CLOSE] = {FX_CLOSE, CLOSING},
	[CONNECTING][ON_CONNECTED] = {FX_GREET, GREETING},
	[CONNECTING][ON_HOP] = {FX_HOP, CONNECTING},
	[CONNECTING][ON_FAILED] = {FX_FALL, WAITING},
	[CONNECTING][ON_CLOSE] = {FX_CLOSE, CLOSING},
	[GREETING][ON_GREETED] = {FX_UP, READY},
	[GREETING][ON_HOP] = {FX_HOP, CONNECTING},
	[GREETING][ON_FAILED] = {FX_FALL, WAITING},
	[GREETING][ON_CLOSE] = {FX_CLOSE, CLOSING},
	[READY][ON_FAILED] = {FX_FALL, WAITING},
	[READY][ON_CLOSE] = {FX_CLOSE, CLOSING},
	[WAITING][ON_RETRY] = {FX_CONNECT, CONNECTING},
	[WAITING][ON_CLOSE] = {FX_CLOSE, CLOSING},
	[CLOSING][ON_TURN_END] = {FX_FREE, DOWN},
};

/* ------------------------------------------------------------------ timer and failure */

void link_arm(struct rconn *c, int64_t due_ms)
{
	c->due_ms = due_ms;
	c->timer.repeat = (double)max_i64(due_ms - clock_mono_ms(), 1) / 1000.0;
	ev_timer_again(c->loop, &c->timer);
}

static void at_turn_end(struct rconn *c)
{
	ev_feed_event(c->loop, &c->turn, EV_CUSTOM);
}

/* Notes why the link has to fall; the first reason stays. */
void link_fail(struct rconn *c, enum rconn_trouble trouble, const char *fmt, ...)
{
	va_list ap;

	if (c->failing)
		return;
	c->failing = true;
	c->trouble = trouble;
	va_start(ap, fmt);
	vsnprintf(c->why, sizeof(c->why), fmt, ap);
	va_end(ap);
	at_turn_end(c);
}

static double seconds_since(int64_t ms)
{
	return (double)(clock_mono_ms() - ms) / 1000.0;
}

/* ------------------------------------------------------------------ up and down */

static void become_ready(struct rconn *c)
{
	ev_timer_stop(c->loop, &c->timer);
	retry_reset(&c->retry);
	link_master_proven(c);
	link_node_proven(c);
	if (c->events.on_ready)
		c->events.on_ready(c->arg);
}

/* Gives back everything of the connection and tells all that wait. */
static void disconnect(struct rconn *c)
{
	struct rconn_pending p;

	c->epoch++;
	c->failing = false;
	memset(&c->greet, 0, sizeof(c->greet));
	link_forget_master(c);
	link_forget_scout(c);
	rconn_dns_cancel(c->dns);
	c->dns = NULL;
	ev_io_stop(c->loop, &c->rd);
	link_forget_output(c);
	ev_timer_stop(c->loop, &c->timer);
	c->travel->close(&c->io);
	c->io = RCONN_IO_NONE;
	resp_reader_free(c->reader);
	c->reader = NULL;
	/* Nothing can be added now. A rconn_close() in one of these empties the rest inside, so
	 * that its owner hears nothing afterwards. */
	while (fifo_pop(&c->pending, &p))
		if (p.fn)
			p.fn(p.arg, NULL);
}

static void fall(struct rconn *c)
{
	disconnect(c);
	if (c->state != WAITING)
		return; /* closed by one of those that waited */
	link_arm(c, clock_mono_ms() + link_fall_delay_ms(c));
	if (c->events.on_down)
		c->events.on_down(c->arg, c->why);
}

static void destroy(struct rconn *c)
{
	ev_clear_pending(c->loop, &c->turn);
	ev_cleanup_stop(c->loop, &c->cleanup);
	link_free_master(c);
	link_free_cluster(c);
	redis_addr_release(&c->addr);
	buf_release(&c->where);
	buf_release(&c->out);
	fifo_release(&c->pending);
	free(c->name);
	free(c->key);
	free(c);
}

static void close_down(struct rconn *c)
{
	disconnect(c);
	at_turn_end(c);
	/* There may be no further turn: then the end of the loop frees us. */
	ev_cleanup_start(c->loop, &c->cleanup);
}

void link_step(struct rconn *c, enum link_event event, const char *why)
{
	const struct cell *cell = &table[c->state][event];

	if (!cell->effect) {
		log_error("%s: event \"%s\" in state %s cannot happen", c->name, event_words[event],
			  state_words[c->state]);
#ifdef REDISQ_TEST_BUILD
		abort();
#endif
		return;
	}
	log_state(c->name, state_words[c->state], state_words[cell->next], why);
	c->state = cell->next;
	switch (cell->effect) {
	case FX_CONNECT:
		link_begin_try(c);
		break;
	case FX_GREET:
		link_begin_greeting(c);
		break;
	case FX_HOP:
		disconnect(c);
		link_go_to_node(c);
		break;
	case FX_UP:
		become_ready(c);
		break;
	case FX_FALL:
		fall(c);
		break;
	case FX_CLOSE:
		close_down(c);
		break;
	case FX_FREE:
		destroy(c);
		break;
	}
}

/* ------------------------------------------------------------------ events of the loop */

static void on_readable(struct ev_loop *loop ATTR_UNUSED, ev_io *io, int revents ATTR_UNUSED)
{
	struct rconn *c = container_of(io, struct rconn, rd);

	if (c->failing)
		return;
	link_read(c);
	if (c->io.wants_read && !c->failing)
		link_write(c);
}

static void on_writable(struct ev_loop *loop ATTR_UNUSED, ev_io *io, int revents ATTR_UNUSED)
{
	struct rconn *c = container_of(io, struct rconn, wr);

	if (c->failing)
		ev_io_stop(c->loop, &c->wr);
	else if (c->state == CONNECTING)
		link_connection_result(c);
	else
		link_go_on(c);
}

static void on_turn(struct ev_loop *loop ATTR_UNUSED, ev_prepare *w, int revents ATTR_UNUSED)
{
	struct rconn *c = container_of(w, struct rconn, turn);

	if (c->state == CLOSING)
		link_step(c, ON_TURN_END, "closed");
	else if (c->failing)
		link_step(c, link_may_hop(c) ? ON_HOP : ON_FAILED, c->why);
	else
		link_write(c);
}

static void on_loop_end(struct ev_loop *loop ATTR_UNUSED, ev_cleanup *w, int revents ATTR_UNUSED)
{
	link_step(container_of(w, struct rconn, cleanup), ON_TURN_END, "loop ended");
}

static void greeting_overdue(struct rconn *c)
{
	link_read(c);
	if (c->state == GREETING && !c->failing)
		link_fail(c, TROUBLE_LINK, "no answer to %s from %s within %.1f s",
			  greet_waiting_for(&c->greet), c->peer, (double)c->try_ms / 1000.0);
}

/* As long as something comes Redis is not silent: a large reply over a slow path takes its time. */
static int64_t patience_ends(const struct rconn *c, const struct rconn_pending *p)
{
	return max_i64(p->due_ms, c->last_rx_ms + c->conf->command_timeout);
}

/* The deadline the timer was armed for; the command may have been answered long ago. */
static void command_overdue(struct rconn *c)
{
	const struct rconn_pending *p = fifo_head(&c->pending);
	unsigned epoch = c->epoch;

	if (p && p->due_ms <= clock_mono_ms()) {
		/* After a stall of our own the reply may lie in the socket. */
		link_read(c);
		if (c->epoch != epoch || c->failing)
			return;
		p = fifo_head(&c->pending);
		if (p && patience_ends(c, p) <= clock_mono_ms()) {
			link_fail(c, TROUBLE_LINK, "no answer to %s for %.1f s", p->verb,
				  seconds_since(p->sent_ms));
			return;
		}
	}
	if (p)
		link_arm(c, patience_ends(c, p));
	else
		ev_timer_stop(c->loop, &c->timer);
}

static void on_timer(struct ev_loop *loop ATTR_UNUSED, ev_timer *w, int revents ATTR_UNUSED)
{
	struct rconn *c = container_of(w, struct rconn, timer);

	if (c->failing) {
		ev_timer_stop(c->loop, w);
		return;
	}
	/* libev counts from the beginning of the turn, so it may be early. */
	if (clock_mono_ms() < c->due_ms) {
		link_arm(c, c->due_ms);
		return;
	}
	switch (c->state) {
	case CONNECTING:
		link_connect_overdue(c);
		break;
	case GREETING:
		greeting_overdue(c);
		break;
	case READY:
		command_overdue(c);
		break;
	case WAITING:
		link_step(c, ON_RETRY, "back-off is over");
		break;
	case DOWN:
	case CLOSING:
	case N_STATES:
		ev_timer_stop(c->loop, w);
		break;
	}
}

/* ------------------------------------------------------------------ for the owner */

struct rconn *rconn_new(struct ev_loop *loop, const struct conf_redis *redis, const char *name,
			const struct rconn_events *events, void *arg)
{
	struct rconn *c = xcalloc(1, sizeof(*c));

	c->loop = loop;
	c->conf = redis;
	c->travel = &rconn_plain;
	c->events = *events;
	c->arg = arg;
	c->name = xstrdup(name);
	c->io = RCONN_IO_NONE;
	buf_init(&c->where);
	buf_init(&c->out);
	ev_io_init(&c->rd, on_readable, -1, EV_READ);
	ev_io_init(&c->wr, on_writable, -1, EV_WRITE);
	ev_timer_init(&c->timer, on_timer, 0., 0.);
	ev_prepare_init(&c->turn, on_turn);
	ev_set_priority(&c->turn, EV_MINPRI);
	ev_cleanup_init(&c->cleanup, on_loop_end);
	rng_seed(&c->rng,
		 ((uint64_t)getpid() << 32) ^ (uint64_t)clock_boot_ms() ^ (uint64_t)(uintptr_t)c);
	/* A url that cannot be read is reported by the first try. */
	if (link_read_where(c, NULL) < 0)
		buf_adds(&c->where, "redis");
	return c;
}

void rconn_set_key(struct rconn *c, const char *key)
{
	INVARIANT(c->state == DOWN && !c->key);
	c->key = xstrdup(key);
}

bool rconn_is_cluster(const struct rconn *c)
{
	return c->addr.cluster != NULL;
}

bool rconn_needs_other_url(const struct rconn *c)
{
	return c->trouble == TROUBLE_URL;
}

void rconn_start(struct rconn *c)
{
	link_step(c, ON_START, "started");
}

void rconn_close(struct rconn *c)
{
	if (c && c->state != CLOSING)
		link_step(c, ON_CLOSE, "closed by its owner");
}

void rconn_drop(struct rconn *c, const char *why)
{
	if (c->state == CONNECTING || c->state == GREETING || c->state == READY)
		link_fail(c, TROUBLE_LINK, "%s", why);
}

void rconn_drop_to(struct rconn *c, const struct rconn *other, const char *why)
{
	link_follow(c, other);
	rconn_drop(c, why);
}

bool rconn_same_server(const struct rconn *a, const struct rconn *b)
{
	if (a->greet.run_id[0] && b->greet.run_id[0])
		return strcmp(a->greet.run_id, b->greet.run_id) == 0;
	return strcmp(a->where.data, b->where.data) == 0;
}

void rconn_watch_master(struct rconn *c)
{
	c->watches = true;
}

void rconn_hurry(struct rconn *c, const struct rconn *other)
{
	if (other && c->state != READY)
		link_follow(c, other);
	if (c->state == WAITING)
		link_step(c, ON_RETRY, "no need to wait longer");
}

bool rconn_is_ready(const struct rconn *c)
{
	return c->state == READY && !c->failing;
}

int64_t rconn_client_id(const struct rconn *c)
{
	return c->greet.client_id;
}

const char *rconn_run_id(const struct rconn *c)
{
	return c->greet.run_id;
}

const char *rconn_where(const struct rconn *c)
{
	return c->where.data;
}

int64_t rconn_silent_at(const struct rconn *c, int64_t patience_ms)
{
	const struct rconn_pending *p = fifo_head(&c->pending);

	if (!p)
		return INT64_MAX;
	return max_i64(p->due_ms - c->conf->command_timeout, c->last_rx_ms) + patience_ms;
}

size_t rconn_n_pending(const struct rconn *c)
{
	return c->pending.n;
}

size_t rconn_n_unsent(const struct rconn *c)
{
	return c->out.len - c->out_at;
}

int rconn_send(struct rconn *c, int argc, const struct rconn_arg *argv, int64_t extra_ms,
	       rconn_reply_fn *fn, void *arg)
{
	int64_t due_ms;

	INVARIANT(argc > 0);
	if (!rconn_is_ready(c))
		return -1;
	if (rconn_n_unsent(c) > UNSENT_MAX || c->pending.n >= PENDING_MAX) {
		link_fail(c, TROUBLE_LINK,
			  "Redis takes no more: %zu commands without a reply, %zu bytes unsent",
			  c->pending.n, rconn_n_unsent(c));
		return -1;
	}
	if (c->out.len == 0)
		at_turn_end(c);
	resp_add(&c->out, argc, argv);
	due_ms = fifo_push(&c->pending, clock_mono_ms(), c->conf->command_timeout + extra_ms,
			   &argv[0], fn, arg);
	if (!ev_is_active(&c->timer) || due_ms < c->due_ms)
		link_arm(c, due_ms);
	return 0;
}

void rconn_flush(struct rconn *c)
{
	if (rconn_is_ready(c))
		link_write(c);
}

static void ignore_reply(void *arg ATTR_UNUSED, const redisReply *reply ATTR_UNUSED)
{
	/* The name is for people; a service that refuses it has said so in the greeting. */
}

void rconn_set_name(struct rconn *c, const char *name)
{
	const struct rconn_arg argv[] = {{"CLIENT", 6}, {"SETNAME", 7}, {name, strlen(name)}};
	char *copy = xstrdup(name);

	free(c->name);
	c->name = copy;
	if (rconn_is_ready(c) && rconn_send(c, 3, argv, 0, ignore_reply, NULL) < 0)
		log_debug("%s: the link is going down; the next one has the name", name);
}
