/*
 * conf_env.c - the environment, both ways: conf_read_env() takes settings out of it,
 * conf_handler_env() makes the one that handlers get. See conf_read.h.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "conf_read.h"
#include "conf_row.h"
#include "env.h"
#include "suggest.h"

#define ENV_FILE_MAX (1 << 20)

/* REDISQ_ variables that are no settings: what a handler is told (one may start a supervisor), the
 * worker's program, the tests' own. */
static const char *const no_settings[] = {
	"REDISQ_ID",           "REDISQ_QUEUE",      "REDISQ_ATTEMPT",
	"REDISQ_MAX_ATTEMPTS", "REDISQ_DELIVERIES", "REDISQ_ENQUEUED_AT_MS",
	"REDISQ_DEADLINE_MS",  "REDISQ_WORKER",     "REDISQ_SLOT",
	"REDISQ_CHECKPOINT",   "REDISQ_FIELDS",     "REDISQ_ANSWER_FD",
	"REDISQ_BUILD",        "REDISQ_PATIENCE",   "REDISQ_WORKER_PROGRAM",
};

/* The variable of a row: REDISQ_QUEUE_READ_COUNT. Owned. */
static char *row_variable(const struct conf_row *row)
{
	char *name = xasprintf("REDISQ_%s_%s", conf_section_word(row->section), row->key);

	for (char *p = name; *p; p++)
		*p = (char)toupper((unsigned char)*p);
	return name;
}

static int take(struct conf *c, const struct conf_row *row, char *const *env, const char *name,
		enum conf_origin origin, struct buf *errs)
{
	const char *value = env_value(env, name);
	struct err e;

	/* Empty counts as not set: an empty line in somebody's compose file is no decision. */
	if (!value || !value[0])
		return 0;
	if (conf_set(c, row->section, NULL, row->key, value, origin, name, &e) == 0)
		return 0;
	buf_addf(errs, "%s\n", e.text);
	return -1;
}

static bool is_known(const char *name)
{
	bool known = false;

	for (size_t i = 0; i < ARRAY_LEN(no_settings); i++)
		known |= strcmp(no_settings[i], name) == 0;
	for (size_t i = 0; i < conf_n_rows && !known; i++) {
		char *v = row_variable(&conf_rows[i]);

		known = strcmp(v, name) == 0;
		free(v);
	}
	return known;
}

static void warn_unknown(struct conf *c, const char *name)
{
	struct suggest near = {0};
	char *best = NULL;

	for (size_t i = 0; i < conf_n_rows; i++) {
		char *v = row_variable(&conf_rows[i]);
		const char *before = near.word;

		suggest_try(&near, name, v);
		if (near.word != before) {
			free(best);
			best = v;
		} else {
			free(v);
		}
	}
	if (best)
		conf_warn(c, "%s: unknown variable; did you mean %s?", name, best);
	else
		conf_warn(c, "%s: unknown variable; it has no effect", name);
	free(best);
}

int conf_read_env(struct conf *c, char *const *env, struct buf *errs)
{
	int rc = 0;

	for (size_t i = 0; i < conf_n_rows; i++) {
		const struct conf_row *row = &conf_rows[i];
		char *name = row_variable(row);

		if (row->env[0] && take(c, row, env, row->env, CONF_FROM_ENV_ALIAS, errs) < 0)
			rc = -1;
		if (take(c, row, env, name, CONF_FROM_ENV, errs) < 0)
			rc = -1;
		free(name);
	}
	for (; env && *env; env++) {
		char *name;

		if (strncmp(*env, "REDISQ_", 7) != 0)
			continue;
		name = xmemdup0(*env, strcspn(*env, "="));
		if (!is_known(name))
			warn_unknown(c, name);
		free(name);
	}
	return rc;
}

