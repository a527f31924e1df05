/* t_eviction.c - what INFO memory says about keys that may be thrown away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "worker/eviction.h"

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
		char policy[EVICTION_POLICY_MAX];

		assert_int_equal(eviction_threatens(slice_str(cases[i].info), policy),
				 cases[i].threatens);
		assert_string_equal(policy, cases[i].policy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_limit_and_any_policy_but_noeviction_threaten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
