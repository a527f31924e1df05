/* t_task.c - the life of a task: every cell of the table, the reserved fields, growth, reuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "worker/task.h"

static void test_every_cell(void **state)
{
	/* Rows: from; columns: fetch, start, finish, settle, disown. -1: cannot happen. */
	static const int want[TASK_N_STATES][TASK_N_EVENTS] = {
		[TASK_GONE] = {TASK_FETCHED, -1, -1, -1, -1},
		[TASK_FETCHED] = {-1, TASK_RUNNING, TASK_SETTLING, -1, TASK_GONE},
		[TASK_RUNNING] = {-1, -1, TASK_SETTLING, -1, TASK_GONE},
		[TASK_SETTLING] = {-1, -1, -1, TASK_GONE, TASK_GONE},
	};

	(void)state;
	assert_int_equal(TASK_N_STATES, 4);
	assert_int_equal(TASK_N_EVENTS, 5);
	for (int from = 0; from < TASK_N_STATES; from++) {
		for (int ev = 0; ev < TASK_N_EVENTS; ev++) {
			struct task t;
			int next = want[from][ev];

			task_init(&t);
			t.state = (enum task_state)from;
			assert_int_equal(task_event(&t, (enum task_event)ev), next >= 0);
			assert_int_equal(t.state, next >= 0 ? next : from);
			task_release(&t);
		}
	}
}

static void test_words(void **state)
{
	(void)state;
	assert_string_equal(task_state_word(TASK_SETTLING), "settling");
	assert_string_equal(task_state_word(TASK_N_STATES), "?");
	assert_string_equal(task_event_word(TASK_ON_DISOWN), "disowned");
	assert_string_equal(task_event_word(TASK_N_EVENTS), "?");
}

static void add(struct task *t, const char *name, const char *value)
{
	task_add_field(t, slice_str(name), slice_str(value));
}

static void begin(struct task *t, const char *id, uint64_t token)
{
	task_begin(t, NULL, slice_str(id), token);
}

static void test_plain_entry(void **state)
{
	struct task t;

	(void)state;
	task_init(&t);
	begin(&t, "1700000000123-4", 1);
	add(&t, "payload", "hello");
	add(&t, "", "");
	add(&t, "payload", "world");
	task_parsed(&t);
	assert_string_equal(t.id, "1700000000123-4");
	assert_string_equal(t.label, t.id);
	assert_int_equal(t.attempt, 1);
	assert_int_equal(t.snoozes, 0);
	assert_int_equal(t.deliveries, 1);
	assert_int_equal(t.enqueued_at_ms, 1700000000123);
	assert_int_equal(t.n_fields, 3); /* duplicates and order are kept */
	assert_true(slice_eq_str(t.fields[0].value, "hello"));
	assert_true(slice_eq_str(task_field(&t, "payload")->value, "world"));
	assert_ptr_equal(task_field(&t, ""), &t.fields[1]);
	assert_null(task_field(&t, "payloa"));
	assert_int_equal(task_size(&t), 7 + 5 + 7 + 5);
	task_release(&t);
}

static void test_reserved_fields(void **state)
{
	struct task t;

	(void)state;
	task_init(&t);
	begin(&t, "1700000000123-0", 3);
	add(&t, "redisq.id", "1699999999999-7");
	add(&t, "a", "1");
	add(&t, "redisq.attempt", "5");
	add(&t, "redisq.snoozes", "2");
	add(&t, "redisq.deliveries", "40");
	add(&t, "redisq.enqueued_at", "1699999999999");
	add(&t, "redisq.mine", "kept"); /* not one of ours: the user's */
	add(&t, "redisq.", "kept");
	add(&t, "b", "2");
	task_parsed(&t);
	assert_string_equal(t.label, "1699999999999-7");
	assert_int_equal(t.attempt, 5);
	assert_int_equal(t.snoozes, 2);
	assert_int_equal(t.deliveries, 43);
	assert_int_equal(t.enqueued_at_ms, 1699999999999);
	assert_int_equal(t.n_fields, 4);
	assert_true(slice_eq_str(t.fields[0].name, "a"));
	assert_true(slice_eq_str(t.fields[3].name, "b"));
	assert_true(slice_eq_str(t.fields[3].value, "2"));
	assert_null(task_field(&t, "redisq.attempt"));
	task_release(&t);
}

