/*
 * list.h - intrusive doubly linked list. An object has one `struct list` member per list it can
 * be on; a member that is on no list points to itself. The list owns nothing.
 */
#ifndef REDISQ_LIST_H
#define REDISQ_LIST_H

#include "base.h"

struct list {
	struct list *next; /* borrowed */
	struct list *prev; /* borrowed */
};

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

/* Appends `item` (on no list) at the tail of `head`. */
static inline void list_append(struct list *head, struct list *item)
{
	item->prev = head->prev;
	item->next = head;
	head->prev->next = item;
	head->prev = item;
}

/* Takes `item` off its list; harmless on one that is on none. */
static inline void list_remove(struct list *item)
{
	item->prev->next = item->next;
	item->next->prev = item->prev;
	list_init(item);
}

#define list_entry(ptr, type, member) container_of(ptr, type, member)

/* `it` may not be removed inside the loop. */
#define list_each(it, head) for ((it) = (head)->next; (it) != (head); (it) = (it)->next)

/* `it` may be removed (and freed) inside the loop; no other item may. */
#define list_each_safe(it, tmp, head) \
	for ((it) = (head)->next, (tmp) = (it)->next; (it) != (head); \
	     (it) = (tmp), (tmp) = (it)->next)

#endif
