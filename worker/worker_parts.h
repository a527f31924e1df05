/*
 * worker_parts.h - inside of the worker, shared by its rooms:
 *
 *   worker.c          the table of tasks, the loop and its turn
 *   worker_tasks.c    the way of a task: the events of the queue and of the handler
 *   worker_drain.c    the phases, and the orders that bound what is taken
 *   worker_breaker.c  what is done when the handler is broken
 *   orders.c          who gives the orders
 */
#ifndef REDISQ_WORKER_PARTS_H
#define REDISQ_WORKER_PARTS_H

#include "worker.h"

/* worker.c */
/* The numbers on the scoreboard. */
void worker_publish(struct worker *w);

/* worker_drain.c */
void worker_drain_init(struct worker *w);
/* The next step of a drain, as soon as it can be made. */
void worker_drain_on(struct worker *w);
/* Set aside, it needs the credit of one task: the rest is for others. */
void worker_give_back(struct worker *w);
/* The queue has left Redis; when the handler has left, too, the loop ends. */
void worker_queue_left(struct worker *w);
/* The loop ends, whatever is left. */
void worker_over(struct worker *w);
/* Tells the others to look for what was given back. */
void worker_say_released(struct worker *w);
/* (Re)starts a timer. */
void worker_arm(struct worker *w, ev_timer *t, int64_t ms);

/* worker_breaker.c */
void worker_breaker_init(struct worker *w);
/* Turns "the handler is broken" into "this task failed" where the task is to blame: true, and its
 * end says nothing about the handler. */
bool worker_judge_blamed(struct worker *w, struct task *t);
/* What the end of a run says about the handler. */
void worker_tell_breaker(struct worker *w, const struct task *t);

#endif
