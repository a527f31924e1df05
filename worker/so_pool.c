/*
 * so_pool.c - see so_pool.h.
 *
 * Every "nobody is told twice, nobody is forgotten" here is the same argument: one side writes its
 * work, then reads the other's flag; the other writes its flag, then reads the work; both in one
 * total order (seq_cst), so at least one of them sees the other.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "buf.h"
#include "so_pool.h"

/* Written for libraries that expect little; pages that nobody touches cost nothing. */
#define STACK_BYTES (1024 * 1024)
/* Nobody else's: the last of the real-time signals. */
#define STOP_SIGNAL SIGRTMAX
#define STOP_WAIT_MS 100
#define CACHE_LINE 64
/* So many jobs in a row, each so short, make it brisk; one that is longer ends it. */
#define QUICK_NS 20000
#define QUICK_ENOUGH 8
#define NAP_NS (SO_POOL_NAP_MS * 1000000)

struct so_thread {
	pthread_t id;
	struct so_pool *pool; /* borrowed */
	int number;
	struct so_thread *below; /* in the stack of idle ones; under idle_lock */
	_Atomic int go;          /* futex: 1 = woken */
};

struct so_pool {
	so_work_fn *work;
	void *arg; /* borrowed */
	int n_threads;
	struct so_thread *threads; /* owned */
	int fd;                    /* owned: eventfd */
	_Atomic bool ending;

	/* There. `head` is the threads', `tail` the loop's; both only grow. */
	_Atomic(struct so_node *) *ring; /* owned */
	unsigned mask;
	_Alignas(CACHE_LINE) _Atomic unsigned head;
	_Alignas(CACHE_LINE) _Atomic unsigned tail;
	_Atomic bool
		loop_looks;  /* the loop is in a turn: it wakes somebody at its end if need be */
	_Atomic bool waking; /* one was woken and has not looked yet */
	_Atomic int quick;   /* short jobs in a row, as many as count */
	_Atomic bool brisk;  /* the word of the loop for its present sleep */

	pthread_mutex_t idle_lock;
	struct so_thread *idle; /* stack: who slept last is warm */

	/* Back. */
	_Alignas(CACHE_LINE) _Atomic(struct so_node *) posted;
	_Atomic bool asleep;

	/* The loop's. */
	int n_out;       /* jobs that have not come back */
	int64_t news_ns; /* when something last went or came; while anything is out */
	bool has_news;   /* since the last sleep */
};

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ------------------------------------------------------------------ sleeping and waking */

static void futex_wait(_Atomic int *word, int value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic int *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool has_jobs(struct so_pool *p)
{
	return atomic_load(&p->head) != atomic_load(&p->tail);
}

static struct so_thread *pop_idle(struct so_pool *p)
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

static void let_go(struct so_thread *t)
{
	atomic_store(&t->go, 1);
	futex_wake(&t->go);
}

/* There are jobs: somebody must be on the way to them. */
static void wake_one(struct so_pool *p)
{
	do {
		struct so_thread *t;

		if (atomic_exchange(&p->waking, true))
			return; /* one is, and will look after it has said so */
		t = pop_idle(p);
		if (t) {
			let_go(t);
			return;
		}
		/* All are up, and look before they sleep. One that did while `waking` was set for
		 * nothing may have been counted on. */
		atomic_store(&p->waking, false);
		pthread_mutex_lock(&p->idle_lock);
		t = p->idle;
		pthread_mutex_unlock(&p->idle_lock);
		if (!t)
			return;
	} while (has_jobs(p));
}

static void sleep_until_woken(struct so_thread *t)
{
	struct so_pool *p = t->pool;

	atomic_store(&t->go, 0);
	push_idle(t);
	if ((has_jobs(p) || atomic_load(&p->ending)) && leave_idle(t))
		return;
	while (!atomic_load(&t->go))
		futex_wait(&t->go, 0);
	atomic_store(&p->waking, false);
}

/* ------------------------------------------------------------------ there */

static struct so_node *pop_job(struct so_pool *p)
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
	p->n_out++;
	p->has_news = true;
	/* The first of a turn: a thread wakes up while the loop still makes the others. */
	if (!atomic_load_explicit(&p->loop_looks, memory_order_relaxed)) {
		atomic_store(&p->loop_looks, true);
		wake_one(p);
	}
}

/* Another thread has to take what this one leaves behind. */
static void pass_on(struct so_pool *p)
{
	if (has_jobs(p) && !atomic_load(&p->loop_looks) && !atomic_load(&p->brisk))
		wake_one(p);
}

static void judge(struct so_pool *p, int64_t took_ns)
{
	int quick = atomic_load_explicit(&p->quick, memory_order_relaxed);
	int next = took_ns >= QUICK_NS ? 0 : quick < QUICK_ENOUGH ? quick + 1 : quick;

	if (next != quick)
		atomic_store_explicit(&p->quick, next, memory_order_relaxed);
}

