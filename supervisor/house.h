/*
 * house.h - what the parts of the supervisor share: the loop, the live configuration, the logs,
 * the register of children; and the few facts that everybody adds to and only the supervisor
 * acts on. Owned by struct supervisor, borrowed by fleets, slots and processes.
 */
#ifndef REDISQ_HOUSE_H
#define REDISQ_HOUSE_H

#include <ev.h>

#include "backoff.h"
#include "children.h"
#include "conf.h"
#include "logsink.h"
#include "oom.h"

struct house {
	struct ev_loop *loop;
	const struct conf *conf; /* borrowed: the newest accepted one; LIVE keys are read here */
	struct logsink *logs;    /* borrowed */
	char *const *env;        /* borrowed: the environment at the start, for workers */
	const char *run_dir;     /* borrowed */
	struct children children;
	struct list burying; /* dead processes whose handlers are not gone yet */
	struct rng rng;
	struct oom_watch oom;

	/* Workers run as these when set_ids. */
	bool set_ids;
	uid_t uid;
	gid_t gid;
	char *user; /* owned, may be NULL */
	int worker_oom_adj;

	int64_t watch_from_ms; /* boot clock: heartbeats older than this prove nothing */

	/* Facts. */
	bool changed; /* something to reconcile at the end of this loop turn */
	bool ever_ready;
	bool forced;      /* a worker or handler was signalled at a limit */
	char *crash_loop; /* owned: the slot that asks to end everything, NULL = none */
};

static inline void house_changed(struct house *h)
{
	h->changed = true;
}

#endif
