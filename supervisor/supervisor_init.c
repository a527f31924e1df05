/*
 * supervisor_init.c - building the supervisor: directories, locks, logs, control socket, private
 * Redis, fleets; undone in reverse when a step fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "clock.h"
#include "identity.h"
#include "log.h"
#include "paths.h"
#include "readfile.h"
#include "supervisor.h"
#include "terminal.h"

#define OOM_ADJ_WORKERS 100 /* above ours: the kernel takes a worker before the supervisor */

static int make_places(struct supervisor *sv, const struct conf_supervisor *sup,
		       const struct paths_who *who, struct err *e)
{
	sv->run_dir = paths_run_dir(who, sup->name);
	/* conf_finish() has given all of these a value. */
	sv->state_dir = xstrdup(sup->state_dir);
	sv->log_dir = xstrdup(sup->log_dir);
	sv->control_path = xstrdup(sup->control_socket);
	if (paths_make(who, sv->run_dir, 0755, e) < 0 ||
	    paths_make_parent(who, sv->control_path, 0755, e) < 0)
		return -1;
	if (sv->log_files && paths_make(who, sv->log_dir, 0755, e) < 0)
		return -1;
	return 0;
}

/* log_to = auto: what fits the way we were started. */
static void choose_outlets(struct supervisor *sv, const struct conf_supervisor *sup)
{
	enum conf_log_to to = (enum conf_log_to)sup->log_to;

	if (to == CONF_LOG_TO_AUTO) {
		if (sv->options->daemon)
			to = CONF_LOG_TO_FILES;
		else if (isatty(STDOUT_FILENO))
			to = CONF_LOG_TO_BOTH;
		else if (getpid() == 1 || getenv("JOURNAL_STREAM"))
			to = CONF_LOG_TO_STDOUT;
		else
			to = CONF_LOG_TO_FILES;
	}
	sv->log_files = to != CONF_LOG_TO_STDOUT;
	sv->log_stdout = to != CONF_LOG_TO_FILES && !sv->options->daemon;
	/* A daemon's own log is a file whatever the workers' is. */
	sv->log_files |= sv->options->daemon;
}

static int open_logs(struct supervisor *sv, const struct conf_supervisor *sup, struct err *e)
{
	struct logsink_conf c = {
		.dir = sv->log_dir,
		.files = sv->log_files,
		.to_stdout = sv->log_stdout,
		.format = (enum conf_log_format)sup->log_format,
		.max_size = sup->log_max_size,
		.keep = sup->log_keep,
		.line_max = (size_t)sup->log_line_max,
	};

	log_set_level((enum log_level)sup->log_level);
	sv->logs = logsink_new(sv->house.loop, &c, e);
	if (!sv->logs)
		return -1;
	logsink_own_log(sv->logs, sv->options->daemon);
	sv->house.logs = sv->logs;
	return 0;
}

static int take_identity(struct supervisor *sv, const struct conf_supervisor *sup, struct err *e)
{
	struct identity id;
	bool warning;

	if (identity_resolve(&id, sup, &warning, e) < 0) {
		identity_release(&id);
		return -1;
	}
	if (warning)
		log_warning("[supervisor] user and group are not taken: only root can change them");
	sv->house.set_ids = id.change;
	sv->house.uid = id.uid;
	sv->house.gid = id.gid;
	sv->house.user = id.user; /* taken over */
	id.user = NULL;
	return 0;
}

static int init_house(struct supervisor *sv, char *const *env, struct err *e)
{
	struct house *h = &sv->house;

	h->loop = ev_loop_new(EVFLAG_AUTO);
	if (!h->loop)
		return err_set(e, 1, "no event loop: %s", strerror(errno));
	h->env = env;
	list_init(&h->burying);
	rng_seed(&h->rng, (uint64_t)getpid() ^ ((uint64_t)clock_boot_ms() << 20));
	oom_watch_init(&h->oom);
	h->worker_oom_adj = (int)min_i64(
		readfile_number("/proc/self/oom_score_adj", 0) + OOM_ADJ_WORKERS, 1000);
	if (children_init(&h->children) < 0)
		return err_set(e, 1, "cannot become a subreaper: %s", strerror(errno));
	return 0;
}

/*
 * The configuration was loaded before it was known where the private Redis listens: loaded again
 * with its url, by the same road that a reload takes.
 */
