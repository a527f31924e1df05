/*
 * breaker.h - stops fetching when the handler itself is broken, so that it cannot burn through the
 * queue. closed -> (a broken handler) -> open -> (delay) -> half open: one task is tried -> closed,
 * or open again. Pure: told the time, answers what may be fetched.
 *
 * A handler that fails at once, task after task, is broken too, whatever its exit codes: so are
 * BREAKER_FAST_MS and failures_max meant. Those tasks were charged as usual, and so are those it is
 * tried with: each try may have twice as many, or a good task behind bad ones would wait for ever.
 *
 * Whether it is the handler or one odd task cannot be told from a single exit code. So a handler
 * that has worked before is tried again soon; the tasks it broke on are remembered and are not the
 * ones it is tried with; and one that breaks it again, while it works for others, is to blame
 * itself, then and in all its attempts. Otherwise a single task could keep every worker's breaker
 * open. What it does from then on says nothing of the handler, neither good nor bad.
 */
#ifndef REDISQ_BREAKER_H
#define REDISQ_BREAKER_H

#include "base.h"
#include "scoreboard.h"
#include "task.h"

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };

#define BREAKER_BLAMED 16
#define BREAKER_SOON_MS 1000
#define BREAKER_FAST_MS 1000
#define BREAKER_PROBE_MAX 1024

struct breaker {
	enum breaker_state state;
	int64_t delay_ms;
	int failures_max;    /* 0 = they never open it */
	int n_failures;      /* fast ones, in a row */
	int64_t probe_at_ms; /* when open: monotonic time of the next try */
	int probe_size;      /* tasks that a try may have: grows while they only fail */
	bool has_worked;     /* since it was last tried in vain */
	struct {
		char id[BOARD_ID_MAX]; /* the entry it was then, in that partition */
		int partition;
		char label[TASK_LABEL_MAX + 1]; /* the task, whichever attempt */
		bool others_worked;             /* since then */
	} blamed[BREAKER_BLAMED];               /* a ring */
	unsigned n_blamed;
};

void breaker_init(struct breaker *b, int64_t delay_ms, int failures_max);
/*
 * The handler proved broken on this task; true when that opened it (the first to say so logs it).
 * `is_old`: the task was there before the present try began, and decides nothing about it.
 */
bool breaker_broken(struct breaker *b, int partition, const char *id, const char *label,
		    bool is_old, int64_t now_ms);
/* Not even a try was needed to see that it cannot work. */
bool breaker_missing(struct breaker *b, int64_t now_ms);
/* A task failed within BREAKER_FAST_MS; true when that opened it. */
bool breaker_failed_fast(struct breaker *b, bool is_old, int64_t now_ms);
/* The handler worked, whatever the task's fate; true when that closed it. */
bool breaker_worked(struct breaker *b, bool is_old);
/* It broke on this entry before. Two partitions may have entries of the same id. */
bool breaker_blames(const struct breaker *b, int partition, const char *id);
/* It broke on this task, and has worked for others since: it is the task. */
bool breaker_is_to_blame(const struct breaker *b, const char *label);
/* Tells an open breaker the time; true when it became half open. */
bool breaker_tick(struct breaker *b, int64_t now_ms);
/* How many tasks may be held and asked for in all; `n_old` are there from before the try. */
int breaker_limit(const struct breaker *b, int credit, int n_old);

#endif
