/*
 * t_frames.c - the worker's log pipe: framing, cut lines, a reader that stalls or goes away, what
 * is kept when it is freed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "clock.h"
#include "worker/frames.h"

struct pipe_fixture {
	struct ev_loop *loop;
	int fds[2];
	struct frames *f;
	struct buf got;
};

static void open_fixture(struct pipe_fixture *x, bool framed, size_t line_max)
{
	signal(SIGPIPE, SIG_IGN);
	x->loop = ev_loop_new(EVFLAG_AUTO);
	assert_int_equal(pipe2(x->fds, O_CLOEXEC), 0);
	fcntl(x->fds[0], F_SETFL, O_NONBLOCK);
	buf_init(&x->got);
	x->f = frames_new(x->loop, x->fds[1], framed, 5, line_max);
}

static void turn(struct pipe_fixture *x)
{
	ev_run(x->loop, EVRUN_NOWAIT);
}

/* What is in the pipe now. */
static void drain(struct pipe_fixture *x)
{
	ssize_t n;

	do {
		n = read(x->fds[0], buf_reserve(&x->got, 65536), 65536);
		if (n > 0)
			buf_commit(&x->got, (size_t)n);
	} while (n > 0);
}

static void close_fixture(struct pipe_fixture *x)
{
	if (x->f)
		frames_free(x->f, 0);
	close(x->fds[1]);
	if (x->fds[0] >= 0)
		close(x->fds[0]);
	ev_loop_destroy(x->loop);
	buf_release(&x->got);
}

static void test_framing(void **state)
{
	struct pipe_fixture x;

	(void)state;
	open_fixture(&x, true, 100);
	frames_line(x.f, 'O', "1-1", slice_str("hello world"));
	frames_line(x.f, 'E', "order-9", slice_str(""));
	frames_line(x.f, 'O', "1-1", slice_of("a\0\xff\r", 4));
	frames_log(x.f, LOG_INFO, "all is well", 11);
	frames_log(x.f, LOG_WARNING, "not so well", 11);
	drain(&x);
	assert_int_equal(x.got.len, 0); /* one write a turn */
	turn(&x);
	drain(&x);
#define WANT \
	"O 1-1 hello world\nE order-9 \nO 1-1 a\0\xff\r\nE - all is well\nE - warning: not so " \
	"well\n"
	assert_int_equal(x.got.len, sizeof(WANT) - 1);
	assert_memory_equal(x.got.data, WANT, sizeof(WANT) - 1);
	assert_int_equal(frames_dropped(x.f), 0);
	close_fixture(&x);
}

static void say_late(struct ev_loop *loop, ev_prepare *p, int revents)
{
	(void)loop;
	(void)revents;
	frames_line(p->data, 'E', "-", slice_str("late"));
}

/* Said when the loop is about to sleep: nobody may wake it for a long time. */
static void test_last_moment_of_a_turn(void **state)
{
	struct pipe_fixture x;
	ev_prepare late;

	(void)state;
	open_fixture(&x, true, 100);
	ev_prepare_init(&late, say_late);
	late.data = x.f;
	ev_prepare_start(x.loop, &late);
	turn(&x);
	drain(&x);
	assert_int_equal(x.got.len, 9);
	ev_prepare_stop(x.loop, &late);
	close_fixture(&x);
}

static void test_cut(void **state)
{
	struct pipe_fixture x;

	(void)state;
	open_fixture(&x, true, 4);
	frames_line(x.f, 'O', "1", slice_str("abcdefghij"));
	frames_line(x.f, 'O', "2", slice_str("abcd"));
	turn(&x);
	drain(&x);
	assert_string_equal(x.got.data, "O 1 abcd\nO 1 efgh\nO 1 ij\nO 2 abcd\n");
	close_fixture(&x);
}

static void test_alone(void **state)
{
	struct pipe_fixture x;
	char want[64];

	(void)state;
	open_fixture(&x, false, 100);
	frames_line(x.f, 'O', "1-1", slice_str("hello"));
	turn(&x);
	drain(&x);
	snprintf(want, sizeof(want), " 5 %d O [1-1] hello\n", (int)getpid());
	assert_true(x.got.len > CLOCK_STAMP_LEN);
	assert_string_equal(x.got.data + CLOCK_STAMP_LEN, want);
	close_fixture(&x);
}

