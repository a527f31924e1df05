/* t_ctl_parts.c - the streams of a queue, and ids with a partition in front; rows of several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "supervisor/ctl/entry.h"
#include "supervisor/ctl/parts.h"

static char jobs[] = "jobs";
static char group[] = "ours";

static struct conf_queue queue(int partitions)
{
	return (struct conf_queue){.name = jobs, .group = group, .partitions = partitions};
}

static void test_a_queue_without_partitions_is_its_stream(void **state)
{
	struct conf_queue q = queue(1);
	struct parts p;

	(void)state;
	parts_init(&p, &q);
	assert_int_equal(p.n, 1);
	assert_false(p.is_spread);
	assert_string_equal(p.v[0].name, "jobs");
	assert_string_equal(parts_name(&p), "jobs");
	parts_release(&p);
}

static void test_partitions_are_called_as_their_streams(void **state)
{
	struct conf_queue q = queue(12);
	struct parts p;
	const char *id;

	(void)state;
	parts_init(&p, &q);
	assert_int_equal(p.n, 12);
	assert_true(p.is_spread);
	assert_string_equal(p.v[0].name, "jobs:0");
	assert_string_equal(p.v[11].name, "jobs:11");
	assert_string_equal(p.v[11].group, "ours");
	assert_string_equal(parts_name(&p), "jobs");
	parts_release(&p);
	parts_init_one(&p, &q, "jobs:3");
	assert_int_equal(p.n, 1);
	assert_false(p.is_spread);
	assert_string_equal(p.v[0].name, "jobs:3");
	assert_string_equal(parts_name(&p), "jobs:3");
	assert_int_equal(parts_read_id(&p, "3:17-0", &id), 0);
	assert_string_equal(id, "17-0");
	assert_int_equal(parts_read_id(&p, "0:17-0", &id), PARTS_ANY);
	parts_release(&p);
}

static void test_an_id_names_its_partition(void **state)
{
	static const struct {
		const char *text;
		int part;
		const char *id;
	} cases[] = {
		{"3:17-0", 3, "17-0"},
		{"0:17-0", 0, "17-0"},
		{"11:17-0", 11, "17-0"},
		{"17-0", PARTS_ANY, "17-0"},
		{"12:17-0", PARTS_ANY, "12:17-0"},
		{"03:17-0", PARTS_ANY, "03:17-0"},
		{"3:", PARTS_ANY, "3:"},
		{":17-0", PARTS_ANY, ":17-0"},
		{"order:7", PARTS_ANY, "order:7"},
		{"3:order:7", 3, "order:7"},
		{"99999999999999999999:1", PARTS_ANY, "99999999999999999999:1"},
		{"-1:17-0", PARTS_ANY, "-1:17-0"},
	};
	struct conf_queue q = queue(12);
	struct parts p;
	const char *id;
	char *text;

	(void)state;
	parts_init(&p, &q);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(parts_read_id(&p, cases[i].text, &id), cases[i].part);
		assert_string_equal(id, cases[i].id);
	}
	text = parts_id(&p, 11, "17-0");
	assert_string_equal(text, "11:17-0");
	free(text);
	parts_release(&p);
}

static void is_label(const struct parts *p, size_t i, const char *id, const char *want)
{
	char *label = parts_label(p, i, id);

	assert_string_equal(label, want);
	free(label);
}

/* As partition.h has it: what a producer has chosen stays. */
static void test_workers_call_a_task_by_its_partition(void **state)
{
	struct conf_queue q = queue(12);
	struct parts p;

	(void)state;
	parts_init(&p, &q);
	is_label(&p, 11, "17-0", "11:17-0");
	is_label(&p, 11, "order-7", "order-7");
	is_label(&p, 11, "17", "17");
	is_label(&p, 11, "17-", "17-");
	is_label(&p, 11, "17-0x", "17-0x");
	parts_release(&p);
	parts_init_one(&p, &q, "jobs:3");
	is_label(&p, 0, "17-0", "3:17-0");
	parts_release(&p);
	q = queue(1);
	parts_init(&p, &q);
	is_label(&p, 0, "17-0", "17-0");
	parts_release(&p);
}

static void test_without_partitions_an_id_stays_what_it_is(void **state)
{
	struct conf_queue q = queue(1);
	struct parts p;
	const char *id;
	char *text;

	(void)state;
	parts_init(&p, &q);
	assert_int_equal(parts_read_id(&p, "0:17-0", &id), PARTS_ANY);
	assert_string_equal(id, "0:17-0");
	text = parts_id(&p, 0, "17-0");
	assert_string_equal(text, "17-0");
	free(text);
	parts_release(&p);
}

static void test_rows_are_merged_by_id_as_numbers(void **state)
{
	static char ids[][24] = {"9-1", "10-0", "9-10", "9-1", "9-2"};
	static const size_t want[] = {0, 3, 4, 2, 1};
	redisReply id[5], entry[5];
	redisReply *elements[5];
	struct entry_row rows[5];

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		id[i] = (redisReply){
			.type = REDIS_REPLY_STRING, .str = ids[i], .len = strlen(ids[i])};
		elements[i] = &id[i];
		entry[i] = (redisReply){
			.type = REDIS_REPLY_ARRAY, .elements = 1, .element = &elements[i]};
		rows[i] = (struct entry_row){.reply = &entry[i], .part = i};
	}
	entry_sort(rows, 5);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(rows[i].part, want[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_queue_without_partitions_is_its_stream),
		cmocka_unit_test(test_partitions_are_called_as_their_streams),
		cmocka_unit_test(test_an_id_names_its_partition),
		cmocka_unit_test(test_workers_call_a_task_by_its_partition),
		cmocka_unit_test(test_without_partitions_an_id_stays_what_it_is),
		cmocka_unit_test(test_rows_are_merged_by_id_as_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
