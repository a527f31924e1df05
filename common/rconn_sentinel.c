/*
 * rconn_sentinel.c - see rconn_sentinel.h. Owns one short connection at a time. Every fault ends in
 * no_answer(), which goes on to the next Sentinel, until one has answered or none is left: done().
 *
 * Invariant: while a round is under way the timer is armed, and either a look-up or a socket is
 * there.
 */
#include <errno.h>
#include <poll.h>

#include <hiredis/hiredis.h>

#include "clock.h"
#include "rconn.h"
#include "rconn_arena.h"
#include "rconn_dns.h"
#include "rconn_resp.h"
#include "rconn_sentinel.h"
#include "rconn_transport.h"

#define ANSWER_MS 500
#define LOOK_UP_MS 2000
/* A Sentinel's answers are a hundred bytes; who sends more is none. */
#define ANSWER_MAX (64 * 1024)

struct rconn_sentinel {
	struct ev_loop *loop;          /* borrowed */
	const struct conf_redis *conf; /* borrowed */
	const struct redis_addr *addr; /* borrowed while a round is under way, else NULL */
	rconn_sentinel_fn *fn;
	void *arg; /* borrowed */
	struct sentinel_pick pick;

	/* The Sentinel that is being asked. */
	const struct redis_place *who; /* borrowed from addr */
	struct rconn_dns *dns;         /* owned, NULL = no look-up under way */
	struct rconn_addrs addrs;
	size_t next_addr;
	int64_t end_ms; /* until when all its addresses have time */
	const struct rconn_transport *travel;
	struct rconn_io io;
	ev_io ready; /* the socket is, for what is next */
	ev_timer timer;
	bool is_late; /* the timer has fired once for this address */
	bool stands;
	struct buf out;
	size_t out_at;
	struct redisReader *reader; /* owned, NULL = none */
	size_t n_read;
	int n_answers; /* still to come */
	char auth_error[80];
};

static void hang_up(struct rconn_sentinel *s)
{
	rconn_dns_cancel(s->dns);
	s->dns = NULL;
	ev_io_stop(s->loop, &s->ready);
	ev_timer_stop(s->loop, &s->timer);
	if (s->travel)
		s->travel->close(&s->io);
	s->io = RCONN_IO_NONE;
	resp_reader_free(s->reader);
	s->reader = NULL;
	s->stands = s->is_late = false;
	/* There has been a password in it. */
	if (s->out.len)
		explicit_bzero(s->out.data, s->out.len);
	buf_release(&s->out);
}

static void arm(struct rconn_sentinel *s, int64_t ms)
{
	s->timer.repeat = (double)max_i64(ms, 1) / 1000.0;
	ev_timer_again(s->loop, &s->timer);
}

/* ------------------------------------------------------------------ the round */

static void done(struct rconn_sentinel *s, const struct redis_place *master, const char *from)
{
	hang_up(s);
	s->addr = NULL;
	s->fn(s->arg, master, from, s->pick.fault);
}

static void connect_next(struct rconn_sentinel *s);

/* Asks the one in front. */
static void ask_next(struct rconn_sentinel *s)
{
	size_t i;

	hang_up(s);
	if (!sentinel_pick_whom(&s->pick, &i)) {
		done(s, NULL, s->pick.why);
		return;
	}
	s->who = &s->addr->sentinels->v[i];
	s->addrs.n = s->next_addr = 0;
	connect_next(s);
}

static void no_answer(struct rconn_sentinel *s, enum sentinel_fault fault, const char *what,
		      const char *why)
{
	struct buf who = BUF_INIT;

	redis_place_text(s->who, &who);
	sentinel_pick_no_answer(&s->pick, fault, "sentinel %.80s%s%.150s", who.data, what, why);
	buf_release(&who);
	ask_next(s);
}

/* ------------------------------------------------------------------ the question */

static void add_command(struct rconn_sentinel *s, int argc, const char *const *words)
{
	struct rconn_arg argv[3];

	for (int i = 0; i < argc; i++)
		argv[i] = (struct rconn_arg){words[i], strlen(words[i])};
	resp_add(&s->out, argc, argv);
	s->n_answers++;
}

static void put_question(struct rconn_sentinel *s)
{
	const struct redis_sentinels *all = s->addr->sentinels;

	s->n_answers = 0;
	s->out_at = s->n_read = 0;
	s->auth_error[0] = '\0';
	s->reader = resp_reader_new();
	if (all->username)
		add_command(s, 3,
			    (const char *const[]){"AUTH", all->username,
						  all->password ? all->password : ""});
	else if (all->password)
		add_command(s, 2, (const char *const[]){"AUTH", all->password});
	add_command(s, 3,
		    (const char *const[]){"SENTINEL", "get-master-addr-by-name", all->master});
}

