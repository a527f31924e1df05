/* doctor_needs.c - tries every row of needs.def; see doctor.h. */
#include "doctor.h"
#include "needs.h"

static int end_transaction(struct doctor *d)
{
	redisReply *r = DOCTOR_ASK(d, "DISCARD");

	if (r && doctor_error(r)) {
		redis_free(r);
		r = DOCTOR_ASK(d, "EXEC"); /* of nothing */
	}
	if (!r)
		return -1;
	if (doctor_error(r))
		err_set(d->e, EXIT_FORCED, "MULTI is permitted, but neither EXEC nor DISCARD: %s",
			doctor_error(r));
	redis_free(r);
	return d->e->code ? -1 : 0;
}

/* MULTI, in front of a row that is but to be queued. 1: it is begun. */
static int begin_transaction(struct doctor *d)
{
	redisReply *r = DOCTOR_ASK(d, "MULTI");
	bool begun = r && !doctor_error(r);

	redis_free(r);
	return r ? begun : -1;
}

/* The answer to one row. -1: Redis is gone. */
static int try_row(struct doctor *d, const struct conf_queue *q, const struct keys *k,
		   const struct need *n, enum need_answer *answer)
{
	const char *words[NEED_WORDS_MAX + 1] = {NULL};
	struct buf store = BUF_INIT;
	redisReply *r;

	if (n->in_multi) {
		int begun = begin_transaction(d);

		*answer = NEED_HAVE; /* as far as can be told: that MULTI is refused is said */
		if (begun != 1)
			return begun;
	}
	needs_words(n, k, q->group, &store, words);
	r = doctor_ask(d, words);
	buf_release(&store);
	if (!r)
		return -1;
	*answer = needs_judge(doctor_error(r));
	redis_free(r);
	return n->in_multi || (needs_is_multi(n) && *answer == NEED_HAVE) ? end_transaction(d) : 0;
}

static int look(struct doctor *d, const struct conf_queue *q, const struct keys *k,
		enum need_who who, const char *check, const char *whom)
{
	struct needs_missing m = NEEDS_MISSING_INIT;
	struct buf text = BUF_INIT;
	struct buf cure = BUF_INIT;
	bool told = true;
	int rc = 0;

	for (size_t i = 0; i < needs_count() && rc == 0; i++) {
		enum need_answer answer;

		if (needs_at(i)->who != who || !needs_is_for(needs_at(i), redis_on_list(d->r)))
			continue;
		rc = try_row(d, q, k, needs_at(i), &answer);
		if (rc == 0 && answer == NEED_NOT_TOLD)
			told = false;
		else if (rc == 0 && answer != NEED_HAVE)
			needs_missing_add(&m, needs_at(i), answer, k);
	}
	needs_missing_text(&m, &text);
	needs_missing_cure(&m, &cure);
	if (rc == 0 && m.n)
		finding_bad(d->f, check, cure.data, "%s %s", whom, text.data);
	else if (rc == 0 && !told)
		finding_unknown(d->f, check, "Redis answers neither yes nor no");
	else if (rc == 0)
		finding_fine(d->f, check, "all that %s needs", whom);
	buf_release(&text);
	buf_release(&cure);
	needs_missing_release(&m);
	return rc;
}

int doctor_needs(struct doctor *d, const struct conf_queue *q, const struct keys *k)
{
	if (look(d, q, k, NEED_WORKER, "permissions", "a worker") != 0)
		return -1;
	return look(d, q, k, NEED_CTL, "redisqctl", "redisqctl");
}

int doctor_options(struct doctor *d, const struct conf_queue *q, const struct keys *k)
{
	struct buf without = BUF_INIT;
	int rc = 0;

	for (size_t i = 0; i < needs_count() && rc == 0; i++) {
		const struct need *n = needs_at(i);
		enum need_answer answer;

		if (n->who != NEED_OPTION || !needs_is_for(n, redis_on_list(d->r)))
			continue;
		rc = try_row(d, q, k, n, &answer);
		if (rc == 0 && answer != NEED_HAVE && answer != NEED_NOT_TOLD)
			buf_addf(&without, "%s%s (%s)", without.len ? ", " : "", n->acl,
				 n->without);
	}
	if (rc == 0 && without.len)
		finding_note(d->f, "commands", "workers do without %s", without.data);
	else if (rc == 0)
		finding_fine(d->f, "commands", "all that workers can make use of");
	buf_release(&without);
	return rc;
}
