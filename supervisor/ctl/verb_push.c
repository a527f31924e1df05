/*
 * verb_push.c - tasks from the command line and from stdin: XADD, nothing else. The bytes of a
 * payload travel as they are. With --wait the task asks for its result, and that is waited for.
 *
 * Of a queue with partitions a task goes to that of its key, or to the one that is said, else to
 * the next one in turn, from any: whoever pushes one task at a time begins anew each time. Where
 * that cannot be reached and nobody has chosen it, the next one that can be will do.
 */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "backoff.h"
#include "clock.h"
#include "ctl.h"
#include "line.h"
#include "out.h"
#include "partition.h"
#include "reach.h"
#include "redis.h"
#include "wait.h"

#define WINDOW 1000                    /* commands on their way at once */
#define WINDOW_BYTES (8 * 1024 * 1024) /* and their bytes */
#define PAYLOAD_MAX (512u * 1024 * 1024)
#define PROGRESS_AFTER_MS 1000

struct push {
	const struct options *options; /* borrowed */
	struct redis *redis;           /* borrowed */
	struct reach reach;
	struct parts parts;
	size_t part;               /* where the next task goes, */
	bool is_chosen;            /* and nowhere else; */
	bool was_patient;          /* else, when none could be reached, this was waited for */
	bool takes_turns;          /* and the one after it to the next partition */
	const char *queue;         /* borrowed: as the user calls it */
	const char *payload_field; /* borrowed */
	struct err *e;             /* borrowed */
	int64_t n_sent;
	int64_t n_done;
	int64_t n_lost; /* sent, and no answer came; of those the first line, and where it went: */
	int64_t lost_line;
	size_t lost_part;
	size_t bytes; /* sent since the last redis_wait(0) */
	char last_id[64];
	char refused[256];    /* Redis's first error, "" = none, */
	size_t refused_part;  /* where, */
	int64_t refused_line; /* and the first of the lines that were */
	struct buf carry;     /* pieces of a line longer than line.h gives out at once */
	int64_t progress_ms;  /* when to say how far it is; 0 = never */
	bool has_failed;
};

/* One task that is on its way. */
struct sent {
	struct push *push; /* borrowed */
	int64_t line;      /* from 1: partitions do not answer in the order of sending */
	size_t part;
};

static void on_added(void *arg, const redisReply *reply)
{
	struct sent *sent = arg;
	struct push *p = sent->push;

	if (!reply) {
		if (!p->n_lost || sent->line < p->lost_line) {
			p->lost_line = sent->line;
			p->lost_part = sent->part;
		}
		p->n_lost++;
	} else if (reply->type == REDIS_REPLY_ERROR) {
		if (!p->refused[0] || sent->line < p->refused_line) {
			snprintf(p->refused, sizeof(p->refused), "%s", reply->str);
			p->refused_line = sent->line;
			p->refused_part = sent->part;
		}
	} else {
		p->n_done++;
		snprintf(p->last_id, sizeof(p->last_id), "%s", reply->str ? reply->str : "");
	}
	free(sent);
}

/* The value of a --field, the last of that name; NULL: there is none. */
static const char *field(const struct options *o, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = o->n_fields; i-- > 0;)
		if (strncmp(o->fields[i], name, len) == 0 && o->fields[i][len] == '=')
			return o->fields[i] + len + 1;
	return NULL;
}

/* ------------------------------------------------------------------ where to */

/* That cannot be reached, as was just found out. */
static void say_lost(const struct push *p)
{
	fprintf(stderr, "%sredisqctl: partition %s cannot be reached: %s; the next one is taken\n",
		p->progress_ms ? "\r\033[K" : "", p->parts.v[p->part].name, redis_why(p->redis));
}

static int turn_from(struct push *p)
{
	for (size_t i = 0; i < p->parts.n; i++) {
		enum reach_result got = reach_turn_to(&p->reach, &p->parts, p->part, p->e);

		if (got == REACH_THERE || got == REACH_END)
			return got == REACH_THERE ? 0 : -1;
		if (p->is_chosen)
			break;
		if (got == REACH_LOST)
			say_lost(p);
		redis_link_all(p->redis, &p->parts); /* its node may have more of them */
		p->part = (p->part + 1) % p->parts.n;
	}
	return reach_end(&p->reach, p->e);
}

