/* supervisor.c - see supervisor.h: the loop turn, the modes, the signals. */
#include "clock.h"
#include "log.h"
#include "supervisor.h"
#include "terminal.h"

/* A verb may lead to a step that leads to another; more than this in one turn is a fault. */
#define TURN_ROUNDS_MAX 1000

const int supervisor_signals[] = {SIGHUP,  SIGTERM, SIGINT,  SIGQUIT, SIGUSR1, SIGTTIN,
				  SIGTTOU, SIGTSTP, SIGCONT, SIGCHLD, 0};

struct fleet *supervisor_fleet(struct supervisor *sv, const char *queue)
{
	struct list *it;

	list_each (it, &sv->fleets) {
		struct fleet *f = list_entry(it, struct fleet, link);

		if (strcmp(f->queue, queue) == 0)
			return f;
	}
	return NULL;
}

const char *supervisor_mode_word(const struct supervisor *sv)
{
	if (sv->mode == MODE_STOPPING)
		return "stopping";
	if (sv->mode == MODE_DRAINING)
		return "draining";
	if (sv->reloading)
		return "reloading";
	if (sv->quiet)
		return "quiet";
	return sv->mode == MODE_STARTING ? "starting" : "running";
}

/* ------------------------------------------------------------------------------ the modes */

static void end_fleets(struct supervisor *sv, bool fast)
{
	struct list *it;

	list_each (it, &sv->fleets)
		fleet_leave(list_entry(it, struct fleet, link), fast);
	house_changed(&sv->house);
}

void supervisor_drain(struct supervisor *sv)
{
	if (sv->mode >= MODE_DRAINING)
		return;
	log_info("draining: workers finish their tasks, %.0fs at most",
		 (double)conf_supervisor(sv->gen->conf)->drain_timeout / 1000.0);
	sv->mode = MODE_DRAINING;
	sv->reloading = false;
	/* What had to be killed earlier does not make this stop a forced one. */
	sv->house.forced = false;
	end_fleets(sv, false);
}

void supervisor_stop(struct supervisor *sv)
{
	if (sv->mode >= MODE_STOPPING)
		return;
	log_info("stopping now: workers give their tasks back");
	if (sv->mode < MODE_DRAINING)
		sv->house.forced = false;
	sv->mode = MODE_STOPPING;
	sv->reloading = false;
	end_fleets(sv, true);
}

void supervisor_set_quiet(struct supervisor *sv, bool quiet)
{
	struct list *it;

	if (sv->quiet != quiet)
		log_info(quiet ? "quiet: nothing new is fetched until CONT or redisqctl resume"
			       : "resumed");
	sv->quiet = quiet;
	list_each (it, &sv->fleets)
		fleet_set_quiet(list_entry(it, struct fleet, link), quiet);
}

void supervisor_reopen_logs(struct supervisor *sv)
{
	logsink_reopen(sv->logs);
	log_info("logs reopened");
}

static void scale_all(struct supervisor *sv, int by)
{
	struct list *it;

	list_each (it, &sv->fleets) {
		struct fleet *f = list_entry(it, struct fleet, link);

		if (f->leaving)
			continue;
		fleet_scale(f, (int)fleet_wanted(f) + by);
		log_info("queue %s: %u workers wanted", f->queue, fleet_wanted(f));
	}
}

/* ---------------------------------------------------------------------------- the signals */

/* Started from a terminal that has gone away since: nobody is there to reload for. */
static bool lost_terminal(const struct supervisor *sv)
{
	return sv->had_terminal && !sv->options->daemon && terminal_look() == TERMINAL_GONE;
}

void supervisor_on_signal(void *arg, int signo, bool sent)
{
	struct supervisor *sv = arg;

	switch (signo) {
	case SIGCHLD:
		children_reap(&sv->house.children);
		proc_bury_all(&sv->house);
		break;
	case SIGHUP:
		if (lost_terminal(sv)) {
			log_warning("the terminal is gone: draining (use -D to outlive it)");
			supervisor_drain(sv);
		} else {
			supervisor_reload(sv);
		}
		break;
	case SIGTERM:
	case SIGINT:
		if (sv->mode >= MODE_DRAINING)
			supervisor_stop(sv);
		else
			supervisor_drain(sv);
		break;
	case SIGQUIT:
		supervisor_stop(sv);
		break;
	case SIGUSR1:
		supervisor_reopen_logs(sv);
		break;
	case SIGTTIN:
	case SIGTTOU:
		/* The kernel sends these to a background job that uses its terminal. */
		if (sent)
			scale_all(sv, signo == SIGTTIN ? 1 : -1);
		break;
	case SIGTSTP:
		supervisor_set_quiet(sv, true);
		break;
	case SIGCONT:
		if (sv->quiet)
			supervisor_set_quiet(sv, false);
		break;
	default:
		break;
	}
}

/* --------------------------------------------------------------------------------- the turn */