static int use_private_redis(struct supervisor *sv, struct conf **conf, struct err *e)
{
	struct buf errs = BUF_INIT;
	struct conf *again;
	int code = 0;

	sv->redis_url = private_redis_url(sv->state_dir, sv->run_dir, e);
	if (!sv->redis_url)
		return -1;
	again = options_load(sv->options, sv->house.env, sv->redis_url, &errs, &code);
	if (!again) {
		err_set(e, code, "%s", errs.data);
		buf_release(&errs);
		return -1;
	}
	buf_release(&errs);
	conf_free(*conf);
	*conf = again;
	return 0;
}

static void start_queues(struct supervisor *sv)
{
	const struct conf *c = sv->gen->conf;

	for (size_t i = 0; i < conf_n_queues(c); i++) {
		const struct conf_queue *q = conf_queue_at(c, i);
		struct fleet *f = fleet_new(&sv->house, q->name, sv->gen);

		list_append(&sv->fleets, &f->link);
		log_info("queue %s: %d worker%s \xc3\x97 %d = %d at once on this host", q->name,
			 q->workers, q->workers == 1 ? "" : "s", q->concurrency,
			 q->workers * q->concurrency);
	}
	if (sv->log_files)
		log_info("logs: %s/", sv->log_dir);
	else
		log_info("logs: standard output");
}

static void undo(struct supervisor *sv)
{
	private_redis_stop(sv->redis);
	control_close(sv->control);
	logsink_free(sv->logs);
	instance_lock_release(&sv->lock);
	generation_put(sv->gen);
	children_release(&sv->house.children);
	oom_watch_release(&sv->house.oom);
	if (sv->signals.loop)
		sig_watch_stop(&sv->signals);
	if (sv->house.loop)
		ev_loop_destroy(sv->house.loop);
	free(sv->house.user);
	free(sv->run_dir);
	free(sv->state_dir);
	free(sv->log_dir);
	free(sv->control_path);
	free(sv->redis_url);
}

static int build(struct supervisor *sv, struct conf **conf, char *const *env, struct err *e)
{
	struct paths_who who = paths_self();
	const struct conf_supervisor *sup = conf_supervisor(*conf);

	if (init_house(sv, env, e) < 0)
		return -1;
	choose_outlets(sv, sup);
	if (make_places(sv, sup, &who, e) < 0)
		return -1;
	if (paths_make_parent(&who, sup->pid_file, 0755, e) < 0 ||
	    instance_lock_take(&sv->lock, sup->pid_file, e) < 0)
		return -1;
	if (open_logs(sv, sup, e) < 0 || take_identity(sv, sup, e) < 0)
		return -1;
	log_info("redisq-supervisor %s, pid %d", REDISQ_VERSION, (int)getpid());
	/* Before a private Redis: it brings another configuration, and this is the one checked. */
	for (const char *const *w = conf_warnings(*conf); w && *w; w++)
		log_warning("%s", *w);
	if (sv->options->private_redis && use_private_redis(sv, conf, e) < 0)
		return -1;
	sv->gen = generation_new(*conf, 1);
	*conf = NULL;
	if (!sv->gen)
		return err_set(e, 1, "no memory file for the configuration: %s", strerror(errno));
	sv->house.conf = sv->gen->conf;
	sv->house.run_dir = sv->run_dir;
	if (sv->options->private_redis) {
		sv->redis = private_redis_start(&sv->house, sv->state_dir, sv->run_dir, e);
		if (!sv->redis)
			return -1;
	}
	if (sig_watch_start(&sv->signals, sv->house.loop, supervisor_signals, supervisor_on_signal,
			    sv) < 0)
		return err_set(e, 1, "no signalfd: %s", strerror(errno));
	sv->control = control_open(sv->house.loop, sv->control_path, supervisor_request, sv, e);
	if (!sv->control)
		return -1;
	start_queues(sv);
	return 0;
}

int supervisor_init(struct supervisor *sv, const struct options *options, struct conf *conf,
		    char *const *env, struct daemon *daemon, struct err *e)
{
	*sv = (struct supervisor){.options = options, .daemon = daemon};
	list_init(&sv->fleets);
	waiters_init(&sv->waiters);
	sv->lock.fd = -1;
	sv->house.oom.fd = -1;
	sv->started_ms = clock_mono_ms();
	/* nohup: whoever ignores HUP wants us to outlive the terminal. */
	sv->had_terminal = !sig_is_ignored(SIGHUP) && terminal_look() == TERMINAL_THERE;
	if (build(sv, &conf, env, e) == 0)
		return 0;
	if (conf)
		conf_free(conf);
	undo(sv);
	return -1;
}
