/*
 * pipe_lines.h - the lines that a worker writes to the stdin of a pipe handler, see
 * redisq-worker(8): a task, cancel, drain. Appended to a buffer that is kept, so that a task costs
 * no allocation. Pure.
 */
#ifndef REDISQ_PIPE_LINES_H
#define REDISQ_PIPE_LINES_H

#include "answer.h"
#include "task.h"

/*
 * How a task is called towards a handler: its label, as it is where that is UTF-8, else with %XX
 * for each byte above 127. `out` has room for ANSWER_ID_MAX; returns the length.
 */
size_t pipe_id(const struct task *t, char out[ANSWER_ID_MAX]);

/*
 * {"v":1,"type":"task",...}: `id` is pipe_id()'s. The payload is the field of that name in the
 * configuration, and not among "fields". Of several fields with one name the last counts; what is
 * not UTF-8 goes as base64. `deadline_ms`: Unix, 0 = none.
 */
void pipe_task_line(struct buf *out, const struct task *t, const char *id,
		    const struct conf_queue *q, int64_t deadline_ms);
void pipe_cancel_line(struct buf *out, const char *id, const char *reason);
void pipe_drain_line(struct buf *out);

#endif
