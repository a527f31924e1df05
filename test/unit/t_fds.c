/* t_fds.c - standard descriptors and the limit of open files (common/fds.h, common/spawn.h). */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "buf.h"
#include "fds.h"
#include "spawn.h"
#include "valgrind.h"

/* In a child, whose descriptors may be closed: exit status 0 = all as it should be. */
static int in_child(int (*fn)(int which), int which)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0)
		_exit(fn(which));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int fill_after_closing(int which)
{
	int fd;

	for (fd = 0; fd <= 2; fd++)
		if (which & (1 << fd))
			close(fd);
	if (fds_fill_standard() < 0)
		return 1;
	for (fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) != 0) /* open, and inherited */
			return 2;
	/* What is opened next is none of them, and nothing was left open above. */
	fd = open("/", O_RDONLY);
	return fd > 2 && fcntl(fd + 1, F_GETFD) < 0 ? 0 : 3;
}

static void standard_descriptors_are_there_whichever_were_closed(void **state)
{
	(void)state;
	for (int which = 0; which < 8; which++)
		assert_int_equal(in_child(fill_after_closing, which), 0);
}

static int64_t soft_limit_of_a_child(void)
{
	char sh[] = "/bin/sh", c[] = "-c", script[] = "ulimit -Sn";
	char *argv[] = {sh, c, script, NULL}, *env[] = {NULL};
	int out[2], fds[3];
	struct spawn s = {.argv = argv, .envp = env, .fds = fds, .n_fds = 3};
	struct child child;
	enum spawn_step step;
	char text[32] = "";
	int64_t n;

	assert_int_equal(pipe(out), 0);
	fds[0] = -1;
	fds[1] = out[1];
	fds[2] = -1;
	assert_int_equal(spawn_run(&s, &child, &step), 0);
	close(out[1]);
	assert_true(read(out[0], text, sizeof(text) - 1) > 0);
	close(out[0]);
	waitpid(child.pid, NULL, 0);
	close(child.pidfd);
	n = strtoll(text, NULL, 10);
	return n;
}

static void the_limit_is_raised_for_us_and_given_back_to_children(void **state)
{
	struct rlimit limit, start;

	(void)state;
	if (without_real_fd_limits())
		skip();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_false(fds_start_limit(&start));
	limit.rlim_cur = 99;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	fds_raise_limit();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(limit.rlim_cur, limit.rlim_max);
	assert_true(fds_start_limit(&start));
	assert_int_equal(start.rlim_cur, 99);
	fds_raise_limit(); /* again: the first one is what counts */
	assert_true(fds_start_limit(&start));
	assert_int_equal(start.rlim_cur, 99);
	assert_int_equal(soft_limit_of_a_child(), 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(standard_descriptors_are_there_whichever_were_closed),
		cmocka_unit_test(the_limit_is_raised_for_us_and_given_back_to_children),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
