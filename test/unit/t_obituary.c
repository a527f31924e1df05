/* t_obituary.c - the words "dead", "ran" and "handover": there and back, and hostile ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "chan.h"
#include "obituary.h"

/* What a worker makes of the lines of an order; true: "handover" came and all was understood. */
static bool read_back(struct obituary *o, const char *lines)
{
	bool ended = false;

	for (const char *at = lines; *at;) {
		size_t n = strcspn(at, "\n");
		char *line = xmemdup0(at, n);
		char *rest = strchr(line, ' ');
		bool fine;

		assert_non_null(rest);
		*rest++ = '\0';
		if (strcmp(line, "dead") == 0)
			fine = obituary_read_dead(o, rest);
		else if (strcmp(line, "ran") == 0)
			fine = obituary_read_ran(o, rest);
		else
			fine = ended = strcmp(line, "handover") == 0;
		free(line);
		if (!fine)
			return false;
		at += n + (at[n] == '\n');
	}
	return ended;
}

static void assert_same(const struct obituary *a, const struct obituary *b)
{
	assert_int_equal(a->order, b->order);
	assert_int_equal(a->partition, b->partition);
	assert_int_equal(a->n_partitions, b->n_partitions);
	assert_string_equal(a->consumer, b->consumer);
	assert_string_equal(a->nonce, b->nonce);
	assert_string_equal(a->run_id, b->run_id);
	for (int i = 0; i < 2; i++)
		assert_true(a->client_id[i] == b->client_id[i]);
	assert_int_equal(a->charge, b->charge);
	assert_string_equal(a->cause, b->cause);
	assert_int_equal(a->n_ran, b->n_ran);
	for (int i = 0; i < a->n_ran; i++) {
		assert_string_equal(a->ran[i].id, b->ran[i].id);
		assert_true(a->ran[i].token == b->ran[i].token);
	}
}