/* Turns to the partition of the next task: to the one that was chosen, when a failover or so is
 * over; else to the first that can be reached, and waits only where none can. */
static int turn_to(struct push *p)
{
	bool is_free = p->parts.is_spread && !p->is_chosen && !p->was_patient;

	if (is_free)
		redis_be_hasty(p->redis, true);
	if (turn_from(p) == 0)
		return 0;
	if (!is_free || p->e->code != EXIT_UNREACHABLE)
		return -1;
	p->was_patient = true;
	*p->e = (struct err){0};
	reach_release(&p->reach);
	redis_be_hasty(p->redis, false);
	return turn_from(p);
}

/* Workers of the configured kind refuse what is of the other: nothing is added to that. */
static int check_kind(struct push *p)
{
	bool as_list = p->parts.queue->backend == CONF_BACKEND_LIST;

	if (!redis_is_mixed(p->redis) &&
	    (redis_on_list(p->redis) == as_list || (p->parts.is_made && !as_list)))
		return 0;
	return redis_say_kind(p->redis, as_list, p->e) ? -1 : 0;
}

/* The command of p->part. */
static int send_one(struct push *p, int argc, const struct rconn_arg *argv)
{
	struct sent *sent = xcalloc(1, sizeof(*sent));

	*sent = (struct sent){.push = p, .line = p->n_sent + 1, .part = p->part};
	if (redis_send(p->redis, p->e, argc, argv, on_added, sent) == 0)
		return 0;
	free(sent);
	return -1;
}

/* The command of the next task, with its stream as the word after the first. */
static int send_somewhere(struct push *p, int argc, struct rconn_arg *argv)
{
	while (turn_to(p) == 0) {
		if (check_kind(p) != 0)
			return -1;
		argv[1] = ARG(p->parts.v[p->part].name);
		if (send_one(p, argc, argv) == 0)
			return 0;
		/* Nothing of it has gone out. But what went before? Then that is to be told. */
		if (p->n_lost || reach_failed(&p->reach, &p->parts, p->part, p->e) != REACH_LOST)
			return -1;
		if (!p->is_chosen)
			say_lost(p);
	}
	return -1;
}

/* `payload.data` NULL: an entry without the payload's field. */
static int push_one(struct push *p, struct slice payload)
{
	const struct options *o = p->options;
	size_t n = 3 + 2 * o->n_fields + 2 + 2;
	struct rconn_arg *argv = xcalloc(n, sizeof(*argv));
	int argc = 0;
	int rc;

	argv[argc++] = ARG("XADD");
	argc++; /* the stream */
	argv[argc++] = ARG("*");
	for (size_t i = 0; i < o->n_fields; i++) {
		const char *equals = strchr(o->fields[i], '=');

		argv[argc++] = (struct rconn_arg){o->fields[i], (size_t)(equals - o->fields[i])};
		argv[argc++] = ARG(equals + 1);
	}
	if (payload.data) {
		argv[argc++] = ARG(p->payload_field);
		argv[argc++] = (struct rconn_arg){payload.data, payload.len};
	}
	if (o->wait && !field(o, "redisq.result_ttl")) {
		argv[argc++] = ARG("redisq.result_ttl");
		argv[argc++] = ARG(WAIT_RESULT_TTL_MS);
	}
	rc = send_somewhere(p, argc, argv);
	free(argv);
	if (rc != 0)
		return -1;
	if (p->takes_turns)
		p->part = (p->part + 1) % p->parts.n;
	p->n_sent++;
	p->bytes += payload.len;
	if (p->bytes > WINDOW_BYTES) {
		redis_wait(p->redis, 0);
		p->bytes = 0;
	} else {
		redis_wait(p->redis, WINDOW);
	}
	return 0;
}

/* ------------------------------------------------------------------ lines */