static void drop_gone_queues(struct supervisor *sv)
{
	struct list *it, *next;

	if (sv->mode >= MODE_DRAINING)
		return; /* status shows them to the end */
	list_each_safe (it, next, &sv->fleets) {
		struct fleet *f = list_entry(it, struct fleet, link);

		if (f->leaving && fleet_is_gone(f)) {
			log_info("queue %s has left", f->queue);
			fleet_free(f);
		}
	}
}

/* Start-up is over when every slot has got somewhere; nothing but refusals is the end. */
static void look_at_start(struct supervisor *sv)
{
	const char *refused = NULL;
	bool all_refused = true;
	struct list *it;

	list_each (it, &sv->fleets) {
		const struct fleet *f = list_entry(it, struct fleet, link);
		const char *text = fleet_refused(f);

		if (!fleet_has_settled(f))
			return;
		all_refused &= text != NULL;
		refused = text ? text : refused;
	}
	sv->mode = MODE_RUNNING;
	if (all_refused && refused && !sv->house.ever_ready) {
		log_error("no queue can be served: %s", refused);
		sv->exit_code = EXIT_CONFIG;
		supervisor_drain(sv);
	}
}

static void look_at_crash_loop(struct supervisor *sv)
{
	if (!sv->house.crash_loop || sv->mode >= MODE_DRAINING)
		return;
	sv->exit_code = EXIT_CRASH_LOOP;
	supervisor_drain(sv);
}

static bool all_left(struct supervisor *sv)
{
	struct list *it;

	list_each (it, &sv->fleets)
		fleet_abandon_undead(list_entry(it, struct fleet, link));
	list_each (it, &sv->fleets)
		if (!fleet_has_left(list_entry(it, struct fleet, link)))
			return false;
	/* A handler that cannot be killed may stand for ever. */
	list_each (it, &sv->fleets)
		fleet_leave_graves(list_entry(it, struct fleet, link));
	return true;
}

static void reconcile(struct supervisor *sv)
{
	struct list *it;

	list_each (it, &sv->fleets)
		fleet_reconcile(list_entry(it, struct fleet, link));
	drop_gone_queues(sv);
	if (sv->mode == MODE_STARTING)
		look_at_start(sv);
	look_at_crash_loop(sv);
	supervisor_reload_step(sv);
}

static void on_turn(struct ev_loop *loop, ev_prepare *w, int revents ATTR_UNUSED)
{
	struct supervisor *sv = container_of(w, struct supervisor, turn);
	bool looked = !sv->house.changed;

	daemon_ready(sv->daemon);
	for (int i = 0; sv->house.changed && i < TURN_ROUNDS_MAX; i++) {
		sv->house.changed = false;
		reconcile(sv);
	}
	if (sv->house.changed)
		log_error("the supervisor finds no rest: please report it");
	if (!looked)
		waiters_look(&sv->waiters, sv);
	if (sv->mode >= MODE_DRAINING && all_left(sv))
		ev_break(loop, EVBREAK_ALL);
}

/* ----------------------------------------------------------------------------- the very end */

static int exit_code(const struct supervisor *sv)
{
	if (sv->exit_code)
		return sv->exit_code;
	return sv->house.forced ? EXIT_FORCED : 0;
}

/*
 * Who waits for the end is answered last, when everything is free again that a next supervisor
 * needs: "redisqctl kill && redisq-supervisor" must not meet our locks, also where a stalled
 * stdout keeps the logs a while.
 */
static void release(struct supervisor *sv)
{
	struct list *it, *next;

	list_each_safe (it, next, &sv->fleets)
		fleet_free(list_entry(it, struct fleet, link));
	private_redis_stop(sv->redis);
	ev_timer_stop(sv->house.loop, &sv->tick);
	ev_prepare_stop(sv->house.loop, &sv->turn);
	sig_watch_stop(&sv->signals);
	log_info("redisq-supervisor ends, exit %d", exit_code(sv));
	logsink_free(sv->logs);
	instance_lock_release(&sv->lock);
	waiters_end(&sv->waiters, sv, "the supervisor has ended");
	control_close(sv->control);
	children_release(&sv->house.children);
	oom_watch_release(&sv->house.oom);
	generation_put(sv->gen);
	ev_loop_destroy(sv->house.loop);
	free(sv->house.crash_loop);
	free(sv->house.user);
	free(sv->last_reload.error);
	free(sv->refused_reload);
	free(sv->run_dir);
	free(sv->state_dir);
	free(sv->log_dir);
	free(sv->control_path);
	free(sv->redis_url);
}

int supervisor_run(struct supervisor *sv)
{
	int code;

	ev_prepare_init(&sv->turn, on_turn);
	ev_prepare_start(sv->house.loop, &sv->turn);
	supervisor_arm_tick(sv);
	sv->house.changed = true;
	ev_run(sv->house.loop, 0);
	code = exit_code(sv);
	release(sv);
	return code;
}
