/* waiters.c - see waiters.h. */
#include "clock.h"
#include "supervisor.h"
#include "waiters.h"

#define PROGRESS_S 2.0

struct waiter {
	struct list link;
	struct control_call *call; /* ours to answer */
	struct wish wish;
	const struct fact *fact; /* borrowed */
	char *said;              /* owned: the last progress, NULL = none yet */
};

void waiters_init(struct waiters *w)
{
	list_init(&w->list);
	ev_init(&w->progress, NULL);
}

void target_release(struct target *t)
{
	free(t->queue);
	t->queue = NULL;
}

static void drop(struct waiter *w)
{
	list_remove(&w->link);
	target_release(&w->wish.target);
	free(w->said);
	free(w);
}

static void say(struct waiter *w, const char *text)
{
	if (w->said && strcmp(w->said, text) == 0)
		return;
	free(w->said);
	w->said = xstrdup(text);
	control_say(w->call, "waits for %s", text);
}

static json_t *result_of(const struct waiter *w, const struct supervisor *sv)
{
	return w->fact->stops ? json_pack("{s:b}", "forced", sv->house.forced) : NULL;
}

static void look(struct waiters *all, struct supervisor *sv, bool tell)
{
	struct list *it, *next;

	list_each_safe (it, next, &all->list) {
		struct waiter *w = list_entry(it, struct waiter, link);
		struct buf why = BUF_INIT;
		enum waiter_answer a;

		if (!control_is_heard(w->call)) {
			control_done(w->call, NULL);
			drop(w);
			continue;
		}
		a = w->fact->look(sv, &w->wish, &why);
		if (a == WAITER_DONE)
			control_done(w->call, result_of(w, sv));
		else if (a == WAITER_FAILED)
			control_fail(w->call, 1, "%s", why.data);
		else if (tell && why.len)
			say(w, why.data);
		if (a != WAITER_NOT_YET)
			drop(w);
		buf_release(&why);
	}
	if (list_empty(&all->list))
		ev_timer_stop(sv->house.loop, &all->progress);
}

void waiters_look(struct waiters *w, struct supervisor *sv)
{
	look(w, sv, false);
}

static void on_progress(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct waiters *w = container_of(t, struct waiters, progress);

	look(w, container_of(w, struct supervisor, waiters), true);
}

void waiters_add(struct supervisor *sv, struct control_call *call, struct target *t,
		 const struct fact *fact)
{
	struct waiter *w = xcalloc(1, sizeof(*w));

	w->call = call;
	w->wish.target = *t;
	t->queue = NULL;
	w->wish.asked_ms = clock_mono_ms();
	w->fact = fact;
	list_append(&sv->waiters.list, &w->link);
	if (!ev_is_active(&sv->waiters.progress)) {
		ev_timer_init(&sv->waiters.progress, on_progress, PROGRESS_S, PROGRESS_S);
		ev_timer_start(sv->house.loop, &sv->waiters.progress);
	}
}

void waiters_end(struct waiters *all, struct supervisor *sv, const char *why)
{
	struct list *it, *next;

	look(all, sv, false);
	list_each_safe (it, next, &all->list) {
		struct waiter *w = list_entry(it, struct waiter, link);

		if (w->fact->at_end)
			control_done(w->call, result_of(w, sv));
		else
			control_fail(w->call, 1, "%s", why);
		drop(w);
	}
	ev_timer_stop(sv->house.loop, &all->progress);
}
