/* t_so_run.c - what a library is shown, and how what it says reads as an outcome. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "worker/so_lib.h"
#include "worker/so_run.h"

static int returns;
static struct redisq_result says;
static const char *notes; /* a note of each kind, and a result */
static struct redisq_task shown;

static int handle(const struct redisq_task *t, struct redisq_result *r)
{
	shown = *t;
	assert_int_equal(r->size, sizeof(*r));
	assert_int_equal(r->delay_ms, -1);
	r->code = says.code;
	r->delay_ms = says.delay_ms;
	snprintf(r->error, sizeof(r->error), "%s", says.error);
	if (notes) {
		assert_int_equal(redisq_progress(t, notes, strlen(notes)), 0);
		assert_int_equal(redisq_checkpoint(t, notes, strlen(notes)), 0);
		assert_int_equal(redisq_checkpoint(t, notes + 1, strlen(notes) - 1), 0);
		assert_int_equal(redisq_set_result(t, notes, strlen(notes)), 0);
		assert_int_equal(redisq_progress(t, notes, TASK_PROGRESS_MAX + 1), -1);
		assert_int_equal(redisq_checkpoint(t, notes, TASK_CHECKPOINT_MAX + 1), -1);
		assert_int_equal(redisq_set_result(t, notes, OUTCOME_RESULT_MAX + 1), -1);
	}
	return returns;
}

static const struct redisq_handler api = {REDISQ_ABI, sizeof(api), "test", NULL, NULL, handle};

static void no_work(void *arg, struct so_node *job, int thread)
{
	(void)arg;
	(void)job;
	(void)thread;
}

struct scene {
	struct so_pool *pool;
	struct so_run run;
	struct task task;
	struct conf_queue queue;
	struct outcome outcome;
};

static int setup(void **state)
{
	static char name[] = "q", payload[] = "payload";
	static const struct so_pool_events events = {.work = no_work};
	struct scene *s = xcalloc(1, sizeof(*s));

	s->pool = so_pool_new(1, &events, NULL);
	so_run_init(&s->run, s->pool);
	task_init(&s->task);
	outcome_init(&s->outcome);
	s->queue.name = name;
	s->queue.payload_field = payload;
	s->queue.max_attempts = 12;
	task_begin(&s->task, NULL, slice_str("1700000000000-1"), 1);
	task_add_field(&s->task, slice_str("kind"), slice_str("x"));
	task_add_field(&s->task, slice_str("payload"), slice_str("bytes"));
	task_parsed(&s->task);
	returns = 0;
	notes = NULL;
	says = (struct redisq_result){.delay_ms = -1};
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct scene *s = *state;

	so_run_release(&s->run);
	so_pool_free(s->pool);
	task_release(&s->task);
	outcome_release(&s->outcome);
	free(s);
	return 0;
}

static void run_it(struct scene *s, enum exec_stop why)
{
	const struct so_facts facts = {
		.api = &api, .queue = &s->queue, .place = 2, .deadline_ms = 5};

	outcome_release(&s->outcome);
	outcome_init(&s->outcome);
	so_run_begin(&s->run, &s->task, &facts);
	if (why != EXEC_NOT_STOPPED)
		so_run_stop(&s->run);
	so_run_work(NULL, &s->run.job, 3);
	so_run_outcome(&s->run, why, 60000, &s->outcome);
}

static void test_view(void **state)
{
	struct scene *s = *state;

	buf_adds(&s->task.checkpoint, "before");
	run_it(s, EXEC_NOT_STOPPED);
	assert_int_equal(shown.size, sizeof(shown));
	assert_int_equal(shown.place, 2);
	assert_string_equal(shown.id, "1700000000000-1");
	assert_string_equal(shown.queue, "q");
	assert_int_equal(shown.attempt, 1);
	assert_int_equal(shown.max_attempts, 12);
	assert_int_equal(shown.deliveries, 1);
	assert_int_equal(shown.enqueued_at_ms, 1700000000000);
	assert_int_equal(shown.deadline_ms, 5);
	assert_memory_equal(shown.payload, "bytes", 5);
	assert_int_equal(shown.payload_len, 5);
	assert_int_equal(shown.n_fields, 2);
	assert_memory_equal(shown.fields[0].name, "kind", 4);
	assert_int_equal(shown.fields[0].value_len, 1);
	assert_int_equal(shown.checkpoint_len, 6);
	/* The task's own is overwritten by notes while the library looks at it. */
	assert_ptr_not_equal(shown.checkpoint, s->task.checkpoint.data);
	assert_false(redisq_cancelled(&s->run.view));
	assert_true(REDISQ_HAS(&shown, checkpoint_len));
	shown.size = offsetof(struct redisq_task, checkpoint_len);
	assert_false(REDISQ_HAS(&shown, checkpoint_len));
	assert_true(REDISQ_HAS(&shown, checkpoint));
}

static void test_no_payload_field(void **state)
{
	static char other[] = "other";
	struct scene *s = *state;

	s->queue.payload_field = other;
	run_it(s, EXEC_NOT_STOPPED);
	assert_non_null(shown.payload);
	assert_int_equal(shown.payload_len, 0);
}

