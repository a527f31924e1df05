/*
 * pipe.h - inside of the pipe handler, shared by its rooms:
 *
 *   handler_pipe.c   the pool: who gets which task, time-outs, how many children, the end
 *   pipe_child.c     one child: its process, its states and times, its stopping and its death
 *   pipe_talk.c      what is said to it, and what it says
 *   pipe_plan.h, pipe_lines.h, pipe_exit.h, pipe_seen.h   the decisions and the texts, pure
 *
 * A task is a run from start() until worker_finished(): it waits in the pool, then it is one of a
 * child's. Children are freed in one place only, by the pool at the end of a turn.
 */
#ifndef REDISQ_PIPE_H
#define REDISQ_PIPE_H

#include "line.h"
#include "oom.h"
#include "pipe_exit.h"
#include "pipe_lines.h"
#include "pipe_plan.h"
#include "pipe_seen.h"
#include "spawn.h"
#include "strays.h"
#include "worker.h"

struct pipe_child;

struct pipe_run {
	struct handler *h;  /* borrowed */
	struct list link;   /* the pool's waiting, spare, or a child's runs in the order given */
	struct list due;    /* the pool's, in the order given; on none without a time-out */
	struct list bucket; /* the child's, by hash of the id */
	struct task *task;  /* borrowed; its run until worker_finished() */
	struct pipe_child *child; /* borrowed; NULL while it waits */
	int64_t due_ms;           /* mono */
	enum exec_stop stop;
	int64_t term_at_ms; /* mono; when stopped: its child is signalled unless it has answered */
	int64_t kill_at_ms;
	bool alone;       /* no other was in its child since it got there */
	uint64_t line_at; /* where its line begins in all that the child was written */
	uint64_t hash;    /* of the id */
	char id[ANSWER_ID_MAX];
};

enum { PIPE_OUT, PIPE_ERR, PIPE_ANSWER, PIPE_N_FDS };

struct pipe_fd {
	ev_io io;
	struct pipe_child *child; /* borrowed */
	struct line line;
	int fd; /* owned, -1 = closed */
	int which;
};

#define PIPE_BUCKETS 64

struct pipe_child {
	struct list link;     /* the pool's children */
	struct list to_write; /* the pool's: those that have something to be written */
	struct handler *h;    /* borrowed */
	enum pipe_state state;
	int number;         /* of this worker's, from 1; REDISQ_CHILD */
	char label[16];     /* the same as text */
	struct child child; /* pidfd owned */
	int row;            /* of the scoreboard's groups */

	ev_io death;
	ev_io writable;      /* active while the pipe is full */
	ev_timer timer;      /* the next of the times below */
	int64_t ready_by_ms; /* mono; 0 = not set, as the others */
	int64_t gone_by_ms;  /* it closed an fd that it needs: it is about to die, or broken */
	int64_t term_at_ms;
	int64_t kill_at_ms;
	bool is_leaving; /* drained, and without a task: its stdin is closed */
	bool is_dead;    /* the rest of its words is being read */
	bool is_cut; /* of fd 3 all has been read; what lacks its end is a line if it is right */

	int in_fd;    /* owned, -1 = closed */
	bool is_deaf; /* it has closed its end */
	struct buf out;
	size_t out_at;     /* of it, written */
	uint64_t n_queued; /* bytes that ever went into `out` */
	struct pipe_fd fds[PIPE_N_FDS];
	bool in_long_line; /* on fd 3 */
	struct buf last_words;

	int slots;
	int n_runs;
	struct list runs; /* oldest first */
	struct list buckets[PIPE_BUCKETS];
	struct pipe_seen seen;
	bool apart; /* has a task that is to be alone */
	int64_t n_given;
	int64_t n_answered;
	int64_t worn_at;    /* tasks; 0 = never */
	int64_t memory_max; /* bytes; 0 = any */
	int64_t look_at_ms; /* mono; not to look at its memory before */
	bool worn;
	bool never_ready;
	int64_t started_ms;            /* mono */
	int64_t oom_kills;             /* in our cgroup, before it started */
	char fault[OUTCOME_ERROR_MAX]; /* it broke the protocol thus; empty = it did not */
};

