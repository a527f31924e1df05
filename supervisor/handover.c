/* handover.c - see handover.h. */
#include <inttypes.h>

#include "handover.h"
#include "log.h"

struct order {
	struct list link;
	struct obituary who;     /* owned */
	const struct proc *heir; /* borrowed; NULL = nobody has it in hand */
	unsigned slot;           /* it died in */
	int64_t died_ms;
	int64_t given_ms;
	bool handed;
};

void handovers_init(struct handovers *h)
{
	list_init(&h->orders);
	h->last_number = 0;
}

static void drop(struct order *o)
{
	list_remove(&o->link);
	obituary_release(&o->who);
	free(o);
}

void handovers_release(struct handovers *h)
{
	while (!list_empty(&h->orders))
		drop(list_entry(h->orders.next, struct order, link));
}

void handovers_add(struct handovers *h, struct obituary *who, unsigned slot, int64_t died_ms)
{
	struct order *o;

	if (!who->consumer || !who->consumer[0]) {
		obituary_release(who); /* it never had a name, so nothing is pending under one */
		return;
	}
	o = xcalloc(1, sizeof(*o));
	o->who = *who;
	obituary_init(who);
	o->who.order = ++h->last_number;
	o->slot = slot;
	o->died_ms = died_ms;
	list_append(&h->orders, &o->link);
}

static void give(struct order *o, struct proc *heir, int64_t now_ms)
{
	proc_say_order(heir, &o->who);
	o->heir = heir;
	o->given_ms = now_ms;
}

bool handovers_assign(struct handovers *h, struct proc *const *heirs, size_t n, int64_t now_ms)
{
	struct list *it;
	bool waiting = false;

	list_each (it, &h->orders) {
		struct order *o = list_entry(it, struct order, link);
		bool silent = o->heir && !o->handed && now_ms - o->given_ms >= HANDOVER_ANSWER_MS;

		if (o->heir && !silent) {
			waiting |= !o->handed;
			continue;
		}
		waiting = true;
		if (n == 0)
			continue;
		/* Another than the silent one, if there is another. */
		for (size_t i = 0; i < n; i++) {
			if (heirs[i] != o->heir || i + 1 == n) {
				give(o, heirs[i], now_ms);
				break;
			}
		}
	}
	return waiting;
}

bool handovers_hold(const struct handovers *h, unsigned slot, int64_t now_ms)
{
	struct list *it;

	list_each (it, &h->orders) {
		const struct order *o = list_entry(it, struct order, link);

		if (o->slot == slot && !o->handed && now_ms - o->died_ms < HANDOVER_HOLD_MS)
			return true;
	}
	return false;
}

void handovers_heir_died(struct handovers *h, const struct proc *heir)
{
	struct list *it;

	list_each (it, &h->orders) {
		struct order *o = list_entry(it, struct order, link);

		if (o->heir == heir)
			o->heir = NULL;
	}
}

static struct order *find(struct handovers *h, const char *rest)
{
	int64_t number = chan_number(rest);
	struct list *it;

	list_each (it, &h->orders)
		if (list_entry(it, struct order, link)->who.order == number)
			return list_entry(it, struct order, link);
	return NULL;
}

enum handed handovers_handed(struct handovers *h, const struct proc *heir, const char *rest,
			     int64_t now_ms)
{
	struct order *o = find(h, rest);
	int64_t moved;

	if (!o || o->handed)
		return HANDED_NOTHING;
	rest += strcspn(rest, " ");
	moved = chan_number(rest + strspn(rest, " "));
	o->handed = true;
	o->heir = heir;
	if (moved <= 0)
		return HANDED_NOTHING;
	log_info("handed over %" PRId64 " task%s of %s, %" PRId64 " ms after its death", moved,
		 moved == 1 ? "" : "s", o->who.consumer, now_ms - o->died_ms);
	/* How many were charged now says nothing: an heir before may have done it, and died. */
	return o->who.charge && o->who.n_ran > 0 ? HANDED_SUSPECTS : HANDED_SOME;
}

void handovers_swept(struct handovers *h, const char *rest)
{
	struct order *o = find(h, rest);

	if (o)
		drop(o);
}

void handovers_runs_again(struct handovers *h, const struct proc *heir, const char *id,
			  int64_t now_ms)
{
	struct list *it;

	/* The newest first: a task may have outlived two workers. */
	for (it = h->orders.prev; it != &h->orders; it = it->prev) {
		const struct order *o = list_entry(it, struct order, link);

		for (int i = 0; i < o->who.n_ran; i++) {
			if (strcmp(o->who.ran[i].id, id) != 0)
				continue;
			log_info("task %s of %s runs again in %s, %" PRId64 " ms after the death",
				 id, o->who.consumer, heir->consumer ? heir->consumer : "?",
				 now_ms - o->died_ms);
			return;
		}
	}
}
