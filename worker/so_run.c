/* so_run.c - see so_run.h. */
#include <errno.h>
#include <inttypes.h>

#include "answer.h"
#include "so_run.h"

/* A buffer larger than this is not kept for the next task. */
#define KEEP_BYTES 65536
#define DELAY_MAX_MS (366LL * 24 * 3600 * 1000)

/* ------------------------------------------------------------------ called by the library */

static struct so_run *run_of(const struct redisq_task *t)
{
	/* The library was shown the view as const, and hands back the same. */
	return container_of((uintptr_t)t, struct so_run, view);
}

static int too_long(void)
{
	errno = EMSGSIZE;
	return -1;
}

static int take_note(const struct redisq_task *t, enum task_note what, const void *data, size_t len)
{
	struct so_run *run = run_of(t);

	pthread_mutex_lock(&run->lock);
	buf_clear(&run->notes[what]);
	buf_add(&run->notes[what], data, len);
	run->has_note[what] = true;
	pthread_mutex_unlock(&run->lock);
	if (!atomic_exchange(&run->noted, true))
		so_pool_post(run->pool, &run->note);
	return 0;
}

static int progress(const struct redisq_task *t, const void *data, size_t len)
{
	return len > TASK_PROGRESS_MAX ? too_long() : take_note(t, NOTE_PROGRESS, data, len);
}

static int checkpoint(const struct redisq_task *t, const void *data, size_t len)
{
	return len > TASK_CHECKPOINT_MAX ? too_long() : take_note(t, NOTE_CHECKPOINT, data, len);
}

static int set_result(const struct redisq_task *t, const void *data, size_t len)
{
	struct so_run *run = run_of(t);

	if (len > OUTCOME_RESULT_MAX)
		return too_long();
	buf_clear(&run->said);
	buf_add(&run->said, data, len);
	return 0;
}

static const struct redisq_calls calls = {
	.size = sizeof(calls),
	.progress = progress,
	.checkpoint = checkpoint,
	.set_result = set_result,
};

/* ------------------------------------------------------------------ the run */

void so_run_init(struct so_run *run, struct so_pool *pool)
{
	*run = (struct so_run){.pool = pool, .thread = -1};
	buf_init(&run->checkpoint);
	buf_init(&run->said);
	pthread_mutex_init(&run->lock, NULL);
	for (int i = 0; i < TASK_N_NOTES; i++)
		buf_init(&run->notes[i]);
	run->view.size = sizeof(run->view);
	run->view.calls = &calls;
	run->view.cancelled = &run->stop;
}

void so_run_release(struct so_run *run)
{
	buf_release(&run->checkpoint);
	buf_release(&run->said);
	for (int i = 0; i < TASK_N_NOTES; i++)
		buf_release(&run->notes[i]);
	pthread_mutex_destroy(&run->lock);
	free(run->fields);
}

static void show_fields(struct so_run *run, const struct task *t)
{
	if (t->n_fields > run->cap_fields) {
		run->cap_fields = t->cap_fields;
		run->fields = xrealloc(run->fields, run->cap_fields * sizeof(*run->fields));
	}
	for (size_t i = 0; i < t->n_fields; i++)
		run->fields[i] = (struct redisq_field){
			.name = t->fields[i].name.data,
			.name_len = t->fields[i].name.len,
			.value = t->fields[i].value.data,
			.value_len = t->fields[i].value.len,
		};
	run->view.fields = run->fields;
	run->view.n_fields = t->n_fields;
}

static void show_checkpoint(struct so_run *run, const struct task *t)
{
	if (run->checkpoint.cap > KEEP_BYTES)
		buf_release(&run->checkpoint);
	buf_clear(&run->checkpoint);
	if (t->checkpoint.len > 0)
		buf_add(&run->checkpoint, t->checkpoint.data, t->checkpoint.len);
	run->view.checkpoint = run->checkpoint.data;
	run->view.checkpoint_len = run->checkpoint.len;
}

