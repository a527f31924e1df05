/* t_conf_program.c - what looks wrong about a handler's program and its scripts. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "conf_program.h"

static char dir[64]; /* of the test's own files */

static char *put_file(const char *name, const char *text, size_t len)
{
	char *path = xasprintf("%s/%s", dir, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), (ssize_t)len);
	close(fd);
	return path;
}

static int make_dir(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/t_conf_program.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	static const char *const names[] = {"x", "worker.js", "/"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char *path = xasprintf("%s/%s", dir, names[i]);

		(void)remove(path);
		free(path);
	}
	return 0;
}

/* A file's beginning, and what is said of it; "" = nothing. */
static void test_program(void **state)
{
	static const char elf[] = "\177ELF\2\1\1";
	static const struct {
		const char *text, *says;
	} cases[] = {
		{elf, ""},
		{"#!/bin/sh\nexit 0\n", ""},
		{"#! /bin/sh -e\n", ""},
		{"#!/bin/sh", ""},
		{"#!/usr/bin/env sh\n", ""},
		{"#!/usr/bin/env -S no-such-program-here -x\n", ""},
		{"#!/usr/bin/env A=1 no-such-program-here\n", ""},
		{"#!/usr/bin/env no-such-program-here\n",
		 "/x begins with #!/usr/bin/env no-such-program-here, and no-such-program-here is "
		 "not on PATH (/usr/bin:/bin); install it"},
		{"#!/no/such/python3\n", "#!/no/such/python3, and /no/such/python3: No such file"},
		{"#!/no/such/python3 -u\n", "#!/no/such/python3, and /no/such/python3: No such"},
		{"#!/etc/passwd\n", "and /etc/passwd: Permission denied"},
		{"#!\n", "names no interpreter"},
		{"#!/bin/sh\r\nexit 0\r\n", "ends in a carriage return"},
		{"echo hello\n", "/x is neither a program nor a script with a #! line; write"},
		{"", "neither a program nor a script"},
		{"#", "neither a program nor a script"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *path = put_file("x", cases[i].text, strlen(cases[i].text));
		struct buf out = BUF_INIT;

		conf_program_doubt(path, "/usr/bin:/bin", &out);
		if (cases[i].says[0] ? !strstr(out.data, cases[i].says) : out.len > 0)
			fail_msg("%s: says \"%s\"", cases[i].text, out.data);
		buf_release(&out);
		free(path);
	}
}

static void test_program_that_cannot_be_read(void **state)
{
	struct buf out = BUF_INIT;

	(void)state;
	conf_program_doubt("/no/such/file", "/bin", &out);
	assert_int_equal(out.len, 0);
	buf_release(&out);
}

/* A handler's words after the program; the index of the one that is missing, 0 = none. */
static void test_words(void **state)
{
	static const struct {
		const char *words[5];
		size_t missing;
	} cases[] = {
		{{"node", "worker.js"}, 0},
		{{"node", "./worker.js"}, 0},
		{{"node", "gone.js"}, 1},
		{{"node", "--enable-source-maps", "gone.mjs"}, 2},
		{{"python3", "-u", "/srv/no-such/app.py"}, 2},
		{{"timeout", "10", "gone.sh"}, 2},
		{{"ruby", "bin/gone"}, 1},
		{{"php", "gone.php", "worker.js"}, 1},
		{{"ruby", "-r", "./gone.rb"}, 2},
		{{"render", "--out", "/tmp/no-such-dir/x.mp4"}, 0}, /* an option's value */
		{{"render", "--out=/tmp/no-such-dir/x"}, 0},
		{{"sh", "-c", "cat /no/such; exec ./gone.sh"}, 0},
		{{"curl", "https://example.org/x.php"}, 0},
		{{"find", "/no/such/*.py"}, 0},
		{{"echo", "fast", ".sh"}, 0},
		{{"echo", ""}, 0},
	};

	(void)state;
	free(put_file("worker.js", "1\n", 2));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct strv argv = {0};

		for (size_t k = 0; k < ARRAY_LEN(cases[i].words) && cases[i].words[k]; k++)
			strv_add(&argv, cases[i].words[k]);
		for (size_t k = 1; k < argv.n; k++) {
			char *path = conf_program_missing(&argv, k, dir);

			if (!!path != (k == cases[i].missing))
				fail_msg("%s: %s", argv.v[k], path ? path : "no doubt");
			free(path);
		}
		strv_release(&argv);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_program),
		cmocka_unit_test(test_program_that_cannot_be_read),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
