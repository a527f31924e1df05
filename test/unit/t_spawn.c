/* t_spawn.c - what a started program finds, how a failed start is told, how an end is seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "buf.h"
#include "sig.h"
#include "spawn.h"

#define ENV_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* A shell script with its output in a pipe. */
struct run {
	struct spawn s;
	char *argv[4];
	char *envp[2];
	int fds[8];
	int out; /* read end */
	struct child child;
	enum spawn_step step;
	struct buf text;
};

static void run_init(struct run *r, const char *script)
{
	int ends[2];

	memset(r, 0, sizeof(*r));
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	r->out = ends[0];
	r->argv[0] = xstrdup("sh");
	r->argv[1] = xstrdup("-c");
	r->argv[2] = xstrdup(script);
	r->envp[0] = xstrdup(ENV_PATH);
	r->fds[0] = -1;
	r->fds[1] = ends[1];
	r->fds[2] = 2;
	r->s = (struct spawn){
		.argv = r->argv, .envp = r->envp, .fds = r->fds, .n_fds = 3, .group = SPAWN_GROUP};
	buf_init(&r->text);
}

/* Out of the way of fds a test wants for itself. */
static void move_up(int *fd)
{
	int high = fcntl(*fd, F_DUPFD_CLOEXEC, 30);

	assert_true(high >= 30);
	close(*fd);
	*fd = high;
}

static int run_start(struct run *r)
{
	int rc = spawn_run(&r->s, &r->child, &r->step);
	int saved = errno;

	if (r->fds[1] >= 0)
		close(r->fds[1]);
	r->fds[1] = -1;
	errno = saved;
	return rc;
}

/* Everything the program (and whoever else holds its output) writes; NUL-terminated. */
static const char *run_read(struct run *r)
{
	ssize_t n;

	buf_clear(&r->text);
	while ((n = read(r->out, buf_reserve(&r->text, 4096), 4096)) > 0)
		buf_commit(&r->text, (size_t)n);
	assert_int_equal(n, 0);
	return r->text.data;
}

static void wait_dead(const struct child *c)
{
	struct pollfd p = {.fd = c->pidfd, .events = POLLIN};

	assert_int_equal(poll(&p, 1, 10000), 1);
}

static struct child_exit run_end(struct run *r)
{
	struct child_exit how = {0};

	if (r->child.pid > 0) {
		wait_dead(&r->child);
		assert_int_equal(child_reap(r->child.pid, &how), 0);
		close(r->child.pidfd);
	}
	close(r->out);
	for (int i = 0; i < 3; i++)
		free(r->argv[i]);
	free(r->envp[0]);
	buf_release(&r->text);
	return how;
}

static void check_output(struct run *r, const char *want)
{
	assert_int_equal(run_start(r), 0);
	assert_int_equal(r->step, SPAWN_OK);
	assert_string_equal(run_read(r), want);
	assert_int_equal(run_end(r).code, 0);
}

/* ------------------------------------------------------------------ fds */

#define LOW 3 /* the fds 3..6 hold "a".."d" while the maps are tried */

static const struct {
	int map[4]; /* what is to be fd 3..6 of the child */
	const char *want;
} maps[] = {
	{{3, 4, 5, 6}, "abcd"},                             /* stays */
	{{4, 3, 6, 5}, "badc"},                             /* swapped */
	{{4, 5, 6, 3}, "bcda"},                             /* all round */
	{{6, 5, 4, 3}, "dcba"},                             /* mirrored */
	{{3, 3, 3, 3}, "aaaa"},                             /* one for all */
	{{6, 6, 6, 6}, "dddd"},   {{-1, 3, -1, 4}, "ab"},   /* holes */
	{{5, -1, 3, -1}, "ca"},   {{20, 21, 3, 4}, "cdab"}, /* from above */
	{{4, 20, 21, -1}, "bcd"},
};