/* Nobody reads: memory stays bounded, whole lines are dropped, and the count is said. */
static void test_stalled_reader(void **state)
{
	struct pipe_fixture x;
	char text[200];
	int n_sent = 0, n_got = 0;
	int64_t said = 0;
	long n, last = -1;
	char *end;

	(void)state;
	open_fixture(&x, true, 4096);
	while (frames_dropped(x.f) < 1000) {
		snprintf(text, sizeof(text), "%d %0150d", n_sent++, 0);
		frames_line(x.f, 'O', "1-1", slice_str(text));
		if (n_sent % 100 == 0)
			turn(&x);
		assert_true(n_sent < 100000);
	}
	assert_true(n_sent < 12000); /* about 1 MiB and what a pipe holds */
	for (int i = 0; i < 1000 && !said; i++) {
		turn(&x);
		drain(&x);
		if (x.got.len > 0 && strstr(x.got.data, "lines dropped"))
			said = frames_dropped(x.f);
	}
	assert_int_equal(said, 1000);
	for (int i = 0; i < 1000; i++) {
		turn(&x);
		drain(&x);
	}
	for (char *p = x.got.data; *p; p = strchr(p, '\n') + 1) {
		if (strncmp(p, "E - 1000 log lines dropped", 26) == 0) {
			said = 0;
			continue;
		}
		assert_memory_equal(p, "O 1-1 ", 6);
		n = strtol(p + 6, &end, 10);
		assert_int_equal(strchr(p, '\n') - end, 151);
		assert_true(n > last);
		last = n;
		n_got++;
	}
	assert_int_equal(said, 0);
	assert_int_equal(n_got + 1000, n_sent);
	/* It is said once, and lines go on. */
	buf_clear(&x.got);
	frames_line(x.f, 'O', "1-1", slice_str("again"));
	turn(&x);
	drain(&x);
	assert_string_equal(x.got.data, "O 1-1 again\n");
	close_fixture(&x);
}

static void test_reader_gone(void **state)
{
	struct pipe_fixture x;

	(void)state;
	open_fixture(&x, true, 100);
	close(x.fds[0]);
	x.fds[0] = -1;
	frames_line(x.f, 'O', "1", slice_str("into the void"));
	turn(&x);
	assert_true(frames_dropped(x.f) > 0);
	frames_line(x.f, 'O', "1", slice_str("and again"));
	frames_free(x.f, 10000); /* does not wait for nobody */
	x.f = NULL;
	close_fixture(&x);
}

static void count_room(void *arg)
{
	++*(int *)arg;
}

/* Whoever feeds it is told to stop, and when to go on; nothing is lost. */
static void test_full_and_room(void **state)
{
	struct pipe_fixture x;
	int n_room = 0;
	int n_sent = 0, n_got = 0;

	(void)state;
	open_fixture(&x, true, 4096);
	for (int i = 0; i < 10000; i++)
		frames_line(x.f, 'O', "1-1",
			    slice_str("nobody listens: never full; sixty-four bytes"));
	assert_false(frames_is_full(x.f));
	n_sent = 10000;
	frames_on_room(x.f, count_room, &n_room);
	assert_true(frames_is_full(x.f));
	assert_true(frames_is_full(x.f));
	for (int i = 0; i < 100 && n_room == 0; i++) {
		turn(&x);
		drain(&x);
	}
	assert_int_equal(n_room, 1); /* said once for both */
	assert_false(frames_is_full(x.f));
	for (int i = 0; i < 100; i++) {
		turn(&x);
		drain(&x);
	}
	assert_int_equal(n_room, 1); /* nobody waits any more */
	assert_int_equal(frames_dropped(x.f), 0);
	for (char *p = x.got.data; *p; p = strchr(p, '\n') + 1)
		n_got++;
	assert_int_equal(n_got, n_sent);
	frames_on_room(x.f, NULL, NULL);
	close_fixture(&x);
}

static void *read_to_end(void *arg)
{
	struct pipe_fixture *x = arg;
	ssize_t n;

	fcntl(x->fds[0], F_SETFL, 0);
	do {
		n = read(x->fds[0], buf_reserve(&x->got, 65536), 65536);
		if (n > 0)
			buf_commit(&x->got, (size_t)n);
	} while (n > 0);
	return NULL;
}

static void test_flush_at_free(void **state)
{
	struct pipe_fixture x;
	pthread_t reader;
	int n = 0;

	(void)state;
	open_fixture(&x, true, 4096);
	for (int i = 0; i < 8000; i++)
		frames_line(x.f, 'O', "1-1",
			    slice_str("sixty-four bytes, more or less, of text that "
				      "somebody wants to see"));
	assert_int_equal(frames_dropped(x.f), 0);
	assert_int_equal(pthread_create(&reader, NULL, read_to_end, &x), 0);
	frames_free(x.f, 60000);
	x.f = NULL;
	close(x.fds[1]);
	assert_int_equal(pthread_join(reader, NULL), 0);
	for (char *p = x.got.data; *p; p = strchr(p, '\n') + 1)
		n++;
	assert_int_equal(n, 8000);
	x.fds[1] = dup(x.fds[0]);
	close_fixture(&x);
}

/* A reader that never comes does not keep the worker from leaving. */
static void test_free_does_not_wait(void **state)
{
	struct pipe_fixture x;
	int64_t begin;

	(void)state;
	open_fixture(&x, true, 4096);
	for (int i = 0; i < 3000; i++)
		frames_line(x.f, 'O', "1-1",
			    slice_str("sixty-four bytes, more or less, of text that "
				      "somebody wants to see"));
	begin = clock_mono_ms();
	frames_free(x.f, 20);
	x.f = NULL;
	assert_true(clock_mono_ms() - begin < 5000);
	close_fixture(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_framing),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_last_moment_of_a_turn),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_stalled_reader),
		cmocka_unit_test(test_reader_gone),
		cmocka_unit_test(test_full_and_room),
		cmocka_unit_test(test_flush_at_free),
		cmocka_unit_test(test_free_does_not_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
