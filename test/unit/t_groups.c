/* t_groups.c - which group is a handler's, with real processes in real groups and sessions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor/groups.h"

/* A leader of its own group, in its own session with `alone`; with `leaves` it goes and leaves a
 * member. Ends with us: it waits for the end of a pipe. */
static pid_t make_group(bool alone, bool leaves, int *lifeline)
{
	int up[2], life[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(up), 0);
	assert_int_equal(pipe(life), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(life[1]);
		close(up[0]);
		if (alone)
			setsid();
		else
			setpgid(0, 0);
		if (leaves && fork() != 0)
			_exit(0);
		close(up[1]);
		while (read(life[0], &c, 1) > 0)
			;
		_exit(0);
	}
	close(up[1]);
	close(life[0]);
	assert_int_equal(read(up[0], &c, 1), 0); /* it is in its group */
	close(up[0]);
	if (leaves)
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	*lifeline = life[1];
	return pid;
}

static void wait_gone(struct groups *g)
{
	for (int i = 0; i < 10000 && !groups_gone(g); i++) {
		waitpid(-1, NULL, WNOHANG);
		poll(NULL, 0, 1);
	}
}

static void test_ours_and_strangers(void **state)
{
	static const struct {
		bool stranger, leaves;
	} cases[] = {{false, false}, {false, true}, {true, false}, {true, true}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct groups g = {.session = getsid(0)}, moved = {0};
		int lifeline;
		pid_t pid = make_group(cases[i].stranger, cases[i].leaves, &lifeline);

		groups_add(&g, pid);
		assert_int_equal(groups_gone(&g), cases[i].stranger);
		if (cases[i].stranger)
			groups_add(&g, pid);
		groups_kill(&g);
		assert_int_equal(g.n, !cases[i].stranger);
		if (cases[i].stranger) {
			assert_int_equal(kill(-pid, 0), 0);
			assert_int_equal(waitpid(-1, NULL, WNOHANG), cases[i].leaves ? -1 : 0);
		}
		groups_move(&g, &moved);
		close(lifeline);
		wait_gone(&moved);
		assert_true(groups_gone(&moved));
		assert_true(groups_gone(&g));
		groups_release(&moved);
		while (waitpid(-1, NULL, 0) > 0)
			;
	}
}

/* A process that has the number and leads no group of it. */
static void test_a_number_without_a_group(void **state)
{
	struct groups g = {.session = getsid(0)};
	int life[2];
	pid_t pid;
	char c;

	(void)state;
	assert_int_equal(pipe(life), 0);
	pid = fork();
	if (pid == 0) {
		close(life[1]);
		_exit(read(life[0], &c, 1) != 0);
	}
	groups_add(&g, pid);
	groups_kill(&g);
	assert_int_equal(g.n, 0);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	close(life[0]);
	close(life[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	groups_release(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ours_and_strangers),
		cmocka_unit_test(test_a_number_without_a_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