static void say_progress(struct push *p)
{
	int64_t now;

	if (!p->progress_ms)
		return;
	now = clock_mono_ms();
	if (now < p->progress_ms)
		return;
	p->progress_ms = now + PROGRESS_AFTER_MS;
	fprintf(stderr, "\rpushed %lld", (long long)p->n_done);
}

static void on_line(void *arg, struct slice text, bool more)
{
	struct push *p = arg;

	if (p->has_failed)
		return;
	if (more || p->carry.len) {
		buf_add(&p->carry, text.data, text.len);
		if (p->carry.len > PAYLOAD_MAX) {
			err_set(p->e, EXIT_USAGE, "line %lld is longer than 512 MiB; is this text?",
				(long long)p->n_sent + 1);
			p->has_failed = true;
		}
		if (more || p->has_failed)
			return;
		text = slice_of(p->carry.data, p->carry.len);
	}
	if (push_one(p, text) != 0 || p->refused[0] || p->n_lost)
		p->has_failed = true;
	buf_clear(&p->carry);
	say_progress(p);
}

static bool would_wait(int fd)
{
	struct pollfd pf = {.fd = fd, .events = POLLIN};

	return poll(&pf, 1, 0) == 0;
}

static int push_lines(struct push *p)
{
	struct line lines;
	char *bytes = xcalloc(1, 65536);
	ssize_t n = 1;

	line_init(&lines, 1024 * 1024);
	if (isatty(STDERR_FILENO))
		p->progress_ms = clock_mono_ms() + PROGRESS_AFTER_MS;
	while (n > 0 && !p->has_failed) {
		if (would_wait(STDIN_FILENO)) /* a slow writer: what is there is pushed at once */
			redis_wait(p->redis, 0);
		n = read(STDIN_FILENO, bytes, 65536);
		if (n < 0 && errno == EINTR) {
			n = 1;
		} else if (n < 0) {
			err_set(p->e, EXIT_USAGE, "stdin: %s", strerror(errno));
			p->has_failed = true;
		} else {
			line_feed(&lines, bytes, (size_t)n, on_line, p);
		}
	}
	if (!p->has_failed)
		line_flush(&lines, on_line, p);
	redis_wait(p->redis, 0);
	if (p->progress_ms)
		fprintf(stderr, "\r\033[K");
	line_release(&lines);
	free(bytes);
	return p->has_failed ? -1 : 0;
}

/* ------------------------------------------------------------------ one payload */

static int read_stdin(struct buf *b, struct err *e)
{
	ssize_t n;

	do {
		n = read(STDIN_FILENO, buf_reserve(b, 65536), 65536);
		if (n > 0)
			buf_commit(b, (size_t)n);
		if (b->len > PAYLOAD_MAX)
			return err_set(e, EXIT_USAGE, "more than 512 MiB on stdin; push a path");
	} while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 ? err_set(e, EXIT_USAGE, "stdin: %s", strerror(errno)) : 0;
}

/* Which bytes: the argument, stdin, or none at all where there are fields. */
static int find_payload(const struct options *o, struct buf *stdin_bytes, struct slice *payload,
			struct err *e)
{
	const char *arg = o->n_args == 2 ? o->args[1] : NULL;

	*payload = (struct slice){0};
	if (arg && strcmp(arg, "-") != 0) {
		*payload = slice_str(arg);
		return 0;
	}
	if (!arg && o->n_fields)
		return 0;
	if (!arg && isatty(STDIN_FILENO))
		return err_set(e, EXIT_USAGE, "push what? Say push %s PAYLOAD, or give it on stdin",
			       o->args[0]);
	if (read_stdin(stdin_bytes, e) != 0)
		return -1;
	*payload = slice_of(stdin_bytes->data, stdin_bytes->len);
	return 0;
}

