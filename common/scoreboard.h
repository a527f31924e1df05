/*
 * scoreboard.h - what a worker lets its supervisor see without asking: shared memory, one board
 * per worker process, made by the supervisor before the start, so that it outlives the worker.
 *
 * The worker is the only writer. Numbers are atomics; a task row is valid while `seq` is even and
 * unchanged around the read (board_read_task). Nothing here is trusted for safety but the handler
 * groups: after a death they are what must be killed before the tasks are given to another; and how
 * large the board is, which a worker cannot write: a handler in its process may write anywhere.
 */
#ifndef REDISQ_SCOREBOARD_H
#define REDISQ_SCOREBOARD_H

#include <stdatomic.h>

#include "base.h"
#include "partition.h"

#define BOARD_MAGIC 0x72715342u /* "rqSB" */
#define BOARD_ID_MAX 48
#define BOARD_NAME_MAX 192
#define BOARD_HEAD 65536 /* a multiple of any page's size; but one page of it is ever touched */

/*
 * Two kinds of rows: one per task that runs, and one per process that a handler keeps for many
 * tasks, which may be there without a task.
 */

/* A task row. `id` empty = the slot is free. */
struct board_task {
	_Atomic uint32_t seq;
	int32_t attempt;
	uint64_t token;        /* PEL delivery count */
	int64_t started_ms;    /* boot clock */
	int32_t pgid;          /* group of the handler's process for it, 0 = none */
	int32_t partition;     /* of the queue (partition.h); 0 where there is but one */
	char id[BOARD_ID_MAX]; /* entry id */
};

/* Under which name, and over which links, a partition of the queue is served. */
struct board_name {
	_Atomic int64_t client_id[2]; /* CLIENT ID of the fetch and cmd links, 0 = unknown */
	char run_id[44];              /* of the server those belong to */
	char nonce[36];               /* of the claim */
	/* Empty before it has one, and when it leaves in good order: nothing is left under it. */
	char consumer[BOARD_NAME_MAX];
};

struct board {
	/* Read-only for the worker. */
	uint32_t magic;
	uint32_t n_tasks;
	uint32_t n_groups;
	char rest_of_head[BOARD_HEAD - 3 * sizeof(uint32_t)];

	_Atomic int64_t heartbeat_ms; /* boot clock of the last loop turn; 0 = not begun */
	_Atomic int32_t consuming;    /* 1 = reading, or full; see status */
	_Atomic int32_t running;      /* held by the ledger */
	_Atomic int64_t done;
	_Atomic int64_t failed;
	_Atomic int64_t lost_leases;
	_Atomic int64_t log_dropped; /* lines */
	struct board_name names[PARTITIONS_MAX];
	struct board_task tasks[]; /* n_tasks, and after them n_groups x _Atomic int32_t */
};

/* A new board for `n_tasks` slots and `n_groups` kept processes in a memfd (CLOEXEC); NULL with
 * errno. */
struct board *board_create(uint32_t n_tasks, uint32_t n_groups, int *fd);
/* The worker's view of an inherited one; NULL with errno. */
struct board *board_attach(int fd);
void board_unmap(struct board *b);

/* Writer: fills (`seq` apart) or frees row `i`. */
void board_set_task(struct board *b, uint32_t i, const struct board_task *t);
void board_clear_task(struct board *b, uint32_t i);
/* Writer: the group of kept process `i`; 0 = there is none (any more). */
void board_set_group(struct board *b, uint32_t i, pid_t pgid);
/* Reader: the same. */
pid_t board_group(struct board *b, uint32_t i);
/* Writer: nothing is left in Redis under any name of ours. */
void board_clear_names(struct board *b);
/* Reader: is there one? */
bool board_has_name(const struct board *b);
/* Reader: false when the row is free. */
bool board_read_task(struct board *b, uint32_t i, struct board_task *out);

#endif