struct handler {
	struct worker *w; /* borrowed */
	struct strv env;  /* owned: of every child */
	char *env_error;  /* owned: why there is none */
	struct strays strays;
	struct oom_watch oom;
	struct list children;
	struct list to_write;
	struct list waiting; /* runs without a child, oldest first */
	struct list due;     /* runs with one that have a time-out: all the same */
	struct list spare;   /* runs that are free */
	ev_timer timer;      /* the oldest of `due`, or the next start */
	int64_t timer_ms;    /* mono: what it is set to, 0 = nothing */
	int slots;           /* as the last child said; 0 = none has */
	int last_number;
	int *free_rows; /* owned: stack of the scoreboard's rows for groups */
	int n_free_rows;
	bool begun; /* the worker was ready once, or a task came */
	bool said_started;
	bool leaving; /* no task will come */
	bool left;    /* and that was said */
	/* Starting: children that died, or never got ready, without having had a task. */
	int n_failures;        /* in a row */
	int64_t next_start_ms; /* mono */
	bool halted;           /* given up until the breaker tries */
	char trouble[OUTCOME_ERROR_MAX];
	bool is_passing; /* it is the machine that is short of something */
};

/* Where a start failed. */
struct pipe_no_start {
	enum spawn_step step;
	int error; /* errno */
};

/* ---- pipe_child.c */
/* A new child, on no list; NULL when it could not be started. */
struct pipe_child *pipe_child_start(struct handler *h, int number, struct pipe_no_start *no);
/* Asks it to stop this task; what does not answer is signalled, and is killed after `grace_ms`. */
void pipe_child_cancel(struct pipe_run *run, enum exec_stop why, const char *reason,
		       int64_t grace_ms, int64_t now);
/* It gets nothing more; without tasks it is to leave, within kill_grace. */
void pipe_child_drain(struct pipe_child *c, int64_t now);
/*
 * What has happened to it that the loop has not told yet: reads its answers, and buries it if it is
 * dead (true). Runs of it may have ended then: their `child` is NULL.
 */
bool pipe_child_look(struct pipe_child *c);
void pipe_child_free(struct pipe_child *c);

/* Towards pipe_talk.c: */
/* The only writer of `state`. */
void pipe_child_step(struct pipe_child *c, enum pipe_event ev);
/* Sets the timer to what is due next. */
void pipe_child_arm(struct pipe_child *c);
/* When it is to be signalled: by those of its tasks that were asked to stop. */
void pipe_child_reckon(struct pipe_child *c);
/* It has broken the protocol, and is no use any more. The first reason is the one. */
void pipe_child_fault(struct pipe_child *c, const char *what);
/* It has closed an fd that it needs: dying, mostly; if not, that is a fault a little later. */
void pipe_child_expect_death(struct pipe_child *c);

/* ---- pipe_talk.c */
/* Gives it a task; written at the end of the turn. */
void pipe_child_give(struct pipe_child *c, struct pipe_run *run, int64_t now);
/* Its run of that id, or NULL. */
struct pipe_run *pipe_child_find(const struct pipe_child *c, const char *id, uint64_t hash);
/* Takes it from its child. */
void pipe_run_detach(struct pipe_run *run);
/* There is something in `out`, or stdin is to be closed: pipe_child_flush() at the end of the turn.
 */
void pipe_child_to_write(struct pipe_child *c);
void pipe_child_flush(struct pipe_child *c);
/* Reads up to `max` bytes; false when nothing more is there now. */
bool pipe_fd_read(struct pipe_fd *p, size_t max);
void pipe_fd_close(struct pipe_fd *p);
/* Reads go on. */
void pipe_child_resume(struct pipe_child *c);
/* Bytes that were for it and that it has not read: counted when it is dead. */
uint64_t pipe_child_n_unread(const struct pipe_child *c);
void pipe_talk_init(struct pipe_child *c);
void pipe_talk_watch(struct pipe_child *c);
void pipe_talk_release(struct pipe_child *c);

#define PIPE_READ_ANSWERS (256 * 1024) /* per turn */

/* ---- handler_pipe.c */
/* The child has said ready. */
void pipe_on_ready(struct pipe_child *c);
/* The run is over: its task's outcome is filled in. */
void pipe_on_end(struct pipe_run *run);
/* The child is gone, and all of its runs with it; `was`: its state before. */
void pipe_on_gone(struct pipe_child *c, const struct child_exit *how, enum pipe_state was);

#endif
