/* t_info.c - what INFO says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "info.h"

static void test_a_limit_and_any_policy_but_noeviction_threaten(void **state)
{
	static const struct {
		const char *info;
		bool threatens;
		const char *policy;
	} cases[] = {
		{"# Memory\r\nmaxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\n", true,
		 "allkeys-lru"},
		{"maxmemory:1000\r\nmaxmemory_policy:volatile-ttl", true, "volatile-ttl"},
		{"maxmemory_policy:allkeys-lru\nmaxmemory:1\n", true, "allkeys-lru"},
		{"maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", false, "allkeys-lru"},
		{"maxmemory:1000\r\nmaxmemory_policy:noeviction\r\n", false, "noeviction"},
		{"maxmemory:1000\r\nmaxmemory_human:1000B\r\n", false, ""},
		{"xmaxmemory:1000\r\nmaxmemory_policy:\r\n", false, ""},
		{"\r\n\n", false, ""},
		{"", false, ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char policy[INFO_POLICY_MAX];

		assert_int_equal(info_evicts(slice_str(cases[i].info), policy), cases[i].threatens);
		assert_string_equal(policy, cases[i].policy);
	}
}

static void test_numbers(void **state)
{
	static const char info[] = "# Clients\r\nconnected_clients:7\r\nmaxclients:10000\r\n"
				   "huge:99999999999999999999999999\r\nword:up\r\nempty:\r\n"
				   "last:-1";

	(void)state;
	assert_int_equal(info_int(slice_str(info), "connected_clients:", 0), 7);
	assert_int_equal(info_int(slice_str(info), "maxclients:", 0), 10000);
	assert_int_equal(info_int(slice_str(info), "clients:", 5), 5);
	assert_int_equal(info_int(slice_str(info), "huge:", 5), 5);
	assert_int_equal(info_int(slice_str(info), "word:", 5), 5);
	assert_int_equal(info_int(slice_str(info), "empty:", 5), 5);
	assert_int_equal(info_int(slice_str(info), "last:", 5), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_limit_and_any_policy_but_noeviction_threaten),
		cmocka_unit_test(test_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