static void test_the_fd_map_in_every_order(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		int fd = memfd_create("t", 0);
		char c = (char)('a' + i);

		assert_int_equal(write(fd, &c, 1), 1);
		/* First out of the way, for fd may be one of the low ones. */
		assert_true(dup2(fd, 18 + i) >= 0);
		if (fd > LOW + 3)
			close(fd);
	}
	for (size_t m = 0; m < ARRAY_LEN(maps); m++) {
		struct run r;

		/* A cat of /proc/self/fd/N opens it anew, so that the offset is 0. */
		run_init(&r, "for i in 3 4 5 6; do cat /proc/self/fd/$i; done");
		/* The pipe may sit low, too: move it. */
		move_up(&r.fds[1]);
		move_up(&r.out);
		for (int i = 0; i < 4; i++) {
			assert_true(dup2(18 + i, LOW + i) >= 0);
			r.fds[3 + i] = maps[m].map[i];
		}
		r.s.n_fds = 7;
		check_output(&r, maps[m].want);
	}
	for (int i = 0; i < 4; i++) {
		close(LOW + i);
		close(18 + i);
	}
}

static void test_no_other_fd_is_inherited(void **state)
{
	int leaks[] = {3, 4, 9, 100, 200};
	struct run r;

	(void)state;
	/* exec: a shell that sets up a pipe shows its ends for a moment. 3 is ls's own directory.
	 */
	run_init(&r, "exec ls /proc/self/fd");
	move_up(&r.fds[1]);
	move_up(&r.out);
	for (size_t i = 0; i < ARRAY_LEN(leaks); i++)
		assert_true(dup2(2, leaks[i]) >= 0);
	check_output(&r, "0\n1\n2\n3\n");
	for (size_t i = 0; i < ARRAY_LEN(leaks); i++)
		close(leaks[i]);
}

/* ------------------------------------------------------------------ failures */

static const struct {
	const char *program;
	const char *path;
	const char *cwd;
	int fd0;
	enum spawn_step step;
	int error;
} failures[] = {
	{"no-such-program-at-all", ENV_PATH, NULL, -1, SPAWN_FIND, ENOENT},
	{"passwd", "PATH=/nowhere:/etc", NULL, -1, SPAWN_FIND, EACCES},
	{"", ENV_PATH, NULL, -1, SPAWN_FIND, ENOENT},
	{"/no/such/program", ENV_PATH, NULL, -1, SPAWN_EXEC, ENOENT},
	{"/etc/passwd", ENV_PATH, NULL, -1, SPAWN_EXEC, EACCES},
	{"/tmp", ENV_PATH, NULL, -1, SPAWN_EXEC, EACCES},
	{"sh", ENV_PATH, "/no/such/directory", -1, SPAWN_CWD, ENOENT},
	{"sh", ENV_PATH, "/etc/passwd", -1, SPAWN_CWD, ENOTDIR},
	{"sh", ENV_PATH, NULL, 999, SPAWN_FDS, EBADF},
};

static void test_a_failed_start_is_an_errno_and_leaves_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
		struct run r;

		run_init(&r, "exit 0");
		free(r.argv[0]);
		r.argv[0] = xstrdup(failures[i].program);
		free(r.envp[0]);
		r.envp[0] = xstrdup(failures[i].path);
		r.s.cwd = failures[i].cwd;
		r.fds[0] = failures[i].fd0;
		assert_int_equal(run_start(&r), -1);
		assert_int_equal(errno, failures[i].error);
		assert_int_equal(r.step, failures[i].step);
		assert_int_equal(r.child.pid, -1);
		assert_int_equal(r.child.pidfd, -1);
		assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
		assert_int_equal(errno, ECHILD);
		assert_string_equal(run_read(&r), ""); /* nobody holds its output */
		run_end(&r);
	}
}

static void test_a_text_without_interpreter_is_no_program(void **state)
{
	char path[] = "/tmp/t_spawn.XXXXXX";
	int fd = mkstemp(path);
	struct run r;

	(void)state;
	assert_int_equal(write(fd, "echo hi\n", 8), 8);
	fchmod(fd, 0700);
	close(fd);
	run_init(&r, "exit 0");
	free(r.argv[0]);
	r.argv[0] = xstrdup(path);
	assert_int_equal(run_start(&r), -1);
	assert_int_equal(errno, ENOEXEC);
	assert_string_equal(spawn_step_word(r.step), "exec");
	run_end(&r);
	unlink(path);
}

