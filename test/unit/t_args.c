/* t_args.c - the arguments of a command: growth, numbers that stay put, reuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "worker/args.h"

static void assert_arg(const struct rconn_arg *v, const char *want, size_t len)
{
	assert_int_equal(v->len, len);
	assert_memory_equal(v->data, want, len);
}

static void test_kinds(void **state)
{
	struct args a;
	const struct rconn_arg *v;

	(void)state;
	args_init(&a);
	args_str(&a, "XCLAIM");
	args_slice(&a, slice_of("a\0b", 3));
	args_slice(&a, slice_of(NULL, 0));
	args_str(&a, "");
	args_int(&a, 0);
	args_int(&a, INT64_MIN);
	args_int(&a, INT64_MAX);
	v = args_done(&a);
	assert_int_equal(a.n, 7);
	assert_arg(&v[0], "XCLAIM", 6);
	assert_arg(&v[1], "a\0b", 3);
	assert_arg(&v[2], "", 0);
	assert_non_null(v[2].data);
	assert_arg(&v[3], "", 0);
	assert_arg(&v[4], "0", 1);
	assert_arg(&v[5], "-9223372036854775808", 20);
	assert_arg(&v[6], "9223372036854775807", 19);
	args_release(&a);
	assert_int_equal(a.n, 0);
}

static void test_growth(void **state)
{
	struct args a;
	const struct rconn_arg *v;
	char text[24];

	(void)state;
	args_init(&a);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 5000; i++) {
			args_int(&a, i * 1000003LL);
			args_str(&a, "word");
		}
		v = args_done(&a);
		assert_int_equal(a.n, 10000);
		for (int i = 0; i < 5000; i++) {
			snprintf(text, sizeof(text), "%lld", i * 1000003LL);
			assert_arg(&v[2 * i], text, strlen(text));
			assert_arg(&v[2 * i + 1], "word", 4);
		}
		args_release(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_growth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
