/* reload.c - see reload.h. */
#include "reload.h"

static void add(struct reload_plan *p, enum reload_action action, const char *queue,
		enum conf_change change)
{
	p->items = xrealloc(p->items, (p->n + 1) * sizeof(*p->items));
	p->items[p->n++] =
		(struct reload_item){.action = action, .queue = xstrdup(queue), .change = change};
}

static void note_boot_key(void *arg, const char *key)
{
	struct reload_plan *p = arg;

	strv_add(&p->boot, key);
}

void reload_plan_make(struct reload_plan *p, const struct conf *was, const struct conf *now)
{
	*p = (struct reload_plan){0};
	for (size_t i = 0; i < conf_n_queues(was); i++) {
		const char *name = conf_queue_at(was, i)->name;

		if (conf_queue(now, name))
			add(p, RELOAD_ROLL, name, conf_diff(was, now, CONF_QUEUE, name));
		else
			add(p, RELOAD_DRAIN, name, CONF_SAME);
	}
	for (size_t i = 0; i < conf_n_queues(now); i++) {
		const char *name = conf_queue_at(now, i)->name;

		if (!conf_queue(was, name))
			add(p, RELOAD_START, name, CONF_SAME);
	}
	p->live = conf_diff(was, now, CONF_SUPERVISOR, NULL) != CONF_SAME;
	conf_diff_boot(was, now, note_boot_key, p);
}

void reload_plan_release(struct reload_plan *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->items[i].queue);
	free(p->items);
	strv_release(&p->boot);
	*p = (struct reload_plan){0};
}
