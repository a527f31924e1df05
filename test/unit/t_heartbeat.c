/* t_heartbeat.c - stuck or only late: supervisor/heartbeat.h, look by look. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supervisor/heartbeat.h"

struct look {
	int64_t now, beat;
	bool stuck;
};

static const struct {
	const char *name;
	int64_t limit, since;
	struct look looks[5]; /* now 0 = no more */
} cases[] = {
	{"a beat at every look", 500, 0, {{1000, 990, false}, {1125, 1120, false}}},
	{"old, then older: stuck", 500, 0, {{1000, 400, false}, {1125, 400, true}}},
	{"old, but it beats again: woken after us",
	 500,
	 0,
	 {{1000, 400, false}, {1125, 1100, false}, {1700, 1100, false}, {1825, 1100, true}}},
	{"old twice, but not the same", 500, 0, {{2000, 400, false}, {2125, 401, false}}},
	{"a pause of us proves nothing", 500, 900, {{1000, 400, false}, {1300, 400, false}}},
	{"... but what follows does", 500, 900, {{1401, 400, false}, {1526, 400, true}}},
	{"not begun", 500, 0, {{9000, 0, false}, {9125, 0, false}}},
	{"no limit", 0, 0, {{9000, 1, false}, {9125, 1, false}, {99999, 1, false}}},
	{"exactly the limit is in time", 500, 0, {{900, 400, false}, {900, 400, false}}},
};

static void stuck_needs_two_looks(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct heartbeat h = {0};

		for (const struct look *l = cases[i].looks; l->now; l++)
			if (heartbeat_is_stuck(&h, l->beat, cases[i].since, l->now,
					       cases[i].limit) != l->stuck)
				fail_msg("%s, at %lld", cases[i].name, (long long)l->now);
	}
}

static void the_interval_follows_the_limit(void **state)
{
	(void)state;
	assert_int_equal(heartbeat_interval_ms(0), 2000);
	assert_int_equal(heartbeat_interval_ms(15000), 2000); /* the default lease: idle is idle */
	assert_int_equal(heartbeat_interval_ms(4000), 1000);
	assert_int_equal(heartbeat_interval_ms(500), 125);
	assert_int_equal(heartbeat_interval_ms(10), 50);
}

/* A machine that stood still for a second must not kill the workers of a short lease. */
static void late_is_measured_by_the_limit(void **state)
{
	(void)state;
	assert_false(heartbeat_is_late(125, 125, 500));
	assert_false(heartbeat_is_late(250, 125, 500));
	assert_true(heartbeat_is_late(251, 125, 500));
	assert_true(heartbeat_is_late(1000, 125, 500));
	assert_false(heartbeat_is_late(5000, 2000, 15000));
	assert_true(heartbeat_is_late(6000, 2000, 15000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stuck_needs_two_looks),
		cmocka_unit_test(the_interval_follows_the_limit),
		cmocka_unit_test(late_is_measured_by_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
