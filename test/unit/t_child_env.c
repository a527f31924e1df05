/* t_child_env.c - the environment of a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "worker/child_env.h"

struct setup {
	struct task t;
	struct conf_queue q;
	struct strv base;
	struct run_facts f;
	struct strv out;
	int rc;
	char name[8];
	char field[8];
};

static void begin(struct setup *s)
{
	*s = (struct setup){.name = "video", .field = "payload"};
	s->q = (struct conf_queue){.name = s->name, .payload_field = s->field, .max_attempts = 12};
	s->f = (struct run_facts){.queue = &s->q, .consumer = "worker_7", .slot = 3};
	task_init(&s->t);
	task_begin(&s->t, NULL, slice_str("1700000000000-1"), 2);
}

static void make(struct setup *s)
{
	task_parsed(&s->t);
	s->rc = child_env(&s->base, &s->t, &s->f, &s->out);
	/* For exec: ends with a NULL, and no name stands there twice. */
	assert_null(s->out.v[s->out.n]);
	for (size_t i = 0; i < s->out.n; i++) {
		size_t n = strcspn(s->out.v[i], "=") + 1;

		assert_int_equal(s->out.v[i][n - 1], '=');
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(strncmp(s->out.v[i], s->out.v[k], n), 0);
	}
}

static const char *get(const struct setup *s, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < s->out.n; i++)
		if (strncmp(s->out.v[i], name, n) == 0 && s->out.v[i][n] == '=')
			return s->out.v[i] + n + 1;
	return NULL;
}

static void end(struct setup *s)
{
	task_release(&s->t);
	strv_release(&s->base);
	strv_release(&s->out);
}

static void add(struct setup *s, const char *name, const char *value)
{
	task_add_field(&s->t, slice_str(name), slice_str(value));
}

static void test_all(void **state)
{
	static const struct {
		const char *name, *value;
	} want[] = {
		{"PATH", "/bin"},
		{"HOME", "/"},
		{"REDISQ_ID", "1699999999999-9"},
		{"REDISQ_QUEUE", "video"},
		{"REDISQ_ATTEMPT", "4"},
		{"REDISQ_MAX_ATTEMPTS", "12"},
		{"REDISQ_DELIVERIES", "9"},
		{"REDISQ_ENQUEUED_AT_MS", "1699999999999"},
		{"REDISQ_DEADLINE_MS", "1700000001000"},
		{"REDISQ_WORKER", "worker_7"},
		{"REDISQ_SLOT", "3"},
		{"REDISQ_ANSWER_FD", "3"},
		{"REDISQ_FIELDS", "{\"payload\":\"p\",\"traceparent\":\"00-ab-cd-01\"}"},
		{"TRACEPARENT", "00-ab-cd-01"},
	};
	struct setup s;

	(void)state;
	begin(&s);
	strv_add(&s.base, "PATH=/bin");
	strv_add(&s.base, "HOME=/");
	add(&s, "payload", "p");
	add(&s, "redisq.id", "1699999999999-9");
	add(&s, "redisq.attempt", "4");
	add(&s, "redisq.deliveries", "7");
	add(&s, "redisq.enqueued_at", "1699999999999");
	add(&s, "traceparent", "00-ab-cd-01");
	s.f.deadline_ms = 1700000001000;
	make(&s);
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		assert_string_equal(get(&s, want[i].name), want[i].value);
	assert_int_equal(s.out.n, ARRAY_LEN(want));
	end(&s);
}

static void test_first_time(void **state)
{
	struct setup s;

	(void)state;
	begin(&s);
	s.t.token = 1;
	add(&s, "payload", "p");
	make(&s);
	assert_string_equal(get(&s, "REDISQ_ID"), "1700000000000-1");
	assert_string_equal(get(&s, "REDISQ_ATTEMPT"), "1");
	assert_string_equal(get(&s, "REDISQ_DELIVERIES"), "1");
	assert_string_equal(get(&s, "REDISQ_ENQUEUED_AT_MS"), "1700000000000");
	assert_null(get(&s, "REDISQ_DEADLINE_MS"));
	assert_null(get(&s, "TRACEPARENT"));
	end(&s);
}

/* What is set by "env =" or was inherited must not hide what the task says. */
static void test_ours_win(void **state)
{
	struct setup s;

	(void)state;
	begin(&s);
	strv_add(&s.base, "REDISQ_ID=mine");
	strv_add(&s.base, "TRACEPARENT=the supervisor's");
	strv_add(&s.base, "REDISQ_IDEA=kept");
	add(&s, "traceparent", "00-ab-cd-01");
	make(&s);
	assert_string_equal(get(&s, "REDISQ_ID"), "1700000000000-1");
	assert_string_equal(get(&s, "TRACEPARENT"), "00-ab-cd-01");
	assert_string_equal(get(&s, "REDISQ_IDEA"), "kept");
	end(&s);
}

