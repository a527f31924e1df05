/*
 * supervisor.h - the whole: the loop, the accepted configuration, one fleet per queue, and what
 * the process as such is doing. It never talks to Redis.
 *
 * Precedence of what it does: running < quiet, reloading < draining < stopping; a lower one never
 * undoes a higher one. Events only note what is wanted; at the end of each loop turn that changed
 * something (`turn`) the fleets are reconciled, the reload is advanced and waiters are answered.
 */
#ifndef REDISQ_SUPERVISOR_H
#define REDISQ_SUPERVISOR_H

#include "control.h"
#include "daemon.h"
#include "fleet.h"
#include "lock.h"
#include "options.h"
#include "private_redis.h"
#include "sig.h"
#include "waiters.h"

enum supervisor_mode { MODE_STARTING, MODE_RUNNING, MODE_DRAINING, MODE_STOPPING };

struct last_reload {
	bool known;
	bool ok;
	bool rolled; /* it went through, whatever became of one that was asked for meanwhile */
	char *error; /* owned, NULL when ok */
};

struct supervisor {
	struct house house;
	const struct options *options; /* borrowed */
	struct generation *gen;        /* owned reference: the newest accepted configuration */
	struct list fleets;            /* of struct fleet, owned */
	enum supervisor_mode mode;
	bool quiet;
	bool reloading;
	struct last_reload last_reload;
	char *refused_reload; /* owned: why one was refused while another was under way, NULL */
	int exit_code;        /* beside what house.forced says */

	/* Where things are; fixed for life. */
	char *run_dir;   /* owned */
	char *state_dir; /* owned */
	char *log_dir;   /* owned */
	char *redis_url; /* owned: of -e, else NULL */
	bool log_files;
	bool log_stdout;
	char *control_path; /* owned */

	struct instance_lock lock;
	struct logsink *logs;          /* owned */
	struct control *control;       /* owned */
	struct private_redis *redis;   /* owned, NULL without -e */
	struct daemon *daemon;         /* borrowed */
	struct waiters waiters;        /* requests that wait for a fact */
	int64_t started_ms;            /* monotonic */
	int64_t ticked_ms;             /* boot clock of the last tick */
	int64_t tick_interval_ms;      /* from one to the next */
	int64_t tick_limit_ms;         /* the shortest heartbeat limit, 0 = none */
	int64_t files_checked_ms;      /* boot clock */
	enum instance_lock_is lock_is; /* as of then */
	bool had_terminal;             /* whose hang-up would end us */

	struct sig_watch signals;
	ev_prepare turn;
	ev_timer tick;
};

/* What the process reacts to, 0-terminated: for sig_block(), before anything else. */
extern const int supervisor_signals[];

/*
 * Builds everything and starts the queues; takes over `conf`. `env` is what workers get. -1 with
 * `e`: nothing is left behind.
 */
int supervisor_init(struct supervisor *sv, const struct options *options, struct conf *conf,
		    char *const *env, struct daemon *daemon, struct err *e) ATTR_MUST_CHECK;
/* Runs until all is over, cleans up, returns the exit code. */
int supervisor_run(struct supervisor *sv);

/* Workers finish their tasks within drain_timeout, then the supervisor ends. */
void supervisor_drain(struct supervisor *sv);
/* Workers give their tasks back now, then the supervisor ends. */
void supervisor_stop(struct supervisor *sv);
void supervisor_set_quiet(struct supervisor *sv, bool quiet);
void supervisor_reopen_logs(struct supervisor *sv);

/* The queue's fleet; NULL. */
struct fleet *supervisor_fleet(struct supervisor *sv, const char *queue);
const char *supervisor_mode_word(const struct supervisor *sv);

/* sig_fn of supervisor_signals. */
void supervisor_on_signal(void *arg, int signo, bool sent);

/* tick.c: begins the regular look, or goes on with the interval that the configuration asks for. */
void supervisor_arm_tick(struct supervisor *sv);

/* reloading.c */

/*
 * Validates and starts a reload. False: nothing has changed, last_reload says why. A reload under
 * way is overtaken by the newer configuration.
 */
bool supervisor_reload(struct supervisor *sv);
/* Sees whether the reload has come to its end. */
void supervisor_reload_step(struct supervisor *sv);

/* status.c: the object of status --json. New reference. */
json_t *supervisor_status(struct supervisor *sv);
/* verbs.c: the control socket's callback. */
void supervisor_request(void *arg, struct control_call *call, const char *verb, json_t *request);

#endif
