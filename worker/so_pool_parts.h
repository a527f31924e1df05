/*
 * so_pool_parts.h - inside of the pool, shared by its rooms:
 *
 *   so_pool.c    the ring, the way back, sleeping and waking, life
 *   so_lead.c    who carries the loop, and the guard
 *
 * Every "nobody is told twice, nobody is forgotten" in here is the same argument: one side writes
 * its work, then reads the other's flag; the other writes its flag, then reads the work; both in
 * one total order (seq_cst), so at least one of them sees the other.
 */
#ifndef REDISQ_SO_POOL_PARTS_H
#define REDISQ_SO_POOL_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "buf.h"
#include "so_pool.h"

#define CACHE_LINE 64

/* A job that ended its thread would never come back, nor would the place of that thread. */
void so_on_early_end(void *arg);

struct so_thread {
	pthread_t id;
	struct so_pool *pool; /* borrowed */
	int number;
	struct so_thread *below; /* in the stack of idle ones; under idle_lock */
	bool to_guard;           /* set by who wakes it, before `go` */
	_Atomic int go;          /* futex: 1 = woken */
};

/* Whose the loop is. */
enum { LOOP_CARRIED, LOOP_LEFT };

struct so_pool {
	struct so_pool_events events;
	void *arg; /* borrowed */
	int n_threads;
	int n_started;
	struct so_thread *threads; /* owned; one more than n_threads: who called so_pool_lead() */
	int fd;                    /* owned: eventfd */
	_Atomic bool ending;       /* threads return */

	/* There. `head` is the threads', `tail` the loop's; both only grow. */
	_Atomic(struct so_node *) *ring; /* owned */
	unsigned mask;
	_Alignas(CACHE_LINE) _Atomic unsigned head;
	_Alignas(CACHE_LINE) _Atomic unsigned tail;
	_Atomic bool
		loop_looks;  /* the loop is in a turn: it wakes somebody at its end if need be */
	_Atomic bool waking; /* one was woken and has not looked yet */

	pthread_mutex_t idle_lock;
	struct so_thread *idle; /* stack: who slept last is warm */

	/* Back. */
	_Alignas(CACHE_LINE) _Atomic(struct so_node *) posted;
	_Atomic bool asleep;

	/* so_lead.c */
	bool can_lead;     /* somebody carries the loop by so_pool_lead() */
	_Atomic int quick; /* short jobs lately, as many as count */
	_Alignas(CACHE_LINE) _Atomic int loop;
	_Atomic int64_t left_ns;           /* when it was last put down */
	_Atomic(struct so_thread *) guard; /* NULL: nobody looks */
	_Atomic bool over;                 /* the last turn was the last */
	_Atomic bool end_is_taken; /* by the first thread, or by the one that could not wait */
	_Atomic bool stopped_some; /* so_pool_stop_thread() was called */
};

/* so_pool.c */
bool so_has_jobs(struct so_pool *p);
struct so_node *so_pop_job(struct so_pool *p);
/* There are jobs: somebody must be on the way to them. */
void so_wake_one(struct so_pool *p);
struct so_thread *so_pop_idle(struct so_pool *p);
void so_let_go(struct so_thread *t);
void so_futex_wait(_Atomic int *word, int value, int64_t ns);
int64_t so_now_ns(void);
/* Runs a job that was popped at `started_ns`; the time at its end. */
int64_t so_run_job(struct so_thread *t, struct so_node *job, int64_t started_ns);
/* Jobs as they come, until the pool ends, or the loop is over and it is needed elsewhere. */
void so_follow(struct so_thread *t);

/* so_lead.c */
bool so_is_brisk(struct so_pool *p);
void so_judge(struct so_pool *p, int64_t took_ns);
/* Looks after the loop that another puts down between turns; until somebody needs it for a job, or
 * there is nothing to guard. Carries the loop if it has to. */
void so_guard(struct so_thread *t);
/* Is it the thread that has to come back when the loop is over? */
bool so_is_first(const struct so_thread *t);

#endif
