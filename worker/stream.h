/*
 * stream.h - inside of the back end, shared by its rooms. A queue, or a partition of one, is a
 * stream of Redis, or a list on which the scripts do what a stream does (common/scripts/_list.lua);
 * which one is its `kind`, and only its opening and its reads differ here:
 *
 *   queue_stream.c   the links, the turn, the alarm
 *   stream_list.c    reading a list
 *   stream_kind.c    is what lies there of that kind?
 *   stream_open.c    group and claim: from connected to open; leaving
 *   stream_read.c    XREADGROUP and the entries it brings
 *   stream_done.c    done, and nothing more to it
 *   stream_settle.c  verdicts to Redis, and its answers
 *   stream_note.c    checkpoints and progress of what runs
 *   stream_care.c    renew, promote
 *   stream_take.c    scan, take, and the names of the dead
 *   stream_handover.c  what a dead worker had pending
 *   stream_trouble.c   what is done about errors
 *   stream_policy.c    is Redis set to throw keys away?
 *   stream_needs.c     what does Redis let us do?
 *
 * Two links. `fetch` carries the reads, and in front of them whatever is due, in one write; while
 * it is blocked in a read, everything else goes over `cmd`. worker/protocol.txt is the contract.
 */
#ifndef REDISQ_STREAM_H
#define REDISQ_STREAM_H

#include <ev.h>

#include "args.h"
#include "keys.h"
#include "lease.h"
#include "log.h"
#include "queue.h"
#include "rconn.h"
#include "reply.h"
#include "script.h"
#include "worker.h"

#define STREAM_BLOCK_MS 2000
#define STREAM_BLOCK_IDLE_MS 5000 /* after STREAM_LONG_IDLE_MS without an entry */
#define STREAM_LONG_IDLE_MS 5000
#define STREAM_BLOCK_UNENDABLE_MS 1000 /* where CLIENT UNBLOCK is refused: a stop waits for it */
#define STREAM_SETTLE_BATCH 64
#define STREAM_PROMOTE_LIMIT 128
#define STREAM_SCAN_PAGE 100
#define STREAM_EXTRAS_MAX 64
#define STREAM_LOOK_MS 4000 /* how often to look for delayed tasks of others */
/* Why a task is lost, for people. */
#define STREAM_ANOTHERS "it is another's now, its lease was lost"
#define STREAM_NAMES_EVERY_MS 15000
#define STREAM_WITHOUT_MAX 768

#define STREAM_PHASES(X) \
	X(CONNECTING, "connecting") /* no group or name yet, links not both up */ \
	X(OPENING, "opening")       /* finding the group, taking a name */ \
	X(OPEN, "open")             /* working; a link may be down, see stream_linked() */ \
	X(FENCED, "fenced")         /* the name is another's: stopping all, then a new name */ \
	X(LEAVING, "leaving")       /* removing the consumer */ \
	X(LEFT, "left")             /* or refused: nothing is sent any more */

enum stream_phase {
#define X(name, word) STREAM_##name,
	STREAM_PHASES(X)
#undef X
};

/* What is asked of Redis, in the words of the log. */
#define STREAM_OPS(X) \
	X(OPEN, "opening the queue") \
	X(GROUP, "creating the consumer group") \
	X(NAME, "taking a consumer name") \
	X(READ, "reading") \
	X(WAIT, "waiting for the list") \
	X(SETTLE, "settling") \
	X(RENEW, "renewing leases") \
	X(PROMOTE, "moving delayed tasks back") \
	X(SCAN, "looking for stale entries") \
	X(TAKE, "taking over entries") \
	X(CHECKPOINT, "reading a checkpoint") \
	X(HANDOVER, "handing over a dead worker's tasks")

enum stream_op {
#define X(name, word) STREAM_OP_##name,
	STREAM_OPS(X)
#undef X
		STREAM_N_OPS
};

enum read_state {
	READ_NONE,
	READ_SENT,      /* without BLOCK: the answer is near */
	READ_BLOCKED,   /* with BLOCK: the fetch link is taken until it answers */
	READ_UNBLOCKING /* CLIENT UNBLOCK was sent */
};

