/* private_redis.c - see private_redis.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "backoff.h"
#include "clock.h"
#include "env.h"
#include "log.h"
#include "paths.h"
#include "private_redis.h"
#include "spawn.h"

#define START_LIMIT_MS 10000
#define STOP_LIMIT_MS 10000
#define RESTART_BASE_MS 100
#define RESTART_CAP_MS 10000
#define STABLE_MS 10000

struct private_redis {
	struct house *house; /* borrowed */
	char *dir;           /* owned */
	char *socket;        /* owned */
	char *log;           /* owned */
	int lock_fd;         /* owned */
	pid_t pid;           /* 0 = not running */
	int pidfd;           /* owned, -1 */
	int64_t started_ms;
	unsigned n_deaths; /* in a row */
	ev_io died;
	ev_timer again;
	struct child_ref ref;
};

/* NULL when neither place is short enough. */
static char *socket_path(const char *state_dir, const char *run_dir)
{
	char *path = xasprintf("%s/redis/redis.sock", state_dir);

	if (strlen(path) <= PATHS_SOCKET_MAX)
		return path;
	free(path);
	path = xasprintf("%s/redis.sock", run_dir);
	if (strlen(path) <= PATHS_SOCKET_MAX)
		return path;
	free(path);
	return NULL;
}

char *private_redis_url(const char *state_dir, const char *run_dir, struct err *e)
{
	char *path = socket_path(state_dir, run_dir);
	struct buf url = BUF_INIT;

	if (!path) {
		err_set(e, EXIT_CONFIG,
			"-e: %s/redis.sock is too long for a unix socket (%d bytes at most); set "
			"state_dir to a shorter path",
			run_dir, PATHS_SOCKET_MAX);
		return NULL;
	}
	buf_adds(&url, "unix://");
	for (const char *c = path; *c; c++) {
		if (*c == '?' || *c == '%' || *c == '#' || (unsigned char)*c <= ' ')
			buf_addf(&url, "%%%02X", (unsigned char)*c);
		else
			buf_addc(&url, *c);
	}
	free(path);
	return buf_detach(&url);
}

/* Debian has the server in sbin at times, which is not on every PATH. */
#define SERVER_PATH "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

static char *find_server(char *const *env)
{
	const char *path = env_value(env, "PATH");

	return spawn_find("redis-server", path ? path : SERVER_PATH);
}

static int run(struct private_redis *r, struct err *e)
{
	char *program = find_server(r->house->env);
	const char *argv[] = {program,      "--port",
			      "0",          "--unixsocket",
			      r->socket,    "--unixsocketperm",
			      "700",        "--dir",
			      r->dir,       "--appendonly",
			      "yes",        "--appendfsync",
			      "everysec",   "--save",
			      "",           "--daemonize",
			      "no",         "--maxmemory-policy",
			      "noeviction", "--logfile",
			      r->log,       NULL};
	int fds[] = {-1, -1, -1, r->lock_fd};
	struct spawn how = {
		.argv = (char *const *)(uintptr_t)argv,
		.envp = r->house->env,
		.cwd = r->dir,
		.fds = fds,
		.n_fds = (int)ARRAY_LEN(fds),
		.group = SPAWN_SESSION,
		.pdeathsig = SIGTERM,
		.set_ids = r->house->set_ids,
		.uid = r->house->uid,
		.gid = r->house->gid,
		.user = r->house->user,
	};
	enum spawn_step step = SPAWN_OK;
	struct child child;

	if (!program)
		return err_set(e, EXIT_CONFIG,
			       "-e needs redis-server, which is not on PATH; apt install "
			       "redis-server, or set redis.url and leave -e out");
	unlink(r->socket);
	if (spawn_run(&how, &child, &step) < 0) {
		err_set(e, EXIT_CONFIG, "-e: %s %s: %s", spawn_step_word(step), program,
			strerror(errno));
		free(program);
		return -1;
	}
	free(program);
	r->pid = child.pid;
	r->pidfd = child.pidfd;
	r->started_ms = clock_mono_ms();
	children_add(&r->house->children, &r->ref, r->pid);
	ev_io_set(&r->died, r->pidfd, EV_READ);
	ev_io_start(r->house->loop, &r->died);
	log_info("private redis-server %d on %s", (int)r->pid, r->socket);
	return 0;
}

/* Reaps it; describes its end. */
static void bury(struct private_redis *r, struct buf *how)
{
	struct child_exit end = {0};

	ev_io_stop(r->house->loop, &r->died);
	if (child_reap(r->pid, &end) < 0)
		log_error("redis-server %d cannot be reaped: %s", (int)r->pid, strerror(errno));
	buf_addf(how, end.signaled ? "signal %d" : "exit %d", end.code);
	children_remove(&r->ref);
	close(r->pidfd);
	r->pidfd = -1;
	r->pid = 0;
}

static void restart_later(struct private_redis *r)
{
	int64_t ms = backoff_ms(RESTART_BASE_MS, RESTART_CAP_MS, r->n_deaths);

	ev_timer_set(&r->again, (double)ms / 1000.0, 0.);
	ev_timer_start(r->house->loop, &r->again);
}

