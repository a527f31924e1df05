/*
 * tick.c - the regular look of supervisor.h at what tells nobody: heartbeats, memory, the kernel's
 * OOM kills, files of ours that were removed. Its interval follows the shortest heartbeat limit
 * in force.
 */
#include <errno.h>
#include <unistd.h>

#include "clock.h"
#include "heartbeat.h"
#include "log.h"
#include "paths.h"
#include "supervisor.h"

#define FILES_CHECK_MS 2000

/* The shortest limit of all queues, 0 = none has one. */
static int64_t shortest_limit(const struct supervisor *sv)
{
	const struct conf *c = sv->gen->conf;
	int64_t shortest = 0;

	for (size_t i = 0; i < conf_n_queues(c); i++) {
		int64_t ms = conf_heartbeat_ms(c, conf_queue_at(c, i));

		if (ms > 0 && (shortest == 0 || ms < shortest))
			shortest = ms;
	}
	return shortest;
}

static void check_control(struct supervisor *sv)
{
	struct paths_who who = paths_self();
	struct err e;

	if (access(sv->control_path, F_OK) < 0 &&
	    paths_make_parent(&who, sv->control_path, 0755, &e) < 0)
		log_debug("%s", e.text); /* what follows says it to all */
	if (control_check(sv->control))
		log_warning("the control socket %s had been removed; made it again",
			    sv->control_path);
}

/* The lock, the pid file and the control socket: in a directory that somebody may clean up. */
static void check_files(struct supervisor *sv, int64_t now)
{
	enum instance_lock_is is;

	if (now - sv->files_checked_ms < FILES_CHECK_MS)
		return;
	sv->files_checked_ms = now;
	is = instance_lock_check(&sv->lock);
	if (is == LOCK_MADE_AGAIN) {
		log_warning("the pid file %s or its lock had been removed; made them again",
			    sv->lock.pid_file);
		house_changed(&sv->house); /* the slots' locks are likely to be gone, too */
	} else if (is != sv->lock_is && is == LOCK_ANOTHERS) {
		log_error("the lock of %s was removed, and another supervisor has taken it: two "
			  "run; stop one of them",
			  sv->lock.pid_file);
	} else if (is != sv->lock_is && is == LOCK_FAILS) {
		log_error("the lock of %s was removed and cannot be made again: %s",
			  sv->lock.pid_file, strerror(errno));
	}
	sv->lock_is = is;
	if (is != LOCK_ANOTHERS)
		check_control(sv);
}

static void on_tick(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct supervisor *sv = container_of(t, struct supervisor, tick);
	int64_t now = clock_boot_ms();
	struct list *it;

	if (heartbeat_is_late(now - sv->ticked_ms, sv->tick_interval_ms, sv->tick_limit_ms))
		sv->house.watch_from_ms = now;
	sv->ticked_ms = now;
	list_each (it, &sv->fleets)
		fleet_tick(list_entry(it, struct fleet, link), now);
	check_files(sv, now);
	oom_watch_look(&sv->house.oom);
}

void supervisor_arm_tick(struct supervisor *sv)
{
	int64_t limit = shortest_limit(sv), interval = heartbeat_interval_ms(limit);
	double every = (double)interval / 1000.0;

	if (ev_is_active(&sv->tick) && interval == sv->tick_interval_ms &&
	    limit == sv->tick_limit_ms)
		return;
	ev_timer_stop(sv->house.loop, &sv->tick);
	sv->tick_limit_ms = limit;
	sv->tick_interval_ms = interval;
	sv->ticked_ms = clock_boot_ms();
	ev_now_update(sv->house.loop);
	ev_timer_init(&sv->tick, on_tick, every, every);
	ev_timer_start(sv->house.loop, &sv->tick);
}
