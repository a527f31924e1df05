/* target.c - see target.h. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf_read.h"
#include "keys.h"
#include "partition.h"
#include "paths.h"
#include "suggest.h"
#include "target.h"

#define ASK_MS 5000

extern char **environ;

/* All the errors, each a line of its own; -1 with exit code `code`. */
static int print_errors(const struct buf *errs, int code, struct err *e)
{
	const char *p = errs->data;

	while (*p) {
		size_t len = strcspn(p, "\n");

		fprintf(stderr, "redisqctl: %.*s\n", (int)len, p);
		p += len + (p[len] == '\n');
	}
	return err_set(e, code, "%s", "");
}

static void add_socket(struct target *t, const char *path)
{
	for (size_t i = 0; i < t->sockets.n; i++)
		if (strcmp(t->sockets.v[i], path) == 0)
			return;
	strv_add(&t->sockets, path);
}

/* Where the supervisor with this configuration listens. */
static void add_socket_of(struct target *t, const struct conf *c)
{
	const struct conf_supervisor *s = conf_supervisor(c);
	struct paths_who who = paths_self();
	char *path = s->control_socket ? paths_absolute(s->control_socket)
				       : paths_control_socket(&who, s->name);

	if (path)
		add_socket(t, path);
	free(path);
}

static int apply_sets(const struct target *t, struct conf *c, struct buf *errs)
{
	int rc = 0;

	for (size_t i = 0; i < t->options->n_sets; i++)
		if (conf_read_assignment(c, t->options->sets[i], errs) != 0)
			rc = -1;
	return rc;
}

/* A configuration from `file` (NULL = none), the environment and -s. */
static struct conf *read_conf(const struct target *t, const char *file, struct buf *errs)
{
	struct conf *c = conf_new();
	int rc = 0;

	if (file && conf_read_file(c, file, errs) != 0)
		rc = -1;
	if (conf_read_env(c, environ, errs) != 0)
		rc = -1;
	if (apply_sets(t, c, errs) != 0)
		rc = -1;
	if (rc == 0)
		return c;
	conf_free(c);
	return NULL;
}

/* Without -c: the file a supervisor would read by itself, or NULL. Owned. */
static char *default_file(const struct target *t)
{
	struct paths_who who = paths_self();
	char *path = paths_config_file(&who, conf_supervisor(t->conf)->name);

	if (path && access(path, R_OK) == 0)
		return path;
	free(path);
	return who.uid != 0 && access("redisq.ini", R_OK) == 0 ? xstrdup("redisq.ini") : NULL;
}

/*
 * Without -c: the default place, and what the default file says. A faulty file is the supervisor's
 * matter as long as one answers; target_conf() reads it again where none does.
 */
static void add_default_sockets(struct target *t)
{
	struct buf errs = BUF_INIT;
	char *file = default_file(t);
	struct conf *c = file ? read_conf(t, file, &errs) : NULL;

	add_socket_of(t, t->conf);
	if (c) {
		add_socket_of(t, c);
		conf_free(c);
	}
	buf_release(&errs);
	free(file);
}

/* 64 when one of the -s has not the form of one, else 78. */
static int code_of_sets(const struct options *o)
{
	for (size_t i = 0; i < o->n_sets; i++)
		if (!conf_is_assignment(o->sets[i]))
			return EXIT_USAGE;
	return EXIT_CONFIG;
}

/* What cannot be read at all names no supervisor: the default one is not the one that is meant. */
static bool is_readable_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, R_OK) == 0;
}

int target_init(struct target *t, const struct options *o, struct err *e)
{
	struct buf set_errs = BUF_INIT;
	int rc = 0;

	memset(t, 0, sizeof(*t));
	buf_init(&t->errs);
	t->options = o;
	t->conf = conf_new();
	if (o->conf_file && conf_read_file(t->conf, o->conf_file, &t->errs) != 0)
		rc = is_readable_file(o->conf_file) ? 0 : -1;
	if (rc == 0 && conf_read_env(t->conf, environ, &t->errs) != 0)
		rc = 0; /* as a faulty file */
	if (rc != 0)
		return print_errors(&t->errs, EXIT_CONFIG, e);
	if (apply_sets(t, t->conf, &set_errs) != 0)
		rc = print_errors(&set_errs, code_of_sets(o), e);
	else if (o->conf_file)
		add_socket_of(t, t->conf);
	else
		add_default_sockets(t);
	buf_release(&set_errs);
	return rc;
}

struct client *target_open(struct target *t, struct err *e)
{
	struct client *client = client_open(&t->sockets, e);

	if (t->errs.len == 0)
		return client;
	if (!client) {
		print_errors(&t->errs, EXIT_CONFIG, e);
	} else if (!t->is_warned) {
		t->is_warned = true;
		fprintf(stderr,
			"redisqctl: %.*s; asking the supervisor at %s all the same, the file is "
			"its matter\n",
			(int)strcspn(t->errs.data, "\n"), t->errs.data, client_path(client));
	}
	return client;
}

void target_release(struct target *t)
{
	buf_release(&t->errs);
	free(t->note);
	if (t->effective && t->effective != t->conf)
		conf_free(t->effective);
	if (t->conf)
		conf_free(t->conf);
	strv_release(&t->sockets);
	free(t->redis_from);
}

static bool names_redis(const struct options *o)
{
	for (size_t i = 0; i < o->n_sets; i++)
		if (strncmp(o->sets[i], "redis.", 6) == 0)
			return true;
	return false;
}

/* The supervisor's snapshot as a configuration, -s applied on top; NULL with errors in `errs`. */
static struct conf *read_snapshot(const struct target *t, const char *text, struct buf *errs)
{
	struct conf *c = conf_new();
	size_t len = strlen(text);
	int fd = memfd_create("redisq-config", MFD_CLOEXEC);