/* Credentials of Redis, and ours: a handler has no business with them. */
static bool is_withheld(const char *assignment)
{
	return strncmp(assignment, "REDISQ_", 7) == 0 ||
	       strncmp(assignment, "QUEUE_REDIS_", 12) == 0 ||
	       strncmp(assignment, "REDIS_URL=", 10) == 0;
}

/* Adds NAME=VALUE, in place of an earlier NAME. */
static void put(struct strv *env, const char *assignment)
{
	size_t n = strcspn(assignment, "=") + 1;

	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], assignment, n) == 0) {
			free(env->v[i]);
			env->v[i] = xstrdup(assignment);
			return;
		}
	strv_add(env, assignment);
}

/* Takes a quote off both ends, if it is there. */
static struct slice unquote(struct slice s)
{
	if (s.len >= 2 && (s.data[0] == '"' || s.data[0] == '\'') && s.data[s.len - 1] == s.data[0])
		return slice_of(s.data + 1, s.len - 2);
	return s;
}

static int put_line(struct strv *env, const char *path, size_t number, struct slice line,
		    struct err *e)
{
	struct buf out = BUF_INIT;
	const char *eq;
	size_t n;
	int rc = 0;

	while (line.len > 0 && isspace((unsigned char)line.data[line.len - 1]))
		line.len--;
	while (line.len > 0 && isspace((unsigned char)line.data[0]))
		line = slice_of(line.data + 1, line.len - 1);
	if (line.len == 0 || line.data[0] == '#' || line.data[0] == ';')
		return 0;
	if (line.len > 7 && memcmp(line.data, "export ", 7) == 0)
		line = slice_of(line.data + 7, line.len - 7);
	eq = memchr(line.data, '=', line.len);
	n = eq ? (size_t)(eq - line.data) : 0;
	if (n == 0 || memchr(line.data, '\0', line.len) || memchr(line.data, ' ', n))
		return err_set(e, EXIT_CONFIG, "%s:%zu: not NAME=VALUE; write one a line", path,
			       number);
	buf_add(&out, line.data, n + 1);
	line = unquote(slice_of(eq + 1, line.len - n - 1));
	buf_add(&out, line.data, line.len);
	put(env, out.data);
	buf_release(&out);
	return rc;
}

static int put_file(struct strv *env, const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct buf text = BUF_INIT;
	ssize_t n = -1;
	int rc = -1;
	size_t number = 0;

	while (fd >= 0 && text.len <= ENV_FILE_MAX) {
		n = read(fd, buf_reserve(&text, 16384), 16384);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		buf_commit(&text, (size_t)n);
	}
	if (fd < 0 || n < 0) {
		err_set(e, EXIT_CONFIG, "env_file %s: %s; let this user read it", path,
			strerror(errno));
		goto out;
	}
	if (text.len > ENV_FILE_MAX) {
		err_set(e, EXIT_CONFIG, "env_file %s: larger than 1 MiB; shorten it", path);
		goto out;
	}
	for (size_t at = 0; at < text.len;) {
		const char *nl = memchr(text.data + at, '\n', text.len - at);
		size_t len = nl ? (size_t)(nl - text.data) - at : text.len - at;

		if (put_line(env, path, ++number, slice_of(text.data + at, len), e) < 0)
			goto out;
		at += len + 1;
	}
	rc = 0;
out:
	if (fd >= 0)
		close(fd);
	buf_release(&text);
	return rc;
}

int conf_handler_env(const struct conf_queue *q, char *const *base, struct strv *out, struct err *e)
{
	*out = (struct strv){0};
	for (char *const *p = base; p && *p; p++)
		if (!is_withheld(*p))
			strv_add(out, *p);
	if (q->env_file && put_file(out, q->env_file, e) < 0) {
		strv_release(out);
		return -1;
	}
	for (size_t i = 0; i < q->env.n; i++)
		put(out, q->env.v[i]);
	if (!env_value(out->v, "PYTHONUNBUFFERED"))
		strv_add(out, "PYTHONUNBUFFERED=1");
	return 0;
}