static void test_outcomes(void **state)
{
	static const struct {
		int returns;
		int code;
		int64_t delay_ms;
		const char *says;
		enum exec_stop why;
		enum outcome_kind kind;
		const char *error;
		int exit_code;
		int64_t want_delay_ms;
	} cases[] = {
		{0, 0, -1, "", 0, OUTCOME_DONE, "", 0, -1},
		{0, REDISQ_DONE, -1, "ignored", 0, OUTCOME_DONE, "", 0, -1},
		{0, 77, -1, "", 0, OUTCOME_DONE, "asked for by the handler", 0, -1},
		{0, -5, -1, "", 0, OUTCOME_DONE, "", 0, -1},
		{1, 0, -1, "", 0, OUTCOME_FAILED, "returned 1", 1, -1},
		{1, 0, -1, "why", 0, OUTCOME_FAILED, "why", 1, -1},
		{-1, 0, -1, "", 0, OUTCOME_FAILED, "returned -1", -1, -1},
		{1, REDISQ_DONE, -1, "", 0, OUTCOME_FAILED, "returned 1", 1, -1},
		{75, 0, -1, "", 0, OUTCOME_SNOOZED, "returned 75", 75, -1},
		{65, 0, -1, "", 0, OUTCOME_REJECTED, "returned 65", 65, -1},
		{100, 0, -1, "", 0, OUTCOME_REJECTED, "returned 100", 100, -1},
		{78, 0, -1, "no key", 0, OUTCOME_BROKEN, "no key", 78, -1},
		{0, REDISQ_RETRY, 50, "", 0, OUTCOME_FAILED, "asked for by the handler", 0, 50},
		{0, REDISQ_SNOOZE, 7, "", 0, OUTCOME_SNOOZED, "asked for by the handler", 0, 7},
		{0, REDISQ_DEAD, -9, "no", 0, OUTCOME_REJECTED, "no", 0, -1},
		{0, REDISQ_RETRY, INT64_MAX, "", 0, OUTCOME_FAILED, "asked for by the handler", 0,
		 366LL * 24 * 3600 * 1000},
		{1, 0, -1, "x", EXEC_STOP_TIMEOUT, OUTCOME_TIMED_OUT, "timed out after 1m", 1, -1},
		{0, 0, -1, "", EXEC_STOP_CANCEL, OUTCOME_DONE, "exit 0", 0, -1},
		{1, 0, -1, "x", EXEC_STOP_CANCEL, OUTCOME_STOPPED, "stopped by the worker", 1, -1},
	};
	struct scene *s = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		returns = cases[i].returns;
		says = (struct redisq_result){.code = cases[i].code, .delay_ms = cases[i].delay_ms};
		snprintf(says.error, sizeof(says.error), "%s", cases[i].says);
		run_it(s, cases[i].why);
		assert_int_equal(s->outcome.kind, cases[i].kind);
		if (s->outcome.kind != OUTCOME_DONE)
			assert_string_equal(s->outcome.error, cases[i].error);
		assert_int_equal(s->outcome.exit_code, cases[i].exit_code);
		assert_int_equal(s->outcome.delay_ms, cases[i].want_delay_ms);
	}
}

static void test_abandoned(void **state)
{
	struct scene *s = *state;

	so_run_abandoned(EXEC_STOP_TIMEOUT, 1500, &s->outcome);
	assert_int_equal(s->outcome.kind, OUTCOME_TIMED_OUT);
	assert_string_equal(s->outcome.error, "timed out after 1500ms");
	so_run_abandoned(EXEC_STOP_CANCEL, 1500, &s->outcome);
	assert_int_equal(s->outcome.kind, OUTCOME_STOPPED);
}

static void test_notes_and_result(void **state)
{
	struct scene *s = *state;
	struct buf value = BUF_INIT;

	notes = "text";
	run_it(s, EXEC_NOT_STOPPED);
	assert_string_equal(s->outcome.result.data, "text");
	assert_true(so_run_take_note(&s->run, NOTE_PROGRESS, &value));
	assert_string_equal(value.data, "text");
	buf_release(&value);
	assert_true(so_run_take_note(&s->run, NOTE_CHECKPOINT, &value));
	assert_string_equal(value.data, "ext"); /* the newest */
	buf_release(&value);
	assert_false(so_run_take_note(&s->run, NOTE_CHECKPOINT, &value));
	/* One node for all of them, until the loop has looked. */
	assert_ptr_equal(so_pool_take(s->pool), &s->run.note);
	so_run_looked(&s->run);

	/* A result counts when the task is done. */
	returns = 1;
	run_it(s, EXEC_NOT_STOPPED);
	assert_int_equal(s->outcome.result.len, 0);
	assert_ptr_equal(so_pool_take(s->pool), &s->run.note);
}

static void test_what_a_library_must_export(void **state)
{
	struct redisq_handler h = api;
	char text[128];

	(void)state;
	assert_null(so_lib_fault(&h, text));
	assert_string_equal(so_lib_fault(NULL, text), "it exports no redisq_handler; see "
						      "redisq_handler.h");
	h.abi = 2;
	assert_string_equal(so_lib_fault(&h, text),
			    "built for version 2 of redisq_handler.h, this worker has 1; build it "
			    "again");
	h = api;
	h.size = 0;
	assert_non_null(so_lib_fault(&h, text));
	h = api;
	h.handle = NULL;
	assert_non_null(so_lib_fault(&h, text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_view, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_payload_field, setup, teardown),
		cmocka_unit_test_setup_teardown(test_outcomes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_abandoned, setup, teardown),
		cmocka_unit_test_setup_teardown(test_notes_and_result, setup, teardown),
		cmocka_unit_test(test_what_a_library_must_export),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
