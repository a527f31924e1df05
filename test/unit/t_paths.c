/* t_paths.c - the trees by who asks, their making, the wall in /tmp; CPUs of a quota. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "conf_row.h"
#include "cpus.h"
#include "paths.h"

#define MANY 4

static void test_trees(void **state)
{
	static const struct {
		uid_t uid;
		const char *env[MANY + 1];
		const char *config, *run, *state, *log;
	} cases[] = {
		{0, {NULL}, "/etc/redisq/n.ini", "/run/n", "/var/lib/n", "/var/log/n"},
		{0,
		 {"XDG_RUNTIME_DIR=/x", "HOME=/root", "XDG_STATE_HOME=/y"},
		 "/etc/redisq/n.ini",
		 "/run/n",
		 "/var/lib/n",
		 "/var/log/n"},
		{0,
		 {"RUNTIME_DIRECTORY=/run/a:/run/b", "STATE_DIRECTORY=/s", "LOGS_DIRECTORY=/l"},
		 "/etc/redisq/n.ini",
		 "/run/a",
		 "/s",
		 "/l"},
		{1000,
		 {"HOME=/home/u"},
		 "/home/u/.config/redisq/n.ini",
		 "/tmp/redisq-1000/n",
		 "/home/u/.local/state/n",
		 "/home/u/.local/state/n/log"},
		{1000,
		 {"HOME=/home/u", "XDG_CONFIG_HOME=/c/", "XDG_RUNTIME_DIR=/run/user/1000",
		  "XDG_STATE_HOME=/st"},
		 "/c/redisq/n.ini",
		 "/run/user/1000/n",
		 "/st/n",
		 "/st/n/log"},
		/* Relative ones are to be ignored, empty ones are not set. */
		{1000,
		 {"HOME=/h", "XDG_RUNTIME_DIR=run", "XDG_STATE_HOME="},
		 "/h/.config/redisq/n.ini",
		 "/tmp/redisq-1000/n",
		 "/h/.local/state/n",
		 "/h/.local/state/n/log"},
		{1000,
		 {"HOME=/h", "STATE_DIRECTORY=/s"},
		 "/h/.config/redisq/n.ini",
		 "/tmp/redisq-1000/n",
		 "/s",
		 "/s/log"},
		{1000,
		 {"HOME=/"},
		 "/.config/redisq/n.ini",
		 "/tmp/redisq-1000/n",
		 "/.local/state/n",
		 "/.local/state/n/log"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *env[MANY + 1] = {NULL};
		struct paths_who who = {.uid = cases[i].uid, .env = env};
		const char *const want[] = {cases[i].config, cases[i].run, cases[i].state,
					    cases[i].log};

		for (size_t k = 0; k < MANY && cases[i].env[k]; k++)
			env[k] = xstrdup(cases[i].env[k]);
		char *got[] = {paths_config_file(&who, "n"), paths_run_dir(&who, "n"),
			       paths_state_dir(&who, "n"), paths_log_dir(&who, "n")};
		for (size_t k = 0; k < ARRAY_LEN(got); k++) {
			assert_string_equal(got[k], want[k]);
			free(got[k]);
		}
		for (size_t k = 0; env[k]; k++)
			free(env[k]);
	}
}

static void test_files(void **state)
{
	struct paths_who who = {.uid = 0};
	char *pid = paths_pid_file(&who, "n"), *sock = paths_control_socket(&who, "n");

	(void)state;
	assert_string_equal(pid, "/run/n/supervisor.pid");
	assert_string_equal(sock, "/run/n/control.sock");
	free(pid);
	free(sock);
}

static void test_absolute(void **state)
{
	char *cwd = getcwd(NULL, 0), *got, *want;

	(void)state;
	got = paths_absolute("/a/b");
	assert_string_equal(got, "/a/b");
	free(got);
	got = paths_absolute("./x/y");
	want = xasprintf("%s/x/y", cwd);
	assert_string_equal(got, want);
	free(got);
	free(want);
	got = paths_absolute(".");
	assert_string_equal(got, cwd);
	free(got);
	free(cwd);
}

