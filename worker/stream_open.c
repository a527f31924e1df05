/*
 * stream_open.c - from two links to an open queue: find or make the consumer group, take a
 * consumer name with a claim, register the consumer; and the way out again.
 */
#include <inttypes.h>
#include <limits.h>
#include <sys/random.h>
#include <unistd.h>

#include "clock.h"
#include "group.h"
#include "readfile.h"
#include "stream.h"

/* ------------------------------------------------------------------ names */

void stream_new_nonce(struct queue *q)
{
	unsigned char bytes[16];
	struct board_name *board;

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (unsigned char)rng_below(&q->w->rng, 256);
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(q->nonce + 2 * i, 3, "%02x", bytes[i]);
	/* What is pending under the name of an earlier nonce is not this one's. */
	board = &q->w->board->names[q->partition];
	board->consumer[0] = '\0';
	snprintf(board->nonce, sizeof(board->nonce), "%s", q->nonce);
	q->n_name = 0;
}

/* Candidate names, each more distinct than the one before: worker_7, worker_7@host, ...-nonce. */
static void candidate_name(struct queue *q)
{
	struct buf name = BUF_INIT;
	const char *host = q->w->host;

	for (const char *p = q->c->consumer; *p; p++) {
		if (*p != '%' || !p[1]) {
			buf_addc(&name, *p);
			continue;
		}
		switch (*++p) {
		case 'p':
			buf_addf(&name, "%d", (int)getpid());
			break;
		case 'h':
			buf_adds(&name, host);
			break;
		default:
			buf_addc(&name, *p);
			break;
		}
	}
	if (q->n_name >= 1)
		buf_addf(&name, "@%s", host);
	if (q->n_name >= 2)
		buf_addf(&name, "-%.8s", q->nonce);
	snprintf(q->consumer, sizeof(q->consumer), "%s", name.data);
	buf_release(&name);
}

static void boot_id(struct buf *out)
{
	size_t at = out->len;

	if (readfile("/proc/sys/kernel/random/boot_id", 64, out) < 0)
		buf_addc(out, '-');
	buf_truncate(out, at + strcspn(out->data + at, "\n"));
}

/*
 * Of two processes that say the same here only one can be alive: a pid is one process's in its
 * namespace, and what ran in a namespace whose number is given out again has ended with it. (Two
 * containers of one machine have one boot id, and often one host name and the same pids.)
 */
static void pid_namespace(struct buf *out)
{
	char link[64];
	ssize_t n = readlink("/proc/self/ns/pid", link, sizeof(link));

	if (n > 0 && n < (ssize_t)sizeof(link))
		buf_add(out, link, (size_t)n);
	else
		buf_addc(out, '-');
}

/* nonce host boot-id pid fetch-id cmd-id run-id pid-namespace links-lost */
void stream_make_record(struct queue *q)
{
	const char *run_id = rconn_run_id(q->cmd);

	buf_clear(&q->record);
	buf_addf(&q->record, "%s %s ", q->nonce, q->w->host);
	boot_id(&q->record);
	buf_addf(&q->record, " %d %" PRId64 " %" PRId64 " %s ", (int)getpid(),
		 rconn_client_id(q->fetch), rconn_client_id(q->cmd), run_id[0] ? run_id : "-");
	pid_namespace(&q->record);
	buf_addf(&q->record, " %" PRId64, q->n_links_lost);
}

/* ------------------------------------------------------------------ opening */

void stream_refuse(struct queue *q, const char *why)
{
	stream_set_phase(q, STREAM_LEFT, why);
	q->asking_open = false;
	q->events->on_refused(q->w, q, why);
}

static void opened(struct queue *q)
{
	char name[BOARD_NAME_MAX + 16];

	q->asking_open = false;
	snprintf(name, sizeof(name), "redisq:%s:fetch", q->consumer);
	rconn_set_name(q->fetch, name);
	snprintf(name, sizeof(name), "redisq:%s:cmd", q->consumer);
	rconn_set_name(q->cmd, name);
	stream_set_phase(q, STREAM_OPEN, "name taken");
	/* What was let go of comes before what is new: the first read waits for the first look. */
	q->scan_now = q->take_first = true;
	q->announced = false;
	/* While no name could be taken, others may not have been let renew theirs. */
	stale_unserved(&q->stale, clock_boot_ms());
	q->promote_at_ms = 0;
	for (int op = STREAM_OP_OPEN; op <= STREAM_OP_NAME; op++)
		stream_fine(q, (enum stream_op)op);
	queue_stream_ops.turn(q);
}

