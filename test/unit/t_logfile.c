/* t_logfile.c - one log file: rotation, removal, full disks; never a torn or lost line untold. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "supervisor/logfile.h"

struct fixture {
	char dir[64];
	char path[128];
	struct logfile *f;
	int64_t now_ms;
};

static void notice(void *arg, int64_t n, struct buf *out)
{
	(void)arg;
	buf_addf(out, "%lld lines dropped\n", (long long)n);
}

static void open_with(struct fixture *x, int64_t max_size, int keep)
{
	snprintf(x->dir, sizeof(x->dir), "/tmp/t_logfile.XXXXXX");
	assert_non_null(mkdtemp(x->dir));
	snprintf(x->path, sizeof(x->path), "%s/demo-0.log", x->dir);
	x->now_ms = 1000;
	x->f = logfile_new(x->path, max_size, keep, notice, x);
	assert_null(logfile_flush(x->f, x->now_ms));
}

static void clean(struct fixture *x)
{
	char *path;

	logfile_free(x->f, x->now_ms);
	unlink(x->path);
	for (int i = 1; i < 100; i++) {
		path = xasprintf("%s.%d", x->path, i);
		unlink(path);
		free(path);
	}
	path = xasprintf("%s/moved", x->dir);
	unlink(path);
	free(path);
	assert_int_equal(rmdir(x->dir), 0);
}

static void add(struct fixture *x, const char *text)
{
	buf_addf(logfile_batch(x->f), "%s\n", text);
}

/* The file's bytes; owned. */
static char *content(const char *path, size_t *len)
{
	struct buf b = BUF_INIT;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	while (fd >= 0 && (n = read(fd, buf_reserve(&b, 65536), 65536)) > 0)
		buf_commit(&b, (size_t)n);
	if (fd >= 0)
		close(fd);
	if (len)
		*len = b.len;
	return buf_detach(&b);
}

static void assert_content(const char *path, const char *want)
{
	char *have = content(path, NULL);

	assert_string_equal(have, want);
	free(have);
}

static void test_lines_and_batches(void **state)
{
	struct fixture x;

	(void)state;
	open_with(&x, 1 << 20, 5);
	assert_content(x.path, "");
	add(&x, "one");
	add(&x, "two");
	assert_content(x.path, ""); /* nothing before the flush */
	assert_null(logfile_flush(x.f, x.now_ms));
	add(&x, "three");
	assert_null(logfile_flush(x.f, x.now_ms));
	assert_content(x.path, "one\ntwo\nthree\n");
	clean(&x);
}

/* Every line is in exactly one of the files, in order, and no file is above the limit. */
static void test_fifty_rotations_lose_nothing(void **state)
{
	struct fixture x;
	struct buf all = BUF_INIT;
	struct buf want = BUF_INIT;
	struct stat st;
	char *path;

	(void)state;
	open_with(&x, 4096, 99);
	for (int i = 0; i < 4200; i++) { /* of 50 bytes each */
		buf_addf(logfile_batch(x.f), "line %06d %037d\n", i, i);
		buf_addf(&want, "line %06d %037d\n", i, i);
		if (i % 7 == 0 || logfile_is_full(x.f))
			assert_null(logfile_flush(x.f, x.now_ms));
	}
	assert_null(logfile_flush(x.f, x.now_ms));
	path = xasprintf("%s.50", x.path);
	assert_int_equal(stat(path, &st), 0);
	free(path);
	for (int i = 99; i >= 0; i--) {
		char *part;
		size_t len;

		path = i ? xasprintf("%s.%d", x.path, i) : xstrdup(x.path);
		part = content(path, &len);
		assert_true(len <= 4096);
		buf_add(&all, part, len);
		free(part);
		free(path);
	}
	assert_int_equal(all.len, want.len);
	assert_memory_equal(all.data, want.data, want.len);
	assert_int_equal(logfile_dropped(x.f), 0);
	buf_release(&all);
	buf_release(&want);
	clean(&x);
}

