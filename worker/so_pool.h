/*
 * so_pool.h - threads that run jobs for an event loop, and the way there and back.
 *
 * A job is handed over whole: the loop's until so_pool_push(), a thread's until it is posted, then
 * the loop's again. Nothing is allocated on the way, and no lock is taken unless a thread goes to
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
 * Brisk: jobs have lately been shorter than the way to another thread. Then one thread runs all
 * that is there, wakes nobody, and tells the loop after the last; two changes of context a batch
 * are all. Should one of them take its time after all, what it holds up waits for the loop, which
 * naps for SO_POOL_NAP_MS at most while anything is out, and ends the mode.
 *
 * Knows nothing of tasks. The loop's functions belong to one thread.
 */
#ifndef REDISQ_SO_POOL_H
#define REDISQ_SO_POOL_H

#include "base.h"

/* Embedded in what is handed over. */
struct so_node {
	struct so_node *next;
	bool ended; /* of one that was taken: a job that has ended; else it was posted */
};

#define SO_POOL_NAP_MS 1

struct so_pool;

/* Runs one job in thread `thread` (0 ...). When it returns the job is on its way back. */
typedef void so_work_fn(void *arg, struct so_node *job, int thread);

/* Starts the threads; NULL with errno. `n_threads` is also how many jobs there can be at once. */
struct so_pool *so_pool_new(int n_threads, so_work_fn *work, void *arg);
/* Joins the threads, each after the job it has. Not with one that was stopped for good. */
void so_pool_free(struct so_pool *p);

/* ---- the loop's */
void so_pool_push(struct so_pool *p, struct so_node *job);
/* All that has come, oldest first; NULL when there is nothing. */
struct so_node *so_pool_take(struct so_pool *p);
/* Readable when the loop was woken for something; so_pool_awake() makes it unreadable. */
int so_pool_fd(const struct so_pool *p);
/* The last thing before the loop sleeps. True: better not, there is something to take. */
bool so_pool_before_sleep(struct so_pool *p);
/* How long it may sleep then; -1: until something comes. */
int so_pool_nap_ms(const struct so_pool *p);
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
