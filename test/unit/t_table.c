/* t_table.c - columns that stay in line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "supervisor/ctl/table.h"

static void assert_printed(const struct table *t, int width, const char *want)
{
	struct buf out = BUF_INIT;

	table_print(t, width, &out);
	assert_string_equal(out.data, want);
	buf_release(&out);
}

static void test_alignment(void **state)
{
	struct table *t = table_new(">n name last~exit");

	(void)state;
	table_cell(t, "7");
	table_cell(t, "a");
	table_cell(t, "-");
	table_cellf(t, "%d", 1234);
	table_cell(t, "longer");
	table_cell(t, "signal 9");
	assert_int_equal(table_n_rows(t), 2);
	assert_printed(t, 0,
		       "   n  name    last exit\n"
		       "   7  a       -\n"
		       "1234  longer  signal 9\n");
	table_free(t);
}

static void test_last_column_is_cut_to_the_width(void **state)
{
	struct table *t = table_new("name text");

	(void)state;
	table_cell(t, "a");
	table_cell(t, "0123456789012345678901234567890123456789");
	assert_printed(t, 20, "name  text\na     0123456789012\xe2\x80\xa6\n");
	assert_printed(t, 3, "name  text\na     0123456\xe2\x80\xa6\n"); /* never less than 8 */
	table_free(t);
}

/* Width is in characters: an umlaut is one column and is not cut in two. */
static void test_characters_not_bytes(void **state)
{
	struct table *t = table_new("name n");

	(void)state;
	table_cell(t, "gr\xc3\xbc\xc3\x9f");
	table_cell(t, "\xc3\x97\xc3\x97\xc3\x97\xc3\x97\xc3\x97\xc3\x97\xc3\x97\xc3\x97\xc3\x97");
	assert_printed(t, 14,
		       "name  n\n"
		       "gr\xc3\xbc\xc3\x9f  "
		       "\xc3\x97\xc3\x97\xc3\x97\xc3\x97\xc3\x97\xc3\x97\xc3\x97\xe2\x80\xa6\n");
	table_free(t);
}

static void test_colour_takes_no_room(void **state)
{
	struct table *t = table_new("state n");

	(void)state;
	table_cell(t, "up");
	table_paint(t, "<", ">");
	table_cell(t, "1");
	assert_printed(t, 0, "state  n\n<up>     1\n");
	table_free(t);
}

static void test_heading_alone(void **state)
{
	struct table *t = table_new("a >b");

	(void)state;
	assert_int_equal(table_n_rows(t), 0);
	assert_printed(t, 0, "a  b\n");
	table_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alignment),
		cmocka_unit_test(test_last_column_is_cut_to_the_width),
		cmocka_unit_test(test_characters_not_bytes),
		cmocka_unit_test(test_colour_takes_no_room),
		cmocka_unit_test(test_heading_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
