/* t_sig.c - signals as events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "sig.h"

static const int signals[] = {SIGTERM, SIGHUP, SIGTTOU, SIGALRM, SIGUSR1, 0};

struct heard {
	int count[65];
	bool sent[65];
	int n;
	bool stop;
	struct sig_watch *watch;
};

static void on_signal(void *arg, int signo, bool sent)
{
	struct heard *h = arg;

	h->count[signo]++;
	h->sent[signo] = sent;
	h->n++;
	if (h->stop)
		sig_watch_stop(h->watch);
}

struct world {
	struct ev_loop *loop;
	struct sig_watch watch;
	struct heard heard;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->loop = ev_loop_new(EVFLAG_AUTO);
	w->heard.watch = &w->watch;
	*state = w;
	return sig_watch_start(&w->watch, w->loop, signals, on_signal, &w->heard);
}

static int teardown(void **state)
{
	struct world *w = *state;

	sig_watch_stop(&w->watch);
	sig_watch_stop(&w->watch); /* twice does no harm */
	ev_loop_destroy(w->loop);
	free(w);
	return 0;
}

static void test_signals_become_events(void **state)
{
	struct world *w = *state;

	kill(getpid(), SIGTERM);
	kill(getpid(), SIGHUP);
	kill(getpid(), SIGUSR1);
	ev_run(w->loop, EVRUN_NOWAIT);
	assert_int_equal(w->heard.n, 3);
	assert_int_equal(w->heard.count[SIGTERM], 1);
	assert_int_equal(w->heard.count[SIGHUP], 1);
	assert_true(w->heard.sent[SIGTERM]);
}

static void test_sent_by_somebody_or_made_by_the_kernel(void **state)
{
	struct itimerval soon = {.it_value = {.tv_usec = 1}};
	struct world *w = *state;

	sigqueue(getpid(), SIGTTOU, (union sigval){.sival_int = 1});
	setitimer(ITIMER_REAL, &soon, NULL);
	while (w->heard.n < 2)
		ev_run(w->loop, EVRUN_ONCE);
	assert_true(w->heard.sent[SIGTTOU]);
	assert_false(w->heard.sent[SIGALRM]);
}

static void test_one_that_came_before_the_watch_is_not_lost(void **state)
{
	struct world *w = *state;

	sig_watch_stop(&w->watch);
	kill(getpid(), SIGTERM);
	assert_int_equal(sig_watch_start(&w->watch, w->loop, signals, on_signal, &w->heard), 0);
	ev_run(w->loop, EVRUN_NOWAIT);
	assert_int_equal(w->heard.count[SIGTERM], 1);
}

static void test_stop_inside_the_callback(void **state)
{
	struct world *w = *state;

	w->heard.stop = true;
	kill(getpid(), SIGTERM);
	kill(getpid(), SIGHUP);
	kill(getpid(), SIGUSR1);
	ev_run(w->loop, EVRUN_NOWAIT);
	assert_int_equal(w->heard.n, 1);
}

static void test_sigpipe_is_an_errno(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	assert_int_equal(write(ends[1], "x", 1), -1);
	assert_int_equal(errno, EPIPE);
	close(ends[1]);
}

static void test_the_fd_is_close_on_exec(void **state)
{
	struct world *w = *state;

	assert_true(fcntl(w->watch.fd, F_GETFD) & FD_CLOEXEC);
}

static void test_names(void **state)
{
	char buf[16];

	(void)state;
	assert_string_equal(sig_name(SIGKILL, buf), "SIGKILL");
	assert_string_equal(sig_name(SIGSEGV, buf), "SIGSEGV");
	assert_string_equal(sig_name(77, buf), "signal 77");
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_signals_become_events),
		T(test_sent_by_somebody_or_made_by_the_kernel),
		T(test_one_that_came_before_the_watch_is_not_lost),
		T(test_stop_inside_the_callback),
		T(test_sigpipe_is_an_errno),
		T(test_the_fd_is_close_on_exec),
		cmocka_unit_test(test_names),
	};

	sig_block(signals);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