static void comes_back_as_it_was(void **state)
{
	char longest[BOARD_NAME_MAX];
	struct {
		const char *consumer, *nonce, *run_id, *cause;
		int64_t fetch, cmd;
		uint32_t order;
		int n_ran;
		bool charge;
	} table[] = {
		{"worker_7", "0123456789abcdef0123456789abcdef",
		 "0123456789012345678901234567890123456789", "alone worker signal 9 SIGKILL", 12,
		 13, 1, 1, true},
		{"worker_7", "n", "", "company worker exit 3", 0, 0, UINT32_MAX, 64, true},
		{"worker_7", "n", "", "company worker exit 3", 0, 0, 5, 10000, true},
		{"w\303\266rker 7%#\001@host-1", "n", "r", "", INT64_MAX, 1, 2, 0, false},
		{"-", "", "", "a  b ", 0, INT64_MAX, 3, 3, false},
		{longest, "n", "r", "c", 1, 2, 4, 1, false},
	};

	(void)state;
	memset(longest, ' ', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	for (size_t k = 0; k < ARRAY_LEN(table); k++) {
		struct obituary o, back;
		struct buf lines = BUF_INIT;

		obituary_init(&o);
		obituary_init(&back);
		o.order = table[k].order;
		o.consumer = xstrdup(table[k].consumer);
		snprintf(o.nonce, sizeof(o.nonce), "%s", table[k].nonce);
		snprintf(o.run_id, sizeof(o.run_id), "%s", table[k].run_id);
		snprintf(o.cause, sizeof(o.cause), "%s", table[k].cause);
		o.client_id[0] = table[k].fetch;
		o.client_id[1] = table[k].cmd;
		o.charge = table[k].charge;
		o.partition = (int)k;
		o.n_partitions = (int)k + 1;
		for (int i = 0; i < table[k].n_ran; i++) {
			char id[BOARD_ID_MAX];

			snprintf(id, sizeof(id), "18446744073709551615-%d", i);
			obituary_add(&o, id, i ? (uint64_t)i : INT64_MAX);
		}
		obituary_write(&o, &lines);
		assert_true(read_back(&back, lines.data));
		assert_same(&o, &back);
		/* Read into one that was used, as a worker does: the old one leaves no trace. */
		obituary_release(&back);
		assert_null(back.consumer);
		assert_int_equal(back.n_ran, 0);
		assert_true(read_back(&back, lines.data));
		assert_same(&o, &back);
		obituary_release(&back);
		obituary_release(&o);
		buf_release(&lines);
	}
}

static void lines_fit_the_channel(void **state)
{
	struct obituary o = {.order = UINT32_MAX,
			     .partition = 63,
			     .n_partitions = 64,
			     .client_id = {INT64_MAX, INT64_MAX}};
	char name[BOARD_NAME_MAX];
	struct buf lines = BUF_INIT;

	(void)state;
	memset(name, '\377', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	o.consumer = xstrdup(name);
	memset(o.nonce, 'n', sizeof(o.nonce) - 1);
	memset(o.run_id, 'r', sizeof(o.run_id) - 1);
	memset(o.cause, 'c', sizeof(o.cause) - 1);
	for (int i = 0; i < 10000; i++)
		obituary_add(&o, "18446744073709551615-18446744073709551615", UINT64_MAX);
	obituary_write(&o, &lines);
	for (const char *at = lines.data; *at; at += strcspn(at, "\n") + 1)
		assert_true(strcspn(at, "\n") <= CHAN_LINE_MAX);
	assert_true(lines.len < CHAN_BACKLOG_MAX);
	obituary_release(&o);
	buf_release(&lines);
}

static void hostile_words_are_refused(void **state)
{
	static const char *const dead[] = {
		"",
		"1",
		"1 0 1 w",
		"1 w n r 1 2 1 cause", /* without a partition */
		"1 64 1 w n r 1 2 1 cause",
		"1 -1 1 w n r 1 2 1 cause",
		"1 0 1 w n r 1 2",         /* too few */
		"1 0 1 w n r 1 2 x cause", /* no number */
		"1 0 1 w n r 1 2 2 cause", /* neither charged nor not */
		"x 0 1 w n r 1 2 1 cause",
		"-1 0 1 w n r 1 2 1 cause",
		"+1 0 1 w n r 1 2 1 cause",
		"4294967296 0 1 w n r 1 2 1 cause", /* would be order 0 */
		"1 0 1 w n r -1 2 1 cause",
		"1 0 1 w n r 9223372036854775808 2 1 cause",
		"1 0 1 w n r 99999999999999999999999 2 1 cause",
		"1 0 1 w n r 1x 2 1 cause",
		"1 0 1 %zz n r 1 2 1 cause", /* bad escapes */
		"1 0 1 w%00x n r 1 2 1 cause",
		"1 0 1 w% n r 1 2 1 cause",
		"1 0 1 w nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn r 1 2 1 cause", /* too long */
		"1 0 1 w n rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr 1 2 1 cause",
	};
	static const char *const ran[] = {
		"",
		"7",
		"7 1-1",
		"7 1-1 x",
		"7 1-1 -1",
		"7 - 1",
		"8 1-1 1",
		"0 1-1 1",
		"7 1-1 1 1",
		"7 1-1 1 1-2 ",
		"7 1-1 1 1-2 x",
		"7 1-1 1  ",
		"7 1-1 18446744073709551615",
		"71-1 1",
		"7 1-1 1x",
		"-7 1-1 1",
		"7 1-1 1\t ",
		"7 111111111111111111111111111111111111111111111111 1",
	};
	struct obituary o;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(dead); i++) {
		obituary_init(&o);
		if (obituary_read_dead(&o, dead[i]))
			fail_msg("read: dead %s", dead[i]);
		/* Nothing that a "handover" could act on. */
		assert_null(o.consumer);
		assert_int_equal(o.order, 0);
		assert_false(obituary_read_ran(&o, "0 1-1 1"));
		assert_false(obituary_read_ran(&o, "1 1-1 1"));
		obituary_release(&o);
	}
	obituary_init(&o);
	assert_true(obituary_read_dead(&o, "7 3 6 w n r 1 2 1 cause"));
	for (size_t i = 0; i < ARRAY_LEN(ran); i++) {
		if (obituary_read_ran(&o, ran[i]))
			fail_msg("read: ran %s", ran[i]);
		assert_int_equal(o.n_ran, 0);
	}
	assert_true(obituary_read_ran(&o, "7  1-1   9223372036854775807"));
	assert_int_equal(o.n_ran, 1);
	assert_true(obituary_read_ran(&o, "7 2-1 5 2-2 6"));
	assert_int_equal(o.n_ran, 3);
	assert_string_equal(o.ran[2].id, "2-2");
	assert_true(o.ran[1].token == 5 && o.ran[2].token == 6);
	obituary_release(&o);
}

/* Only as much as there is room for: the end of a long text is cut, nothing else is touched. */
static void a_long_cause_is_cut(void **state)
{
	struct buf line = BUF_INIT;
	struct obituary o;

	(void)state;
	buf_adds(&line, "7 63 64 w n r 1 2 1 ");
	for (int i = 0; i < 3000; i++)
		buf_addc(&line, 'x');
	obituary_init(&o);
	assert_true(obituary_read_dead(&o, line.data));
	assert_int_equal(strlen(o.cause), sizeof(o.cause) - 1);
	assert_int_equal(o.n_ran, 0);
	obituary_release(&o);
	buf_release(&line);
}

/* As Redis orders them; a torn row of a board, which no range could be asked with, is left out. */
static void sorted_by_entry_id(void **state)
{
	static const char *const ids[] = {"100-5", "9-10",   "",     "10-0",
					  "17",    "9-9",    "1-",   "-1",
					  "1-1x",  "100-12", "9-10", "12345678901234567890-1",
					  "99-7"};
	static const char *const want[] = {"9-9",  "9-10",  "9-10",  "10-0",
					   "99-7", "100-5", "100-12"};
	struct obituary o;

	(void)state;
	obituary_init(&o);
	for (size_t i = 0; i < ARRAY_LEN(ids); i++)
		obituary_add(&o, ids[i], i);
	obituary_sort(&o);
	assert_int_equal(o.n_ran, ARRAY_LEN(want));
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		assert_string_equal(o.ran[i].id, want[i]);
	assert_true(o.ran[0].token == 5); /* they stay together */
	assert_true(obituary_compare_ids("9-9", "9-10") < 0);
	assert_true(obituary_compare_ids("10-0", "9-10") > 0);
	assert_int_equal(obituary_compare_ids("9-10", "9-10"), 0);
	obituary_release(&o);
	obituary_sort(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_back_as_it_was),
		cmocka_unit_test(lines_fit_the_channel),
		cmocka_unit_test(hostile_words_are_refused),
		cmocka_unit_test(a_long_cause_is_cut),
		cmocka_unit_test(sorted_by_entry_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