/* What the queue is in Redis. */
struct stream_kind {
	const char *word;
	const char *length; /* the command that tells how many wait */
	bool on_lists;
	/* What follows when nothing of the other kind lies there; the last is stream_take_name().
	 */
	void (*open)(struct queue *q);
	void (*read)(struct queue *q, int64_t now_ms);
};
extern const struct stream_kind stream_kind, stream_kind_list;

struct queue {
	struct worker *w; /* borrowed */
	int partition;    /* of the worker's queue */
	char what[24];    /* "queue", or "partition 3", for the log */
	const struct stream_kind *kind;
	const struct conf_queue *c; /* borrowed */
	const struct queue_events *events;
	struct keys keys;
	struct rconn *fetch; /* owned */
	struct rconn *cmd;   /* owned */
	struct buf where;    /* the server that both ended at the last time */
	enum stream_phase phase;

	/* Name and claim. */
	char consumer[BOARD_NAME_MAX];
	char nonce[36];
	int n_name;            /* which candidate name */
	struct buf record;     /* value of the claim record */
	int64_t n_links_lost;  /* stands in it, and in each note */
	int64_t name_until_ms; /* evidence of the name, boot clock */
	bool scripts_loaded;   /* since a link was made */
	bool announced;        /* on_ready was said */
	bool asking_open;      /* a step of opening is unanswered */
	int64_t n_entries;     /* of the stream, while opening */

	/* Reading. */
	enum read_state reading;
	int read_asked;
	int64_t read_sent_ms;
	int64_t last_entry_ms;
	bool maybe_more;   /* the last read brought entries: read on without BLOCK */
	bool full;         /* and, without BLOCK, as many as it had asked for */
	int64_t looked_ms; /* when it was answered */
	int64_t ask_at_ms; /* when to ask for credit again, if nothing else wakes us; 0 = no need */
	bool no_unblock;   /* CLIENT UNBLOCK is refused */

	/* Of a list only. */
	bool arrived; /* our last wait may have moved something that is nobody's task yet */
	int64_t look_aside_ms; /* when to look next at what others have moved, and left there */
	bool no_blmove;

	/* Settling. */
	struct list to_settle;   /* tasks whose verdict was not sent yet */
	bool no_short_way;       /* stream_done.c does not work on this link */
	bool split;              /* the last batch failed as a whole: send one by one */
	int64_t cannot_since_ms; /* boot clock: when it began that none can be sent; 0 = they can */

	/* Care. */
	bool renewing;
	int64_t renew_sent_ms;
	int64_t renew_at_ms;
	int64_t renew_hold_ms; /* not before this, after one that failed */
	bool promoting;
	int64_t promote_at_ms; /* due time of the next delayed task, boot clock */
	int64_t promote_look_ms;
	struct log_limit promote_log;
	bool scanning;
	bool scan_now;
	bool take_first; /* entries wait to be taken: they come before new ones */
	int64_t scan_at_ms;
	int64_t scan_sent_ms;
	char scan_from[BOARD_ID_MAX]; /* "-" at the start of a pass */
	int take_asked;
	int64_t take_sent_ms;
	int64_t take_hold_ms;     /* not before this, after one that brought nothing */
	unsigned n_takes_refused; /* in a row */
	int64_t names_at_ms;
	struct stale_guard stale;
	struct list handovers;  /* of struct handover, owned */
	int64_t handover_at_ms; /* when one of them goes on by itself */

	/* Notes. */
	int64_t note_at_ms; /* when the next is to be sent; INT64_MAX = there is none */
	int64_t note_hold_ms;
	int n_notes_sent; /* commands under way */
	unsigned n_notes_bad;
	bool notes_said; /* that they cannot be kept */
	bool ask_checkpoints;

	/* Trouble: nothing is sent before this. */
	int64_t pause_until_ms;
	enum stream_op pause_op;
	unsigned n_trouble[STREAM_N_OPS]; /* in a row */
	bool moving;   /* the slot, or the cluster is down: nothing can be done */
	bool hindered; /* it is not what it was when it was opened, and cannot be read */
	struct log_limit moving_log;
	bool moved_said; /* that the url should be cluster:// */
	ev_timer alarm;

	/* The eviction policy. */
	int64_t policy_at_ms; /* when to look next */
	bool evicts;          /* as last seen, and said */

