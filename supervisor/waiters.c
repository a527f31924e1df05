/* waiters.c - see waiters.h. */
#include "supervisor.h"
#include "waiters.h"

struct waiter {
	struct list link;
	struct control_call *call; /* ours to answer */
	struct target target;
	waiter_fn *fn;
	bool stops;
};

void waiters_init(struct list *waiters)
{
	list_init(waiters);
}

void target_release(struct target *t)
{
	free(t->queue);
	t->queue = NULL;
}

void waiters_add(struct list *waiters, struct control_call *call, const struct target *t,
		 waiter_fn *fn, bool stops)
{
	struct waiter *w = xcalloc(1, sizeof(*w));

	w->call = call;
	w->target = *t;
	w->fn = fn;
	w->stops = stops;
	list_append(waiters, &w->link);
}

static void drop(struct waiter *w)
{
	list_remove(&w->link);
	target_release(&w->target);
	free(w);
}

void waiters_look(struct list *waiters, struct supervisor *sv)
{
	struct list *it, *next;

	list_each_safe (it, next, waiters) {
		struct waiter *w = list_entry(it, struct waiter, link);
		struct buf why = BUF_INIT;
		enum waiter_answer a = w->fn(sv, &w->target, &why);

		if (a == WAITER_DONE)
			control_done(w->call,
				     w->stops ? json_pack("{s:b}", "forced", sv->house.forced)
					      : NULL);
		else if (a == WAITER_FAILED)
			control_fail(w->call, 1, "%s", why.data);
		if (a != WAITER_NOT_YET)
			drop(w);
		buf_release(&why);
	}
}

void waiters_end(struct list *waiters, const char *why)
{
	struct list *it, *next;

	list_each_safe (it, next, waiters) {
		struct waiter *w = list_entry(it, struct waiter, link);

		control_fail(w->call, 1, "%s", why);
		drop(w);
	}
}