/* Whether some of it is there nobody knows. */
static int say_unknown(struct push *p, const char *done)
{
	const struct conf_queue *where = &p->parts.v[p->lost_part];
	char lines[48] = "";
	struct err ignored = {0};

	if (p->options->by_line)
		snprintf(lines, sizeof(lines), ", from line %lld on,", (long long)p->lost_line);
	/* Back to its link, which has the reason; it was served, so that nothing is asked. */
	if (redis_serve(p->redis, where, &ignored) != 0)
		return err_set(p->e, ignored.code, "%s%.400s", done, ignored.text);
	return err_set(p->e, EXIT_UNREACHABLE,
		       "%s%s%s%sRedis at %s: %s; %lld more%s may have been added or not, look "
		       "with redisqctl stats %s",
		       done, p->parts.is_spread ? "partition " : "",
		       p->parts.is_spread ? where->name : "", p->parts.is_spread ? ": " : "",
		       redis_where(p->redis), redis_why(p->redis), (long long)p->n_lost, lines,
		       p->queue);
}

/* Why Redis has refused one, as an error. */
static void say_refused(struct push *p)
{
	struct err ignored = {0};

	if (strstr(p->refused, "WRONGTYPE") &&
	    redis_serve(p->redis, &p->parts.v[p->refused_part], &ignored) == 0 &&
	    redis_say_kind(p->redis, redis_on_list(p->redis), p->e))
		return;
	err_set(p->e, EXIT_FORCED, "Redis refuses it: %s", p->refused);
}

/* What became of it, as an error if it is not all done. */
static int outcome(struct push *p)
{
	struct err *e = p->e;
	char done[96] = "", why[sizeof(e->text)];

	if (p->refused[0])
		say_refused(p);
	snprintf(why, sizeof(why), "%s", e->text);
	if (p->options->by_line)
		snprintf(done, sizeof(done),
			 "pushed %lld tasks to the queue, then: ", (long long)p->n_done);
	/* Those behind it were on their way: some of them are there. */
	if (p->refused[0] && p->options->by_line)
		return err_set(
			e, EXIT_FORCED,
			"pushed %lld of the first %lld lines; line %lld is the first that is "
			"missing: %.400s",
			(long long)p->n_done, (long long)p->n_sent, (long long)p->refused_line,
			why);
	if (p->refused[0])
		return -1;
	if (p->n_lost)
		return say_unknown(p, done);
	return p->has_failed ? err_set(e, e->code, "%s%.400s", done, why) : 0;
}

/* The result as it is; with a newline where it has none, so that a prompt stays apart. */
static int wait_and_print(struct push *p)
{
	const char *id = field(p->options, "redisq.id");
	struct waited w = {.parts = &p->parts,
			   .part = p->part,
			   .id = id ? id : p->last_id,
			   .entry = p->last_id};
	struct buf result = BUF_INIT;
	int rc;

	redis_be_hasty(p->redis, false);
	rc = wait_for_end(p->redis, &w, &result, p->e);
	if (rc == 0 && result.len > 0 && result.data[result.len - 1] != '\n')
		buf_addc(&result, '\n');
	if (rc == 0)
		out_write(&result);
	buf_release(&result);
	return rc;
}

static void print_id(const struct push *p)
{
	char *id = parts_id(&p->parts, p->part, p->last_id);

	out_print("%s\n", id);
	free(id);
}

static int push_all(struct push *p)
{
	struct buf stdin_bytes = BUF_INIT;
	struct slice payload;
	int rc;

	if (p->options->by_line) {
		push_lines(p);
		rc = outcome(p);
		if (rc == 0)
			out_print("pushed %lld task%s to %s\n", (long long)p->n_done,
				  p->n_done == 1 ? "" : "s", p->queue);
		buf_release(&p->carry);
		return rc;
	}
	rc = find_payload(p->options, &stdin_bytes, &payload, p->e);
	if (rc == 0 && p->options->wait)
		wait_begin();
	if (rc == 0)
		rc = push_one(p, payload);
	if (rc == 0) {
		redis_wait(p->redis, 0);
		rc = outcome(p);
	}
	buf_release(&stdin_bytes);
	if (rc == 0 && p->options->wait)
		return wait_and_print(p);
	if (rc == 0)
		print_id(p);
	return rc;
}