/* The answer to the last command is what counts: a Sentinel without a password refuses AUTH and
 * answers all the same. */
static void take_answer(struct rconn_sentinel *s, const redisReply *r)
{
	const struct redis_sentinels *all = s->addr->sentinels;
	struct redis_place master = {0};
	enum sentinel_fault fault;
	char text[RCONN_WHY_MAX], why[160];
	struct buf from = BUF_INIT;

	if (--s->n_answers > 0) {
		if (r->type == REDIS_REPLY_ERROR) {
			resp_error_text(r, all->password, text);
			snprintf(s->auth_error, sizeof(s->auth_error), "%.79s", text);
		}
		return;
	}
	if (sentinel_answer(r, all->master, &master, &fault, why) < 0) {
		if (s->auth_error[0])
			no_answer(s, SENTINEL_REFUSES, ": AUTH: ", s->auth_error);
		else
			no_answer(s, fault, " ", why);
		return;
	}
	redis_place_text(s->who, &from);
	done(s, &master, from.data);
	buf_release(&from);
	free(master.host);
}

/* Takes what has been read apart; an answer may end the whole round. */
static void take_bytes(struct rconn_sentinel *s, const char *bytes, size_t len)
{
	struct rconn_arena *arena;
	void *r = NULL;

	s->n_read += len;
	if (s->n_read > ANSWER_MAX || redisReaderFeed(s->reader, bytes, len) != REDIS_OK) {
		no_answer(s, SENTINEL_REFUSES, " ", "is no Sentinel: it talks too much");
		return;
	}
	while (s->reader) {
		bool is_last = s->n_answers <= 1;

		if (redisReaderGetReply(s->reader, &r) != REDIS_OK) {
			no_answer(s, SENTINEL_REFUSES, " ", "speaks another protocol");
			return;
		}
		if (!r)
			return;
		arena = s->reader->privdata; /* the reader goes with the last answer */
		rconn_arena_look(arena);
		take_answer(s, r);
		rconn_arena_done(arena);
		if (is_last)
			return; /* `s` may be about another Sentinel now, or about none */
	}
}

/* ------------------------------------------------------------------ the connection */

static void watch(struct rconn_sentinel *s)
{
	int events = s->io.wants_read ? EV_READ : EV_WRITE;

	if (s->stands) {
		bool writes = (s->out_at < s->out.len && !s->io.wants_read) || s->io.wants_write;

		events = EV_READ | (writes ? EV_WRITE : 0);
	}
	ev_io_stop(s->loop, &s->ready);
	ev_io_set(&s->ready, s->io.fd, events);
	ev_io_start(s->loop, &s->ready);
}

/* Tries the addresses that are left, each with its share of the time that is left. */
static void try_next_addr(struct rconn_sentinel *s, int error)
{
	int64_t now = clock_mono_ms();
	char why[sizeof(s->io.why)];

	snprintf(why, sizeof(why), "%s", s->io.why[0] ? s->io.why : strerror(error));
	ev_io_stop(s->loop, &s->ready);
	s->travel->close(&s->io);
	s->is_late = false;
	while (s->next_addr < s->addrs.n) {
		int64_t n_left = (int64_t)(s->addrs.n - s->next_addr);

		s->io = RCONN_IO_NONE;
		if (s->travel->open(&s->io, &s->addrs.v[s->next_addr++], s->conf, s->who->host) ==
		    0) {
			watch(s);
			arm(s, (s->end_ms - now) / n_left);
			return;
		}
		snprintf(why, sizeof(why), "%s", s->io.why[0] ? s->io.why : strerror(errno));
	}
	no_answer(s, error == EPROTO ? SENTINEL_REFUSES : SENTINEL_SILENT, ": ", why);
}

static void on_addrs(void *arg, const struct rconn_addrs *addrs, const char *error)
{
	struct rconn_sentinel *s = arg;

	s->dns = NULL;
	if (error) {
		no_answer(s, SENTINEL_SILENT, ": look up: ", error);
		return;
	}
	s->addrs = *addrs;
	s->end_ms = clock_mono_ms() + ANSWER_MS;
	try_next_addr(s, EHOSTUNREACH);
}

