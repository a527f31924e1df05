/* t_spawn_sweep.c - what a dead child leaves behind, and how it is cleared away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "buf.h"
#include "clock.h"
#include "spawn.h"

/* A shell script that says one line when all is as it should be; everyone below it holds `alive`.
 */
struct tree {
	struct child child;
	int alive;   /* read end: end-of-file = nobody is left */
	int forever; /* write end of everybody's stdin */
};

static void tree_start(struct tree *t, const char *script)
{
	char *text = xstrdup(script);
	char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, text, NULL};
	char *envp[] = {(char[]){"PATH=/usr/bin:/bin"}, NULL};
	int in[2], out[2];
	enum spawn_step step;
	char byte;

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	const int fds[] = {in[0], out[1], 2, in[0]}; /* a shell takes 0 from its background */
	struct spawn s = {.argv = argv, .envp = envp, .fds = fds, .n_fds = 4, .group = SPAWN_GROUP};
	assert_int_equal(spawn_run(&s, &t->child, &step), 0);
	close(in[0]);
	close(out[1]);
	t->alive = out[0];
	t->forever = in[1];
	free(text);
	do
		assert_int_equal(read(t->alive, &byte, 1), 1);
	while (byte != '\n');
}

static void wait_dead(const struct child *c)
{
	struct pollfd p = {.fd = c->pidfd, .events = POLLIN};

	assert_int_equal(poll(&p, 1, 10000), 1);
}

static void check_nobody_left(struct tree *t)
{
	char byte;

	assert_int_equal(read(t->alive, &byte, 1), 0);
	close(t->alive);
	close(t->forever);
	close(t->child.pidfd);
}

static bool nobody(void *arg, pid_t pid)
{
	(void)arg;
	(void)pid;
	return false;
}

static bool is_child(void *arg, pid_t pid)
{
	return pid == ((const struct child *)arg)->pid;
}

/* Sweeps until nothing is found; how many were signalled. */
static int sweep_all(bool (*is_known)(void *, pid_t), void *arg)
{
	int n, sum = 0;

	while ((n = child_sweep_strays(is_known, NULL, arg)) > 0)
		sum += n;
	return sum;
}

static void test_the_group_outlives_its_dead_leader(void **state)
{
	struct child_exit how;
	struct tree t;

	(void)state;
	tree_start(&t, "cat <&3 & echo; exit 5");
	wait_dead(&t.child);
	assert_true(child_is_dead(t.child.pid, &how));
	assert_int_equal(how.code, 5);
	assert_int_equal(kill(-t.child.pid, SIGKILL), 0);
	sweep_all(is_child, &t.child);
	check_nobody_left(&t);
	assert_int_equal(child_reap(t.child.pid, &how), 0);
	assert_int_equal(kill(-t.child.pid, 0), -1);
	assert_int_equal(errno, ESRCH);
}

static void test_one_who_fled_into_a_session_of_its_own(void **state)
{
	struct child_exit how;
	struct tree t;

	(void)state;
	tree_start(&t, "setsid sh -c 'echo; exec cat' <&3 & wait");
	kill(-t.child.pid, SIGKILL);
	wait_dead(&t.child);
	assert_int_equal(child_reap(t.child.pid, &how), 0);
	assert_true(sweep_all(nobody, NULL) >= 1);
	check_nobody_left(&t);
	assert_int_equal(child_sweep_strays(nobody, NULL, NULL), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie either */
	assert_int_equal(errno, ECHILD);
}

static void test_a_chain_of_such(void **state)
{
	struct child_exit how;
	struct tree t;

	(void)state;
	tree_start(&t,
		   "setsid sh -c 'setsid sh -c \"setsid sh -c \\\"echo; cat\\\" <&3 & wait\" <&3 "
		   "& wait' <&3 & wait");
	kill(-t.child.pid, SIGKILL);
	wait_dead(&t.child);
	assert_int_equal(child_reap(t.child.pid, &how), 0);
	assert_true(sweep_all(nobody, NULL) >= 3);
	check_nobody_left(&t);
}

static void test_known_and_spared_are_left_alone(void **state)
{
	struct child_exit how;
	struct tree t;

	(void)state;
	tree_start(&t, "echo; exec cat <&3");
	assert_int_equal(child_sweep_strays(is_child, NULL, &t.child), 0);
	assert_int_equal(child_sweep_strays(nobody, is_child, &t.child), 0);
	assert_false(child_is_dead(t.child.pid, &how));
	kill(t.child.pid, SIGKILL);
	wait_dead(&t.child);
	assert_int_equal(child_sweep_strays(is_child, NULL, &t.child), 0);
	assert_int_equal(child_reap(t.child.pid, &how), 0); /* the sweep has not reaped it */
	check_nobody_left(&t);
}

static void test_dead_strangers_are_reaped_and_not_counted(void **state)
{
	struct tree t;

	(void)state;
	tree_start(&t, "echo; exit 0");
	wait_dead(&t.child);
	assert_int_equal(child_sweep_strays(nobody, NULL, NULL), 0);
	assert_int_equal(waitpid(t.child.pid, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	check_nobody_left(&t);
}

static void test_many(void **state)
{
	struct child_exit how;
	struct tree t;

	(void)state;
	tree_start(&t,
		   "i=0; while [ $i -lt 100 ]; do setsid cat <&3 & i=$((i+1)); done; echo; wait");
	kill(t.child.pid, SIGKILL);
	wait_dead(&t.child);
	assert_int_equal(child_reap(t.child.pid, &how), 0);
	assert_true(sweep_all(nobody, NULL) >= 100);
	check_nobody_left(&t);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static int become_subreaper(void **state)
{
	(void)state;
	return prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_group_outlives_its_dead_leader),
		cmocka_unit_test(test_one_who_fled_into_a_session_of_its_own),
		cmocka_unit_test(test_a_chain_of_such),
		cmocka_unit_test(test_known_and_spared_are_left_alone),
		cmocka_unit_test(test_dead_strangers_are_reaped_and_not_counted),
		cmocka_unit_test(test_many),
	};

	/* valgrind 3.19 does not know this call, and nothing can be started without it. */
	if (syscall(SYS_pidfd_open, getpid(), 0) < 0) {
		print_message("skipped: no pidfd_open(2) here\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, become_subreaper, NULL);
}