static void test_one_batch_over_many_files(void **state)
{
	struct fixture x;
	char *path;

	(void)state;
	open_with(&x, 10, 2);
	add(&x, "aaaaaaaa");
	add(&x, "bbbbbbbbbbbbbbbbbbbbbbbbb"); /* longer than a whole file: has one to itself */
	add(&x, "cc");
	add(&x, "dd");
	assert_null(logfile_flush(x.f, x.now_ms));
	assert_content(x.path, "cc\ndd\n");
	path = xasprintf("%s.1", x.path);
	assert_content(path, "bbbbbbbbbbbbbbbbbbbbbbbbb\n");
	free(path);
	path = xasprintf("%s.2", x.path);
	assert_content(path, "aaaaaaaa\n");
	free(path);
	clean(&x);
}

static void test_keep_is_the_limit_and_can_be_lowered(void **state)
{
	struct fixture x;
	struct stat st;
	char *path;

	(void)state;
	open_with(&x, 4, 4);
	for (int i = 0; i < 9; i++)
		add(&x, "abc");
	assert_null(logfile_flush(x.f, x.now_ms));
	path = xasprintf("%s.4", x.path);
	assert_int_equal(stat(path, &st), 0);
	path[strlen(path) - 1] = '5';
	assert_int_not_equal(stat(path, &st), 0);
	logfile_configure(x.f, 4, 1);
	add(&x, "abc");
	assert_null(logfile_flush(x.f, x.now_ms));
	for (char n = '2'; n <= '4'; n++) {
		path[strlen(path) - 1] = n;
		assert_int_not_equal(stat(path, &st), 0);
	}
	path[strlen(path) - 1] = '1';
	assert_int_equal(stat(path, &st), 0);
	logfile_configure(x.f, 4, 0); /* none kept: the file begins anew */
	add(&x, "xyz");
	assert_null(logfile_flush(x.f, x.now_ms));
	assert_content(x.path, "xyz\n");
	free(path);
	clean(&x);
}

static void test_deleted_file_is_made_anew_before_the_next_line(void **state)
{
	struct fixture x;

	(void)state;
	open_with(&x, 1 << 20, 5);
	add(&x, "one");
	assert_null(logfile_flush(x.f, x.now_ms));
	assert_int_equal(unlink(x.path), 0);
	add(&x, "two");
	assert_null(logfile_flush(x.f, x.now_ms));
	assert_content(x.path, "two\n");
	clean(&x);
}

static void test_moved_file_is_noticed_within_a_second(void **state)
{
	struct fixture x;
	char *moved;

	(void)state;
	open_with(&x, 1 << 20, 5);
	moved = xasprintf("%s/moved", x.dir);
	add(&x, "one");
	assert_null(logfile_flush(x.f, x.now_ms));
	assert_int_equal(rename(x.path, moved), 0);
	add(&x, "two");
	assert_null(logfile_flush(x.f, x.now_ms + 10));
	add(&x, "three");
	assert_null(logfile_flush(x.f, x.now_ms + 1500));
	assert_content(moved, "one\ntwo\n");
	assert_content(x.path, "three\n");
	free(moved);
	clean(&x);
}

static void test_reopen_as_logrotate_asks_for_it(void **state)
{
	struct fixture x;
	char *moved;

	(void)state;
	open_with(&x, 1 << 20, 5);
	moved = xasprintf("%s/moved", x.dir);
	add(&x, "one");
	assert_null(logfile_flush(x.f, x.now_ms));
	assert_int_equal(rename(x.path, moved), 0);
	add(&x, "two"); /* collected before the signal: belongs to the old file */
	assert_null(logfile_reopen(x.f, x.now_ms));
	add(&x, "three");
	assert_null(logfile_flush(x.f, x.now_ms));
	assert_content(moved, "one\ntwo\n");
	assert_content(x.path, "three\n");
	assert_int_equal(logfile_dropped(x.f), 0);
	free(moved);
	clean(&x);
}

static void test_directory_gone_is_made_anew(void **state)
{
	struct fixture x;

	(void)state;
	open_with(&x, 1 << 20, 5);
	assert_int_equal(unlink(x.path), 0);
	assert_int_equal(rmdir(x.dir), 0);
	add(&x, "two");
	assert_null(logfile_flush(x.f, x.now_ms));
	assert_content(x.path, "two\n");
	clean(&x);
}

