/*
 * conf_check.c - conf_check_machine() of conf_read.h: does what the configuration names exist here?
 * For -t and for a reload, so that a wrong path is found before a running worker is replaced.
 */
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf_check_tls.h"
#include "conf_program.h"
#include "conf_read.h"
#include "env.h"
#include "fds.h"
#include "redis_url.h"
#include "spawn.h"
#include "users.h"

#define FDS_PER_WORKER 6
#define FDS_BESIDE 64 /* loop, locks, snapshots, clients of the control socket */

static void complain(struct buf *errs, const struct conf *c, const struct conf_queue *q,
		     const char *key, const char *fmt, ...) ATTR_PRINTF(5, 6);
static void complain(struct buf *errs, const struct conf *c, const struct conf_queue *q,
		     const char *key, const char *fmt, ...)
{
	va_list ap;

	buf_addf(errs, "%s: [queue %s] %s: ", conf_where(c, CONF_QUEUE, q->name, key), q->name,
		 key);
	va_start(ap, fmt);
	buf_vaddf(errs, fmt, ap);
	va_end(ap);
	buf_addc(errs, '\n');
}

/* What may be meant as it is, but hardly is. */
static void warn_doubts(struct conf *c, const struct conf_queue *q, const char *file,
			const char *path)
{
	const struct strv *argv = &q->handler.argv;
	const char *where = conf_where(c, CONF_QUEUE, q->name, "handler");
	struct buf why = BUF_INIT;

	conf_program_doubt(file, path, &why);
	if (why.len > 0)
		conf_warn(c, "%s: [queue %s] handler: %s", where, q->name, why.data);
	for (size_t i = 1; i < argv->n; i++) {
		char *missing = conf_program_missing(argv, i, q->cwd);

		if (missing)
			conf_warn(c,
				  "%s: [queue %s] handler: %s is not there; if it is a script, "
				  "every task will fail",
				  where, q->name, missing);
		free(missing);
	}
	buf_release(&why);
}

static void check_program(struct conf *c, const struct conf_queue *q, const struct strv *env,
			  struct buf *errs)
{
	const char *program = q->handler.argv.v[0];
	const char *path = env_value(env->v, "PATH"); /* that it will have */
	struct stat st;
	char *found;

	if (!strchr(program, '/')) {
		found = spawn_find(program, path);
		if (!found)
			complain(errs, c, q, "handler",
				 "%s is not on PATH (%s); give its full path", program,
				 path ? path : "unset");
		else
			warn_doubts(c, q, found, path);
		free(found);
		return;
	}
	found = program[0] != '/' && q->cwd ? xasprintf("%s/%s", q->cwd, program)
					    : xstrdup(program);
	if (stat(found, &st) < 0)
		complain(errs, c, q, "handler", "%s: %s; give the path of a program", found,
			 strerror(errno));
	else if (!S_ISREG(st.st_mode))
		complain(errs, c, q, "handler", "%s is not a file; give the path of a program",
			 found);
	else if (access(found, X_OK) < 0)
		complain(errs, c, q, "handler", "%s is not executable; chmod +x it", found);
	else
		warn_doubts(c, q, found, path);
	free(found);
}

/* Whether it can be loaded only the worker finds out. */
static void check_library(const struct conf *c, const struct conf_queue *q, struct buf *errs)
{
	const char *path = q->handler.argv.v[0];
	struct stat st;

	if (stat(path, &st) < 0)
		complain(errs, c, q, "handler", "%s: %s; give the path of a library", path,
			 strerror(errno));
	else if (!S_ISREG(st.st_mode))
		complain(errs, c, q, "handler", "%s is not a file; give the path of a library",
			 path);
	else if (access(path, R_OK) < 0)
		complain(errs, c, q, "handler", "%s: %s; let this user read it", path,
			 strerror(errno));
}

