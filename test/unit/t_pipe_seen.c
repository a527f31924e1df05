/* t_pipe_seen.c - what a child has had is known for ever; what it never had mostly is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "worker/pipe_seen.h"

static uint64_t hash_of(int i)
{
	char id[32];
	int n = snprintf(id, sizeof(id), "%d-%d", 1700000000 + i / 10, i % 10);

	return pipe_hash(id, (size_t)n);
}

static void test_nothing_is_forgotten(void **state)
{
	static struct pipe_seen s;

	(void)state;
	for (int i = 0; i < 100000; i++)
		pipe_seen_add(&s, hash_of(i));
	for (int i = 0; i < 100000; i++)
		assert_true(pipe_seen_has(&s, hash_of(i)));
}

static void test_strangers(void **state)
{
	static struct pipe_seen s;
	int n = 0;

	(void)state;
	assert_false(pipe_seen_has(&s, hash_of(1)));
	assert_false(pipe_seen_has(&s, pipe_hash("", 0)));
	for (int i = 0; i < 1000; i++)
		pipe_seen_add(&s, hash_of(i));
	for (int i = 1000; i < 101000; i++)
		n += pipe_seen_has(&s, hash_of(i));
	assert_true(n < 20); /* 4 in 100 000 by the books */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_forgotten),
		cmocka_unit_test(test_strangers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
