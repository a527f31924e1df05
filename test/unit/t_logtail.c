/* t_logtail.c - the last lines of a log, and what follows while it is rotated. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "supervisor/ctl/logtail.h"

struct fixture {
	char dir[64];
	char *path;
	struct buf got;
};

static void begin(struct fixture *x)
{
	snprintf(x->dir, sizeof(x->dir), "/tmp/t_logtail.XXXXXX");
	assert_non_null(mkdtemp(x->dir));
	x->path = xasprintf("%s/demo-0.log", x->dir);
	buf_init(&x->got);
}

static char *nth(const struct fixture *x, int n)
{
	return n ? xasprintf("%s.%d", x->path, n) : xstrdup(x->path);
}

static void end(struct fixture *x)
{
	for (int i = 0; i < 5; i++) {
		char *path = nth(x, i);

		unlink(path);
		free(path);
	}
	assert_int_equal(rmdir(x->dir), 0);
	free(x->path);
	buf_release(&x->got);
}

static void append(const struct fixture *x, int n, const char *text)
{
	char *path = nth(x, n);
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	free(path);
}

static void rotate(const struct fixture *x)
{
	for (int i = 3; i >= 0; i--) {
		char *from = nth(x, i);
		char *to = nth(x, i + 1);

		rename(from, to);
		free(from);
		free(to);
	}
}

static void on_line(void *arg, struct slice line)
{
	struct fixture *x = arg;

	buf_add(&x->got, line.data, line.len);
	buf_addc(&x->got, '|');
}

static void assert_got(struct fixture *x, const char *want)
{
	assert_string_equal(x->got.data, want);
	buf_clear(&x->got);
}

static void test_last_lines(void **state)
{
	static const struct {
		int64_t n;
		const char *want;
	} cases[] = {
		{0, ""},           {1, "f|"},           {2, "e|f|"},          {3, "d|e|f|"},
		{5, "b|c|d|e|f|"}, {6, "a|b|c|d|e|f|"}, {99, "a|b|c|d|e|f|"}, {-1, "a|b|c|d|e|f|"},
	};
	struct fixture x;

	(void)state;
	begin(&x);
	append(&x, 2, "a\nb\n");
	append(&x, 1, "c\n");
	append(&x, 0, "d\ne\nf\n");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct logtail *t = logtail_new(x.path);

		logtail_last(t, cases[i].n, on_line, &x);
		assert_got(&x, cases[i].want);
		logtail_free(t);
	}
	end(&x);
}

/* Longer than what is read at once, so that the search backwards goes over its borders. */
static void test_last_lines_of_a_large_file(void **state)
{
	struct fixture x;
	struct buf all = BUF_INIT;
	struct logtail *t;

	(void)state;
	begin(&x);
	for (int i = 0; i < 20000; i++)
		buf_addf(&all, "line %d\n", i);
	append(&x, 0, all.data);
	for (int64_t n = 7000; n < 7020; n++) {
		char first[32];

		t = logtail_new(x.path);
		logtail_last(t, n, on_line, &x);
		snprintf(first, sizeof(first), "line %d|", (int)(20000 - n));
		assert_memory_equal(x.got.data, first, strlen(first));
		buf_clear(&x.got);
		logtail_free(t);
	}
	buf_release(&all);
	end(&x);
}

static void test_follows_across_rotations(void **state)
{
	struct fixture x;
	struct logtail *t;

	(void)state;
	begin(&x);
	append(&x, 0, "a\n");
	t = logtail_new(x.path);
	logtail_last(t, 10, on_line, &x);
	assert_got(&x, "a|");
	append(&x, 0, "b\nc");
	logtail_more(t, on_line, &x);
	assert_got(&x, "b|"); /* the line is not finished */
	append(&x, 0, "C\n");
	rotate(&x);
	append(&x, 0, "d\n");
	rotate(&x);
	append(&x, 0, "e\n");
	logtail_more(t, on_line, &x);
	assert_got(&x, "cC|d|e|");
	append(&x, 0, "f\n");
	logtail_more(t, on_line, &x);
	assert_got(&x, "f|");
	logtail_free(t);
	end(&x);
}

static void test_file_comes_later_or_again(void **state)
{
	struct fixture x;
	struct logtail *t;

	(void)state;
	begin(&x);
	t = logtail_new(x.path);
	logtail_last(t, 10, on_line, &x);
	logtail_more(t, on_line, &x);
	assert_got(&x, "");
	append(&x, 0, "a\n");
	logtail_more(t, on_line, &x);
	assert_got(&x, "a|");
	assert_int_equal(unlink(x.path), 0);
	append(&x, 0, "b\n");
	logtail_more(t, on_line, &x);
	assert_got(&x, "b|");
	assert_int_equal(truncate(x.path, 0), 0);
	logtail_more(t, on_line, &x);
	append(&x, 0, "c\n");
	logtail_more(t, on_line, &x);
	assert_got(&x, "c|");
	logtail_free(t);
	end(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_last_lines),
		cmocka_unit_test(test_last_lines_of_a_large_file),
		cmocka_unit_test(test_follows_across_rotations),
		cmocka_unit_test(test_file_comes_later_or_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
