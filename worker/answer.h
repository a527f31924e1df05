/*
 * answer.h - what a handler says on fd 3: one JSON object a line,
 *   {"type":"done"|"retry"|"snooze"|"dead", "error":..., "delay_ms":...}
 * The last of those counts; other types are left for later versions. Pure.
 */
#ifndef REDISQ_ANSWER_H
#define REDISQ_ANSWER_H

#include "outcome.h"

enum answer_type { ANSWER_NONE, ANSWER_DONE, ANSWER_RETRY, ANSWER_SNOOZE, ANSWER_DEAD };

struct answer {
	enum answer_type type;
	int64_t delay_ms; /* -1: not said */
	char error[OUTCOME_ERROR_MAX];
};

void answer_init(struct answer *a);
/* One line; -1 with what is wrong in `why`: the line is ignored. */
int answer_line(struct answer *a, struct slice line, char why[128]) ATTR_MUST_CHECK;

#endif