bool stream_opening_ended(struct queue *q, const struct redisReply *r)
{
	if (r && q->phase == STREAM_OPENING)
		return false;
	q->asking_open = false;
	return true;
}

static void on_createconsumer(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;

	/* Before 6.2, at OOM or without the permission, the first delivery registers it. */
	if (!stream_opening_ended(q, r))
		opened(q);
}

static void on_claim(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;
	struct args a;
	int64_t answer, n_former;

	if (stream_opening_ended(q, r))
		return;
	if (reply_kind(r) != REPLY_OK) {
		q->asking_open = false;
		stream_trouble(q, r, STREAM_OP_NAME);
		return;
	}
	answer = reply_int(reply_at(r, 0), 2);
	if (answer < -1 || answer > 1) {
		q->asking_open = false;
		stream_odd(q, STREAM_OP_NAME);
		return;
	}
	if (answer != 1) {
		log_warning("the name %s is %s; taking another", q->consumer,
			    answer == 0 ? "held by another worker" : "left with pending entries");
		q->asking_open = false;
		if (q->n_name < 2) {
			q->n_name++;
		} else {
			/* One chance in 2^32, or a Redis that is not what it says: no hurry. */
			stream_new_nonce(q);
			stream_pause(q, STREAM_OP_NAME);
			return;
		}
		stream_open_step(q);
		return;
	}
	n_former = reply_int(reply_at(r, 1), 0);
	if (n_former > 0) {
		log_info("the name %s was that of a former process with our pid: %" PRId64
			 " tasks that it left may run again",
			 q->consumer, n_former);
		q->events->on_released(q->w, q, (int)min_i64(n_former, INT_MAX));
	}
	/* From here on something may be pending under it, and is ours: not while it was but asked
	 * for, or our death would hand over what another's has left there. */
	snprintf(q->w->board->names[q->partition].consumer, BOARD_NAME_MAX, "%s", q->consumer);
	q->name_until_ms = lease_evidence(q->renew_sent_ms, q->c->lease);
	q->renew_at_ms = q->renew_sent_ms + lease_renew_every(q->c->lease);
	if (q->kind->on_lists) {
		opened(q); /* nothing knows consumers but :names */
		return;
	}
	args_init(&a);
	args_str(&a, "XGROUP");
	args_str(&a, "CREATECONSUMER");
	args_str(&a, q->keys.stream);
	args_str(&a, q->c->group);
	args_str(&a, q->consumer);
	if (stream_send(q->cmd, &a, 0, on_createconsumer, q) < 0)
		q->asking_open = false;
}

void stream_take_name(struct queue *q)
{
	struct args a;

	candidate_name(q);
	stream_make_record(q);
	args_init(&a);
	args_join(&a, q->keys.claim, q->consumer);
	args_str(&a, q->keys.names);
	args_str(&a, q->keys.stream);
	args_str(&a, q->keys.crash);
	args_str(&a, q->keys.ckpt);
	args_str(&a, q->keys.progress);
	args_str(&a, q->c->group);
	args_str(&a, q->consumer);
	args_str(&a, q->nonce);
	args_slice(&a, slice_of(q->record.data, q->record.len));
	args_int(&a, q->c->lease);
	q->renew_sent_ms = clock_boot_ms();
	if (stream_script(q, q->cmd, SCRIPT_CLAIM, 6, &a, on_claim, q) < 0)
		q->asking_open = false;
}

static void on_group_created(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;
	enum reply_kind kind = reply_kind(r);

	if (stream_opening_ended(q, r))
		return;
	if (kind == REPLY_OK || kind == REPLY_BUSYGROUP) {
		stream_take_name(q);
		return;
	}
	q->asking_open = false;
	stream_trouble(q, r, STREAM_OP_GROUP);
}

static int send_group_create(struct queue *q, const char *at, rconn_reply_fn *fn)
{
	struct args a;

	args_init(&a);
	args_str(&a, "XGROUP");
	args_str(&a, "CREATE");
	args_str(&a, q->keys.stream);
	args_str(&a, q->c->group);
	args_str(&a, at);
	args_str(&a, "MKSTREAM");
	return stream_send(q->cmd, &a, 0, fn, q);
}

