/*
 * tick.c - the regular look of supervisor.h at what tells nobody: heartbeats, memory, the kernel's
 * OOM kills, a control socket that was removed. Its interval follows the shortest heartbeat limit
 * in force.
 */
#include "clock.h"
#include "heartbeat.h"
#include "log.h"
#include "supervisor.h"

#define CONTROL_CHECK_MS 10000

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

static void check_control(struct supervisor *sv, int64_t now)
{
	if (now - sv->control_checked_ms < CONTROL_CHECK_MS)
		return;
	sv->control_checked_ms = now;
	if (control_check(sv->control))
		log_warning("the control socket %s had been removed; made it again",
			    sv->control_path);
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
	check_control(sv, now);
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