static void add_big(struct setup *s, const char *name, size_t len, char byte)
{
	char *value = xcalloc(1, len);

	memset(value, byte, len);
	task_add_field(&s->t, slice_str(name), slice_of(value, len));
	free(value);
}

static void test_size_of_fields(void **state)
{
	static const struct {
		size_t payload, other;
		char byte;
		int what; /* 2: all fields, 1: without the payload, 0: not set */
	} cases[] = {
		{10, 10, 'x', 2},
		{65490, 10, 'x', 2},
		{65536, 10, 'x', 1},
		{1000000, 10, 'x', 1},
		{10, 65536, 'x', 0},
		{1000000, 1000000, 'x', 0},
		/* Small as bytes, but long as JSON: \\u0001 */
		{20000, 10, 1, 1},
		{10, 20000, 1, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct setup s;
		const char *json;

		begin(&s);
		add_big(&s, "payload", cases[i].payload, cases[i].byte);
		add_big(&s, "other", cases[i].other, cases[i].byte);
		make(&s);
		json = get(&s, "REDISQ_FIELDS");
		if (cases[i].what == 0) {
			assert_null(json);
		} else {
			assert_non_null(json);
			assert_true(strlen(json) <= CHILD_FIELDS_MAX);
			assert_int_equal(strstr(json, "\"payload\"") != NULL, cases[i].what == 2);
			assert_non_null(strstr(json, "\"other\""));
		}
		end(&s);
	}
}

/* exec() takes no string of 128 KiB: such a task must not look like a broken handler. */
static void test_no_string_is_too_long(void **state)
{
	struct setup s;

	(void)state;
	begin(&s);
	add_big(&s, "redisq.id", 200000, 'i');
	add_big(&s, "traceparent", 200000, 't');
	make(&s);
	for (size_t i = 0; i < s.out.n; i++)
		assert_true(strlen(s.out.v[i]) < 131072);
	assert_null(get(&s, "TRACEPARENT"));
	end(&s);
}

/* A checkpoint is whatever the attempt before said, as JSON or as bytes. */
#define SAID(text) \
	{ \
		text, sizeof(text) - 1 \
	}

static void test_checkpoint(void **state)
{
	static const struct {
		struct slice said;
		const char *variable; /* NULL: none, and that is said */
	} cases[] = {
		{SAID("\"job-17\""), "job-17"},
		{SAID("\"a \\\"b\\\"\\n\""), "a \"b\"\n"},
		{SAID("{\"job\":17}"), "{\"job\":17}"},
		{SAID("17"), "17"},
		{SAID("job 17"), "job 17"},
		{SAID("\xff\xfe"), "\xff\xfe"},
		{SAID("\"a\\u0000b\""), NULL},
		{SAID("a\0b"), NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct setup s;
		const char *got;

		begin(&s);
		assert_int_equal(task_note(&s.t, NOTE_CHECKPOINT, cases[i].said), 0);
		make(&s);
		got = get(&s, "REDISQ_CHECKPOINT");
		assert_int_equal(s.rc, cases[i].variable ? 0 : -1);
		if (cases[i].variable)
			assert_string_equal(got, cases[i].variable);
		else
			assert_null(got);
		end(&s);
	}
}

/* One checkpoint never reaches another task, not even in the same slot; nor do too many bytes. */
static void test_notes_are_bounded_and_of_one_task(void **state)
{
	static char big[TASK_CHECKPOINT_MAX + 1];
	struct setup s;

	(void)state;
	memset(big, 'x', sizeof(big));
	begin(&s);
	assert_int_equal(task_note(&s.t, NOTE_CHECKPOINT, slice_of(big, sizeof(big))), -1);
	assert_int_equal(s.t.notes[NOTE_CHECKPOINT].said, 0);
	assert_int_equal(task_note(&s.t, NOTE_CHECKPOINT, slice_of(big, sizeof(big) - 1)), 0);
	assert_int_equal(task_note(&s.t, NOTE_PROGRESS, slice_of(big, TASK_PROGRESS_MAX + 1)), -1);
	assert_int_equal(task_note(&s.t, NOTE_PROGRESS, slice_of(big, TASK_PROGRESS_MAX)), 0);
	make(&s);
	assert_int_equal(s.rc, 0);
	assert_int_equal(strlen(get(&s, "REDISQ_CHECKPOINT")), TASK_CHECKPOINT_MAX);
	strv_release(&s.out);
	task_begin(&s.t, NULL, slice_str("1700000000000-2"), 1);
	assert_int_equal(s.t.notes[NOTE_CHECKPOINT].said, 0);
	make(&s);
	assert_int_equal(s.rc, 0);
	assert_null(get(&s, "REDISQ_CHECKPOINT"));
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_first_time),
		cmocka_unit_test(test_ours_win),
		cmocka_unit_test(test_size_of_fields),
		cmocka_unit_test(test_no_string_is_too_long),
		cmocka_unit_test(test_checkpoint),
		cmocka_unit_test(test_notes_are_bounded_and_of_one_task),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
