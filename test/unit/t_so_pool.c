/* t_so_pool.c - jobs go to threads and come back: all of them, once, and nobody is forgotten. Meant
 * to be run with the thread sanitizer too (make VARIANT=tsan unit T=t_so_pool). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "buf.h"
#include "worker/so_pool.h"

#define N_MAX 64

struct job {
	struct so_node node; /* first */
	int n_runs;          /* whoever has the job may touch these */
	int thread;
	int waits_for; /* pipe to read a byte from, -1 = none */
};

static _Atomic int running, most;

static void work(void *arg, struct so_node *node, int thread)
{
	struct job *j = container_of(node, struct job, node);
	int now = atomic_fetch_add(&running, 1) + 1, seen = atomic_load(&most);
	char byte;

	(void)arg;
	while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
		;
	j->n_runs++;
	j->thread = thread;
	if (j->waits_for >= 0)
		assert_int_equal(read(j->waits_for, &byte, 1), 1);
	atomic_fetch_sub(&running, 1);
}

static const struct so_pool_events only_work = {.work = work};

/* A turn of the loop: sleeps unless there is something, and takes what there is. */
static struct so_node *sleep_and_take(struct so_pool *p)
{
	struct pollfd fd = {.fd = so_pool_fd(p), .events = POLLIN};
	int ready = 0;

	if (!so_pool_before_sleep(p))
		ready = poll(&fd, 1, 20000);
	assert_int_not_equal(ready, -1);
	so_pool_awake(p, ready > 0);
	return so_pool_take(p);
}

static int take_all(struct so_pool *p, int n)
{
	int turns = 0;

	for (int got = 0; got < n; turns++) {
		for (struct so_node *i = sleep_and_take(p); i; i = i->next)
			got++;
		assert_in_range(turns, 0, 100000);
	}
	return turns;
}

static struct job *jobs_for(int n)
{
	struct job *jobs = xcalloc((size_t)n, sizeof(*jobs));

	atomic_store(&most, 0);
	for (int i = 0; i < n; i++)
		jobs[i] = (struct job){.waits_for = -1};
	return jobs;
}

static void test_each_job_runs_once_and_comes_back(void **state)
{
	struct so_pool *p = so_pool_new(8, &only_work, NULL);
	struct job *jobs = jobs_for(8);

	(void)state;
	for (int round = 1; round <= 3000; round++) {
		int n = 1 + round % 8;

		for (int i = 0; i < n; i++)
			so_pool_push(p, &jobs[i].node);
		take_all(p, n);
		for (int i = 0; i < n; i++) {
			assert_int_equal(jobs[i].n_runs, 1);
			assert_in_range(jobs[i].thread, 0, 7);
			jobs[i].n_runs = 0;
		}
	}
	so_pool_free(p);
	free(jobs);
}

/* Pushed again as they come back: the loop and the threads are at it at the same time. */
static void test_a_stream_of_jobs(void **state)
{
	struct so_pool *p = so_pool_new(4, &only_work, NULL);
	struct job *jobs = jobs_for(4);
	int pushed = 4, back = 0;

	(void)state;
	for (int i = 0; i < 4; i++)
		so_pool_push(p, &jobs[i].node);
	while (back < 20000) {
		struct so_node *n = sleep_and_take(p), *next;

		for (; n; n = next) {
			next = n->next;
			back++;
			if (pushed < 20000) {
				so_pool_push(p, n);
				pushed++;
			}
		}
	}
	for (int i = 0; i < 4; i++)
		back -= jobs[i].n_runs;
	assert_int_equal(back, 0);
	so_pool_free(p);
	free(jobs);
}