	/* What Redis lets us do. */
	char without[STREAM_WITHOUT_MAX]; /* as last said; "" = nothing is missing */
	int64_t denied_at_ms;             /* when to find out again what is not permitted */
};

/* Both links stand. */
bool stream_linked(const struct queue *q);
/* The link for what must not wait behind a blocked read. */
struct rconn *stream_link(struct queue *q);
/* The one for what keeps alive what we have, with one link down too; NULL when none can be used. */
struct rconn *stream_any_link(struct queue *q);
/* The name is proved, and no trouble is being waited out. */
bool stream_can_send(const struct queue *q, int64_t now_ms);
void stream_set_phase(struct queue *q, enum stream_phase phase, const char *why);
/* Sends and forgets the arguments; -1 when the link is down (as rconn_send). */
int stream_send(struct rconn *c, struct args *a, int64_t extra_ms, rconn_reply_fn *fn,
		void *arg) ATTR_MUST_CHECK;
/* Likewise. A script that Redis does not know goes again over cmd, where no read blocks. */
int stream_script(struct queue *q, struct rconn *c, enum script_id id, int n_keys, struct args *a,
		  rconn_reply_fn *fn, void *arg) ATTR_MUST_CHECK;
/* stream_trouble.c */
void stream_complain(struct queue *q, const char *fmt, ...) ATTR_PRINTF(2, 3);
/*
 * The one reaction to errors: complains, pauses with back-off or drops the
 * links, re-creates the group, refuses the queue. REPLY_LOST is nothing: the link says it itself,
 * and so does one that follows MOVED.
 */
void stream_trouble(struct queue *q, const struct redisReply *r, enum stream_op op);
/* Waits with back-off before anything new is sent. */
void stream_pause(struct queue *q, enum stream_op op);
/* An answer that is no error and makes no sense: nothing is concluded from it. */
void stream_odd(struct queue *q, enum stream_op op);
/* That went well: its trouble is forgotten. */
void stream_fine(struct queue *q, enum stream_op op);

/* stream_open.c */
void stream_open_step(struct queue *q);
/* The group is there, or none is needed: a name and its claim. */
void stream_take_name(struct queue *q);
/* The link was lost, or a drain has begun, since the step was sent that `r` answers. */
bool stream_opening_ended(struct queue *q, const struct redisReply *r);
void stream_recreate_group(struct queue *q);
void stream_leave_step(struct queue *q);
void stream_new_nonce(struct queue *q);
void stream_make_record(struct queue *q);
void stream_refuse(struct queue *q, const char *why);

/* stream_kind.c */
/* The first step of opening: refuses the queue where keys of the other kind lie (kind.h). */
void stream_ask_kind(struct queue *q);

/* stream_list.c */
/* Makes the arguments of a script those of the same for lists; returns the number of KEYS then. */
int stream_add_list_args(const struct queue *q, int n_keys, struct args *a);

/* stream_read.c */
void stream_read(struct queue *q, int64_t now_ms);
/* How many a read may ask for now; what follows for the others is done. */
struct share_grant stream_grant(struct queue *q, int64_t now_ms);
struct share stream_look(const struct queue *q, int64_t now_ms);
/* Its answer is there, or there will be none: the credit is free again, but for `n_new`. */
void stream_read_over(struct queue *q, int n_new);
/* A read has brought nothing. If the handler is to be tried, and nothing new is there to try it
 * with, then with what was given back. */
void stream_nothing_new(struct queue *q);
/* The longest BLOCK of this queue. */
int64_t stream_block_max_ms(const struct queue *q);
/* How long a read that is sent now blocks: longer when nothing came for long, but no longer than a
 * stop may take where it cannot be ended. */
int64_t stream_block_ms(const struct queue *q, int64_t now);
void stream_unblock(struct queue *q);
/* An entry that is ours now. */
struct arrival {
	struct slice id; /* all borrowed */
	uint64_t token;
	const struct redisReply *fields; /* NULL: deleted meanwhile */
	struct slice crash_record;
	bool has_checkpoint; /* it is known what the attempt before has left, or that it left none
			      */
	struct slice checkpoint;
	int64_t evidence_ms;
};
/* A new task in the table, or one that is there takes over the token. True: new. */
bool stream_adopt(struct queue *q, const struct arrival *in);
/* Starts what was fetched and has fresh evidence; true when some of it has not. What waits for its
 * checkpoint is left out. */