static void on_died(struct ev_loop *loop ATTR_UNUSED, ev_io *io, int revents ATTR_UNUSED)
{
	struct private_redis *r = container_of(io, struct private_redis, died);
	struct buf how = BUF_INIT;

	r->n_deaths = clock_mono_ms() - r->started_ms > STABLE_MS ? 1 : r->n_deaths + 1;
	bury(r, &how);
	log_error("the private redis-server died: %s; starting it again (see %s)", how.data,
		  r->log);
	buf_release(&how);
	restart_later(r);
}

static void on_again(struct ev_loop *loop ATTR_UNUSED, ev_timer *t, int revents ATTR_UNUSED)
{
	struct private_redis *r = container_of(t, struct private_redis, again);
	struct err e = {0};

	if (run(r, &e) < 0) {
		log_error("%s", e.text);
		r->n_deaths++;
		restart_later(r);
	}
}

static bool accepts(const struct private_redis *r)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool ok;

	if (fd < 0)
		return false;
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", r->socket);
	ok = connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
	close(fd);
	return ok;
}

static int wait_until_up(struct private_redis *r, struct err *e)
{
	int64_t until = clock_mono_ms() + START_LIMIT_MS;

	while (!accepts(r)) {
		struct pollfd p = {.fd = r->pidfd, .events = POLLIN};

		if (poll(&p, 1, 5) == 1) {
			struct buf how = BUF_INIT;

			bury(r, &how);
			err_set(e, EXIT_CONFIG, "-e: redis-server ended at once: %s; see %s",
				how.data, r->log);
			buf_release(&how);
			return -1;
		}
		if (clock_mono_ms() > until) {
			/* A large AOF: the workers wait for it as for any other Redis. */
			log_warning("the private redis-server is still loading; going on");
			return 0;
		}
	}
	return 0;
}

static int take_data(struct private_redis *r, const char *state_dir, struct err *e)
{
	struct paths_who who = paths_self();
	int64_t until = clock_mono_ms() + STOP_LIMIT_MS;
	char *path;

	/* Another user has to get through to his own directory. */
	if (paths_make(&who, state_dir, r->house->set_ids ? 0755 : 0700, e) < 0 ||
	    paths_make(&who, r->dir, 0700, e) < 0)
		return -1;
	if (r->house->set_ids && chown(r->dir, r->house->uid, r->house->gid) < 0)
		return err_set(e, EXIT_CONFIG, "%s: chown: %s", r->dir, strerror(errno));
	path = xasprintf("%s/lock", r->dir);
	r->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	free(path);
	if (r->lock_fd < 0)
		return err_set(e, EXIT_CONFIG, "%s/lock: %s", r->dir, strerror(errno));
	/* The server of a supervisor that was killed saves and leaves by itself. */
	while (flock(r->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (clock_mono_ms() > until)
			return err_set(e, EXIT_ALREADY_RUNNING,
				       "-e: another redis-server still uses %s; end it, or give "
				       "this supervisor another [supervisor] name",
				       r->dir);
		poll(NULL, 0, 20);
	}
	return 0;
}

static void release(struct private_redis *r)
{
	ev_io_stop(r->house->loop, &r->died);
	ev_timer_stop(r->house->loop, &r->again);
	if (r->lock_fd >= 0)
		close(r->lock_fd);
	if (r->pidfd >= 0)
		close(r->pidfd);
	free(r->dir);
	free(r->socket);
	free(r->log);
	free(r);
}

struct private_redis *private_redis_start(struct house *house, const char *state_dir,
					  const char *run_dir, struct err *e)
{
	struct private_redis *r = xcalloc(1, sizeof(*r));

	r->house = house;
	r->lock_fd = r->pidfd = -1;
	list_init(&r->ref.link);
	ev_init(&r->died, on_died);
	ev_init(&r->again, on_again);
	r->dir = xasprintf("%s/redis", state_dir);
	r->log = xasprintf("%s/redis.log", r->dir);
	r->socket = socket_path(state_dir, run_dir);
	if (!r->socket)
		err_set(e, EXIT_CONFIG, "-e: state_dir is too long for a unix socket");
	if (!r->socket || take_data(r, state_dir, e) < 0 || run(r, e) < 0) {
		release(r);
		return NULL;
	}
	if (wait_until_up(r, e) < 0) {
		release(r);
		return NULL;
	}
	return r;
}

void private_redis_stop(struct private_redis *r)
{
	struct buf how = BUF_INIT;
	struct pollfd p;

	if (!r)
		return;
	if (r->pid) {
		p = (struct pollfd){.fd = r->pidfd, .events = POLLIN};
		syscall(SYS_pidfd_send_signal, r->pidfd, SIGTERM, NULL, 0);
		if (poll(&p, 1, STOP_LIMIT_MS) != 1) {
			log_warning("the private redis-server does not end; killing it");
			syscall(SYS_pidfd_send_signal, r->pidfd, SIGKILL, NULL, 0);
		}
		bury(r, &how);
		log_info("private redis-server stopped: %s", how.data);
		buf_release(&how);
	}
	unlink(r->socket);
	release(r);
}
