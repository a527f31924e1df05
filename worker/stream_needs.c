/*
 * stream_needs.c - finds out what this Redis lets us do: when both links are new, what a worker can
 * do without (an old server, a managed one, an ACL) is tried and said if it has changed; when
 * something is not permitted, everything is tried, to say which commands and which keys. Errors of
 * scripts do not tell. One answer has an effect: without CLIENT UNBLOCK no read blocks for long.
 */
#include "clock.h"
#include "needs.h"
#include "stream.h"

#define DENIED_EVERY_MS 60000

/* One round of questions, over one link: the answers come in the order of the rows. */
struct asking {
	struct queue *q; /* borrowed */
	enum need_who who;
	size_t at;     /* the row whose answer is next */
	size_t n_left; /* answers to come */
	bool is_lost;
	struct needs_missing missing; /* permissions */
	struct buf without;           /* what we do without, and what that costs */
};

/* A transaction on the link that others use is not for trying: EXEC has to tell. */
static bool is_asked(const struct queue *q, enum need_who who, const struct need *n)
{
	return n->who == who && needs_is_for(n, q->kind->on_lists) && !needs_is_multi(n) &&
	       !n->in_multi;
}

static void next_row(struct asking *a)
{
	while (a->at < needs_count() && !is_asked(a->q, a->who, needs_at(a->at)))
		a->at++;
}

static void say_options(struct queue *q, const struct asking *a)
{
	if (strcmp(q->without, a->without.data) == 0)
		return;
	snprintf(q->without, sizeof(q->without), "%s", a->without.data);
	if (a->without.len)
		log_info("this Redis does not let us use %s", a->without.data);
	else
		log_info("this Redis lets us use everything again");
}

static void say_missing(const struct asking *a)
{
	struct buf text = BUF_INIT;

	needs_missing_text(&a->missing, &text);
	buf_adds(&text, "; ");
	needs_missing_cure(&a->missing, &text);
	log_warning("the user of Redis %s", text.data);
	buf_release(&text);
}

static void on_row(void *arg, const struct redisReply *r)
{
	struct asking *a = arg;
	const struct need *n = needs_at(a->at);
	enum need_answer answer = NEED_NOT_TOLD;

	if (reply_kind(r) == REPLY_LOST)
		a->is_lost = true;
	else
		answer = needs_judge(reply_kind(r) == REPLY_OK ? NULL : reply_error_text(r));
	if (a->who == NEED_OPTION && strcmp(n->acl, "client|unblock") == 0)
		a->q->no_unblock = answer == NEED_NO_COMMAND || answer == NEED_UNKNOWN;
	if (answer != NEED_HAVE && answer != NEED_NOT_TOLD) {
		if (a->who == NEED_OPTION)
			buf_addf(&a->without, "%s%s (%s)", a->without.len ? ", " : "", n->acl,
				 n->without);
		else
			needs_missing_add(&a->missing, n, answer, &a->q->keys);
	}
	a->at++;
	next_row(a);
	if (--a->n_left > 0)
		return;
	if (!a->is_lost && a->who == NEED_OPTION)
		say_options(a->q, a);
	else if (!a->is_lost && a->missing.n)
		say_missing(a);
	needs_missing_release(&a->missing);
	buf_release(&a->without);
	free(a);
}

static void ask(struct queue *q, enum need_who who)
{
	struct asking *a;
	struct buf store = BUF_INIT;

	if (!rconn_is_ready(q->cmd))
		return;
	a = xcalloc(1, sizeof(*a));
	*a = (struct asking){
		.q = q, .who = who, .missing = NEEDS_MISSING_INIT, .without = BUF_INIT};
	next_row(a);
	for (size_t i = a->at; i < needs_count(); i++) {
		const char *words[NEED_WORDS_MAX];
		struct args args;
		int argc;

		if (!is_asked(q, who, needs_at(i)))
			continue;
		argc = needs_words(needs_at(i), &q->keys, q->c->group, &store, words);
		args_init(&args);
		for (int w = 0; w < argc; w++)
			args_str(&args, words[w]);
		/* A link never falls inside a call: either all of them are sent or none. */
		if (stream_send(q->cmd, &args, 0, on_row, a) == 0)
			a->n_left++;
	}
	buf_release(&store);
	if (a->n_left == 0)
		free(a);
}

void stream_try_options(struct queue *q)
{
	ask(q, NEED_OPTION);
}

void stream_find_denied(struct queue *q, const struct redisReply *r)
{
	int64_t now = clock_boot_ms();

	if (reply_kind(r) != REPLY_DENIED || now < q->denied_at_ms || !rconn_is_ready(q->cmd))
		return;
	q->denied_at_ms = now + DENIED_EVERY_MS;
	ask(q, NEED_WORKER);
}
