/* t_chan.c - lines between two ends of a socketpair in one loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "chan.h"
#include "log.h"

struct end {
	struct chan *chan;
	struct buf heard; /* "word(rest)" */
	int n_eof;
	bool free_at_word;
	bool free_at_eof;
};

struct pair {
	struct ev_loop *loop;
	int fds[2];
	struct end a, b;
};

static void on_word(void *arg, const char *word, const char *rest)
{
	struct end *e = arg;

	buf_addf(&e->heard, "%s(%s)", word, rest);
	if (e->free_at_word) {
		chan_free(e->chan);
		e->chan = NULL;
	}
}

static void on_eof(void *arg)
{
	struct end *e = arg;

	e->n_eof++;
	if (e->free_at_eof) {
		chan_free(e->chan);
		e->chan = NULL;
	}
}

static void quiet(void *arg, enum log_level level, const char *text, size_t len)
{
	(void)arg;
	(void)level;
	(void)text;
	(void)len;
}

static int setup(void **state)
{
	struct pair *p = xcalloc(1, sizeof(*p));

	log_set_writer(quiet, NULL);
	p->loop = ev_loop_new(EVFLAG_AUTO);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, p->fds) < 0)
		return -1;
	p->a.chan = chan_new(p->loop, p->fds[0], on_word, on_eof, &p->a);
	p->b.chan = chan_new(p->loop, p->fds[1], on_word, on_eof, &p->b);
	buf_init(&p->a.heard);
	buf_init(&p->b.heard);
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct pair *p = *state;

	chan_free(p->a.chan);
	chan_free(p->b.chan);
	buf_release(&p->a.heard);
	buf_release(&p->b.heard);
	ev_loop_destroy(p->loop);
	free(p);
	return 0;
}

static void turn(struct pair *p)
{
	for (int i = 0; i < 20; i++)
		ev_run(p->loop, EVRUN_NOWAIT);
}

static void close_a(struct pair *p)
{
	chan_free(p->a.chan);
	p->a.chan = NULL;
}

static void test_words_and_their_rest(void **state)
{
	struct pair *p = *state;

	chan_say(p->a.chan, "quiet");
	chan_say(p->a.chan, "credit %d", 4);
	chan_say(p->a.chan, "redis-wait %s", "connect: two\nlines  kept");
	chan_say(p->b.chan, "ready worker_1");
	turn(p);
	assert_string_equal(p->b.heard.data,
			    "quiet()credit(4)redis-wait(connect: two lines  kept)");
	assert_string_equal(p->a.heard.data, "ready(worker_1)");
}

static void test_fds_are_close_on_exec_and_do_not_block(void **state)
{
	struct pair *p = *state;

	assert_true(fcntl(p->fds[0], F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(p->fds[0], F_GETFL) & O_NONBLOCK);
}

static void test_lines_arrive_in_any_pieces(void **state)
{
	static const char text[] = "credit 12\n\nquiet\n";
	struct pair *p = *state;

	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		assert_int_equal(send(p->fds[0], text + i, 1, 0), 1);
		turn(p);
	}
	assert_string_equal(p->b.heard.data, "credit(12)quiet()");
}

static void test_a_line_too_long_is_cut_by_us_and_ignored_from_others(void **state)
{
	struct pair *p = *state;
	char *big = xcalloc(CHAN_LINE_MAX * 3, 1);

	memset(big, 'x', CHAN_LINE_MAX * 3 - 1);
	chan_say(p->a.chan, "redis-wait %s", big);
	turn(p);
	assert_int_equal(p->b.heard.len, CHAN_LINE_MAX + 1); /* the blank became two brackets */
	buf_clear(&p->b.heard);
	assert_true(send(p->fds[0], big, strlen(big), 0) == (ssize_t)strlen(big));
	assert_int_equal(send(p->fds[0], "\nquiet\n", 7, 0), 7);
	turn(p);
	assert_string_equal(p->b.heard.data, "quiet()");
	free(big);
}

