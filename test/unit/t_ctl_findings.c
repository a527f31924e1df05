/* t_ctl_findings.c - what doctor has found in several partitions, folded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "supervisor/ctl/findings.h"

#define PARTS 6

static void is_printed(struct findings *f, const char *want)
{
	struct buf out = BUF_INIT;

	findings_print(f, &out);
	assert_string_equal(out.data, want);
	buf_release(&out);
	findings_free(f);
}

static struct findings *about_jobs(void)
{
	struct findings *f = findings_new();

	finding_fine(f, "version", "7");
	findings_about(f, "jobs");
	return f;
}

static void test_what_is_fine_in_all_is_one_line(void **state)
{
	struct findings *f = about_jobs();

	(void)state;
	for (int i = 0; i < PARTS; i++) {
		findings_about_partition(f, i);
		finding_fine(f, "types", "right");
		finding_fine(f, "group", "of %d", i);
		if (i != 3)
			finding_fine(f, "pending", "of %d", i);
	}
	findings_fold(f, 1, PARTS, UINT64_MAX >> (64 - PARTS));
	is_printed(f, "of     check    finding\n"
		      "Redis  version  ok 7\n"
		      "jobs   types    ok right\n"
		      "jobs   group    ok in each of the 6 partitions\n");
}

static void test_what_is_not_names_its_partitions(void **state)
{
	struct findings *f = about_jobs();

	(void)state;
	for (int i = 0; i < PARTS; i++) {
		findings_about_partition(f, i);
		if (i == 1)
			finding_bad(f, "types", "look", "a string");
		else
			finding_fine(f, "types", "right");
		if (i != 2)
			finding_note(f, "letters", "some");
		finding_unknown(f, "account", "no access");
	}
	findings_about_partition(f, PARTS_ANY);
	findings_fold(f, 1, PARTS, UINT64_MAX >> (64 - PARTS));
	assert_int_equal(findings_n_bad(f), 1);
	is_printed(f, "of            check    finding\n"
		      "Redis         version  ok 7\n"
		      "jobs:0-1,3-5  letters  -- some\n"
		      "jobs          account  ?  not known: no access\n"
		      "jobs:1        types    !! a string; look\n");
}

static void test_few_that_differ_are_told_each_and_many_by_the_first(void **state)
{
	struct findings *f = about_jobs();

	(void)state;
	for (int i = 0; i < PARTS; i++) {
		findings_about_partition(f, i);
		finding_bad(f, "workers", "start them", "%d tasks wait", 10 + i);
		if (i % 2)
			finding_bad(f, "group", "look", "%d entries", i);
	}
	findings_fold(f, 1, PARTS, UINT64_MAX >> (64 - PARTS));
	is_printed(f, "of      check    finding\n"
		      "Redis   version  ok 7\n"
		      "jobs    workers  !! 10 tasks wait (and the like 5 times); start them\n"
		      "jobs:1  group    !! 1 entries; look\n"
		      "jobs:3  group    !! 3 entries; look\n"
		      "jobs:5  group    !! 5 entries; look\n");
}

static void test_all_64_partitions_have_their_bit(void **state)
{
	struct findings *f = about_jobs();
	json_t *list, *parts;

	(void)state;
	for (int i = 0; i < 64; i++) {
		findings_about_partition(f, i);
		finding_note(f, "letters", "some");
		if (i == 63)
			finding_note(f, "slots", "few");
	}
	findings_fold(f, 1, 64, UINT64_MAX >> (64 - 64));
	list = findings_json(f);
	parts = json_object_get(json_array_get(list, 1), "partitions");
	assert_int_equal(json_array_size(parts), 64);
	assert_null(json_object_get(json_array_get(list, 0), "partitions"));
	json_decref(list);
	is_printed(f, "of       check    finding\n"
		      "Redis    version  ok 7\n"
		      "jobs     letters  -- some\n"
		      "jobs:63  slots    -- few\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_fine_in_all_is_one_line),
		cmocka_unit_test(test_what_is_not_names_its_partitions),
		cmocka_unit_test(test_few_that_differ_are_told_each_and_many_by_the_first),
		cmocka_unit_test(test_all_64_partitions_have_their_bit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
