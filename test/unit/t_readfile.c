/* t_readfile.c - small files read at once (common/readfile.h). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "readfile.h"

static char path[] = "/tmp/t_readfile.XXXXXX";

static void put(const char *data, size_t len)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	fclose(f);
}

static void it_appends_and_is_bounded(void **state)
{
	struct buf out = BUF_INIT;
	char big[10000];

	(void)state;
	memset(big, 'x', sizeof(big));
	put(big, sizeof(big));
	buf_adds(&out, "<");
	assert_int_equal(readfile(path, 5000, &out), 0);
	assert_int_equal(out.len, 5001);
	buf_clear(&out);
	assert_int_equal(readfile(path, 1 << 20, &out), 0);
	assert_int_equal(out.len, sizeof(big));
	buf_release(&out);
}

static void what_cannot_be_read_changes_nothing(void **state)
{
	struct buf out = BUF_INIT;

	(void)state;
	buf_adds(&out, "kept");
	assert_int_equal(readfile("/nowhere/at/all", 10, &out), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(readfile("/", 10, &out), -1);
	assert_int_equal(errno, EISDIR);
	assert_string_equal(out.data, "kept");
	buf_release(&out);
}

static void numbers(void **state)
{
	static const struct {
		const char *text;
		int64_t n;
	} cases[] = {{"17\n", 17}, {" -1000 rest", -1000}, {"", 5}, {"garbage", 5}, {"0", 0}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		put(cases[i].text, strlen(cases[i].text));
		assert_int_equal(readfile_number(path, 5), cases[i].n);
	}
	assert_int_equal(readfile_number("/nowhere/at/all", 5), 5);
}

/* A FIFO in the place of a pid file must not hold us up. */
static void a_fifo_does_not_block(void **state)
{
	struct buf out = BUF_INIT;

	(void)state;
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(readfile(path, 10, &out), 0);
	assert_int_equal(out.len, 0);
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_appends_and_is_bounded),
		cmocka_unit_test(what_cannot_be_read_changes_nothing),
		cmocka_unit_test(numbers),
		cmocka_unit_test(a_fifo_does_not_block),
	};
	int fd = mkstemp(path);
	int rc;

	if (fd < 0)
		return 1;
	close(fd);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return rc;
}
