/* t_buf.c - the growing buffer and the slice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "buf.h"

static void test_empty(void **state)
{
	struct buf b = BUF_INIT;

	(void)state;
	assert_string_equal(b.data, "");
	buf_clear(&b);
	buf_truncate(&b, 0);
	buf_consume(&b, 0);
	buf_add(&b, NULL, 0);
	assert_int_equal(b.cap, 0);
	buf_release(&b);
	buf_release(&b);
	assert_string_equal(b.data, "");
}

static void test_text(void **state)
{
	struct buf b = BUF_INIT;

	(void)state;
	buf_adds(&b, "one");
	buf_addc(&b, ' ');
	buf_addf(&b, "%d-%s", 42, "x");
	assert_string_equal(b.data, "one 42-x");
	assert_int_equal(b.len, 8);
	buf_consume(&b, 4);
	assert_string_equal(b.data, "42-x");
	buf_truncate(&b, 2);
	assert_string_equal(b.data, "42");
	buf_clear(&b);
	assert_string_equal(b.data, "");
	assert_true(b.cap > 0);
	buf_release(&b);
}

static void test_bytes(void **state)
{
	struct buf b = BUF_INIT;

	(void)state;
	buf_add(&b, "a\0b", 3);
	buf_add(&b, "\0", 1);
	assert_int_equal(b.len, 4);
	assert_memory_equal(b.data, "a\0b\0\0", 5); /* the NUL that does not count */
	buf_release(&b);
}

static void test_growth(void **state)
{
	struct buf b = BUF_INIT;

	(void)state;
	for (int i = 0; i < 100000; i++)
		buf_addc(&b, (char)('a' + i % 26));
	assert_int_equal(b.len, 100000);
	for (int i = 0; i < 100000; i++)
		assert_int_equal(b.data[i], 'a' + i % 26);
	assert_int_equal(b.data[b.len], '\0');
	buf_release(&b);
}

static void test_reserve(void **state)
{
	struct buf b = BUF_INIT;
	char *to = buf_reserve(&b, 1000);

	(void)state;
	memset(to, 'z', 1000);
	buf_commit(&b, 10);
	assert_int_equal(b.len, 10);
	assert_string_equal(b.data, "zzzzzzzzzz");
	buf_release(&b);
}

static void test_detach(void **state)
{
	struct buf b = BUF_INIT;
	char *p = buf_detach(&b);

	(void)state;
	assert_string_equal(p, "");
	free(p);
	buf_adds(&b, "mine");
	p = buf_detach(&b);
	assert_string_equal(p, "mine");
	assert_int_equal(b.len, 0);
	free(p);
	p = xasprintf("%s/%d", "a", 7);
	assert_string_equal(p, "a/7");
	free(p);
}

static void test_slice(void **state)
{
	char text[4] = "xxx";

	(void)state;
	slice_text(slice_of(NULL, 0), text, sizeof(text));
	assert_string_equal(text, "");
	slice_text(slice_str("abcd"), text, sizeof(text));
	assert_string_equal(text, "abc");
	assert_true(slice_eq(slice_of(NULL, 0), slice_str("")));
	assert_true(slice_eq_str(slice_of("abc", 2), "ab"));
	assert_false(slice_eq_str(slice_of("abc", 3), "ab"));
	assert_false(slice_eq(slice_of("a\0b", 3), slice_of("a\0c", 3)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),   cmocka_unit_test(test_text),
		cmocka_unit_test(test_bytes),   cmocka_unit_test(test_growth),
		cmocka_unit_test(test_reserve), cmocka_unit_test(test_detach),
		cmocka_unit_test(test_slice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
