/* t_users.c - users and groups (common/users.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "users.h"

static void root_is_known_and_nobody_else_is_invented(void **state)
{
	uid_t uid = 77;
	gid_t gid = 77;
	char *home = users_home(0);

	(void)state;
	assert_true(users_find("root", &uid, &gid));
	assert_int_equal(uid, 0);
	assert_int_equal(gid, 0);
	gid = 77;
	assert_true(users_find_group("root", &gid));
	assert_int_equal(gid, 0);
	assert_string_equal(home, "/root");
	free(home);
	assert_false(users_find("no-such-user-here", &uid, &gid));
	assert_false(users_find_group("no-such-group-here", &gid));
	assert_null(users_home(4000000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(root_is_known_and_nobody_else_is_invented)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