static void test_make(void **state)
{
	char top[] = "/tmp/t_paths.XXXXXX";
	struct paths_who who = paths_self();
	struct err e = {0};
	struct stat st;
	char *dir, *file;

	(void)state;
	assert_non_null(mkdtemp(top));
	dir = xasprintf("%s/a/b", top);
	file = xasprintf("%s/a/b/c/f", top);
	assert_int_equal(paths_make(&who, dir, 0750, &e), 0);
	assert_int_equal(paths_make(&who, dir, 0750, &e), 0); /* again is fine */
	assert_int_equal(stat(dir, &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(st.st_mode & 027, 020 & st.st_mode);
	assert_int_equal(paths_make_parent(&who, file, 0700, &e), 0);
	assert_int_equal(mknod(file, S_IFREG | 0600, 0), 0);
	assert_int_equal(paths_make(&who, file, 0700, &e), -1);
	assert_non_null(strstr(e.text, "not a directory"));
	unlink(file);
	for (char *slash; strlen(file) > strlen(top); *slash = '\0') {
		slash = strrchr(file, '/');
		rmdir(file);
	}
	rmdir(top);
	free(dir);
	free(file);
}

/* /proc takes no directory. The words with a '_' are keys, but for the variable. */
static void test_the_keys_to_set_exist(void **state)
{
	struct paths_who who = paths_self();
	struct err e = {0};
	int n = 0;

	(void)state;
	assert_int_equal(paths_make(&who, "/proc/redisq/run", 0755, &e), -1);
	for (const char *p = e.text; *p; p += strspn(p, " ,;:")) {
		size_t len = strcspn(p, " ,;:");
		char *word = xmemdup0(p, len);

		if (strchr(word, '_') && strcmp(word, "XDG_RUNTIME_DIR") != 0) {
			if (!conf_row(CONF_SUPERVISOR, word))
				fail_msg("there is no key %s", word);
			n++;
		}
		free(word);
		p += len;
	}
	assert_int_equal(n, 4);
}

/* A uid that nobody has: its directory in /tmp is ours to play with. */
#define PLAY_UID 4000000123u

static void test_wall(void **state)
{
	struct paths_who who = {.uid = PLAY_UID};
	char *top = xasprintf("/tmp/redisq-%u", PLAY_UID), *run = xasprintf("%s/n/s", top);
	struct err e = {0};

	(void)state;
	rmdir(top);
	unlink(top);
	assert_int_equal(paths_check_run(&who, run, &e), 0); /* not there: no error */
	assert_int_equal(mkdir(top, 0700), 0);
	assert_int_equal(paths_check_run(&who, run, &e), -1); /* it is ours, not PLAY_UID's */
	assert_non_null(strstr(e.text, "belongs to uid"));
	assert_int_equal(paths_make(&who, run, 0755, &e), -1);
	assert_int_equal(rmdir(top), 0);
	assert_int_equal(symlink("/tmp", top), 0);
	assert_int_equal(paths_check_run(&who, run, &e), -1);
	assert_non_null(strstr(e.text, "not a directory"));
	unlink(top);
	/* Elsewhere nothing is demanded. */
	assert_int_equal(paths_check_run(&who, "/run/n/control.sock", &e), 0);
	free(run);
	free(top);
}

static void test_wall_mode(void **state)
{
	struct paths_who who = paths_self();
	char *top = xasprintf("/tmp/redisq-%lu", (unsigned long)who.uid);
	char *run = xasprintf("%s/t_paths", top);
	struct err e = {0};
	struct stat st;

	(void)state;
	assert_int_equal(paths_make(&who, run, 0755, &e), 0);
	assert_int_equal(stat(top, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700); /* whatever the mode below */
	assert_int_equal(chmod(top, 0770), 0);
	assert_int_equal(paths_check_run(&who, run, &e), -1);
	assert_non_null(strstr(e.text, "chmod 700"));
	assert_int_equal(chmod(top, 0700), 0);
	assert_int_equal(paths_check_run(&who, run, &e), 0);
	rmdir(run);
	rmdir(top); /* stays if somebody uses it */
	free(run);
	free(top);
}

static void test_cpus(void **state)
{
	static const struct {
		const char *text;
		int want;
	} cases[] = {
		{"max 100000\n", 0},
		{"100000 100000\n", 1},
		{"150000 100000\n", 2},
		{"10000 100000\n", 1},
		{"400000 100000", 4},
		{"-1 100000", 0},
		{"", 0},
		{"100", 0},
		{"100 0", 0},
		{"9223372036854775807 1", 8192},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(cpus_of_quota(cases[i].text), cases[i].want);
	assert_in_range(cpus_available(), 1, sysconf(_SC_NPROCESSORS_CONF));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trees),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_absolute),
		cmocka_unit_test(test_make),
		cmocka_unit_test(test_the_keys_to_set_exist),
		cmocka_unit_test(test_wall),
		cmocka_unit_test(test_wall_mode),
		cmocka_unit_test(test_cpus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
