/* t_filename.c - any name as a part of a file's name (common/filename.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "filename.h"

static void bytes_that_a_file_name_cannot_bear_are_written_in_hex(void **state)
{
	static const char *const cases[][2] = {
		{"demo", "demo"},
		{"a.b_c-D9", "a.b_c-D9"},
		{"a/b", "a%2Fb"},
		{"{t}:q", "%7Bt%7D%3Aq"},
		{"gr\xc3\xbc", "gr%C3%BC"},
		{"100%", "100%25"},
		{"../../etc", "..%2F..%2Fetc"},
	};
	struct buf one = BUF_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		buf_clear(&one);
		filename_stem(&one, cases[i][0]);
		assert_string_equal(one.data, cases[i][1]);
	}
	buf_release(&one);
}

static void long_names_are_cut_and_stay_different(void **state)
{
	char name[300];
	struct buf one = BUF_INIT;
	struct buf two = BUF_INIT;

	(void)state;
	memset(name, 'x', sizeof(name));
	name[299] = '\0';
	filename_stem(&one, name);
	name[298] = 'y';
	filename_stem(&two, name);
	assert_int_equal(one.len, FILENAME_STEM_MAX);
	assert_int_equal(two.len, FILENAME_STEM_MAX);
	assert_string_not_equal(one.data, two.data);
	/* Three bytes for one: the same bound. */
	memset(name, '/', sizeof(name));
	name[200] = '\0';
	buf_clear(&one);
	filename_stem(&one, name);
	assert_int_equal(one.len, FILENAME_STEM_MAX);
	/* It appends. */
	buf_clear(&one);
	buf_adds(&one, "slot-");
	filename_stem(&one, name);
	assert_int_equal(one.len, FILENAME_STEM_MAX + 5);
	buf_release(&one);
	buf_release(&two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_that_a_file_name_cannot_bear_are_written_in_hex),
		cmocka_unit_test(long_names_are_cut_and_stay_different),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
