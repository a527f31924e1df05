/* so_pool.c - the ring, the way back, sleeping and waking, life; see so_pool.h. */
#include <errno.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "so_pool_parts.h"

/* Written for libraries that expect little; pages that nobody touches cost nothing. */
#define STACK_BYTES (1024 * 1024)
/* Nobody else's: the last of the real-time signals but one, for valgrind keeps the last. */
#define STOP_SIGNAL (SIGRTMAX - 1)
#define STOP_WAIT_MS 100

int64_t so_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ------------------------------------------------------------------ sleeping and waking */

/* `ns` < 0: for as long as it takes. */
void so_futex_wait(_Atomic int *word, int value, int64_t ns)
{
	const struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, ns < 0 ? NULL : &t, NULL, 0);
}

bool so_has_jobs(struct so_pool *p)
{
	return atomic_load(&p->head) != atomic_load(&p->tail);
}

struct so_thread *so_pop_idle(struct so_pool *p)
{
	struct so_thread *t;

	pthread_mutex_lock(&p->idle_lock);
	t = p->idle;
	if (t)
		p->idle = t->below;
	pthread_mutex_unlock(&p->idle_lock);
	return t;
}

static void push_idle(struct so_thread *t)
{
	struct so_pool *p = t->pool;

	pthread_mutex_lock(&p->idle_lock);
	t->below = p->idle;
	p->idle = t;
	pthread_mutex_unlock(&p->idle_lock);
}

static bool somebody_is_idle(struct so_pool *p)
{
	bool yes;

	pthread_mutex_lock(&p->idle_lock);
	yes = p->idle != NULL;
	pthread_mutex_unlock(&p->idle_lock);
	return yes;
}

/* False when somebody has woken it meanwhile. */
static bool leave_idle(struct so_thread *t)
{
	struct so_pool *p = t->pool;
	struct so_thread **at;
	bool found;

	pthread_mutex_lock(&p->idle_lock);
	for (at = &p->idle; *at && *at != t; at = &(*at)->below)
		;
	found = *at == t;
	if (found)
		*at = t->below;
	pthread_mutex_unlock(&p->idle_lock);
	return found;
}

