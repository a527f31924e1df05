/*
 * conf_finish.c - conf_resolve() and conf_finish() of conf.h: what one key cannot decide alone,
 * and what this machine decides (its CPUs, its directories).
 */
#include <errno.h>

#include "conf_row.h"
#include "conf_value.h"
#include "cpus.h"
#include "partition.h"
#include "paths.h"
#include "redis_url.h"

#define HEARTBEAT_AUTO_MAX_MS 15000

int64_t conf_heartbeat_ms(const struct conf *c, const struct conf_queue *q)
{
	int64_t ms = conf_supervisor(c)->heartbeat_timeout;

	return ms >= 0 ? ms : min_i64(HEARTBEAT_AUTO_MAX_MS, q->lease / 4);
}

/* A path that was not set gets its default, taking over `path`. */
static void default_path(char **field, char *path)
{
	if (*field)
		free(path);
	else
		*field = path;
}

static void make_absolute(const struct conf_row *row, void *section, struct buf *errs)
{
	char **field = conf_field(row, section);
	char *abs;

	if (!*field || (*field)[0] == '/')
		return;
	abs = paths_absolute(*field);
	if (!abs) {
		buf_addf(errs, "%s = %s: the present directory: %s; give a full path\n", row->key,
			 *field, strerror(errno));
		return;
	}
	free(*field);
	*field = abs;
}

static void resolve_paths(struct conf *c, struct buf *errs)
{
	struct conf_supervisor *s = conf_edit(c, CONF_SUPERVISOR, NULL);
	struct paths_who who = paths_self();

	default_path(&s->pid_file, paths_pid_file(&who, s->name));
	default_path(&s->control_socket, paths_control_socket(&who, s->name));
	default_path(&s->state_dir, paths_state_dir(&who, s->name));
	default_path(&s->log_dir, paths_log_dir(&who, s->name));
	for (size_t i = 0; i < conf_n_rows; i++) {
		const struct conf_row *row = &conf_rows[i];

		if (row->type != CONF_PATH)
			continue;
		if (row->section != CONF_QUEUE) {
			make_absolute(row, conf_edit(c, row->section, NULL), errs);
			continue;
		}
		for (size_t q = 0; q < conf_n_queues(c); q++)
			make_absolute(row, conf_edit(c, CONF_QUEUE, conf_queue_at(c, q)->name),
				      errs);
	}
	if (strlen(s->control_socket) > PATHS_SOCKET_MAX)
		buf_addf(errs,
			 "%s: [supervisor] control_socket = %.200s: %zu bytes; unix sockets allow "
			 "%d, set a shorter path\n",
			 conf_where(c, CONF_SUPERVISOR, NULL, "control_socket"), s->control_socket,
			 strlen(s->control_socket), PATHS_SOCKET_MAX);
}

/* "max" becomes a number; --print-config still says what it was. */
static void resolve_max(struct conf *c, enum conf_section s, const char *queue, int *workers)
{
	char *where;

	if (*workers != CONF_WORKERS_MAX)
		return;
	*workers = cpus_available();
	where = xasprintf("%s: max", conf_where(c, s, queue, "workers"));
	conf_edit_origin(c, s, queue, "workers", conf_origin_of(c, s, queue, "workers"), where);
	free(where);
}

static void resolve_workers(struct conf *c)
{
	struct conf_supervisor *s = conf_edit(c, CONF_SUPERVISOR, NULL);

	resolve_max(c, CONF_SUPERVISOR, NULL, &s->workers);
	for (size_t i = 0; i < conf_n_queues(c); i++) {
		struct conf_queue *q = conf_edit(c, CONF_QUEUE, conf_queue_at(c, i)->name);

		resolve_max(c, CONF_QUEUE, q->name, &q->workers);
		/* By origin, too: at a second resolve the field holds what the first one put there.
		 */
		if (q->workers == CONF_WORKERS_UNSET ||
		    conf_origin_of(c, CONF_QUEUE, q->name, "workers") == CONF_FROM_DEFAULT) {
			q->workers = s->workers;
			conf_edit_origin(c, CONF_QUEUE, q->name, "workers", CONF_FROM_DEFAULT,
					 "[supervisor] workers");
		}
	}
}

/* REDIS_URL is not looked at before it is known to count. */
static void check_url(const struct conf *c, struct buf *errs)
{
	struct redis_addr addr;
	struct err why = {0};

	if (redis_url_parse(conf_redis(c)->url, &addr, &why) == 0)
		redis_addr_release(&addr);
	else
		buf_addf(errs, "%s: [redis] url: %s\n", conf_where(c, CONF_REDIS, NULL, "url"),
			 why.text);
}

/* Of password and password_file the one said with more weight is the one. */
static void resolve_password(struct conf *c, struct buf *errs)
{
	struct conf_redis *r = conf_edit(c, CONF_REDIS, NULL);
	enum conf_origin text, file;
	char **loser;

	if (!r->password || !r->password_file)
		return;
	text = conf_origin_of(c, CONF_REDIS, NULL, "password");
	file = conf_origin_of(c, CONF_REDIS, NULL, "password_file");
	if (text == file) {
		buf_addf(errs, "%s: [redis] password_file beside password (%s); keep one of them\n",
			 conf_where(c, CONF_REDIS, NULL, "password_file"),
			 conf_where(c, CONF_REDIS, NULL, "password"));
		return;
	}
	loser = text < file ? &r->password : &r->password_file;
	free(*loser);
	*loser = NULL;
}