/* ------------------------------------------------------------------ back */

static void add_posted(struct so_pool *p, struct so_node *node)
{
	struct so_node *top = atomic_load_explicit(&p->posted, memory_order_relaxed);

	do
		node->next = top;
	while (!atomic_compare_exchange_weak(&p->posted, &top, node));
}

static void wake_loop(struct so_pool *p)
{
	const uint64_t one = 1;

	if (atomic_load(&p->asleep) && atomic_exchange(&p->asleep, false))
		/* It cannot fail: the counter is read long before it is full. */
		INVARIANT(write(p->fd, &one, sizeof(one)) == sizeof(one));
}

void so_pool_post(struct so_pool *p, struct so_node *node)
{
	node->ended = false;
	add_posted(p, node);
	wake_loop(p);
}

static void *thread_main(void *arg)
{
	struct so_thread *t = arg;
	struct so_pool *p = t->pool;
	int64_t started = 0; /* 0: it was not at work */

	for (;;) {
		struct so_node *job = pop_job(p);
		int64_t ended;

		if (!job) {
			if (atomic_load(&p->ending))
				return NULL;
			sleep_until_woken(t);
			started = 0;
			continue;
		}
		pass_on(p);
		if (!started)
			started = now_ns();
		p->work(p->arg, job, t->number);
		ended = now_ns();
		judge(p, ended - started);
		started = ended;
		job->ended = true;
		add_posted(p, job);
		if (!atomic_load(&p->brisk) || !has_jobs(p))
			wake_loop(p);
	}
}

struct so_node *so_pool_take(struct so_pool *p)
{
	struct so_node *newest, *oldest = NULL;

	if (!atomic_load_explicit(&p->posted, memory_order_relaxed))
		return NULL;
	newest = atomic_exchange(&p->posted, NULL);
	p->has_news = true;
	while (newest) {
		struct so_node *next = newest->next;

		p->n_out -= newest->ended;

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

/* Whether the threads may keep what is out among them until the loop looks again. */
static bool is_brisk(struct so_pool *p)
{
	int64_t now;

	if (p->n_out == 0 || atomic_load_explicit(&p->quick, memory_order_relaxed) < QUICK_ENOUGH)
		return false;
	now = now_ns();
	if (p->has_news)
		p->news_ns = now;
	p->has_news = false;
	if (now - p->news_ns < NAP_NS)
		return true;
	/* A nap has passed and nothing came: somebody takes his time. */
	atomic_store_explicit(&p->quick, 0, memory_order_relaxed);
	return false;
}

bool so_pool_before_sleep(struct so_pool *p)
{
	bool brisk = is_brisk(p);

	atomic_store(&p->brisk, brisk);
	atomic_store(&p->loop_looks, false);
	if (!brisk && has_jobs(p))
		wake_one(p);
	atomic_store(&p->asleep, true);
	if (!atomic_load(&p->posted))
		return false;
	/* A write may come all the same: then the next sleep is a short one. */
	atomic_store(&p->asleep, false);
	return true;
}

int so_pool_nap_ms(const struct so_pool *p)
{
	return atomic_load_explicit(&p->brisk, memory_order_relaxed) ? SO_POOL_NAP_MS : -1;
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

	INVARIANT(thread >= 0 && thread < p->n_threads);
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

static int start_threads(struct so_pool *p, int n_threads)
{
	pthread_attr_t attr;
	sigset_t before;
	int error = pthread_attr_init(&attr);

	if (error)
		return error;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	block_signals(&before);
	while (!error && p->n_threads < n_threads) {
		struct so_thread *t = &p->threads[p->n_threads];

		t->pool = p;
		t->number = p->n_threads;
		error = pthread_create(&t->id, &attr, thread_main, t);
		p->n_threads += !error;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return error;
}

struct so_pool *so_pool_new(int n_threads, so_work_fn *work, void *arg)
{
	struct so_pool *p = aligned_alloc(CACHE_LINE, sizeof(*p));
	unsigned cap = 1;
	int error;

	INVARIANT(n_threads > 0 && p);
	memset(p, 0, sizeof(*p));
	p->work = work;
	p->arg = arg;
	while (cap < (unsigned)n_threads)
		cap *= 2;
	p->mask = cap - 1;
	p->ring = xcalloc(cap, sizeof(*p->ring));
	p->threads = xcalloc((size_t)n_threads, sizeof(*p->threads));
	pthread_mutex_init(&p->idle_lock, NULL);
	p->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	error = p->fd < 0 || catch_stop_signal() < 0 ? errno : start_threads(p, n_threads);
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
	while ((t = pop_idle(p)))
		let_go(t);
	for (int i = 0; i < p->n_threads; i++)
		pthread_join(p->threads[i].id, NULL);
	if (p->fd >= 0)
		close(p->fd);
	pthread_mutex_destroy(&p->idle_lock);
	free(p->threads);
	free(p->ring);
	free(p);
}
