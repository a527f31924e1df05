/* t_outlet.c - stdout as a place for lines: stalled readers, full disks, nobody there. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "supervisor/outlet.h"

static void notice(void *arg, int64_t n, struct buf *out)
{
	(void)arg;
	buf_addf(out, "%lld lines dropped\n", (long long)n);
}

/* A pipe nobody reads: adding and flushing return at once, the rest is counted and told. */
static void test_stalled_reader_blocks_nothing(void **state)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct outlet *o;
	struct buf got = BUF_INIT;
	char line[1001];
	int64_t n_whole = 0;
	int64_t n_added = 3000;
	char *said;
	int fds[2];
	ssize_t n;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	o = outlet_new(loop, fds[1], notice, NULL);
	assert_int_equal(fcntl(fds[1], F_GETFL) & O_NONBLOCK, 0); /* the shared one is untouched */
	memset(line, 'z', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	for (int64_t i = 0; i < n_added; i++) {
		outlet_add(o, slice_of(line, sizeof(line)));
		assert_null(outlet_flush(o));
	}
	assert_true(outlet_dropped(o) > 0);
	assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
	while ((n = read(fds[0], buf_reserve(&got, 65536), 65536)) > 0) {
		buf_commit(&got, (size_t)n);
		ev_run(loop, EVRUN_NOWAIT);
	}
	said = strstr(got.data, " lines dropped\n");
	assert_non_null(said);
	while (said[-1] != '\n')
		said--;
	assert_int_equal(strtoll(said, NULL, 10), outlet_dropped(o));
	for (char *p = got.data; (p = strchr(p, '\n')) != NULL; p++)
		n_whole++;
	assert_int_equal(n_whole - 1 + outlet_dropped(o), n_added);
	assert_string_equal(strchr(said, '\n'), "\n"); /* in its place: the end */
	outlet_free(o);
	close(fds[0]);
	close(fds[1]);
	buf_release(&got);
	ev_loop_destroy(loop);
}

static void test_reader_gone_is_told_once(void **state)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct outlet *o;
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	o = outlet_new(loop, fds[1], notice, NULL);
	close(fds[0]);
	outlet_add(o, slice_str("one\n"));
	assert_non_null(outlet_flush(o));
	assert_false(outlet_is_failing(o)); /* it will not pass */
	outlet_add(o, slice_str("two\n"));
	assert_null(outlet_flush(o));
	assert_int_equal(outlet_dropped(o), 2);
	outlet_free(o);
	close(fds[1]);
	ev_loop_destroy(loop);
}

/* A file that may grow to `limit` bytes. */
static void set_limit(rlim_t limit)
{
	struct rlimit r;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &r), 0);
	r.rlim_cur = limit;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

static void add(struct outlet *o, const char *line)
{
	outlet_add(o, slice_str(line));
}

static const char *read_all(int fd, char out[1024])
{
	ssize_t n = pread(fd, out, 1023, 0);

	assert_true(n >= 0);
	out[n] = '\0';
	return out;
}

static int temporary_file(void)
{
	char path[] = "/tmp/t_outlet.XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	return fd;
}

/* The disk is full in the middle of a line, then it is not: lines are lost, counted, and on. */
static void test_full_disk_silences_only_while_it_is_full(void **state)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	int fd = temporary_file();
	char text[1024];
	struct outlet *o;

	(void)state;
	o = outlet_new(loop, fd, notice, NULL);
	add(o, "first\n");
	assert_null(outlet_flush(o));
	set_limit(10); /* "seco" still goes */
	add(o, "second\n");
	add(o, "lost 1\n");
	assert_string_equal(outlet_flush(o), "File too large; lines for it are dropped until it "
					     "works");
	assert_true(outlet_is_failing(o));
	add(o, "lost 2\n");
	assert_null(outlet_flush(o)); /* told once */
	outlet_retry(o);
	assert_true(outlet_is_failing(o));
	assert_string_equal(read_all(fd, text), "first\nseco");
	set_limit(20); /* the torn line, and half of the notice */
	outlet_retry(o);
	assert_true(outlet_is_failing(o));
	add(o, "lost 3\n");
	set_limit(RLIM_INFINITY);
	outlet_retry(o);
	assert_false(outlet_is_failing(o));
	add(o, "last\n");
	assert_null(outlet_flush(o));
	assert_string_equal(read_all(fd, text), "first\nsecond\n2 lines dropped\n1 lines dropped\n"
						"last\n");
	assert_int_equal(outlet_dropped(o), 3);
	outlet_free(o);
	close(fd);
	ev_loop_destroy(loop);
}

/* A notice that was not written is no line that was dropped: what it said is said later. */
static void test_notice_that_met_a_full_disk_is_said_later(void **state)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	int fd = temporary_file();
	char text[1024];
	struct outlet *o;

	(void)state;
	o = outlet_new(loop, fd, notice, NULL);
	set_limit(0);
	for (int i = 0; i < 5; i++) {
		add(o, "lost\n");
		outlet_flush(o);
		outlet_retry(o);
	}
	assert_true(outlet_is_failing(o));
	set_limit(RLIM_INFINITY);
	outlet_free(o); /* the last chance */
	assert_string_equal(read_all(fd, text), "5 lines dropped\n");
	close(fd);
	ev_loop_destroy(loop);
}

static void test_dev_full_passes_too(void **state)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct outlet *o;

	(void)state;
	assert_true(fd >= 0);
	o = outlet_new(loop, fd, notice, NULL);
	add(o, "one\n");
	assert_non_null(strstr(outlet_flush(o), "No space left on device"));
	assert_true(outlet_is_failing(o));
	ev_run(loop, EVRUN_NOWAIT); /* no watcher spins on it */
	assert_int_equal(outlet_dropped(o), 1);
	outlet_free(o);
	close(fd);
	ev_loop_destroy(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stalled_reader_blocks_nothing),
		cmocka_unit_test(test_reader_gone_is_told_once),
		cmocka_unit_test(test_full_disk_silences_only_while_it_is_full),
		cmocka_unit_test(test_notice_that_met_a_full_disk_is_said_later),
		cmocka_unit_test(test_dev_full_passes_too),
	};

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
