/* t_terminal.c - a terminal that is gone, and one that cannot be looked at (supervisor/terminal.h).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "supervisor/terminal.h"
#include "valgrind.h"

static void only_what_speaks_of_the_terminal_means_gone(void **state)
{
	static const struct {
		int error;
		enum terminal is;
	} cases[] = {
		{ENXIO, TERMINAL_GONE},     {ENODEV, TERMINAL_GONE},    {EIO, TERMINAL_GONE},
		{EMFILE, TERMINAL_UNKNOWN}, {ENFILE, TERMINAL_UNKNOWN}, {ENOENT, TERMINAL_UNKNOWN},
		{EACCES, TERMINAL_UNKNOWN}, {ENOMEM, TERMINAL_UNKNOWN}, {EINTR, TERMINAL_UNKNOWN},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(terminal_judge(cases[i].error), cases[i].is);
}

/* A HUP that comes when no descriptor is free is a reload, not the end. */
static void without_a_descriptor_nothing_is_known(void **state)
{
	struct rlimit before, none;

	(void)state;
	if (without_real_fd_limits())
		skip();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(terminal_look(), TERMINAL_UNKNOWN);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_speaks_of_the_terminal_means_gone),
		cmocka_unit_test(without_a_descriptor_nothing_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