/* After many quick ones too: whoever would rather go on alone has to find out that he must not. */
static void test_jobs_that_take_their_time_all_run_at_once(void **state)
{
	struct so_pool *p = so_pool_new(N_MAX, &only_work, NULL);
	struct job *jobs = jobs_for(N_MAX);
	char bytes[N_MAX] = {0};
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < N_MAX; i++) {
			jobs[i].waits_for = -1;
			so_pool_push(p, &jobs[i].node);
		}
		take_all(p, N_MAX);
		atomic_store(&most, 0);
		for (int i = 0; i < N_MAX; i++) {
			jobs[i].waits_for = fds[0];
			so_pool_push(p, &jobs[i].node);
		}
		while (atomic_load(&most) < N_MAX) {
			struct pollfd fd = {.fd = so_pool_fd(p), .events = POLLIN};

			if (!so_pool_before_sleep(p))
				poll(&fd, 1, 1);
			so_pool_awake(p, false);
			assert_null(so_pool_take(p));
		}
		assert_int_equal(write(fds[1], bytes, N_MAX), N_MAX);
		take_all(p, N_MAX);
	}
	so_pool_free(p);
	close(fds[0]);
	close(fds[1]);
	free(jobs);
}

/* What is posted comes back in the order in which it was posted. */
static void test_order(void **state)
{
	struct so_pool *p = so_pool_new(1, &only_work, NULL);
	struct so_node nodes[3] = {{0}};
	struct so_node *n;
	int i = 0;

	(void)state;
	assert_null(so_pool_take(p));
	for (int k = 0; k < 3; k++)
		so_pool_post(p, &nodes[k]);
	assert_true(so_pool_before_sleep(p));
	for (n = so_pool_take(p); n; n = n->next) {
		assert_ptr_equal(n, &nodes[i++]);
		assert_false(n->ended);
	}
	assert_int_equal(i, 3);
	assert_null(so_pool_take(p));
	so_pool_free(p);
}

static void spin_forever(void *arg, struct so_node *node, int thread)
{
	(void)node;
	(void)thread;
	for (;;)
		atomic_fetch_add((_Atomic unsigned long *)arg, 1);
}