static void test_find(void **state)
{
	static const struct {
		const char *name, *path, *want;
		int error;
	} cases[] = {
		{"sh", "/nowhere:/bin:/usr/bin", "/bin/sh", 0},
		{"sh", NULL, "/usr/bin/sh", 0},
		{"./x", "/bin", "./x", 0},
		{"/a/b", "", "/a/b", 0},
		{"nope", "/bin", NULL, ENOENT},
		{"passwd", "/etc", NULL, EACCES},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *got = spawn_find(cases[i].name, cases[i].path);

		if (cases[i].want) {
			assert_non_null(got);
			if (cases[i].path) /* the default PATH's order is the system's */
				assert_string_equal(got, cases[i].want);
		} else {
			assert_null(got);
			assert_int_equal(errno, cases[i].error);
		}
		free(got);
	}
}

/* ------------------------------------------------------------------ what the child is */

static void test_cwd_and_a_program_relative_to_it(void **state)
{
	struct run r;

	(void)state;
	run_init(&r, "pwd");
	r.s.cwd = "/usr";
	free(r.argv[0]);
	r.argv[0] = xstrdup("bin/sh");
	check_output(&r, "/usr\n");
}

static void test_sessions_and_groups(void **state)
{
	static const struct {
		enum spawn_group group;
		bool own_session;
	} cases[] = {{SPAWN_SESSION, true}, {SPAWN_GROUP, false}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct run r;

		run_init(&r, "read line; echo $line");
		r.s.group = cases[i].group;
		int in[2];
		assert_int_equal(pipe2(in, O_CLOEXEC), 0);
		r.fds[0] = in[0];
		assert_int_equal(run_start(&r), 0);
		assert_int_equal(getpgid(r.child.pid), r.child.pid);
		assert_int_equal(getsid(r.child.pid),
				 cases[i].own_session ? r.child.pid : getsid(0));
		close(in[0]);
		close(in[1]);
		run_end(&r);
	}
}

static void test_signals_are_as_new(void **state)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, old_pipe, old_hup;
	sigset_t all, old, after;
	struct run r;

	(void)state;
	sigaction(SIGPIPE, &ignore, &old_pipe);
	sigaction(SIGHUP, &ignore, &old_hup);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	/* sed: glibc keeps signals 32 and 33 for itself, and ignores them in what it spawns. */
	run_init(&r, "grep -E '^Sig(Blk|Ign)' /proc/self/status | tr -d '\\t' | "
		     "sed 's/180000000$/000000000/'");
	free(r.argv[0]);
	r.argv[0] = xstrdup("sh");
	check_output(&r, "SigBlk:0000000000000000\nSigIgn:0000000000000000\n");
	sigprocmask(SIG_SETMASK, &old, &after);
	for (int s = 1; s < 32; s++)
		if (s != SIGKILL && s != SIGSTOP)
			assert_int_equal(sigismember(&after, s), 1); /* the caller's mask is back */
	sigaction(SIGPIPE, &old_pipe, NULL);
	sigaction(SIGHUP, &old_hup, NULL);
}

/* As test_signals_are_as_new, with the list that many starts share. */
static void test_signals_on_the_list_are_as_new(void **state)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
	sigset_t changed;
	struct run r;

	(void)state;
	assert_int_equal(sigaction(SIGUSR2, &ignore, &old), 0);
	sig_not_default(&changed);
	assert_int_equal(sigismember(&changed, SIGUSR2), 1);
	assert_int_equal(sigismember(&changed, SIGUSR1), 0);
	run_init(&r, "grep -E '^Sig(Blk|Ign)' /proc/self/status | tr -d '\\t' | "
		     "sed 's/180000000$/000000000/'");
	r.s.reset = &changed;
	check_output(&r, "SigBlk:0000000000000000\nSigIgn:0000000000000000\n");
	/* What is not on it stays: the list is what counts. */
	sigdelset(&changed, SIGUSR2);
	run_init(&r, "grep -E '^SigIgn' /proc/self/status | tr -d '\\t' | "
		     "sed 's/18\\(.......\\)$/00\\1/'");
	r.s.reset = &changed;
	check_output(&r, "SigIgn:0000000000000800\n");
	sigaction(SIGUSR2, &old, NULL);
}

static void test_oom_score(void **state)
{
	struct run r;

	(void)state;
	run_init(&r, "cat /proc/self/oom_score_adj");
	r.s.oom_score_adj = 501;
	check_output(&r, "501\n");
}

