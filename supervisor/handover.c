/* handover.c - see handover.h. */
#include <inttypes.h>

#include "handover.h"
#include "log.h"

struct order {
	struct list link;
	struct obituary who; /* owned; what it ran is sorted by id */
	struct proc *heir;   /* borrowed; NULL = nobody has it in hand */
	unsigned slot;       /* it died in */
	int64_t died_ms;
	int64_t given_ms;
	int64_t patience_ms; /* how long its answer is waited for */
	bool handed;
};

/* The longest order fits what a channel may hold back. */
_Static_assert(10000 * (BOARD_ID_MAX + 32) < CHAN_BACKLOG_MAX, "10000 = most of key concurrency");

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

/* An order before `o`, about another partition of the same dead worker, is open, too. */
static bool is_counted(const struct handovers *h, const struct order *o)
{
	struct list *it;

	for (it = h->orders.next; it != &o->link; it = it->next) {
		const struct order *other = list_entry(it, struct order, link);

		if (!other->handed && other->slot == o->slot && other->died_ms == o->died_ms &&
		    strcmp(other->who.consumer, o->who.consumer) == 0)
			return true;
	}
	return false;
}

size_t handovers_n_open(const struct handovers *h)
{
	struct list *it;
	size_t n = 0;

	list_each (it, &h->orders) {
		const struct order *o = list_entry(it, struct order, link);

		n += !o->handed && !is_counted(h, o);
	}
	return n;
}

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct obituary_task *)a)->id, ((const struct obituary_task *)b)->id);
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
	if (o->who.n_ran > 0)
		qsort(o->who.ran, (size_t)o->who.n_ran, sizeof(*o->who.ran), by_id);
	list_append(&h->orders, &o->link);
}

static void give(struct order *o, struct proc *heir, int64_t now_ms)
{
	o->patience_ms = o->patience_ms ? min_i64(2 * o->patience_ms, HANDOVER_ANSWER_MAX_MS)
					: HANDOVER_ANSWER_MS;
	o->heir = heir;
	o->given_ms = now_ms;
	proc_say_order(heir, &o->who);
}

static bool is_silent(const struct order *o, int64_t now_ms)
{
	return o->heir && !o->handed && now_ms - o->given_ms >= o->patience_ms;
}

/* It has an order of the same partition to answer, other than `o`, or has not read what it was told
 * last. In another partition it may be waiting for a Redis that stays away: no reason for `o` to.
 */
static bool is_busy(const struct handovers *h, const struct proc *heir, const struct order *o)
{
	struct list *it;

	INVARIANT(heir);
	list_each (it, &h->orders) {
		const struct order *other = list_entry(it, struct order, link);

		if (other != o && other->heir == heir && !other->handed &&
		    other->who.partition == o->who.partition)
			return true;
	}
	return !heir->chan || chan_unsent(heir->chan) > 0;
}

/* Who gets it: one that answers, if there is one; NULL = nobody can take it now. */
static struct proc *find_heir(const struct handovers *h, const struct order *o,
			      struct proc *const *heirs, size_t n)
{
	struct proc *last = NULL;

	for (size_t i = 0; i < n; i++) {
		if (is_busy(h, heirs[i], o))
			continue;
		if (!heirs[i]->silent)
			return heirs[i];
		/* Another than it had. */
		if (!last || last == o->heir)
			last = heirs[i];
	}
	return last;
}

bool handovers_assign(struct handovers *h, struct proc *const *heirs, size_t n, int64_t now_ms)
{
	struct list *it;
	bool waiting = false;

	list_each (it, &h->orders) {
		struct order *o = list_entry(it, struct order, link);
		struct proc *heir;

		if (o->heir && !is_silent(o, now_ms)) {
			waiting |= !o->handed;
			continue;
		}
		waiting = true;
		if (o->heir)
			o->heir->silent = true;
		heir = find_heir(h, o, heirs, n);
		if (heir)
			give(o, heir, now_ms);
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

static struct order *find(struct handovers *h, int64_t number)
{
	struct list *it;

	list_each (it, &h->orders)
		if (list_entry(it, struct order, link)->who.order == number)
			return list_entry(it, struct order, link);
	return NULL;
}

enum handed handovers_handed(struct handovers *h, struct proc *heir, int64_t number, int64_t moved,
			     int64_t now_ms)
{
	struct order *o = find(h, number);

	heir->silent = false;
	if (!o || o->handed)
		return HANDED_NOTHING;
	o->handed = true;
	o->heir = heir;
	if (moved <= 0)
		return HANDED_NOTHING;
	log_info("handed over %" PRId64 " task%s of %s, %" PRId64 " ms after its death", moved,
		 moved == 1 ? "" : "s", o->who.consumer, now_ms - o->died_ms);
	/* How many were charged now says nothing: an heir before may have done it, and died. */
	return o->who.charge && o->who.n_ran > 0 ? HANDED_SUSPECTS : HANDED_SOME;
}

void handovers_swept(struct handovers *h, int64_t number)
{
	struct order *o = find(h, number);

	if (o)
		drop(o);
}

/* What it is called in Redis; one that serves several partitions may run what is in the first
 * before it has said so. */
static void name_heir(const struct proc *heir, int partition, char out[BOARD_NAME_MAX])
{
	const char *name = heir->board ? heir->board->names[partition].consumer : "";

	if (heir->consumer)
		snprintf(out, BOARD_NAME_MAX, "%s", heir->consumer);
	else if (name[0])
		slice_text(slice_of(name, strnlen(name, BOARD_NAME_MAX)), out, BOARD_NAME_MAX);
	else
		snprintf(out, BOARD_NAME_MAX, "worker %d", (int)heir->pid);
}

void handovers_runs_again(struct handovers *h, const struct proc *heir, int partition,
			  const char *prefix, const char *id, int64_t now_ms)
{
	struct obituary_task key = {.token = 0};
	char name[BOARD_NAME_MAX];
	struct list *it;

	snprintf(key.id, sizeof(key.id), "%s", id);
	/* The newest first: a task may have outlived two workers. */
	for (it = h->orders.prev; it != &h->orders; it = it->prev) {
		const struct order *o = list_entry(it, struct order, link);

		if (o->who.n_ran == 0 || o->who.partition != partition ||
		    !bsearch(&key, o->who.ran, (size_t)o->who.n_ran, sizeof(*o->who.ran), by_id))
			continue;
		name_heir(heir, partition, name);
		log_info("task %s%s of %s runs again in %s, %" PRId64 " ms after the death", prefix,
			 id, o->who.consumer, name, now_ms - o->died_ms);
		return;
	}
}
