/*
 * task.h - one task in one slot, from the read that brought it to the answer that settled it.
 *
 *   fetched -> running -> settling -> gone
 *
 * The slot (and its credit) is held from fetched until gone. Who owns what: the bytes of the entry
 * are the task's; `run` is the handler's. Pure: no clock, no log, no loop.
 */
#ifndef REDISQ_TASK_H
#define REDISQ_TASK_H

#include "buf.h"
#include "ledger.h"
#include "list.h"
#include "outcome.h"
#include "scoreboard.h"
#include "suspect.h"
#include "verdict.h"

#define TASK_STATES(X) \
	X(GONE, "gone")       /* the slot is free */ \
	X(FETCHED, "fetched") /* ours, not started: waits for fresh evidence */ \
	X(RUNNING, "running") \
	X(SETTLING, "settling") /* has a verdict that Redis has not confirmed */

#define TASK_EVENTS(X) \
	X(FETCH, "fetched") \
	X(START, "started") \
	X(FINISH, "finished") /* there is a verdict: after the run, or instead of one */ \
	X(SETTLE, "settled")  /* Redis answered */ \
	X(DISOWN, "disowned") /* lost to another, and no handler (any more) */

enum task_state {
#define X(name, word) TASK_##name,
	TASK_STATES(X)
#undef X
		TASK_N_STATES
};

enum task_event {
#define X(name, word) TASK_ON_##name,
	TASK_EVENTS(X)
#undef X
		TASK_N_EVENTS
};

#define TASK_LABEL_MAX 255

/* What a running task says about itself, while it runs. */
enum task_note {
	NOTE_PROGRESS,   /* for people */
	NOTE_CHECKPOINT, /* for the attempt that follows, should this one not end well */
	TASK_N_NOTES
};

#define TASK_PROGRESS_MAX 4096
#define TASK_CHECKPOINT_MAX 65536
#define TASK_RESULT_TTL_MAX 31622400000LL /* 366 days */

/* How far a note has come; the newest counts. */
struct note {
	unsigned said; /* how many there were */
	unsigned sent; /* the last of them that is on its way, or there */
	unsigned kept; /* the last of them that Redis is known to have */
};

struct field {
	struct slice name; /* both into task->bytes */
	struct slice value;
};

struct queue;

struct task {
	struct queue *queue; /* borrowed: whose it is, unless gone */
	int partition;       /* which one that is (partition.h), */
	int n_partitions;    /* of how many */
	enum task_state state;
	enum ledger_place place;
	int row;               /* on the scoreboard while a handler runs, else -1 */
	char id[BOARD_ID_MAX]; /* entry id: the key of everything in Redis */
	uint64_t token; /* PEL delivery count: with the consumer's name, what owns the entry */
	int attempt;    /* from 1 */
	int snoozes;
	int64_t deliveries; /* all hands it went through, this one included */
	int64_t enqueued_at_ms;
	int64_t result_ttl_ms;          /* its producer wants to know how it ends; -1: not said */
	char label[TASK_LABEL_MAX + 1]; /* redisq.id or the entry id (in one of many partitions with
					 * its number, "3:1700000000000-0"): REDISQ_ID, the
					 * idempotency key; without blanks and control bytes */

	struct buf bytes;     /* owned */
	struct field *fields; /* owned; the user's, in order, duplicates too */
	size_t n_fields;
	size_t cap_fields;

	struct buf checkpoint; /* owned; what the attempt before left, or this one said last; bytes;
				* empty = none */
	struct buf progress;   /* owned; what this attempt said last */
	struct note notes[TASK_N_NOTES];
	int64_t progress_at_ms; /* boot clock: not to be kept again before */

	int64_t evidence_ms;   /* boot clock: ours for sure until then */
	int64_t started_ms;    /* boot clock */
	bool wants_checkpoint; /* what the attempt before left is not known yet */
	bool asked_checkpoint; /* and was asked for */
	bool lost;             /* another has it: the result will be refused, so it is not sent */
	enum suspicion suspicion;
	char crash_cause[OUTCOME_ERROR_MAX]; /* of SUSPECT_GUILTY */
	bool is_old;                         /* there before the breaker's present try began */
	bool orphan;                         /* its entry was deleted by somebody while it ran */
	bool sent;                           /* its settlement is under way */
	bool resent;                         /* and had been sent before, on a link that was lost */
	struct outcome outcome;
	struct verdict verdict;
	struct list state_link; /* the table's list of the tasks in this state */
	struct list link;       /* settlements to send or under way */
	void *run;              /* the handler's, NULL unless it runs */
};

void task_init(struct task *t);
void task_release(struct task *t);

/* The only writer of `state`. False: the event cannot happen in this state; nothing was changed. */
bool task_event(struct task *t, enum task_event ev) ATTR_MUST_CHECK;
const char *task_state_word(enum task_state s);
const char *task_event_word(enum task_event ev);

/* A new entry in a free slot, of partition 0 of 1 until it is said: id and token; fields follow by
 * task_add_field(), then task_parsed(). */
void task_begin(struct task *t, struct queue *queue, struct slice id, uint64_t token);
void task_add_field(struct task *t, struct slice name, struct slice value);
/* Reads the reserved fields out of what was added; `token` counts as this entry's deliveries. */
void task_parsed(struct task *t);
/* The newest note of its kind, in place of the one before; -1: longer than its kind may be. */
int task_note(struct task *t, enum task_note what, struct slice value) ATTR_MUST_CHECK;
/* An attempt of it may have run, and left a checkpoint. */
bool task_ran_before(const struct task *t);
/* Bytes of all user fields, names included. */
size_t task_size(const struct task *t);
/* The last field of that name, or NULL. */
const struct field *task_field(const struct task *t, const char *name);

/* Milliseconds in an entry id ("1700000000000-3"); 0 when it is none. */
int64_t entry_id_ms(const char *id);

#endif