	if (fd < 0 || write(fd, text, len) != (ssize_t)len) {
		buf_addf(errs, "memfd: %s\n", strerror(errno));
	} else if (conf_read_snapshot(c, fd, errs) == 0 && apply_sets(t, c, errs) == 0) {
		close(fd);
		return c;
	}
	if (fd >= 0)
		close(fd);
	conf_free(c);
	return NULL;
}

static int ask_supervisor(struct target *t, struct client *client, struct err *e)
{
	json_t *r = client_ask(client, json_pack("{s:s}", "verb", "config"), ASK_MS, NULL, NULL, e);
	const char *text = json_string_value(json_object_get(r, "snapshot"));
	const char *from = json_string_value(json_object_get(r, "redis_from"));
	struct buf errs = BUF_INIT;
	int rc = 0;

	if (!r)
		return -1;
	t->effective = read_snapshot(t, text ? text : "", &errs);
	if (!t->effective)
		rc = print_errors(&errs, EXIT_CONFIG, e);
	t->redis_from = from ? xstrdup(from) : NULL;
	buf_release(&errs);
	json_decref(r);
	return rc;
}

/* "REDIS_URL", with the places where no supervisor could be asked. Owned. */
static char *say_where_from(const struct target *t)
{
	struct buf b = BUF_INIT;

	buf_adds(&b, conf_where(t->effective, CONF_REDIS, NULL, "url"));
	if (!t->options->conf_file && !names_redis(t->options))
		for (size_t i = 0; i < t->sockets.n; i++)
			buf_addf(&b, "%s%s", i ? ", " : "; no supervisor to ask at ",
				 t->sockets.v[i]);
	return buf_detach(&b);
}

/* No supervisor to ask: -c, else the default file, else what the environment and -s say alone. */
static const struct conf *fall_back(struct target *t, struct err *e)
{
	struct buf errs = BUF_INIT;
	char *file = t->options->conf_file ? NULL : default_file(t);

	if (t->errs.len)
		buf_add(&errs, t->errs.data, t->errs.len);
	else
		t->effective = file ? read_conf(t, file, &errs) : t->conf;
	if (!t->effective)
		print_errors(&errs, EXIT_CONFIG, e);
	else
		t->redis_from = say_where_from(t);
	buf_release(&errs);
	free(file);
	return t->effective;
}

const struct conf *target_conf(struct target *t, struct err *e)
{
	struct client *client = NULL;
	struct err nobody;

	if (t->effective)
		return t->effective;
	if (!t->options->conf_file && !names_redis(t->options))
		client = client_open(&t->sockets, &nobody);
	if (!client)
		return fall_back(t, e);
	if (ask_supervisor(t, client, e) != 0) {
		client_close(client);
		return NULL;
	}
	client_close(client);
	return t->effective;
}

/* "jobs:7", of a queue that has no such partition, or none any more. */
static const struct conf_queue *spread_queue_of(const struct conf *c, const char *name)
{
	for (size_t i = 0; i < conf_n_queues(c); i++) {
		const struct conf_queue *q = conf_queue_at(c, i);

		if (q->partitions > 1 && partition_is_of(name, q->name, PARTITIONS_MAX))
			return q;
	}
	return NULL;
}

/* A queue that nobody serves is rarely what is meant, but may be: one says so, and goes on. */
static void note_stranger(struct target *t, const char *name)
{
	size_t n = conf_n_queues(t->effective);
	const struct conf_queue *spread = spread_queue_of(t->effective, name);
	struct suggest near = {0};
	struct buf b = BUF_INIT;

	if (n == 0 || t->note)
		return;
	if (spread) {
		t->note = xasprintf("%s has the partitions 0 to %d; %s is none of them",
				    spread->name, spread->partitions - 1, name);
		return;
	}
	buf_addf(&b, "no queue %s is configured; ", name);
	for (size_t i = 0; i < n; i++)
		suggest_try(&near, name, conf_queue_at(t->effective, i)->name);
	if (near.word)
		buf_addf(&b, "did you mean %s?", near.word);
	else
		buf_adds(&b, "there are ");
	for (size_t i = 0; !near.word && i < n; i++)
		buf_addf(&b, "%s%s", i ? ", " : "", conf_queue_at(t->effective, i)->name);
	t->note = buf_detach(&b);
}

const struct conf_queue *target_queue(struct target *t, const char *name, struct err *e)
{
	const struct conf_queue *q;

	if (!target_conf(t, e))
		return NULL;
	if (keys_check_name(name, e) != 0) {
		e->code = EXIT_USAGE;
		return NULL;
	}
	q = conf_queue(t->effective, name);
	if (q)
		return q;
	note_stranger(t, name);
	if (conf_add_queue(t->effective, name, e) != 0)
		return NULL;
	return conf_queue(t->effective, name);
}

int target_parts(struct target *t, const char *name, struct parts *p, struct err *e)
{
	const struct conf *c = target_conf(t, e);
	const struct conf_queue *q;
	bool is_made;

	*p = (struct parts){0};
	if (!c)
		return -1;
	for (size_t i = 0; i < conf_n_queues(c) && !conf_queue(c, name); i++) {
		q = conf_queue_at(c, i);
		if (partition_is_of(name, q->name, q->partitions)) {
			parts_init_one(p, q, name);
			return 0;
		}
	}
	is_made = !conf_queue(c, name);
	q = target_queue(t, name, e);
	if (!q)
		return -1;
	if (partition_check(q->name, q->partitions, e) != 0)
		return -1;
	parts_init(p, q);
	p->is_made = is_made;
	return 0;
}