void so_run_begin(struct so_run *run, struct task *t, const struct so_facts *f)
{
	const struct field *payload = task_field(t, f->queue->payload_field);
	struct redisq_task *v = &run->view;

	run->task = t;
	run->api = f->api;
	v->place = f->place;
	v->id = t->label;
	v->queue = f->queue->name;
	v->attempt = t->attempt;
	v->max_attempts = f->queue->max_attempts;
	v->deliveries = t->deliveries;
	v->enqueued_at_ms = t->enqueued_at_ms;
	v->deadline_ms = f->deadline_ms;
	v->payload = payload ? payload->value.data : "";
	v->payload_len = payload ? payload->value.len : 0;
	show_fields(run, t);
	show_checkpoint(run, t);
	if (run->said.cap > KEEP_BYTES)
		buf_release(&run->said);
	buf_clear(&run->said);
	run->result.size = sizeof(run->result);
	run->result.code = REDISQ_BY_RETURN;
	run->result.delay_ms = -1;
	run->result.error[0] = '\0';
	__atomic_store_n(&run->stop, 0, __ATOMIC_RELAXED);
	atomic_store_explicit(&run->thread, -1, memory_order_relaxed);
}

void so_run_work(void *unused ATTR_UNUSED, struct so_node *job, int thread)
{
	struct so_run *run = container_of(job, struct so_run, job);

	atomic_store_explicit(&run->thread, thread, memory_order_relaxed);
	run->returned = run->api->handle(&run->view, &run->result);
}

void so_run_stop(struct so_run *run)
{
	__atomic_store_n(&run->stop, 1, __ATOMIC_RELEASE);
}

/* ------------------------------------------------------------------ what it said */

void so_run_looked(struct so_run *run)
{
	atomic_store(&run->noted, false);
}

bool so_run_take_note(struct so_run *run, enum task_note what, struct buf *out)
{
	struct buf empty = *out;
	bool has;

	pthread_mutex_lock(&run->lock);
	has = run->has_note[what];
	if (has) {
		*out = run->notes[what];
		run->notes[what] = empty;
		run->has_note[what] = false;
	}
	pthread_mutex_unlock(&run->lock);
	return has;
}

static enum answer_type answer_of(int32_t code)
{
	static const enum answer_type types[] = {
		[REDISQ_BY_RETURN] = ANSWER_NONE, [REDISQ_DONE] = ANSWER_DONE,
		[REDISQ_RETRY] = ANSWER_RETRY,    [REDISQ_SNOOZE] = ANSWER_SNOOZE,
		[REDISQ_DEAD] = ANSWER_DEAD,
	};

	return code >= 0 && (size_t)code < ARRAY_LEN(types) ? types[code] : ANSWER_NONE;
}

/* What it gives as a reason counts for any end but a good one. */
static void say_reason(const struct so_run *run, enum exec_stop why, struct outcome *o)
{
	if (o->kind == OUTCOME_DONE || why != EXEC_NOT_STOPPED)
		return;
	if (run->result.error[0]) {
		snprintf(o->error, sizeof(o->error), "%s", run->result.error);
		blank_controls(o->error);
	} else if (run->returned != 0) {
		snprintf(o->error, sizeof(o->error), "returned %d", run->returned);
	} else {
		snprintf(o->error, sizeof(o->error), "asked for by the handler");
	}
}

static void keep_result(struct so_run *run, struct outcome *o)
{
	struct buf empty = o->result;

	if (o->kind != OUTCOME_DONE || run->said.len == 0)
		return;
	o->result = run->said;
	run->said = empty;
}

void so_run_outcome(struct so_run *run, enum exec_stop why, int64_t timeout_ms, struct outcome *o)
{
	struct child_exit how = {.code = run->returned};
	struct answer a;

	run->result.error[sizeof(run->result.error) - 1] = '\0';
	if (why == EXEC_NOT_STOPPED && run->returned == 0 && run->result.code <= REDISQ_DONE) {
		o->kind = OUTCOME_DONE;
		o->exit_code = 0;
	} else {
		answer_init(&a);
		a.type = answer_of(run->result.code);
		a.delay_ms = min_i64(max_i64(run->result.delay_ms, -1), DELAY_MAX_MS);
		exec_outcome(o, &how, &a, why, timeout_ms);
		say_reason(run, why, o);
		if (run->returned < 0)
			o->exit_code = -1; /* no exit code has this form */
	}
	keep_result(run, o);
}

void so_run_abandoned(enum exec_stop why, int64_t timeout_ms, struct outcome *o)
{
	struct child_exit how = {.code = -1};
	struct answer a;

	answer_init(&a);
	exec_outcome(o, &how, &a, why, timeout_ms);
}