void so_let_go(struct so_thread *t)
{
	atomic_store(&t->go, 1);
	syscall(SYS_futex, &t->go, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void so_wake_one(struct so_pool *p)
{
	do {
		struct so_thread *t;

		if (atomic_exchange(&p->waking, true))
			return; /* one is, and will look after it has said so */
		t = so_pop_idle(p);
		if (!t)
			t = atomic_exchange(&p->guard, NULL); /* better than nobody */
		if (t) {
			so_let_go(t);
			return;
		}
		/* All are up, and look before they sleep. But one that went to sleep while `waking`
		 * was set for nothing may have been counted on. */
		atomic_store(&p->waking, false);
	} while (so_has_jobs(p) && somebody_is_idle(p));
}

/* It is needed where it came from. */
static bool has_to_leave(const struct so_thread *t)
{
	struct so_pool *p = t->pool;

	return atomic_load(&p->ending) || (so_is_first(t) && atomic_load(&p->over));
}

static void sleep_until_woken(struct so_thread *t)
{
	struct so_pool *p = t->pool;

	atomic_store(&t->go, 0);
	push_idle(t);
	if ((so_has_jobs(p) || has_to_leave(t)) && leave_idle(t))
		return;
	while (!atomic_load(&t->go))
		so_futex_wait(&t->go, 0, -1);
	if (t->to_guard) {
		t->to_guard = false;
		so_guard(t);
	} else {
		atomic_store(&p->waking, false);
	}
}

/* ------------------------------------------------------------------ there */

struct so_node *so_pop_job(struct so_pool *p)
{
	unsigned head = atomic_load(&p->head);

	while (head != atomic_load(&p->tail)) {
		struct so_node *job =
			atomic_load_explicit(&p->ring[head & p->mask], memory_order_relaxed);

		if (atomic_compare_exchange_weak(&p->head, &head, head + 1))
			return job;
	}
	return NULL;
}

void so_pool_push(struct so_pool *p, struct so_node *job)
{
	unsigned tail = atomic_load_explicit(&p->tail, memory_order_relaxed);

	INVARIANT(tail - atomic_load(&p->head) <= p->mask);
	atomic_store_explicit(&p->ring[tail & p->mask], job, memory_order_relaxed);
	atomic_store(&p->tail, tail + 1);
	if (atomic_load_explicit(&p->loop_looks, memory_order_relaxed))
		return;
	atomic_store(&p->loop_looks, true);
	/* The first of a turn: a thread wakes up while the loop still makes the others. */
	if (!so_is_brisk(p))
		so_wake_one(p);
}

/* ------------------------------------------------------------------ back */

static void add_posted(struct so_pool *p, struct so_node *node)
{
	struct so_node *top = atomic_load_explicit(&p->posted, memory_order_relaxed);
	const uint64_t one = 1;

	do
		node->next = top;
	while (!atomic_compare_exchange_weak(&p->posted, &top, node));
	if (atomic_load(&p->asleep) && atomic_exchange(&p->asleep, false))
		/* It cannot fail: the counter is read long before it is full. */
		INVARIANT(write(p->fd, &one, sizeof(one)) == sizeof(one));
}

void so_pool_post(struct so_pool *p, struct so_node *node)
{
	node->ended = false;
	add_posted(p, node);
}

int64_t so_run_job(struct so_thread *t, struct so_node *job, int64_t started_ns)
{
	struct so_pool *p = t->pool;
	int64_t ended_ns;

	p->events.work(p->arg, job, t->number);
	ended_ns = so_now_ns();
	so_judge(p, ended_ns - started_ns);
	job->ended = true;
	add_posted(p, job);
	return ended_ns;
}

void so_follow(struct so_thread *t)
{
	struct so_pool *p = t->pool;
	int64_t now_ns = 0; /* 0: it was not at work */

	for (;;) {
		struct so_node *job = so_pop_job(p);

		if (!job) {
			if (has_to_leave(t))
				return;
			sleep_until_woken(t);
			now_ns = 0;
			continue;
		}
		/* Another one has to take what this one leaves behind. */
		if (so_has_jobs(p) && !atomic_load(&p->loop_looks))
			so_wake_one(p);
		now_ns = so_run_job(t, job, now_ns ? now_ns : so_now_ns());
	}
}

void so_on_early_end(void *arg ATTR_UNUSED)
{
	static const char text[] = "a task has ended its thread (pthread_exit): SIGABRT\n";
	ssize_t n = write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)n;
	abort();
}

static void *thread_main(void *arg)
{
	pthread_cleanup_push(so_on_early_end, NULL);
	so_follow(arg);
	pthread_cleanup_pop(0);
	return NULL;
}

struct so_node *so_pool_take(struct so_pool *p)
{
	struct so_node *newest, *oldest = NULL;

	if (!atomic_load_explicit(&p->posted, memory_order_relaxed))
		return NULL;
	newest = atomic_exchange(&p->posted, NULL);
	while (newest) {
		struct so_node *next = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	return oldest;
}

int so_pool_fd(const struct so_pool *p)
{
	return p->fd;
}

bool so_pool_before_sleep(struct so_pool *p)
{
	if (so_has_jobs(p) && so_is_brisk(p))
		return true; /* after this turn the loop's thread has them */
	atomic_store(&p->loop_looks, false);
	if (so_has_jobs(p))
		so_wake_one(p);
	atomic_store(&p->asleep, true);
	if (!atomic_load(&p->posted))
		return false;
	/* A write may come all the same: then the next sleep is a short one. */
	atomic_store(&p->asleep, false);
	return true;
}

void so_pool_awake(struct so_pool *p, bool woken)
{
	uint64_t n;

	atomic_store_explicit(&p->asleep, false, memory_order_relaxed);
	if (woken)
		while (read(p->fd, &n, sizeof(n)) < 0 && errno == EINTR)
			;
}

/* ------------------------------------------------------------------ life */

static sem_t stopped; /* one process, one end */

static void on_stop_signal(int signo ATTR_UNUSED)
{
	sem_post(&stopped);
	for (;;)
		pause();
}

bool so_pool_stop_thread(struct so_pool *p, int thread)
{
	struct timespec until;

	INVARIANT(thread >= 0 && thread <= p->n_threads);
	atomic_store(&p->stopped_some, true);
	if (pthread_kill(p->threads[thread].id, STOP_SIGNAL) != 0)
		return false;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += STOP_WAIT_MS * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_nsec -= 1000000000L;
		until.tv_sec++;
	}
	while (sem_timedwait(&stopped, &until) < 0)
		if (errno != EINTR)
			return false;
	return true;
}

static int catch_stop_signal(void)
{
	struct sigaction how = {.sa_handler = on_stop_signal};

	sigfillset(&how.sa_mask);
	return sem_init(&stopped, 0, 0) < 0 ? -1 : sigaction(STOP_SIGNAL, &how, NULL);
}

/* Signals are the loop's business; those of faults hit the thread that caused them. */
static void block_signals(sigset_t *before)
{
	static const int open[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
	sigset_t set;

	sigfillset(&set);
	for (size_t i = 0; i < ARRAY_LEN(open); i++)
		sigdelset(&set, open[i]);
	sigdelset(&set, STOP_SIGNAL);
	pthread_sigmask(SIG_SETMASK, &set, before);
}

static int start_threads(struct so_pool *p)
{
	pthread_attr_t attr;
	sigset_t before;
	int error = pthread_attr_init(&attr);

	if (error)
		return error;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	block_signals(&before);
	while (!error && p->n_started < p->n_threads) {
		struct so_thread *t = &p->threads[p->n_started];

		error = pthread_create(&t->id, &attr, thread_main, t);
		p->n_started += !error;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return error;
}

struct so_pool *so_pool_new(int n_threads, const struct so_pool_events *events, void *arg)
{
	struct so_pool *p = aligned_alloc(CACHE_LINE, sizeof(*p));
	unsigned cap = 1;
	int error;

	INVARIANT(n_threads > 0 && p);
	memset(p, 0, sizeof(*p));
	p->events = *events;
	p->arg = arg;
	while (cap < (unsigned)n_threads)
		cap *= 2;
	p->mask = cap - 1;
	p->ring = xcalloc(cap, sizeof(*p->ring));
	p->threads = xcalloc((size_t)n_threads + 1, sizeof(*p->threads));
	p->n_threads = n_threads;
	for (int i = 0; i <= n_threads; i++)
		p->threads[i] = (struct so_thread){.pool = p, .number = i};
	pthread_mutex_init(&p->idle_lock, NULL);
	p->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	error = p->fd < 0 || catch_stop_signal() < 0 ? errno : start_threads(p);
	if (error) {
		so_pool_free(p);
		errno = error;
		return NULL;
	}
	return p;
}

void so_pool_free(struct so_pool *p)
{
	struct so_thread *t;

	if (!p)
		return;
	atomic_store(&p->ending, true);
	while ((t = so_pop_idle(p)))
		so_let_go(t);
	for (int i = 0; i < p->n_started; i++)
		pthread_join(p->threads[i].id, NULL);
	if (p->fd >= 0)
		close(p->fd);
	pthread_mutex_destroy(&p->idle_lock);
	free(p->threads);
	free(p->ring);
	free(p);
}
