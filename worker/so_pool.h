/*
 * so_pool.h - threads that run jobs for an event loop, and that carry the loop.
 *
 * A job is handed over whole: the loop's until so_pool_push(), a thread's until it is taken back
 * (so_pool_take). Nothing is allocated on the way, and no lock is taken unless a thread goes to
 * sleep or is woken.
 *
 * There: a ring that the loop fills. Threads are woken one by one: the loop wakes one, whoever was
 * woken and leaves a job behind wakes the next before it starts its own, and nobody wakes a second
 * one while a first is on its way. While the loop is in the middle of a turn it pushes more and
 * looks itself, at its end (so_pool_before_sleep): nobody chains until then.
 *
 * Back: a stack that any thread pushes on and the loop takes as a whole. A system call is made only
 * when the loop sleeps, and only by the first that finds it asleep.
 *
 * Brisk: when many jobs in a row were shorter than the way to another thread, the thread that
 * carries the loop runs them itself, between two turns. It puts the loop down for that time, and
 * another thread, the guard, looks every 3 ms whether it lies there for too long: then the
 * guard carries it on, and the first one is a thread like the others when its job has ended. So a
 * job that takes its time never holds up the loop for longer than that, and after a few such the
 * threads have them all again.
 *
 * Knows nothing of tasks. "The loop" below is whoever carries it.
 */
#ifndef REDISQ_SO_POOL_H
#define REDISQ_SO_POOL_H

#include "base.h"

/* Embedded in what is handed over. */
struct so_node {
	struct so_node *next;
	bool ended; /* of one that was taken: a job that has ended; else it was posted */
};

struct so_pool;

/* Runs one job in thread `thread` (0 ... n_threads). When it returns, the job is on its way back.
 */
typedef void so_work_fn(void *arg, struct so_node *job, int thread);

struct so_pool_events {
	so_work_fn *work;
	/* One turn of the loop; false: it is over. */
	bool (*turn)(void *arg);
	/* The loop is over, and the thread that was to go on then is in a job that does not end:
	 * has to end the process. */
	void (*end)(void *arg);
};

/* Starts the threads; NULL with errno. `n_threads` is also how many jobs there can be at once. */
struct so_pool *so_pool_new(int n_threads, const struct so_pool_events *events, void *arg);
/* Joins the threads, each after the job it has. Not with one that was stopped for good. */
void so_pool_free(struct so_pool *p);
/* Carries the loop until it is over, in whichever thread; called by the one that made the pool,
 * which is as good as the others for jobs meanwhile, as number `n_threads`. */
void so_pool_lead(struct so_pool *p);

/* ---- the loop's */
void so_pool_push(struct so_pool *p, struct so_node *job);
/* All that has come, oldest first; NULL when there is nothing. */
struct so_node *so_pool_take(struct so_pool *p);
/* Readable when the loop was woken for something; so_pool_awake() makes it unreadable. */
int so_pool_fd(const struct so_pool *p);
/* The last thing before the loop sleeps. True: better not, there is something to do. */
bool so_pool_before_sleep(struct so_pool *p);
/* It does not sleep any more; `woken`: the fd was readable. */
void so_pool_awake(struct so_pool *p, bool woken);
/*
 * Stops a thread for good, in the middle of whatever it does and with every lock it holds: only for
 * a process that is about to end. False: it did not stop within a moment, and does so as soon as it
 * is back from the kernel.
 */
bool so_pool_stop_thread(struct so_pool *p, int thread);

/* ---- any thread's */
/* Something for the loop that is no job. */
void so_pool_post(struct so_pool *p, struct so_node *node);

#endif