/* A worker writes the id of the keys as REDISQ_ID: what it would change there is not waited for. */
static int check_wait(const struct options *o, struct err *e)
{
	const char *ttl = field(o, "redisq.result_ttl");
	const char *id = field(o, "redisq.id");

	if (!o->wait)
		return 0;
	if (o->by_line)
		return err_set(e, EXIT_USAGE,
			       "--wait is for one task; without --lines, or without --wait");
	if (ttl && (ttl[strspn(ttl, "0123456789")] || strtoll(ttl, NULL, 10) < WAIT_TTL_MIN_MS))
		return err_set(e, EXIT_USAGE,
			       "--wait needs the result, and for %d s at least: leave "
			       "redisq.result_ttl out",
			       WAIT_TTL_MIN_MS / 1000);
	for (const char *p = id; p && *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			return err_set(
				e, EXIT_USAGE,
				"--wait: redisq.id has blanks or control bytes in it; choose "
				"one without");
	if (id && (!*id || strlen(id) > 255))
		return err_set(e, EXIT_USAGE, "--wait: redisq.id is 1 to 255 bytes");
	return 0;
}

/* A task of the same id may have left its end there. */
static int forget_earlier(struct push *p)
{
	const char *id = field(p->options, "redisq.id");
	struct waited w = {.parts = &p->parts, .id = id};

	if (!p->options->wait || !id)
		return 0;
	if (turn_to(p) != 0)
		return -1;
	w.part = p->part;
	return wait_forget(p->redis, &w, p->e);
}

/* Where to begin, and whether to go on from there. */
static int choose(struct push *p)
{
	const struct options *o = p->options;
	const size_t n = p->parts.n;
	struct rng rng;

	if (o->key && o->partition >= 0)
		return err_set(p->e, EXIT_USAGE,
			       "--key chooses the partition, and so does --partition; say one");
	if (o->partition >= (int)n && !p->parts.is_spread)
		return err_set(p->e, EXIT_USAGE, "%s has no partitions; leave --partition out",
			       p->queue);
	if (o->partition >= (int)n)
		return err_set(p->e, EXIT_USAGE,
			       "%s has the partitions 0 to %zu; --partition %d is none of them",
			       p->queue, n - 1, o->partition);
	p->is_chosen = o->partition >= 0 || o->key;
	if (o->partition >= 0) {
		p->part = (size_t)o->partition;
	} else if (o->key) {
		p->part = (size_t)partition_of(o->key, strlen(o->key), (int)n);
	} else {
		rng_seed(&rng, (uint64_t)getpid() << 32 ^ (uint64_t)clock_mono_ms());
		p->part = (size_t)rng_below(&rng, (int64_t)n);
		p->takes_turns = o->by_line;
	}
	return 0;
}

static int push(struct push *p)
{
	const struct conf_queue *q = p->parts.queue;

	p->payload_field = q->payload_field ? q->payload_field : "payload";
	if (choose(p) != 0 || forget_earlier(p) != 0)
		return -1;
	return push_all(p);
}

/* What looks like a mistake was done all the same: whoever reads of the one is to know the other.
 */
static void note_pushed(struct target *t, const char *queue)
{
	char *note = xasprintf("%s (pushed to %s all the same)", t->note, queue);

	free(t->note);
	t->note = note;
}

int verb_push(struct ctl *c, struct err *e)
{
	const struct options *o = c->options;
	struct push p = {.options = o, .queue = o->args[0], .e = e, .carry = BUF_INIT};
	int rc;

	if (o->by_line && o->n_args == 2 && strcmp(o->args[1], "-") != 0)
		return err_set(e, EXIT_USAGE, "--lines reads stdin; leave the payload out");
	if (check_wait(o, e) != 0)
		return -1;
	p.redis = redis_open_parts(&c->target, p.queue, &p.parts, e);
	if (!p.redis)
		return -1;
	p.reach.redis = p.redis;
	rc = push(&p);
	reach_release(&p.reach);
	if (rc == 0 && c->target.note)
		note_pushed(&c->target, p.queue);
	redis_close(p.redis);
	parts_release(&p.parts);
	return rc;
}
