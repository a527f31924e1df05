/* t_pipe_lines.c - what a child reads: tasks of all kinds of bytes, cancel, drain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>

#include "worker/pipe_lines.h"

struct setup {
	struct task t;
	struct conf_queue q;
	struct buf line;
	char name[16], field[8];
	char id[ANSWER_ID_MAX];
};

static void begin(struct setup *s)
{
	*s = (struct setup){.name = "vid\"eo", .field = "payload"};
	s->q = (struct conf_queue){.name = s->name, .payload_field = s->field, .max_attempts = 12};
	buf_init(&s->line);
	task_init(&s->t);
	task_begin(&s->t, NULL, slice_str("1700000000000-1"), 2);
}

static void add(struct setup *s, struct slice name, struct slice value)
{
	task_add_field(&s->t, name, value);
}

/* The line of the task, read back; owned. */
static json_t *make(struct setup *s, int64_t deadline_ms)
{
	json_t *line;

	task_parsed(&s->t);
	pipe_id(&s->t, s->id);
	pipe_task_line(&s->line, &s->t, s->id, &s->q, deadline_ms);
	assert_int_equal(s->line.data[s->line.len - 1], '\n');
	assert_ptr_equal(memchr(s->line.data, '\n', s->line.len), s->line.data + s->line.len - 1);
	line = json_loadb(s->line.data, s->line.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	assert_non_null(line);
	return line;
}

static void end(struct setup *s, json_t *line)
{
	json_decref(line);
	buf_release(&s->line);
	task_release(&s->t);
}

static const char *text(const json_t *line, const char *key)
{
	return json_string_value(json_object_get(line, key));
}

static void test_a_plain_task(void **state)
{
	struct setup s;
	json_t *line;

	(void)state;
	begin(&s);
	add(&s, slice_str("payload"), slice_str("{\"user\": 7}"));
	add(&s, slice_str("colour"), slice_str("red"));
	line = make(&s, 1700000060000);
	assert_string_equal(
		s.line.data,
		"{\"v\":1,\"type\":\"task\",\"id\":\"1700000000000-1\",\"queue\":\"vid\\\"eo\","
		"\"attempt\":1,\"max_attempts\":12,\"deliveries\":2,"
		"\"enqueued_at_ms\":1700000000000,\"deadline_ms\":1700000060000,"
		"\"payload\":\"{\\\"user\\\": 7}\",\"fields\":{\"colour\":\"red\"}}\n");
	end(&s, line);
}

static void test_of_equal_names_the_last_counts(void **state)
{
	struct setup s;
	json_t *line;

	(void)state;
	begin(&s);
	add(&s, slice_str("payload"), slice_str("first"));
	add(&s, slice_str("a"), slice_str("1"));
	add(&s, slice_str("b"), slice_of("\xff", 1));
	add(&s, slice_str("a"), slice_of("\xfe", 1));
	add(&s, slice_str("payload"), slice_str("last"));
	add(&s, slice_str("b"), slice_str("2"));
	line = make(&s, 0);
	assert_string_equal(text(line, "payload"), "last");
	assert_int_equal(json_object_size(json_object_get(line, "fields")), 1);
	assert_string_equal(text(json_object_get(line, "fields"), "b"), "2");
	assert_int_equal(json_object_size(json_object_get(line, "fields_b64")), 1);
	assert_string_equal(text(json_object_get(line, "fields_b64"), "a"), "/g==");
	assert_null(json_object_get(line, "deadline_ms"));
	end(&s, line);
}

static void test_bytes(void **state)
{
	struct setup s;
	json_t *line, *fields;

	(void)state;
	begin(&s);
	add(&s, slice_str("payload"), slice_of("\xff\x00z", 3));
	add(&s, slice_of("n\0l", 3), slice_of("v\0l", 3));
	add(&s, slice_of("\xc3", 1), slice_str(""));
	add(&s, slice_str(""), slice_str("\n\r\t\x01\x7f\"\\"));
	line = make(&s, 0);
	assert_null(json_object_get(line, "payload"));
	assert_string_equal(text(line, "payload_b64"), "/wB6");
	fields = json_object_get(line, "fields");
	assert_int_equal(json_string_length(json_object_get(fields, "n%00l")), 3);
	assert_string_equal(text(fields, "%C3"), "");
	assert_string_equal(text(fields, ""), "\n\r\t\x01\x7f\"\\");
	end(&s, line);
}

static void test_no_payload(void **state)
{
	struct setup s;
	json_t *line;

	(void)state;
	begin(&s);
	line = make(&s, 0);
	assert_null(json_object_get(line, "payload"));
	assert_null(json_object_get(line, "payload_b64"));
	assert_int_equal(json_object_size(json_object_get(line, "fields")), 0);
	end(&s, line);
}

static void test_checkpoints(void **state)
{
	static const struct {
		const char *kept, *line;
	} cases[] = {
		{"{\"job\":7}", "\"checkpoint\":{\"job\":7}}\n"},
		{"null", "\"checkpoint\":null}\n"},
		{"{\r\n \"a\": 1\n}", "\"checkpoint\":{   \"a\": 1 }}\n"},
		{"[1", "\"checkpoint\":\"[1\"}\n"},
		{"1 2", "\"checkpoint\":\"1 2\"}\n"},
		{"two\nlines", "\"checkpoint\":\"two\\nlines\"}\n"},
		{"\xff", "\"checkpoint\":\"%FF\"}\n"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct setup s;
		json_t *line;

		begin(&s);
		buf_adds(&s.t.checkpoint, cases[i].kept);
		line = make(&s, 0);
		assert_string_equal(s.line.data + s.line.len - strlen(cases[i].line),
				    cases[i].line);
		end(&s, line);
	}
}

static void test_ids(void **state)
{
	static const struct {
		const char *label, *id;
	} cases[] = {
		{"7", "7"},
		{"caf\xc3\xa9\"", "caf\xc3\xa9\""},
		{"\xff\xc3", "%FF%C3"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct setup s;
		json_t *line;

		begin(&s);
		add(&s, slice_str("redisq.id"), slice_str(cases[i].label));
		line = make(&s, 0);
		assert_string_equal(s.id, cases[i].id);
		assert_string_equal(text(line, "id"), cases[i].id);
		end(&s, line);
	}
}

static void test_the_longest_id(void **state)
{
	char label[TASK_LABEL_MAX + 1];
	struct setup s;
	json_t *line;

	(void)state;
	memset(label, 0xff, sizeof(label) - 1);
	label[sizeof(label) - 1] = '\0';
	begin(&s);
	add(&s, slice_str("redisq.id"), slice_str(label));
	line = make(&s, 0);
	assert_int_equal(strlen(text(line, "id")), 3 * TASK_LABEL_MAX);
	end(&s, line);
}

static void test_words(void **state)
{
	struct buf out = BUF_INIT;

	(void)state;
	pipe_cancel_line(&out, "a\"b", "timeout");
	pipe_drain_line(&out);
	assert_string_equal(out.data,
			    "{\"type\":\"cancel\",\"id\":\"a\\\"b\",\"reason\":\"timeout\"}\n"
			    "{\"type\":\"drain\"}\n");
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_plain_task),
		cmocka_unit_test(test_of_equal_names_the_last_counts),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_no_payload),
		cmocka_unit_test(test_checkpoints),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_the_longest_id),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