static void connect_next(struct rconn_sentinel *s)
{
	s->travel = s->addr->tls ? &rconn_tls : &rconn_plain;
	if (rconn_addr_literal(s->who->host, s->who->port, &s->addrs.v[0])) {
		s->addrs.n = 1;
		s->end_ms = clock_mono_ms() + ANSWER_MS;
		try_next_addr(s, EHOSTUNREACH);
		return;
	}
	s->dns = rconn_dns_start(s->loop, s->who->host, s->who->port, on_addrs, s);
	if (s->dns)
		arm(s, LOOK_UP_MS);
	else
		no_answer(s, SENTINEL_SILENT, ": look up: ", strerror(errno));
}

/* Once it stands it is this Sentinel that has no answer, not this address. */
static void connection_failed(struct rconn_sentinel *s, int error)
{
	if (s->stands)
		no_answer(s, SENTINEL_SILENT, ": ",
			  s->io.why[0] ? s->io.why
			  : error      ? strerror(error)
				       : "it closed the connection");
	else
		try_next_addr(s, error);
}

static void write_question(struct rconn_sentinel *s)
{
	ssize_t n;

	if (s->out_at == s->out.len)
		return;
	n = s->travel->write(&s->io, s->out.data + s->out_at, s->out.len - s->out_at);
	if (n > 0)
		s->out_at += (size_t)n;
	/* An error comes out of the read, too, and after what the Sentinel has said. */
}

static void read_answer(struct rconn_sentinel *s)
{
	char bytes[RCONN_READ_MIN];
	ssize_t n = s->travel->read(&s->io, bytes, sizeof(bytes));

	if (n > 0)
		take_bytes(s, bytes, (size_t)n);
	else if (n == 0)
		connection_failed(s, 0);
	else if (errno != EAGAIN && errno != EINTR)
		connection_failed(s, errno);
}

/* The socket can go on. Afterwards it may be another one. */
static void go_on(struct rconn_sentinel *s)
{
	if (!s->stands) {
		int state = s->travel->finish(&s->io);

		if (state < 0) {
			connection_failed(s, errno);
			return;
		}
		if (state > 0) {
			s->stands = true;
			put_question(s);
		}
	}
	if (s->stands) {
		write_question(s);
		read_answer(s);
	}
	if (s->io.fd >= 0)
		watch(s);
}

static void on_io(struct ev_loop *loop ATTR_UNUSED, ev_io *io, int revents ATTR_UNUSED)
{
	go_on(container_of(io, struct rconn_sentinel, ready));
}

static bool can_go_on_now(const struct rconn_sentinel *s)
{
	struct pollfd p = {.fd = s->io.fd,
			   .events = (short)((s->ready.events & EV_READ ? POLLIN : 0) |
					     (s->ready.events & EV_WRITE ? POLLOUT : 0))};

	return s->io.fd >= 0 && poll(&p, 1, 0) > 0;
}

static void on_timer(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct rconn_sentinel *s = container_of(t, struct rconn_sentinel, timer);

	if (s->dns) {
		no_answer(s, SENTINEL_SILENT, ": look up: ", "no answer for 2 s");
	} else if (!s->is_late && can_go_on_now(s)) {
		s->is_late = true; /* it may have been us who slept: once more */
		go_on(s);
	} else if (!s->stands) {
		s->io.why[0] = '\0';
		try_next_addr(s, ETIMEDOUT);
	} else {
		no_answer(s, SENTINEL_SILENT, ": ", "no answer for 0.5 s");
	}
}

/* ------------------------------------------------------------------ for the owner */

struct rconn_sentinel *rconn_sentinel_new(struct ev_loop *loop, const struct conf_redis *conf,
					  size_t n, rconn_sentinel_fn *fn, void *arg)
{
	struct rconn_sentinel *s = xcalloc(1, sizeof(*s));

	s->loop = loop;
	s->conf = conf;
	s->fn = fn;
	s->arg = arg;
	s->io = RCONN_IO_NONE;
	buf_init(&s->out);
	sentinel_pick_init(&s->pick, n);
	ev_io_init(&s->ready, on_io, -1, EV_READ);
	ev_timer_init(&s->timer, on_timer, 0., 0.);
	return s;
}

void rconn_sentinel_free(struct rconn_sentinel *s)
{
	if (!s)
		return;
	hang_up(s);
	free(s);
}

void rconn_sentinel_ask(struct rconn_sentinel *s, const struct redis_addr *addr)
{
	INVARIANT(addr->sentinels && addr->sentinels->n == s->pick.n);
	s->addr = addr;
	sentinel_pick_begin(&s->pick);
	ask_next(s);
}

void rconn_sentinel_cancel(struct rconn_sentinel *s)
{
	hang_up(s);
	s->addr = NULL;
}

void rconn_sentinel_doubt(struct rconn_sentinel *s)
{
	sentinel_pick_rotate(&s->pick);
}
