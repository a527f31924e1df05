/* t_env.c - looking into an environment held as data (common/env.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "env.h"

static void the_whole_name_counts(void **state)
{
	char *env[] = {(char[]){"REDISQ_WORKER_PROGRAM=/x"},
		       (char[]){"REDISQ_WORKER=w"},
		       (char[]){"EMPTY="},
		       (char[]){"ODD"},
		       (char[]){"REDISQ_WORKER=second"},
		       NULL};

	(void)state;
	assert_string_equal(env_value(env, "REDISQ_WORKER"), "w");
	assert_string_equal(env_value(env, "REDISQ_WORKER_PROGRAM"), "/x");
	assert_string_equal(env_value(env, "EMPTY"), "");
	assert_null(env_value(env, "ODD"));
	assert_null(env_value(env, "REDISQ"));
	assert_null(env_value(NULL, "REDISQ"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_whole_name_counts)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
