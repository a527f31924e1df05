/* t_lease.c - evidence, and what may be taken from others, at their edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "worker/lease.h"

static void test_evidence(void **state)
{
	(void)state;
	assert_int_equal(lease_evidence(5000, 60000), 5000 + 54000);
	assert_int_equal(lease_evidence(5000, 2000), 5000 + 1800);
	assert_int_equal(lease_evidence(5000, 500),
			 5000 + 400); /* never less than 100 ms of margin */
	for (int64_t lease = 1000; lease <= 3600000; lease += 997) {
		/* Two renewals may be lost before the evidence runs out. */
		assert_true(2 * lease_renew_every(lease) < lease_evidence(0, lease));
		assert_true(lease_evidence(0, lease) < lease);
		assert_in_range(lease_scan_every(lease), 250, 5000);
	}
}

static void test_fresh(void **state)
{
	(void)state;
	assert_true(lease_is_fresh(lease_evidence(5000, 60000), 5000, 60000));
	assert_true(lease_is_fresh(65000, 34999, 60000));
	assert_false(lease_is_fresh(65000, 35000, 60000));
	assert_false(lease_is_fresh(65000, 66000, 60000));
	assert_false(lease_is_fresh(0, 5000, 60000)); /* forgotten */
}

static void test_stale_needs_a_lease_of_link(void **state)
{
	struct stale_guard g = {0};

	(void)state;
	assert_false(stale_allowed(&g, 1000000, 2000));
	stale_linked(&g, 10000);
	assert_false(stale_allowed(&g, 11999, 2000));
	assert_true(stale_allowed(&g, 12000, 2000));
	stale_linked(&g, 13000); /* it stood before: nothing starts anew */
	assert_true(stale_allowed(&g, 13000, 2000));
	stale_unlinked(&g);
	assert_false(stale_allowed(&g, 20000, 2000));
	stale_linked(&g, 20000);
	assert_false(stale_allowed(&g, 21999, 2000));
	assert_true(stale_allowed(&g, 22000, 2000));
}

/* A machine that sleeps wakes us first: the owner of a stale entry is about to renew it. */
static void test_stale_needs_a_lease_without_a_stall(void **state)
{
	struct stale_guard g = {0};

	(void)state;
	stale_linked(&g, 1000);
	for (int64_t now = 1000; now <= 4000; now += 1000) /* half a lease is no stall */
		stale_look(&g, now, 2000);
	assert_true(stale_allowed(&g, 4000, 2000));
	stale_look(&g, 5001, 2000);
	assert_false(stale_allowed(&g, 7000, 2000));
	assert_true(stale_allowed(&g, 7001, 2000));
	stale_unlinked(&g);
	stale_look(&g, 20000, 2000); /* without a link there is nothing to begin anew */
	assert_false(stale_allowed(&g, 30000, 2000));
}

/* A slot that moves for longer than the lease: nobody could renew. */
static void test_stale_needs_a_lease_of_service(void **state)
{
	struct stale_guard g = {0};

	(void)state;
	stale_unserved(&g, 500); /* without a link there is nothing to begin anew */
	assert_false(stale_allowed(&g, 9000, 2000));
	stale_linked(&g, 1000);
	assert_true(stale_allowed(&g, 3000, 2000));
	stale_unserved(&g, 3500);
	stale_unserved(&g, 4000);
	assert_false(stale_allowed(&g, 5999, 2000));
	assert_true(stale_allowed(&g, 6000, 2000));
}

/* The clock of another node says nothing about a jump. */
static void test_another_clock_is_no_jump(void **state)
{
	struct stale_guard g = {0};

	(void)state;
	stale_linked(&g, 1000);
	assert_false(stale_redis_time(&g, 1700000000000, 4000, 2000));
	stale_other_server(&g);
	assert_false(stale_redis_time(&g, 1700000900000, 4000, 2000));
	assert_true(stale_allowed(&g, 4000, 2000));
	assert_true(stale_redis_time(&g, 1700000000000, 4000, 2000));
}

static void test_clock_jump(void **state)
{
	static const struct {
		int64_t jump;
		bool pause;
	} cases[] = {{0, false},   {500, false},   {-500, false},   {501, true},
		     {-501, true}, {100000, true}, {-100000, true}, {86400000, true}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct stale_guard g = {0};

		stale_linked(&g, 1000);
		/* The first one is only noted, however far apart the clocks are. */
		assert_false(stale_redis_time(&g, 1700000000000, 4000, 2000));
		assert_true(stale_allowed(&g, 4000, 2000));
		assert_int_equal(stale_redis_time(&g, 1700000001000 + cases[i].jump, 5000, 2000),
				 cases[i].pause);
		assert_int_equal(stale_allowed(&g, 6999, 2000), !cases[i].pause);
		assert_true(stale_allowed(&g, 7000, 2000));
		/* The new offset is the one that counts from now on. */
		assert_false(stale_redis_time(&g, 1700000002000 + cases[i].jump, 6000, 2000));
	}
}

static void test_released(void **state)
{
	(void)state;
	assert_true(lease_is_released(1000000000000));
	assert_false(lease_is_released(999999999999));
	assert_false(lease_is_released(0));
}

static void test_extras(void **state)
{
	static const struct {
		int64_t idle, oldest;
		bool lost;
	} cases[] = {
		{0, 0, false},
		{4000, 0, false}, /* a read with BLOCK may still bring it */
		{4001, 0, true},
		{10000, 90001, true},  /* delivered at 90000, before that read was sent */
		{10000, 90000, false}, /* maybe by that one */
		{10000, 80000, false},
		{1000000000000, 1, true}, /* released by us */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(lease_extra_is_lost(cases[i].idle, 2000, cases[i].oldest, 100000),
				 cases[i].lost);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_evidence),
		cmocka_unit_test(test_fresh),
		cmocka_unit_test(test_stale_needs_a_lease_of_link),
		cmocka_unit_test(test_stale_needs_a_lease_without_a_stall),
		cmocka_unit_test(test_stale_needs_a_lease_of_service),
		cmocka_unit_test(test_another_clock_is_no_jump),
		cmocka_unit_test(test_clock_jump),
		cmocka_unit_test(test_released),
		cmocka_unit_test(test_extras),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