static void test_last_words_come_before_the_end(void **state)
{
	struct pair *p = *state;

	/* b writes into a socket that is already closed, and still hears what was said before. */
	chan_say(p->a.chan, "refused no such group");
	close_a(p);
	chan_say(p->b.chan, "credit 1");
	chan_say(p->b.chan, "credit 2");
	assert_int_equal(p->b.n_eof, 0);
	turn(p);
	assert_string_equal(p->b.heard.data, "refused(no such group)");
	assert_int_equal(p->b.n_eof, 1);
	chan_say(p->b.chan, "credit 3"); /* said to nobody */
	turn(p);
	assert_int_equal(p->b.n_eof, 1);
}

static void test_a_peer_that_left_words_unread(void **state)
{
	struct pair *p = *state;

	chan_say(p->b.chan, "credit 1");
	chan_say(p->a.chan, "freed 1");
	close_a(p); /* its side had bytes unread: ECONNRESET for b, after the words */
	turn(p);
	assert_string_equal(p->b.heard.data, "freed(1)");
	assert_int_equal(p->b.n_eof, 1);
}

static void test_half_a_line_at_the_end_is_no_word(void **state)
{
	struct pair *p = *state;

	assert_int_equal(send(p->fds[0], "quiet\nstop", 10, 0), 10);
	close_a(p);
	turn(p);
	assert_string_equal(p->b.heard.data, "quiet()");
	assert_int_equal(p->b.n_eof, 1);
}

static void test_free_inside_on_word(void **state)
{
	struct pair *p = *state;

	p->b.free_at_word = true;
	chan_say(p->a.chan, "one");
	chan_say(p->a.chan, "two");
	turn(p);
	assert_string_equal(p->b.heard.data, "one()");
	assert_int_equal(p->b.n_eof, 0);
	assert_int_equal(p->a.n_eof, 1);
}

static void test_free_inside_on_eof(void **state)
{
	struct pair *p = *state;

	p->b.free_at_eof = true;
	close_a(p);
	turn(p);
	assert_int_equal(p->b.n_eof, 1);
	assert_null(p->b.chan);
}

static void test_a_peer_that_reads_nothing_counts_as_gone(void **state)
{
	struct pair *p = *state;
	char text[1000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	close_a(p);
	/* An end that nobody reads, beside the loop. */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p->fds), 0);
	p->a.chan = chan_new(p->loop, p->fds[0], on_word, on_eof, &p->a);
	for (int i = 0; i < 2000; i++)
		chan_say(p->a.chan, "redis-wait %s", text);
	assert_int_equal(p->a.n_eof, 0); /* not inside chan_say() */
	turn(p);
	assert_int_equal(p->a.n_eof, 1);
	close(p->fds[1]);
}

static void test_much_at_once_arrives_whole(void **state)
{
	struct pair *p = *state;

	for (int i = 0; i < 10000; i++)
		chan_say(p->a.chan, "freed %d", i % 10);
	for (int i = 0; i < 100; i++)
		turn(p);
	assert_int_equal(p->b.heard.len, 10000 * strlen("freed(1)"));
	assert_int_equal(p->a.n_eof, 0);
}

static void test_flush_is_bounded_in_time(void **state)
{
	struct pair *p = *state;
	char text[1000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < 230; i++) /* more than a socket holds, less than the backlog's bound */
		chan_say(p->a.chan, "redis-wait %s", text);
	chan_flush(p->a.chan, 1);
	for (int i = 0; i < 100; i++)
		turn(p);
	assert_int_equal(p->b.heard.len, 230 * (strlen("redis-wait()") + 999));
}

static void test_numbers(void **state)
{
	static const struct {
		const char *text;
		int64_t want;
	} cases[] = {{"4", 4},   {"0", 0},   {"25000 x", 25000}, {"", -1},
		     {"-1", -1}, {"4x", -1}, {" 4", -1},         {"99999999999999999999", -1}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(chan_number(cases[i].text), cases[i].want);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_words_and_their_rest),
		T(test_fds_are_close_on_exec_and_do_not_block),
		T(test_lines_arrive_in_any_pieces),
		T(test_a_line_too_long_is_cut_by_us_and_ignored_from_others),
		T(test_last_words_come_before_the_end),
		T(test_a_peer_that_left_words_unread),
		T(test_half_a_line_at_the_end_is_no_word),
		T(test_free_inside_on_word),
		T(test_free_inside_on_eof),
		T(test_a_peer_that_reads_nothing_counts_as_gone),
		T(test_much_at_once_arrives_whole),
		T(test_flush_is_bounded_in_time),
		cmocka_unit_test(test_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