static void on_groups(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;
	struct group_answer answer;
	struct buf why = BUF_INIT;

	if (stream_opening_ended(q, r))
		return;
	switch (reply_kind(r)) {
	case REPLY_LOST: /* ended above */
	case REPLY_WAIT:
	case REPLY_REDIRECT:
	case REPLY_MOVED:
	case REPLY_MOVING:
		q->asking_open = false;
		stream_trouble(q, r, STREAM_OP_OPEN);
		return;
	case REPLY_WRONGTYPE: /* where TYPE is not permitted */
		buf_addf(&why, "\"%s\" is not a stream: %s; see backend in redisq.ini(5)",
			 q->keys.stream, reply_error_text(r));
		stream_refuse(q, why.data);
		buf_release(&why);
		return;
	case REPLY_OK:
	case REPLY_NOGROUP:
	case REPLY_AGAIN:
	case REPLY_OOM:
	case REPLY_DENIED:
	case REPLY_BUSYGROUP:
	case REPLY_UNKNOWN:
	case REPLY_BAD: /* "no such key", or XINFO is not allowed: XGROUP CREATE will tell */
		break;
	}
	answer = group_decide(r, q->c, q->n_entries, &why);
	switch (answer.what) {
	case GROUP_USE:
		stream_take_name(q);
		break;
	case GROUP_CREATE:
		if (send_group_create(q, answer.at_end ? "$" : "0", on_group_created) < 0)
			q->asking_open = false;
		break;
	case GROUP_REFUSE:
		stream_refuse(q, why.data);
		break;
	}
	buf_release(&why);
}

static void on_length(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;

	q->n_entries = reply_int(r, 0);
}

static void find_group(struct queue *q)
{
	struct args a;

	args_init(&a);
	args_str(&a, "XLEN");
	args_str(&a, q->keys.stream);
	if (stream_send(q->cmd, &a, 0, on_length, q) < 0) {
		q->asking_open = false;
		return;
	}
	args_init(&a);
	args_str(&a, "XINFO");
	args_str(&a, "GROUPS");
	args_str(&a, q->keys.stream);
	if (stream_send(q->cmd, &a, 0, on_groups, q) < 0)
		q->asking_open = false;
}

void stream_open_step(struct queue *q)
{
	if (q->asking_open)
		return;
	stream_set_phase(q, STREAM_OPENING, "links up");
	q->asking_open = true;
	stream_ask_kind(q);
}

const struct stream_kind stream_kind = {
	.word = "stream",
	.length = "XLEN",
	.open = find_group,
	.read = stream_read,
};

/* ------------------------------------------------------------------ the group is gone */

static void on_recreated(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;
	enum reply_kind kind = reply_kind(r);

	q->asking_open = false;
	if (kind == REPLY_LOST)
		return;
	if (kind != REPLY_OK && kind != REPLY_BUSYGROUP) {
		stream_trouble(q, r, STREAM_OP_GROUP);
		return;
	}
	stream_fine(q, STREAM_OP_GROUP);
	/* What we held may be gone with the old group: the renewal finds out, before any read. */
	q->name_until_ms = 0;
}

void stream_recreate_group(struct queue *q)
{
	if (q->asking_open || q->phase != STREAM_OPEN)
		return;
	/* Always at 0: what is in the stream now is what is left to do. */
	if (send_group_create(q, "0", on_recreated) == 0)
		q->asking_open = true;
}

/* ------------------------------------------------------------------ leaving */

static void left(struct queue *q, const char *why)
{
	stream_set_phase(q, STREAM_LEFT, why);
	q->events->on_left(q->w, q);
}

static void on_delconsumer(void *arg, const struct redisReply *r)
{
	struct queue *q = arg;

	q->asking_open = false;
	stream_find_denied(q, r);
	if (q->phase != STREAM_LEAVING)
		return;
	if (reply_kind(r) == REPLY_OK)
		left(q, reply_int(r, 0) == 1 ? "consumer removed" : "consumer has pending entries");
	else
		left(q, reply_error_text(r));
}

void stream_leave_step(struct queue *q)
{
	struct args a;

	if (q->asking_open)
		return;
	if (!rconn_is_ready(q->cmd) || !q->consumer[0]) {
		/* The claim runs out by itself, and any worker's pass removes the name. */
		left(q, "no link");
		return;
	}
	args_init(&a);
	args_str(&a, q->keys.stream);
	args_join(&a, q->keys.claim, q->consumer);
	args_str(&a, q->keys.names);
	args_str(&a, q->c->group);
	args_str(&a, q->consumer);
	args_str(&a, q->nonce);
	q->asking_open = true;
	if (stream_script(q, q->cmd, SCRIPT_DELCONSUMER, 3, &a, on_delconsumer, q) < 0) {
		q->asking_open = false;
		left(q, "no link");
	}
}