bool stream_start_fetched(struct queue *q, int64_t now_ms);

/* stream_settle.c */
/* Sends what may be sent; true when something needs fresher evidence first. */
bool stream_settle_flush(struct queue *q, int64_t now_ms);
/*
 * In one of many partitions: settlements that cannot be sent now take no credit from the others, be
 * it that its node is away or that it refuses them. Nor does what was fetched and cannot be started
 * after a while, since nobody can prove it or read its checkpoint: that is given back, uncharged.
 * True when some were put off now.
 */
bool stream_put_off(struct queue *q, int64_t now_ms);
/* As long as there are such nothing more is asked for here. */
bool stream_has_put_off(const struct queue *q);
/* Entries under our name that are not in the table: lets others have them. */
struct candidate;
void stream_release(struct queue *q, const struct candidate *list, int n);
/* How long the end of a task is of interest to somebody, in ms; 0 = it is not. */
int64_t stream_wanted_ms(const struct queue *q, const struct task *t);
/* Redis has answered for one that was sent: 1, 0, -1, 2 as in settle.lua. */
void stream_settled(struct queue *q, struct task *t, int64_t answer);
/* It has not, or not so that anything follows from it: once more. */
void stream_settle_again(struct queue *q, struct task *t);

/* stream_done.c */
/* Sends those that are simply done; what it leaves behind is the script's. */
void stream_done_flush(struct queue *q, int64_t now_ms);

/* stream_settle.c, too */
/* The task is another's. */
void stream_lose(struct queue *q, struct task *t, const char *why);

/* stream_note.c */
/* A task that runs has said something. */
void stream_note(struct queue *q, struct task *t);
void stream_note_flush(struct queue *q, int64_t now_ms);
/* It had an attempt before: it does not start before it is known what that has left. */
void stream_ask_checkpoint(struct queue *q, struct task *t);
/* Those of which it was not asked yet, or without an answer. */
void stream_ask_checkpoints(struct queue *q, int64_t now_ms);

/* stream_care.c */
void stream_renew(struct queue *q, int64_t now_ms);
/* What Redis's clock says: where it has jumped nothing stale is taken for a while. */
void stream_hear_time(struct queue *q, int64_t redis_ms, int64_t now_ms);
/* When a delayed task is due, or it is time to look. */
void stream_promote(struct queue *q, int64_t now_ms);
/* A task of ours will be due in `delay_ms`. */
void stream_due_in(struct queue *q, int64_t delay_ms);
void stream_fence(struct queue *q);

/* stream_handover.c */
/* Takes over `who` (left empty). */
void stream_hand_over(struct queue *q, struct obituary *who);
/* The next steps; when to look again (boot clock), INT64_MAX = not by itself. */
int64_t stream_handovers(struct queue *q, int64_t now_ms);
void stream_forget_handovers(struct queue *q);

/* stream_policy.c */
/* When it is time. */
void stream_look_at_policy(struct queue *q, int64_t now_ms);

/* stream_needs.c */
/* Both links are new: what do we have to do without? */
void stream_try_options(struct queue *q);
/* If `r` says that something is not permitted: finds out what, and says it, at most once a minute.
 */
void stream_find_denied(struct queue *q, const struct redisReply *r);

/* stream_take.c */
/* When a pass is due, or asked for. */
void stream_scan(struct queue *q, int64_t now_ms);
/* Takes (id, owner, token) triples, `n` of them, for credit that was asked for (LEDGER_CLAIM). */
struct candidate {
	char id[BOARD_ID_MAX];
	char owner[BOARD_NAME_MAX];
	uint64_t token;
};
void stream_take(struct queue *q, const struct candidate *list, int n, int64_t now_ms);
/* Those that a script has handed out ({{id, token, fields, crash record, checkpoint} ...}), at most
 * `max`; returns how many are new. */
int stream_adopt_all(struct queue *q, const struct redisReply *list, int max, int64_t evidence_ms);

#endif
