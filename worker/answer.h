/*
 * answer.h - what a handler says on fd 3, one JSON object a line:
 *
 *   {"type":"ready","slots":N}                            pipe: once, before anything else
 *   {"type":"done","id":ID,"result":VALUE}
 *   {"type":"retry","id":ID,"error":TEXT,"delay_ms":N}    a failed attempt
 *   {"type":"snooze","id":ID,"delay_ms":N}                not now
 *   {"type":"dead","id":ID,"error":TEXT}                  never
 *   {"type":"progress","id":ID,"value":VALUE}
 *   {"type":"checkpoint","id":ID,"value":VALUE}
 *
 * Who has one task at a time (exec) needs no id. Other types are left for later versions, other
 * members too. Strict about the rest. Pure; nothing is allocated.
 */
#ifndef REDISQ_ANSWER_H
#define REDISQ_ANSWER_H

#include "outcome.h"

enum answer_type {
	ANSWER_NONE, /* an empty line, or a type that is nothing to us */
	/* The ends of a task. */
	ANSWER_DONE,
	ANSWER_RETRY,
	ANSWER_SNOOZE,
	ANSWER_DEAD,
	/* Along the way. */
	ANSWER_READY,
	ANSWER_PROGRESS,
	ANSWER_CHECKPOINT,
};

/* As a task is called towards a handler (pipe_id()); a longer one is nobody's. */
#define ANSWER_ID_MAX 800
#define ANSWER_SLOTS_MAX 10000
/* A line on fd 3: the longest result, and what is around it. */
#define ANSWER_LINE_MAX (OUTCOME_RESULT_MAX + 65536)

struct answer {
	enum answer_type type;
	int slots;          /* READY */
	int64_t delay_ms;   /* -1: not said */
	struct slice value; /* `result` or `value`, as JSON text, in the line; .data NULL: none */
	bool has_id;
	size_t id_len;
	char id[ANSWER_ID_MAX]; /* with a NUL */
	char error[OUTCOME_ERROR_MAX];
};

void answer_init(struct answer *a);
/* One line; -1 with what is wrong in `why`, and `a` as it was. */
int answer_line(struct answer *a, struct slice line, char why[128]) ATTR_MUST_CHECK;
/* It ends its task. */
bool answer_is_end(const struct answer *a);

#endif