/* What a producer may have written there: never more than a default. */
static void test_odd_numbers(void **state)
{
	static const struct {
		const char *text;
		int attempt;
		int64_t enqueued_at;
	} cases[] = {
		{"", 1, 1000},
		{"x", 1, 1000},
		{"7x", 1, 1000},
		{" 7", 1, 1000},
		{"+7", 1, 1000},
		{"0x7", 1, 1000},
		{"1e3", 1, 1000},
		{"-", 1, 1000},
		{"-5", 1, 0},
		{"0", 1, 0},
		{"7", 7, 7},
		{"99999999999", 1000000000, 99999999999},
		{"9223372036854775808", 1000000000, INT64_MAX},
		{"123456789012345678901234567890", 1, 1000},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct task t;

		task_init(&t);
		begin(&t, "1000-0", 1);
		add(&t, "redisq.attempt", cases[i].text);
		add(&t, "redisq.enqueued_at", cases[i].text);
		add(&t, "redisq.deliveries", "garbage");
		task_parsed(&t);
		assert_int_equal(t.attempt, cases[i].attempt);
		assert_int_equal(t.enqueued_at_ms, cases[i].enqueued_at);
		assert_int_equal(t.deliveries, 1);
		task_release(&t);
	}
}

static void test_number_with_nul(void **state)
{
	struct task t;

	(void)state;
	task_init(&t);
	begin(&t, "1000-0", 1);
	task_add_field(&t, slice_str("redisq.attempt"),
		       slice_of("3\0"
				"4",
				3));
	task_parsed(&t);
	assert_int_equal(t.attempt, 1);
	task_release(&t);
}

/* The label stands in log lines and in an environment. */
static void test_label(void **state)
{
	static const struct {
		const char *id;
		size_t len;
		const char *label;
	} cases[] = {
		{"order-17", 8, "order-17"},
		{"", 0, "1000-0"},
		{"a b\nO - x", 9, "a%20b%0AO%20-%20x"},
		{"a\0b\x7f", 4, "a%00b%7F"},
		{"m\xc3\xbc", 3, "m\xc3\xbc"},
	};
	char *longer = xcalloc(1, 300000);
	struct task t;

	(void)state;
	task_init(&t);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		begin(&t, "1000-0", 1);
		task_add_field(&t, slice_str("redisq.id"), slice_of(cases[i].id, cases[i].len));
		task_parsed(&t);
		assert_string_equal(t.label, cases[i].label);
	}
	/* Of two the last counts; a long one would make exec() fail. */
	memset(longer, ' ', 299999);
	longer[0] = 'x';
	begin(&t, "1000-0", 1);
	add(&t, "redisq.id", "first");
	add(&t, "redisq.id", longer);
	task_parsed(&t);
	assert_int_equal(strlen(t.label), TASK_LABEL_MAX);
	task_release(&t);
	free(longer);
}

static void test_growth_and_reuse(void **state)
{
	struct task t;
	char name[16];
	char *big = xcalloc(1, 200000);

	(void)state;
	task_init(&t);
	memset(big, 'x', 199999);
	for (int round = 0; round < 3; round++) {
		begin(&t, "5-5", 1);
		assert_int_equal(t.n_fields, 0);
		for (int i = 0; i < 1000; i++) {
			snprintf(name, sizeof(name), "f%d", i);
			add(&t, name, name + 1);
		}
		add(&t, "big", big);
		task_parsed(&t);
		assert_int_equal(t.n_fields, 1001);
		for (int i = 0; i < 1000; i++) {
			snprintf(name, sizeof(name), "f%d", i);
			assert_true(slice_eq_str(t.fields[i].name, name));
			assert_true(slice_eq_str(t.fields[i].value, name + 1));
		}
		assert_int_equal(t.fields[1000].value.len, 199999);
		/* Each step resets what the task before has left. */
		t.lost = t.sent = t.resent = true;
		t.place = LEDGER_RETURNED;
		buf_adds(&t.outcome.last_words, "last words");
		t.outcome.kind = OUTCOME_CRASHED;
	}
	begin(&t, "6-6", 9);
	assert_true(t.bytes.cap <= 65536); /* a huge payload is not kept */
	assert_false(t.lost || t.sent || t.resent);
	assert_int_equal(t.place, LEDGER_HELD);
	assert_int_equal(t.outcome.kind, OUTCOME_STOPPED);
	assert_int_equal(t.outcome.last_words.len, 0);
	assert_int_equal(t.outcome.delay_ms, -1);
	task_parsed(&t);
	assert_string_equal(t.label, "6-6");
	assert_int_equal(t.deliveries, 9);
	task_release(&t);
	free(big);
}

