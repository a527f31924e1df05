/*
 * proc.h - one worker process: started, listened to, told, watched, buried. It carries out the
 * effects of proc_fsm.h and survives its process: a proc in back-off is the place of the next one.
 *
 * It does not decide what a death leads to (its owner does, in on_death), owns no credit rules and
 * no slot. The order of a burial is fixed: the dead leader is still a zombie, so its pid and group
 * are pinned -> its group and every handler group on its board are killed -> strays are swept ->
 * when the groups are gone (or kill_timeout has passed) the worker is reaped -> on_death.
 */
#ifndef REDISQ_PROC_H
#define REDISQ_PROC_H

#include <ev.h>

#include "chan.h"
#include "credit.h"
#include "generation.h"
#include "groups.h"
#include "heartbeat.h"
#include "house.h"
#include "obituary.h"
#include "proc_fsm.h"
#include "scoreboard.h"
#include "spawn.h"

/* Causes of status --json. */
#define EXIT_CAUSES(X) \
	X(EXIT, "exit") \
	X(SIGNAL, "signal") \
	X(OOM, "oom") \
	X(STUCK, "stuck") \
	X(KILLED, "killed") \
	X(SPAWN, "spawn")
#define CAUSE_ENUM(name, word) CAUSE_##name,
enum exit_cause { EXIT_CAUSES(CAUSE_ENUM) CAUSE_N };
#undef CAUSE_ENUM
const char *exit_cause_word(enum exit_cause c);

struct last_exit {
	bool known;
	enum exit_cause cause;
	int signal; /* 0 = none */
	int code;   /* exit status; CAUSE_SPAWN: errno */
};

struct proc;

/* What the owner hears. It may not free the proc inside; house_changed() was called already. */
struct proc_events {
	/* It has been ready for stable_after. */
	void (*on_stable)(void *arg, struct proc *p);
	/* It lowered its limit by n. */
	void (*on_freed)(void *arg, struct proc *p, int64_t n);
	/* It gave entries back that others should look for. */
	void (*on_released)(void *arg, struct proc *p);
	/* Its answers to an order of handover.h; -1 for a number that cannot be read. */
	void (*on_handed)(void *arg, struct proc *p, int64_t order, int64_t moved);
	void (*on_swept)(void *arg, struct proc *p, int64_t order);
	/* Task `id`, which another had before, runs in it. */
	void (*on_again)(void *arg, struct proc *p, int partition, const char *id);
	/* It has seen entries that only a worker set aside may run. */
	void (*on_suspects)(void *arg, struct proc *p);
	/* It was set aside, and takes any task again: there are none. */
	void (*on_cleared)(void *arg, struct proc *p);
	/* It wants another in its place. */
	void (*on_replace)(void *arg, struct proc *p);
	/*
	 * Dead and buried, or never started (then without a board). The owner takes the credit
	 * back (all of it when
	 * `left`, the handler groups that outlived the burial, is empty), takes over `who` (one of
	 * each partition in which there is something to hand over), and answers with one of
	 * PROC_EV_DIED_*; for DIED_BACKOFF it has set p->backoff_ms. `left` may be taken over (set
	 * to empty).
	 */
	enum proc_event (*on_death)(void *arg, struct proc *p, const struct last_exit *how,
				    struct groups *left, struct obituary *who, int n_who);
};

struct proc {
	struct list link;                 /* the owner's */
	struct house *house;              /* borrowed */
	const struct proc_events *events; /* borrowed */
	void *arg;                        /* borrowed: the owner */
	const char *queue;                /* borrowed */
	unsigned slot;
	struct slotlog *log;    /* borrowed */
	int lock_fd;            /* borrowed; -1 = none */
	struct generation *gen; /* owned reference */

	enum proc_state state;
	bool want; /* it should run; false: it leaves and is not started again */
	struct credit_account credit;
	int64_t drain_ms;   /* limit of the drain, 0 = none */
	int64_t backoff_ms; /* before the next start */