static void check_queue(struct conf *c, const struct conf_queue *q, struct buf *errs)
{
	struct strv env;
	struct stat st;
	struct err e = {0};

	if (q->workers == 0)
		conf_warn(c, "%s: [queue %s] 0 workers: nothing will run until redisqctl scale",
			  conf_where(c, CONF_QUEUE, q->name, "workers"), q->name);
	if (q->cwd && stat(q->cwd, &st) < 0)
		complain(errs, c, q, "cwd", "%s: %s; make it", q->cwd, strerror(errno));
	else if (q->cwd && !S_ISDIR(st.st_mode))
		complain(errs, c, q, "cwd", "%s is not a directory; give one", q->cwd);
	if (conf_handler_env(q, environ, &env, &e) < 0) {
		complain(errs, c, q, "env_file", "%s", e.text);
		return;
	}
	if (q->handler.kind == CONF_HANDLER_EXEC || q->handler.kind == CONF_HANDLER_PIPE)
		check_program(c, q, &env, errs);
	else if (q->handler.kind == CONF_HANDLER_SO)
		check_library(c, q, errs);
	strv_release(&env);
}

/* user and group exist, and can be become. */
static void check_ids(const struct conf *c, struct buf *errs)
{
	const struct conf_supervisor *s = conf_supervisor(c);
	uid_t uid;
	gid_t gid;

	if (s->user && !users_find(s->user, &uid, &gid))
		buf_addf(errs, "%s: [supervisor] user = %s: no such user; create it\n",
			 conf_where(c, CONF_SUPERVISOR, NULL, "user"), s->user);
	else if (s->user && geteuid() != 0 && uid != geteuid())
		buf_addf(errs,
			 "%s: [supervisor] user = %s: only root can become another user; start as "
			 "root, or leave the key out\n",
			 conf_where(c, CONF_SUPERVISOR, NULL, "user"), s->user);
	if (s->group && !users_find_group(s->group, &gid))
		buf_addf(errs, "%s: [supervisor] group = %s: no such group; create it\n",
			 conf_where(c, CONF_SUPERVISOR, NULL, "group"), s->group);
}

/* Pipes, channel, pidfd, log and lock of every worker are held by the supervisor. */
static void check_descriptors(const struct conf *c, struct buf *errs)
{
	int64_t limit = fds_hard_limit(), n_workers = 0, needed;

	for (size_t i = 0; i < conf_n_queues(c); i++)
		n_workers += conf_queue_at(c, i)->workers;
	needed = n_workers * FDS_PER_WORKER + FDS_BESIDE;
	if (needed > limit)
		buf_addf(errs,
			 "%s: [supervisor] workers: %" PRId64 " workers in all need %" PRId64
			 " open files, the hard limit is %" PRId64
			 "; fewer workers, or raise it (ulimit -Hn, LimitNOFILE=)\n",
			 conf_where(c, CONF_SUPERVISOR, NULL, "workers"), n_workers, needed, limit);
}

/* Somebody may believe that Sentinel is asked. */
static void warn_sentinel(struct conf *c, const struct redis_addr *addr)
{
	const struct conf_redis *r = conf_redis(c);
	const char *key = r->sentinel_password ? "sentinel_password" : NULL;

	if (key && !addr->sentinels)
		conf_warn(c,
			  "%s: [redis] %s has no effect: the url is not sentinel://; write "
			  "sentinel://host:26379/mymaster, or leave the key out",
			  conf_where(c, CONF_REDIS, NULL, key), key);
}

int conf_check_machine(struct conf *c, struct buf *errs)
{
	size_t before = errs->len;
	struct redis_addr addr;
	struct err e = {0};

	check_ids(c, errs);
	check_descriptors(c, errs);
	if (redis_addr_resolve(conf_redis(c), &addr, &e) < 0) {
		buf_addf(errs, "%s\n", e.text);
	} else {
		warn_sentinel(c, &addr);
		redis_addr_release(&addr);
	}
	conf_check_tls(c, errs);
	for (size_t i = 0; i < conf_n_queues(c); i++)
		check_queue(c, conf_queue_at(c, i), errs);
	return errs->len == before ? 0 : -1;
}