/* In a child: such a process can only end. */
static void test_a_thread_is_stopped_in_mid_work(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0) {
		_Atomic unsigned long count = 0, before;
		const struct so_pool_events events = {.work = spin_forever};
		struct so_pool *p = so_pool_new(1, &events, &count);
		struct so_node job = {0};

		so_pool_push(p, &job);
		while (atomic_load(&count) < 1000)
			;
		if (!so_pool_stop_thread(p, 0))
			_exit(1);
		before = atomic_load(&count);
		poll(NULL, 0, 20);
		_exit(atomic_load(&count) == atomic_load(&before) ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ------------------------------------------------------------------ carried by any thread */

/* A loop whose turns push what came back again: quick jobs, and now and then one that waits until
 * the loop has gone on for a while without it. */
struct scene {
	struct so_pool *pool;
	struct job jobs[4];
	int pushed, back, want, turns;
	int slow_every;       /* 0 = none is slow */
	_Atomic int slow;     /* jobs that wait */
	_Atomic int progress; /* jobs that came back */
	pthread_t carriers[64];
	int n_carriers;
	_Atomic unsigned long carrier; /* the thread that had the last turn */
	_Atomic int by_carrier;        /* jobs that it ran */
	pthread_t first;
	int until_carried;       /* > 0: on and on until the carrier has run so many */
	bool hang;               /* a job in the first thread never ends */
	_Atomic int hangs_since; /* progress then, 0 = not yet */
};

static void scene_work(void *arg, struct so_node *node, int thread)
{
	struct scene *s = arg;
	struct job *j = container_of(node, struct job, node);
	int seen = atomic_load(&s->progress);

	j->n_runs++;
	j->thread = thread;
	atomic_fetch_add(&s->by_carrier, atomic_load(&s->carrier) == pthread_self());
	if (s->hang && thread == 4 && seen > 0) {
		atomic_store(&s->hangs_since, seen);
		for (;;)
			pause();
	}
	if (j->waits_for < 0)
		return;
	atomic_fetch_add(&s->slow, 1);
	if (s->slow_every < 100) /* all four may be slow at the same time */
		poll(NULL, 0, 3);
	else
		while (atomic_load(&s->progress) < seen + 100)
			poll(NULL, 0, 1);
	atomic_fetch_sub(&s->slow, 1);
}

static void note_carrier(struct scene *s)
{
	for (int i = 0; i < s->n_carriers; i++)
		if (pthread_equal(s->carriers[i], pthread_self()))
			return;
	assert_in_range(s->n_carriers, 0, 63);
	s->carriers[s->n_carriers++] = pthread_self();
}

static void scene_push(struct scene *s, struct job *j)
{
	bool slow = s->slow_every && s->pushed % s->slow_every == s->slow_every - 1 &&
		    s->want - s->pushed > 500;

	j->waits_for = slow ? 0 : -1;
	s->pushed++;
	so_pool_push(s->pool, &j->node);
}

static bool scene_turn(void *arg)
{
	struct scene *s = arg;
	struct so_node *n = sleep_and_take(s->pool), *next;

	note_carrier(s);
	atomic_store(&s->carrier, pthread_self());
	s->turns++;
	for (; n; n = next) {
		struct job *j = container_of(n, struct job, node);

		next = n->next;
		s->back++;
		atomic_fetch_add(&s->progress, 1);
		if (s->pushed < s->want)
			scene_push(s, j);
	}
	if (s->hang)
		return !atomic_load(&s->hangs_since) ||
		       s->back < atomic_load(&s->hangs_since) + 1000;
	if (s->until_carried && atomic_load(&s->by_carrier) < s->until_carried)
		s->want = s->pushed + 1000;
	return s->back < s->want;
}

static void scene_end(void *arg)
{
	(void)arg;
	_exit(42);
}

static struct scene *play(int want, int slow_every, int until_carried)
{
	static const struct so_pool_events events = {scene_work, scene_turn, scene_end};
	struct scene *s = xcalloc(1, sizeof(*s));

	s->want = want;
	s->slow_every = slow_every;
	s->until_carried = until_carried;
	s->pool = so_pool_new(4, &events, s);
	s->first = pthread_self();
	for (int i = 0; i < 4; i++)
		scene_push(s, &s->jobs[i]);
	so_pool_lead(s->pool);
	return s;
}

static void end_of_play(struct scene *s)
{
	assert_int_equal(s->back, s->want);
	assert_int_equal(s->jobs[0].n_runs + s->jobs[1].n_runs + s->jobs[2].n_runs +
				 s->jobs[3].n_runs,
			 s->want);
	assert_true(pthread_equal(pthread_self(), s->first));
	so_pool_free(s->pool);
	free(s);
}

static void test_quick_jobs_are_run_where_the_loop_is(void **state)
{
	(void)state;
	end_of_play(play(5000, 0, 10000));
}

static void test_a_slow_job_does_not_hold_up_the_loop(void **state)
{
	struct scene *s = play(20000, 700, 5000);

	(void)state;
	assert_in_range(s->n_carriers, 2, 5);
	end_of_play(s);
}

static void test_jobs_that_are_often_slow_are_left_to_the_threads(void **state)
{
	struct scene *s = play(3000, 7, 0);

	(void)state;
	assert_in_range(atomic_load(&s->by_carrier), 0, 1500);
	end_of_play(s);
}

/* The first thread is in a job that never ends when the loop is over. */
static void test_the_process_ends_without_its_first_thread(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0) {
		static const struct so_pool_events events = {scene_work, scene_turn, scene_end};
		struct scene *s = xcalloc(1, sizeof(*s));

		s->want = INT_MAX;
		s->hang = true;
		s->pool = so_pool_new(4, &events, s);
		for (int k = 0; k < 4; k++)
			scene_push(s, &s->jobs[k]);
		so_pool_lead(s->pool);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 42);
}

static void test_signals_are_not_the_threads_business(void **state)
{
	struct so_pool *p;
	sigset_t before, after;

	(void)state;
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	p = so_pool_new(2, &only_work, NULL);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_int_equal(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
	so_pool_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_thread_is_stopped_in_mid_work),
		cmocka_unit_test(test_the_process_ends_without_its_first_thread),
		cmocka_unit_test(test_quick_jobs_are_run_where_the_loop_is),
		cmocka_unit_test(test_a_slow_job_does_not_hold_up_the_loop),
		cmocka_unit_test(test_jobs_that_are_often_slow_are_left_to_the_threads),
		cmocka_unit_test(test_each_job_runs_once_and_comes_back),
		cmocka_unit_test(test_a_stream_of_jobs),
		cmocka_unit_test(test_jobs_that_take_their_time_all_run_at_once),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_signals_are_not_the_threads_business),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