	/* This life; zero and NULL between two. */
	pid_t pid;
	int pidfd;           /* owned, -1 */
	struct chan *chan;   /* owned */
	struct board *board; /* owned mapping */
	bool was_ready;
	bool redis_wait;
	bool started; /* it said so: of a pipe handler, a child is ready */
	bool works;   /* it said so: its handler has run a task */
	bool quiet;
	bool silent; /* it left an order of handover.h unanswered */
	bool abort_sent;
	bool kill_sent;
	bool undead; /* and did not end it within kill_timeout: it waits in the kernel */
	struct heartbeat heartbeat;
	int64_t started_ms; /* monotonic */
	char *consumer;     /* owned, NULL until it said it */
	char *note;         /* owned: why it waits for Redis */
	char *redis;        /* owned: where that is; NULL until it was there */
	char *breaker;      /* owned: why the handler is broken */
	char *refused;      /* owned: why the queue cannot be served; kept after death */
	int64_t rss_bytes;  /* as of the last look */

	/* Burial. */
	struct child_exit corpse;
	int64_t died_ms;      /* monotonic: when its death was seen */
	struct groups groups; /* handler groups to be gone before the reaping */
	struct list bury_link;
	ev_tstamp bury_until; /* loop time */

	ev_io died;
	ev_timer timer;      /* the state's */
	bool overdue;        /* it has expired, and acts in the next turn */
	ev_timer bury_timer; /* looks again */
	struct child_ref ref;
};

/* A proc in state stopped. `gen` gets a reference of its own. */
struct proc *proc_new(struct house *house, const char *queue, unsigned slot, struct slotlog *log,
		      int lock_fd, struct generation *gen, const struct proc_events *events,
		      void *arg);
/* Only without a process. */
void proc_free(struct proc *p);

const struct conf_queue *proc_conf(const struct proc *p);
bool proc_has_process(const struct proc *p);
/* "demo/2", for messages. Valid until the next call on the same buffer. */
#define PROC_NAME_MAX 280
const char *proc_name(const struct proc *p, char out[PROC_NAME_MAX]);

void proc_start(struct proc *p);
/* Told to leave, want = false. `ms` as on the channel: 0 = no limit. */
void proc_drain(struct proc *p, int64_t ms);
/* Told to give its tasks back and leave now; want = false. */
void proc_stop(struct proc *p);
void proc_say_credit(struct proc *p, int64_t n);
void proc_say_quiet(struct proc *p, bool quiet);
void proc_say_scan(struct proc *p);
void proc_say_quarantine(struct proc *p);
void proc_say_ordinary(struct proc *p);
/* An order of handover.h. */
void proc_say_order(struct proc *p, const struct obituary *who);
/* Looks at the heartbeat; `now_ms` on the boot clock. */
void proc_check_heartbeat(struct proc *p, int64_t now_ms);
/* At the supervisor's end: an undead one is left behind, as if it were dead and buried. */
void proc_abandon(struct proc *p);
/* RSS in bytes from /proc, 0 = unknown; also kept in rss_bytes. */
int64_t proc_measure_rss(struct proc *p);
/* Takes another generation for its next start. */
void proc_set_generation(struct proc *p, struct generation *gen);

/* Looks at the graves again: a child of ours has died. */
void proc_bury_all(struct house *house);

/* proc_spawn.c: fills pid, pidfd, chan, board; -1 with errno and a text for people. */
int proc_spawn(struct proc *p, struct err *e) ATTR_MUST_CHECK;
/* proc_death.c: the process has died (the watcher said so). */
void proc_bury(struct proc *p);
/* For the two files above: an event from within. */
void proc_step(struct proc *p, enum proc_event event);
/* proc_words.c: the channel's callbacks. */
void proc_on_word(void *arg, const char *word, const char *rest);
void proc_on_eof(void *arg);

#endif
