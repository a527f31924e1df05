/* t_partition.c - the streams of a partitioned queue, and where a key belongs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "buf.h"
#include "keys.h"
#include "partition.h"

static void is_called(const char *queue, int i, int n, const char *want)
{
	char *name = partition_stream(queue, i, n);

	assert_string_equal(name, want);
	free(name);
}

static void test_names(void **state)
{
	(void)state;
	is_called("video", 0, 1, "video");
	is_called("video", 0, 2, "video:0");
	is_called("video", 63, 64, "video:63");
	is_called("a:1", 3, 4, "a:1:3");
	assert_true(partition_is_of("video:5", "video", 6));
	assert_false(partition_is_of("video:6", "video", 6));
	assert_false(partition_is_of("video:05", "video", 6));
	assert_false(partition_is_of("video:0", "video", 1));
	assert_false(partition_is_of("video", "video", 6));
}

static void test_one_slot_is_refused(void **state)
{
	struct err e = {0};

	(void)state;
	assert_int_equal(partition_check("video", 6, &e), 0);
	assert_int_equal(partition_check("a{b", 6, &e), 0);
	assert_int_equal(partition_check("{video}", 1, &e), 0);
	assert_int_equal(partition_check("my{video}", 2, &e), -1);
	assert_int_equal(e.code, EXIT_CONFIG);
	assert_non_null(strstr(e.text, "partitions = 1"));
}

/* What CLUSTER KEYSLOT of Redis says modulo what divides 16384, and the check value of the
 * polynomial. */
static void test_keys(void **state)
{
	(void)state;
	assert_int_equal(partition_of("123456789", 9, 65536), 0x31c3);
	assert_int_equal(partition_of("foo", 3, 16384), 12182);
	assert_int_equal(partition_of("", 0, 7), 0);
	assert_int_equal(partition_of("anything", 8, 1), 0);
	assert_int_equal(partition_of("a\0b", 3, 65536) == partition_of("a", 1, 65536), 0);
}

/* They must not gather in one corner: each of 6 gets its share of many keys, within a third. */
static void test_keys_spread(void **state)
{
	int n[6] = {0};

	(void)state;
	for (int i = 0; i < 6000; i++) {
		char key[16];
		int len = snprintf(key, sizeof(key), "user:%d", i);

		n[partition_of(key, (size_t)len, 6)]++;
	}
	for (int i = 0; i < 6; i++)
		assert_in_range(n[i], 667, 1333);
}

/* Two partitions may give out the same entry id: a handler must not take the tasks for one. */
static void test_ids_of_two_partitions_differ(void **state)
{
	static const struct {
		const char *id;
		int n;
		const char *want;
	} cases[] = {
		{"1700000000000-0", 6, "5:"},
		{"1-1", 6, "5:"},
		{"1700000000000-0", 1, ""},
		{"order 7", 6, ""},
		{"1700-", 6, ""},
		{"-1", 6, ""},
		{"1700", 6, ""},
		{"1-1x", 6, ""},
		{"", 6, ""},
		{"5:1-1", 6, ""},
		{"1-1-1", 6, ""},
		{"18446744073709551615-18446744073709551615", 6, "5:"},
		{"18446744073709551616-0", 6, ""},
		{"1-99999999999999999999", 6, ""},
		{"100000000000000000000-1", 6, ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char out[PARTITION_PREFIX_MAX];

		partition_id_prefix(5, cases[i].n, slice_str(cases[i].id), out);
		assert_string_equal(out, cases[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_one_slot_is_refused),
		cmocka_unit_test(test_ids_of_two_partitions_differ),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_keys_spread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
