/* so_lead.c - who carries the loop; see so_pool.h. */
#include <errno.h>
#include <semaphore.h>
#include <time.h>
#include <unistd.h>

#include "so_pool_parts.h"

/* What is shorter than this is better run where the loop is than sent to another thread. */
#define QUICK_NS 20000
/* So many of them (one that is not takes half away), and no more are counted than QUICK_MAX: after
 * a few that are not, the threads have them. */
#define QUICK_ENOUGH 64
#define QUICK_MAX 1024
/* The loop is not put down for longer: what is left then waits for the next turn. */
#define LEFT_MAX_NS 500000
/* Lying for longer, it is taken up by the guard, who looks so often. */
#define TAKE_NS 3000000
#define GUARD_NS 3000000
/* Looks in vain before the guard is a thread like the others again. */
#define GUARD_LOOKS 20
/* For the first thread to come back when the loop is over. */
#define BACK_MS 300

bool so_is_first(const struct so_thread *t)
{
	return t->number == t->pool->n_threads;
}

bool so_is_brisk(struct so_pool *p)
{
	return p->can_lead && atomic_load_explicit(&p->quick, memory_order_relaxed) >= QUICK_ENOUGH;
}

void so_judge(struct so_pool *p, int64_t took_ns)
{
	int quick = atomic_load_explicit(&p->quick, memory_order_relaxed);
	int next = took_ns >= QUICK_NS ? quick / 2 : quick < QUICK_MAX ? quick + 1 : quick;

	if (next != quick)
		atomic_store_explicit(&p->quick, next, memory_order_relaxed);
}

/* ------------------------------------------------------------------ carrying it */

static bool take_up(struct so_pool *p)
{
	int left = LOOP_LEFT;

	return atomic_compare_exchange_strong(&p->loop, &left, LOOP_CARRIED);
}

/* Somebody who can look after it. */
static bool have_guard(struct so_pool *p)
{
	struct so_thread *t;

	if (atomic_load(&p->guard))
		return true;
	t = so_pop_idle(p);
	if (!t)
		return false;
	t->to_guard = true;
	atomic_store(&p->guard, t);
	so_let_go(t);
	return true;
}

/* Runs what is there with the loop put down. False: it is another's now. */
static bool work_between_turns(struct so_thread *t)
{
	struct so_pool *p = t->pool;
	int64_t begun = so_now_ns(), now = begun;
	struct so_node *job;

	if (!have_guard(p)) {
		so_wake_one(p);
		return true;
	}
	atomic_store(&p->left_ns, begun);
	atomic_store(&p->loop, LOOP_LEFT);
	/* The guard may have been called away just now; one that stays sees that it is left. */
	if (atomic_load(&p->guard))
		while (now - begun < LEFT_MAX_NS && (job = so_pop_job(p)))
			now = so_run_job(t, job, now);
	return take_up(p);
}

static sem_t first_is_back; /* one process, one loop */

/* By another thread than the first. */
static void bring_back_the_first(struct so_pool *p)
{
	struct so_thread *t;
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += BACK_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	while ((t = so_pop_idle(p)))
		so_let_go(t);
	while (!atomic_load(&p->stopped_some)) {
		if (sem_timedwait(&first_is_back, &until) == 0)
			return;
		if (errno != EINTR)
			break;
	}
	/* It may come just now: one of the two goes on from here. */
	if (!atomic_exchange(&p->end_is_taken, true))
		p->events.end(p->arg);
}

/* Turn after turn, until it is over (true) or somebody else carries it. */
static bool carry(struct so_thread *t)
{
	struct so_pool *p = t->pool;

	while (p->events.turn(p->arg)) {
		if (so_is_brisk(p) && so_has_jobs(p) && !work_between_turns(t))
			return false;
	}
	atomic_store(&p->over, true);
	if (!so_is_first(t))
		bring_back_the_first(p);
	return true;
}

void so_pool_lead(struct so_pool *p)
{
	struct so_thread *t = &p->threads[p->n_threads];

	t->id = pthread_self();
	INVARIANT(sem_init(&first_is_back, 0, 0) == 0);
	p->can_lead = true;
	pthread_cleanup_push(so_on_early_end, NULL);
	if (!carry(t)) {
		so_follow(t);
		if (atomic_exchange(&p->end_is_taken, true))
			for (;;)
				pause(); /* too late: another ends the process */
		/* Whoever ended it waits for this; nobody does when it was ourselves, as a guard.
		 */
		sem_post(&first_is_back);
	}
	pthread_cleanup_pop(0);
}

/* ------------------------------------------------------------------ guarding it */

/* True when the loop lies there for too long, and is ours now. */
static bool take_up_if_left(struct so_pool *p)
{
	if (atomic_load(&p->loop) != LOOP_LEFT ||
	    so_now_ns() - atomic_load(&p->left_ns) < TAKE_NS || !take_up(p))
		return false;
	so_judge(p, TAKE_NS);
	return true;
}

/* It is not (any more) the guard; false: it has to be again, the loop was put down meanwhile. */
static bool leave_guard(struct so_thread *t)
{
	struct so_pool *p = t->pool;
	struct so_thread *me = t, *nobody = NULL;

	atomic_compare_exchange_strong(&p->guard, &me, NULL);
	return atomic_load(&p->loop) != LOOP_LEFT ||
	       !atomic_compare_exchange_strong(&p->guard, &nobody, t);
}

void so_guard(struct so_thread *t)
{
	struct so_pool *p = t->pool;
	int64_t seen_ns = atomic_load(&p->left_ns);
	int looks = 0;

	while (!atomic_load(&p->ending) && !atomic_load(&p->over)) {
		int64_t left_ns;

		atomic_store(&t->go, 0);
		/* Whoever called it away has taken its name off. */
		if (atomic_load(&p->guard) == t)
			so_futex_wait(&t->go, 0, GUARD_NS);
		if (atomic_load(&p->guard) != t) {
			atomic_store(&p->waking, false);
			if (leave_guard(t))
				return;
		}
		if (take_up_if_left(p)) {
			leave_guard(t);
			carry(t);
			return;
		}
		left_ns = atomic_load(&p->left_ns);
		looks = left_ns == seen_ns ? looks + 1 : 0;
		seen_ns = left_ns;
		if (looks >= GUARD_LOOKS && leave_guard(t))
			return;
	}
	leave_guard(t);
}