static void test_other_user(void **state)
{
	struct run r;

	(void)state;
	if (geteuid() != 0)
		skip();
	run_init(&r, "id -u; id -g; id -G");
	r.s.set_ids = true;
	r.s.uid = 65534;
	r.s.gid = 65533;
	r.s.pdeathsig = SIGKILL;
	check_output(&r, "65534\n65533\n65533\n");
}

/* The middle process starts a program that is to die with it, and is killed. */
static void test_it_dies_with_its_parent(void **state)
{
	int forever[2], alive[2];
	struct run r;
	pid_t middle;
	char byte;

	(void)state;
	assert_int_equal(pipe2(forever, O_CLOEXEC), 0);
	assert_int_equal(pipe2(alive, O_CLOEXEC), 0);
	run_init(&r, "echo; exec cat");
	r.fds[0] = forever[0];
	close(r.fds[1]);
	r.fds[1] = alive[1];
	r.s.pdeathsig = SIGKILL;
	middle = fork();
	assert_true(middle >= 0);
	if (middle == 0) {
		if (run_start(&r) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(alive[1]);
	assert_int_equal(read(alive[0], &byte, 1), 1); /* it runs */
	kill(middle, SIGKILL);
	assert_int_equal(waitpid(middle, NULL, 0), middle);
	assert_int_equal(read(alive[0], &byte, 1), 0); /* and is gone, though its stdin is not */
	close(alive[0]);
	close(forever[0]);
	close(forever[1]);
	r.child.pid = -1;
	run_end(&r);
}

/* ------------------------------------------------------------------ ends */

static const struct {
	const char *script;
	bool signaled;
	int code;
} ends[] = {
	{"exit 0", false, 0},
	{"exit 78", false, 78},
	{"exit 255", false, 255},
	{"kill -TERM $$", true, SIGTERM},
	{"kill -KILL $$", true, SIGKILL},
};

static void test_an_end_is_seen_before_it_is_reaped(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		struct child_exit how;
		struct run r;

		run_init(&r, ends[i].script);
		assert_int_equal(run_start(&r), 0);
		wait_dead(&r.child);
		for (int n = 0; n < 2; n++) {
			assert_true(child_is_dead(r.child.pid, &how));
			assert_int_equal(how.signaled, ends[i].signaled);
			assert_int_equal(how.code, ends[i].code);
		}
		assert_int_equal(kill(r.child.pid, 0), 0); /* the pid is pinned */
		how = run_end(&r);
		assert_int_equal(how.signaled, ends[i].signaled);
		assert_int_equal(how.code, ends[i].code);
		assert_true(how.maxrss_kb > 0);
		assert_false(child_is_dead(r.child.pid, &how));
	}
}

static void test_a_living_child_is_not_reaped(void **state)
{
	struct child_exit how;
	struct run r;
	int in[2];

	(void)state;
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	run_init(&r, "read line");
	r.fds[0] = in[0];
	assert_int_equal(run_start(&r), 0);
	assert_false(child_is_dead(r.child.pid, &how));
	assert_int_equal(child_reap(r.child.pid, &how), -1);
	assert_int_equal(errno, EAGAIN);
	close(in[0]);
	close(in[1]);
	run_end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_fd_map_in_every_order),
		cmocka_unit_test(test_no_other_fd_is_inherited),
		cmocka_unit_test(test_a_failed_start_is_an_errno_and_leaves_nothing),
		cmocka_unit_test(test_a_text_without_interpreter_is_no_program),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_cwd_and_a_program_relative_to_it),
		cmocka_unit_test(test_sessions_and_groups),
		cmocka_unit_test(test_signals_are_as_new),
		cmocka_unit_test(test_signals_on_the_list_are_as_new),
		cmocka_unit_test(test_oom_score),
		cmocka_unit_test(test_other_user),
		cmocka_unit_test(test_it_dies_with_its_parent),
		cmocka_unit_test(test_an_end_is_seen_before_it_is_reaped),
		cmocka_unit_test(test_a_living_child_is_not_reaped),
	};

	/* valgrind 3.19 does not know this call, and nothing can be started without it. */
	if (syscall(SYS_pidfd_open, getpid(), 0) < 0) {
		print_message("skipped: no pidfd_open(2) here\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