/* A directory at the path: cannot be opened, whoever we are. */
static void test_unopenable_drops_with_a_count_and_recovers(void **state)
{
	struct fixture x;
	const char *why;

	(void)state;
	open_with(&x, 1 << 20, 5);
	assert_int_equal(unlink(x.path), 0);
	assert_int_equal(mkdir(x.path, 0700), 0);
	add(&x, "lost 1");
	why = logfile_flush(x.f, x.now_ms);
	assert_non_null(why);
	assert_non_null(strstr(why, x.path));
	add(&x, "lost 2");
	assert_null(logfile_flush(x.f, x.now_ms + 10)); /* said once */
	add(&x, "lost 3");
	assert_null(logfile_flush(x.f, x.now_ms + 2000)); /* tried again, in vain */
	assert_int_equal(logfile_dropped(x.f), 3);
	assert_int_equal(logfile_unsaid(x.f), 3);
	assert_int_equal(rmdir(x.path), 0);
	add(&x, "lost 4");
	assert_null(logfile_flush(x.f, x.now_ms + 2500)); /* one try a second */
	add(&x, "kept");
	assert_null(logfile_flush(x.f, x.now_ms + 3500));
	assert_content(x.path, "4 lines dropped\nkept\n");
	assert_int_equal(logfile_dropped(x.f), 4);
	assert_int_equal(logfile_unsaid(x.f), 0);
	clean(&x);
}

/* A disk that fills up in the middle of a line, by RLIMIT_FSIZE: the line is completed later. */
static void test_full_disk_tears_no_line(void **state)
{
	struct fixture x;
	struct rlimit was, small;

	(void)state;
	open_with(&x, 1 << 20, 5);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	small = was;
	small.rlim_cur = 12;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	add(&x, "first");
	add(&x, "second half"); /* 6 + 6 bytes fit */
	add(&x, "third");
	add(&x, "fourth");
	assert_non_null(logfile_flush(x.f, x.now_ms));
	add(&x, "fifth");
	assert_null(logfile_flush(x.f, x.now_ms + 500));
	add(&x, "sixth");
	assert_null(logfile_flush(x.f, x.now_ms + 1500));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_content(x.path, "first\nsecond");
	assert_int_equal(logfile_dropped(x.f), 4);
	add(&x, "seventh");
	assert_null(logfile_flush(x.f, x.now_ms + 3000));
	assert_content(x.path, "first\nsecond half\n4 lines dropped\nseventh\n");
	clean(&x);
}

/* The count is told also when no further line comes. */
static void test_count_is_told_without_a_line(void **state)
{
	struct fixture x;

	(void)state;
	open_with(&x, 1 << 20, 5);
	assert_int_equal(unlink(x.path), 0);
	assert_int_equal(mkdir(x.path, 0700), 0);
	add(&x, "lost");
	assert_non_null(logfile_flush(x.f, x.now_ms));
	assert_int_equal(rmdir(x.path), 0);
	assert_null(logfile_flush(x.f, x.now_ms + 1001));
	assert_content(x.path, "1 lines dropped\n");
	clean(&x);
}

static void test_copytruncate_is_seen(void **state)
{
	struct fixture x;
	struct stat st;
	char *path;

	(void)state;
	open_with(&x, 10, 2);
	add(&x, "12345678");
	assert_null(logfile_flush(x.f, x.now_ms));
	assert_int_equal(truncate(x.path, 0), 0);
	add(&x, "abcdefgh");
	assert_null(logfile_flush(x.f, x.now_ms));
	assert_content(x.path, "abcdefgh\n");
	path = xasprintf("%s.1", x.path);
	assert_int_not_equal(stat(path, &st), 0);
	free(path);
	clean(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines_and_batches),
		cmocka_unit_test(test_fifty_rotations_lose_nothing),
		cmocka_unit_test(test_one_batch_over_many_files),
		cmocka_unit_test(test_keep_is_the_limit_and_can_be_lowered),
		cmocka_unit_test(test_deleted_file_is_made_anew_before_the_next_line),
		cmocka_unit_test(test_moved_file_is_noticed_within_a_second),
		cmocka_unit_test(test_reopen_as_logrotate_asks_for_it),
		cmocka_unit_test(test_directory_gone_is_made_anew),
		cmocka_unit_test(test_unopenable_drops_with_a_count_and_recovers),
		cmocka_unit_test(test_full_disk_tears_no_line),
		cmocka_unit_test(test_count_is_told_without_a_line),
		cmocka_unit_test(test_copytruncate_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
