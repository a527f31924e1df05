/*
 * reload.h - what a reload means: the old and the new configuration compared, the plan as data.
 *
 * A reload rolls every worker of a queue that stays, changed or not: a deploy changes programs,
 * not the file. What the diff decides is which queues start, which drain, and which keys cannot
 * be taken without a new supervisor. Pure.
 */
#ifndef REDISQ_RELOAD_H
#define REDISQ_RELOAD_H

#include "conf.h"

enum reload_action { RELOAD_START, RELOAD_DRAIN, RELOAD_ROLL };

struct reload_item {
	enum reload_action action;
	char *queue;             /* owned */
	enum conf_change change; /* of the queue's keys; RELOAD_ROLL only */
};

struct reload_plan {
	struct reload_item *items; /* owned */
	size_t n;
	struct strv boot; /* "section.key" of what waits for a new supervisor */
	bool live;        /* keys of [supervisor] that are taken at once differ */
};

void reload_plan_make(struct reload_plan *p, const struct conf *was, const struct conf *now);
void reload_plan_release(struct reload_plan *p);

#endif