static void test_entry_id_ms(void **state)
{
	(void)state;
	assert_int_equal(entry_id_ms("1700000000000-3"), 1700000000000);
	assert_int_equal(entry_id_ms("1700000000000"), 0);
	assert_int_equal(entry_id_ms("x-1"), 0);
	assert_int_equal(entry_id_ms("-1"), 0);
	assert_int_equal(entry_id_ms("-5-1"), 0);
	assert_int_equal(entry_id_ms(""), 0);
}

/* What a producer may write there, and how long its result is kept for it. */
static void test_result_ttl(void **state)
{
	static const struct {
		const char *value; /* NULL: no such field */
		int64_t ttl_ms;
	} cases[] = {{NULL, -1},       {"0", 0},   {"60000", 60000}, {"31622400000", 31622400000},
		     {"1e9", -1},      {"-5", -1}, {"", -1},         {"31622400001", 31622400000},
		     {"ten hours", -1}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct task t;

		task_init(&t);
		begin(&t, "1700000000000-1", 1);
		add(&t, "payload", "x");
		if (cases[i].value)
			add(&t, "redisq.result_ttl", cases[i].value);
		task_parsed(&t);
		assert_int_equal(t.result_ttl_ms, cases[i].ttl_ms);
		assert_int_equal(t.n_fields, 1); /* it is not the handler's */
		begin(&t, "1700000000000-2", 1);
		assert_int_equal(t.result_ttl_ms, -1);
		task_release(&t);
	}
}

/* Only these may have left a checkpoint: the others are not asked about. */
static void test_ran_before(void **state)
{
	static const struct {
		uint64_t token;
		const char *name, *value;
		bool ran;
	} cases[] = {{1, "payload", "x", false},          {2, "payload", "x", true},
		     {1, "redisq.attempt", "1", false},   {1, "redisq.attempt", "2", true},
		     {1, "redisq.snoozes", "1", true},    {1, "redisq.deliveries", "1", true},
		     {1, "redisq.deliveries", "0", false}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct task t;

		task_init(&t);
		begin(&t, "1700000000000-1", cases[i].token);
		add(&t, cases[i].name, cases[i].value);
		task_parsed(&t);
		assert_int_equal(task_ran_before(&t), cases[i].ran);
		task_release(&t);
	}
}

/* The newest note takes the place of the one before; one that is too long does not. */
static void test_notes(void **state)
{
	static char big[TASK_PROGRESS_MAX + 1];
	struct task t;

	(void)state;
	task_init(&t);
	begin(&t, "1700000000000-1", 1);
	assert_int_equal(task_note(&t, NOTE_PROGRESS, slice_str("1 %")), 0);
	assert_int_equal(task_note(&t, NOTE_PROGRESS, slice_str("2 %")), 0);
	assert_int_equal(task_note(&t, NOTE_PROGRESS, slice_of(big, sizeof(big))), -1);
	assert_int_equal(task_note(&t, NOTE_CHECKPOINT, slice_of(big, sizeof(big))), 0);
	assert_int_equal(task_note(&t, NOTE_CHECKPOINT, slice_of(NULL, 0)), 0);
	assert_string_equal(t.progress.data, "2 %");
	assert_int_equal(t.checkpoint.len, 0);
	assert_int_equal(t.notes[NOTE_PROGRESS].said, 2);
	assert_int_equal(t.notes[NOTE_CHECKPOINT].said, 2);
	task_release(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_cell),  cmocka_unit_test(test_words),
		cmocka_unit_test(test_plain_entry), cmocka_unit_test(test_reserved_fields),
		cmocka_unit_test(test_odd_numbers), cmocka_unit_test(test_number_with_nul),
		cmocka_unit_test(test_label),       cmocka_unit_test(test_growth_and_reuse),
		cmocka_unit_test(test_entry_id_ms), cmocka_unit_test(test_result_ttl),
		cmocka_unit_test(test_ran_before),  cmocka_unit_test(test_notes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