/* A certificate and its key are one thing. */
static void check_pair(const struct conf *c, struct buf *errs)
{
	const struct conf_redis *r = conf_redis(c);
	const char *there = r->tls_cert_file ? "tls_cert_file" : "tls_key_file";
	const char *missing = r->tls_cert_file ? "tls_key_file" : "tls_cert_file";

	if (!r->tls_cert_file == !r->tls_key_file)
		return;
	buf_addf(errs, "%s: [redis] %s without %s; set both or neither\n",
		 conf_where(c, CONF_REDIS, NULL, there), there, missing);
}

/* `low` must not exceed `high`; both durations of one section. */
static void check_order(const struct conf *c, enum conf_section s, const char *queue,
			const char *low, int64_t low_ms, const char *high, int64_t high_ms,
			struct buf *errs)
{
	struct buf a = BUF_INIT, b = BUF_INIT;
	bool queue_key = s == CONF_QUEUE;
	const char *where;

	if (low_ms <= high_ms)
		return;
	where = conf_origin_of(c, s, queue, low) >= conf_origin_of(c, s, queue, high)
			? conf_where(c, s, queue, low)
			: conf_where(c, s, queue, high);
	conf_format_duration(low_ms, &a);
	conf_format_duration(high_ms, &b);
	buf_addf(errs, "%s: [%s%s%s] %s = %s exceeds %s = %s; raise %s\n", where,
		 conf_section_word(s), queue_key ? " " : "", queue_key ? queue : "", low, a.data,
		 high, b.data, high);
	buf_release(&a);
	buf_release(&b);
}

int conf_resolve(struct conf *c, struct buf *errs)
{
	const struct conf_supervisor *s = conf_supervisor(c);
	size_t before = errs->len;

	check_order(c, CONF_SUPERVISOR, NULL, "restart_delay", s->restart_delay,
		    "restart_delay_max", s->restart_delay_max, errs);
	check_url(c, errs);
	resolve_password(c, errs);
	check_pair(c, errs);
	resolve_paths(c, errs);
	if (s->group && !s->user)
		buf_addf(errs, "%s: [supervisor] group without user; set user as well\n",
			 conf_where(c, CONF_SUPERVISOR, NULL, "group"));
	resolve_workers(c);
	return errs->len == before ? 0 : -1;
}

/* A stuck worker should be dead before another may take its tasks. */
static void warn_lease(struct conf *c, const struct conf_queue *q)
{
	int64_t heartbeat = conf_heartbeat_ms(c, q), kill = conf_supervisor(c)->kill_timeout;
	struct buf h = BUF_INIT, k = BUF_INIT, l = BUF_INIT;

	if (heartbeat + kill < q->lease)
		return;
	conf_format_duration(heartbeat, &h);
	conf_format_duration(kill, &k);
	conf_format_duration(q->lease, &l);
	conf_warn(c,
		  "[queue %s] lease = %s is not longer than heartbeat_timeout (%s) + kill_timeout "
		  "(%s): the tasks of a stuck worker may be taken over before it is dead; raise "
		  "lease",
		  q->name, l.data, h.data, k.data);
	buf_release(&h);
	buf_release(&k);
	buf_release(&l);
}

/* Its partitions have slots of their own, and none is another queue, too. */
static void check_partitions(const struct conf *c, const struct conf_queue *q, struct buf *errs)
{
	const char *where = conf_where(c, CONF_QUEUE, q->name, "partitions");
	struct err e = {0};

	if (partition_check(q->name, q->partitions, &e) < 0)
		buf_addf(errs, "%s: [queue %s] partitions = %d: %s\n", where, q->name,
			 q->partitions, e.text);
	for (size_t i = 0; i < conf_n_queues(c); i++) {
		const char *other = conf_queue_at(c, i)->name;

		if (partition_is_of(other, q->name, q->partitions))
			buf_addf(errs,
				 "%s: [queue %s] partitions = %d: \"%s\" is one of them, and a "
				 "queue of its own (%s); rename that queue\n",
				 where, q->name, q->partitions, other,
				 conf_queue_where(c, other) ? conf_queue_where(c, other) : "-q");
	}
}

static void finish_queue(struct conf *c, const struct conf_queue *q, struct buf *errs)
{
	const char *where = conf_queue_where(c, q->name);

	if (q->handler.kind == CONF_HANDLER_NONE)
		buf_addf(errs,
			 "%s%s[queue %s] has no handler; write handler = exec PROGRAM ARG...\n",
			 where ? where : "", where ? ": " : "", q->name);
	if (q->backend == CONF_BACKEND_LIST && q->on_done == CONF_DONE_ACK)
		buf_addf(errs,
			 "%s: [queue %s] on_done = ack is for streams; with backend = list done "
			 "tasks are always deleted, leave it out\n",
			 conf_where(c, CONF_QUEUE, q->name, "on_done"), q->name);
	if (q->backend == CONF_BACKEND_LIST && q->start == CONF_START_END)
		buf_addf(errs,
			 "%s: [queue %s] start = $ is for streams; with backend = list all that "
			 "is in the list is taken, leave it out\n",
			 conf_where(c, CONF_QUEUE, q->name, "start"), q->name);
	check_partitions(c, q, errs);
	check_order(c, CONF_QUEUE, q->name, "retry_delay", q->retry_delay, "retry_delay_max",
		    q->retry_delay_max, errs);
	warn_lease(c, q);
}

int conf_finish(struct conf *c, struct buf *errs)
{
	size_t before = errs->len;
	/* Its errors are in `errs`, too: all are to be seen at once. */
	int rc = conf_resolve(c, errs);

	if (conf_n_queues(c) == 0)
		buf_adds(errs, "no queue; add a section [queue NAME] with a handler, or use "
			       "-q NAME -- PROGRAM ARG...\n");
	for (size_t i = 0; i < conf_n_queues(c); i++)
		finish_queue(c, conf_queue_at(c, i), errs);
	return rc == 0 && errs->len == before ? 0 : -1;
}
