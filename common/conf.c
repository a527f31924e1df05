/*
 * conf.c - see conf.h: the struct, precedence, queues, diff.
 *
 * Owns every value and, beside each, where it came from. [queue] without a name is kept as one
 * more queue, `all`: what is set there is set in every queue, and a queue added later starts as a
 * copy of it. Invariant: meta[i] of a section belongs to conf_rows[i].
 */
#include <stdarg.h>

#include "conf_row.h"
#include "conf_value.h"
#include "keys.h"
#include "redis_url.h"
#include "suggest.h"

struct meta {
	enum conf_origin origin;
	char *where; /* owned, NULL = default */
};

/* One section: its struct and the origins of its fields. */
struct section {
	enum conf_section kind;
	void *fields; /* owned: struct conf_supervisor, conf_redis or conf_queue */
	char *where;  /* owned: of a queue's header, NULL = not from a file */
	struct meta meta[CONF_ROWS_MAX];
};

struct conf {
	struct section *supervisor; /* all owned */
	struct section *redis;
	struct section *all; /* [queue] without a name */
	struct section **queues;
	size_t n_queues;
	char **warnings; /* NULL-terminated */
	size_t n_warnings;
};

static struct section *section_new(enum conf_section kind)
{
	struct section *s = xcalloc(1, sizeof(*s));

	s->kind = kind;
	s->fields = xcalloc(1, conf_section_size(kind));
	for (size_t i = 0; i < conf_n_rows; i++)
		if (conf_rows[i].section == kind)
			conf_value_init(&conf_rows[i], conf_field(&conf_rows[i], s->fields));
	return s;
}

static void section_free(struct section *s)
{
	for (size_t i = 0; i < conf_n_rows; i++) {
		free(s->meta[i].where);
		if (conf_rows[i].section == s->kind)
			conf_value_release(&conf_rows[i], conf_field(&conf_rows[i], s->fields));
	}
	if (s->kind == CONF_QUEUE)
		free(((struct conf_queue *)s->fields)->name);
	free(s->where);
	free(s->fields);
	free(s);
}

struct conf *conf_new(void)
{
	struct conf *c = xcalloc(1, sizeof(*c));

	c->supervisor = section_new(CONF_SUPERVISOR);
	c->redis = section_new(CONF_REDIS);
	c->all = section_new(CONF_QUEUE);
	c->warnings = xcalloc(1, sizeof(*c->warnings));
	return c;
}

void conf_free(struct conf *c)
{
	if (!c)
		return;
	section_free(c->supervisor);
	section_free(c->redis);
	section_free(c->all);
	for (size_t i = 0; i < c->n_queues; i++)
		section_free(c->queues[i]);
	free(c->queues);
	for (size_t i = 0; i < c->n_warnings; i++)
		free(c->warnings[i]);
	free(c->warnings);
	free(c);
}

const struct conf_supervisor *conf_supervisor(const struct conf *c)
{
	return c->supervisor->fields;
}

const struct conf_redis *conf_redis(const struct conf *c)
{
	return c->redis->fields;
}

size_t conf_n_queues(const struct conf *c)
{
	return c->n_queues;
}

const struct conf_queue *conf_queue_at(const struct conf *c, size_t i)
{
	INVARIANT(i < c->n_queues);
	return c->queues[i]->fields;
}

static struct section *find_queue(const struct conf *c, const char *name)
{
	for (size_t i = 0; i < c->n_queues; i++)
		if (strcmp(conf_queue_at(c, i)->name, name) == 0)
			return c->queues[i];
	return NULL;
}

/* One that is known to be there. */
static struct section *need_queue(const struct conf *c, const char *name)
{
	struct section *s = name ? find_queue(c, name) : NULL;

	INVARIANT(s != NULL);
	return s;
}

const struct conf_queue *conf_queue(const struct conf *c, const char *name)
{
	struct section *s = find_queue(c, name);

	return s ? s->fields : NULL;
}

static void set_meta(struct meta *m, enum conf_origin origin, const char *where)
{
	char *copy = where ? xstrdup(where) : NULL;

	free(m->where);
	m->origin = origin;
	m->where = copy;
}

int conf_add_queue(struct conf *c, const char *name, struct err *e)
{
	struct section *s;

	if (keys_check_name(name, e) < 0)
		return -1;
	if (find_queue(c, name))
		return 0;
	s = section_new(CONF_QUEUE);
	((struct conf_queue *)s->fields)->name = xstrdup(name);
	for (size_t i = 0; i < conf_n_rows; i++) {
		const struct conf_row *row = &conf_rows[i];

		if (row->section != CONF_QUEUE)
			continue;
		conf_value_copy(row, conf_field(row, s->fields), conf_field(row, c->all->fields));
		set_meta(&s->meta[i], c->all->meta[i].origin, c->all->meta[i].where);
	}
	c->queues = xrealloc(c->queues, (c->n_queues + 1) * sizeof(struct section *));
	c->queues[c->n_queues++] = s;
	return 0;
}

/* "no queue "vidoe"; did you mean "video"?" */
static int say_no_queue(const struct conf *c, const char *name, struct err *e)
{
	struct suggest near = {0};

	for (size_t i = 0; i < c->n_queues; i++)
		suggest_try(&near, name, conf_queue_at(c, i)->name);
	if (near.word)
		return err_set(e, EXIT_CONFIG, "no queue \"%s\"; did you mean \"%s\"?", name,
			       near.word);
	if (c->n_queues == 0)
		return err_set(e, EXIT_CONFIG, "no queue \"%s\"; add a section [queue %s]", name,
			       name);
	return err_set(e, EXIT_CONFIG, "no queue \"%s\"; there is \"%s\"%s", name,
		       conf_queue_at(c, 0)->name, c->n_queues > 1 ? " and others" : "");
}

int conf_keep_queue(struct conf *c, const char *name, struct err *e)
{
	struct section *keep = find_queue(c, name);

	if (!keep)
		return say_no_queue(c, name, e);
	for (size_t i = 0; i < c->n_queues; i++)
		if (c->queues[i] != keep)
			section_free(c->queues[i]);
	c->queues[0] = keep;
	c->n_queues = 1;
	return 0;
}

void conf_warn(struct conf *c, const char *fmt, ...)
{
	struct buf text = BUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	buf_vaddf(&text, fmt, ap);
	va_end(ap);
	for (size_t i = 0; i < c->n_warnings; i++)
		if (strcmp(c->warnings[i], text.data) == 0) {
			buf_release(&text);
			return;
		}
	c->warnings = xrealloc(c->warnings, (c->n_warnings + 2) * sizeof(*c->warnings));
	c->warnings[c->n_warnings++] = buf_detach(&text);
	c->warnings[c->n_warnings] = NULL;
}

const char *const *conf_warnings(const struct conf *c)
{
	return (const char *const *)c->warnings;
}

/*
 * Who beats whom. REDIS_URL alone ranks below the file: a stray one often means the cache, while
 * the other aliases were made for this program and beat it.
 */
static int rank(const struct conf_row *row, enum conf_origin origin)
{
	if (origin == CONF_FROM_ENV_ALIAS && row->section == CONF_REDIS)
		return 1;
	return 2 * (int)origin;
}

/* "queue video.timeout", "redis.url"; for errors. */
static void say_key(enum conf_section s, const char *queue, const char *key, struct buf *out)
{
	if (s == CONF_QUEUE && queue)
		buf_addf(out, "[queue %s] %s", queue, key);
	else
		buf_addf(out, "[%s] %s", conf_section_word(s), key);
}

/* Values of these never appear in a message. */
static bool is_secret(const struct conf_row *row)
{
	return row->type == CONF_SECRET || row->type == CONF_ENVLIST ||
	       (row->section == CONF_REDIS && strcmp(row->key, "url") == 0);
}

/* Rules of single keys that no type expresses. The field holds the new value. */
static int check_key(const struct conf_row *row, const void *field, enum conf_origin origin,
		     struct err *e)
{
	const char *text = row->type == CONF_STR ? *(char *const *)field : NULL;
	struct redis_addr addr;

	if (!text)
		return 0;
	if (row->section == CONF_SUPERVISOR && strcmp(row->key, "name") == 0)
		return conf_check_name(text, e);
	/* A stray REDIS_URL that something stronger replaces is nobody's error: conf_resolve(). */
	if (row->section == CONF_REDIS && strcmp(row->key, "url") == 0 &&
	    origin != CONF_FROM_ENV_ALIAS) {
		if (redis_url_parse(text, &addr, e) < 0)
			return -1;
		redis_addr_release(&addr);
	}
	if (row->section == CONF_QUEUE && strcmp(row->key, "consumer") == 0)
		return conf_check_consumer(text, e);
	if (row->section == CONF_QUEUE && strcmp(row->key, "payload_field") == 0 &&
	    strncmp(text, "redisq.", 7) == 0)
		return err_set(e, EXIT_CONFIG, "fields redisq.* are ours; choose another name");
	return 0;
}

/* Puts the value of `field` into one section, unless something stronger is there. */
static bool apply(struct section *s, const struct conf_row *row, const void *field,
		  enum conf_origin origin, const char *where)
{
	struct meta *m = &s->meta[row - conf_rows];

	if (rank(row, origin) < rank(row, m->origin))
		return false;
	conf_value_copy(row, conf_field(row, s->fields), field);
	set_meta(m, origin, where);
	return true;
}

static struct section *plain_section(const struct conf *c, enum conf_section s)
{
	return s == CONF_SUPERVISOR ? c->supervisor : s == CONF_REDIS ? c->redis : c->all;
}

/* NULL: no such queue. */
static struct section *section_of(const struct conf *c, enum conf_section s, const char *queue)
{
	return s == CONF_QUEUE && queue ? find_queue(c, queue) : plain_section(c, s);
}

static bool apply_all(struct conf *c, const char *queue, const struct conf_row *row,
		      const void *field, enum conf_origin origin, const char *where)
{
	bool used;

	if (row->section == CONF_QUEUE && queue)
		return apply(need_queue(c, queue), row, field, origin, where);
	used = apply(plain_section(c, row->section), row, field, origin, where);
	if (row->section == CONF_QUEUE)
		for (size_t i = 0; i < c->n_queues; i++)
			used |= apply(c->queues[i], row, field, origin, where);
	return used;
}

static const struct conf_row *find_row(enum conf_section s, const char *queue, const char *key,
				       const char *where, struct err *e)
{
	const struct conf_row *row = conf_row(s, key);
	const char *near;
	struct buf name = BUF_INIT, shown = BUF_INIT;

	if (row)
		return row;
	buf_add(&shown, key, suggest_shown(key));
	near = conf_row_suggest(s, key); /* "child max memory", too */
	if (!near)
		near = conf_row_suggest(s, shown.data);
	if (key[shown.len])
		buf_adds(&shown, "...");
	say_key(s, queue, shown.data, &name);
	if (near)
		err_set(e, EXIT_CONFIG, "%s: %s: unknown key; did you mean %s?", where, name.data,
			near);
	else
		err_set(e, EXIT_CONFIG, "%s: %s: unknown key; redisq.ini(5) lists them", where,
			name.data);
	buf_release(&name);
	buf_release(&shown);
	return NULL;
}

/* A value is one line of text. */
static int check_text(const char *value, struct err *e)
{
	for (const unsigned char *p = (const unsigned char *)value; *p; p++) {
		if (*p == '\n' || *p == '\r')
			return err_set(e, EXIT_CONFIG, "has a line break in it; remove it");
		if ((*p < 0x20 && *p != '\t') || *p == 0x7f)
			return err_set(e, EXIT_CONFIG,
				       "has the control character 0x%02x; remove it", *p);
	}
	return 0;
}

/* ", in place of 8 (redisq.ini:5)": what a fallback to the default is about to replace. */
static void say_replaced(const struct conf *c, const char *queue, const struct conf_row *row,
			 enum conf_origin origin, struct buf *out)
{
	const struct section *only = queue ? find_queue(c, queue) : NULL;

	for (size_t i = 0; i < c->n_queues; i++) {
		const struct section *s = c->queues[i];
		const struct meta *m = &s->meta[row - conf_rows];

		if ((only && s != only) || m->origin == CONF_FROM_DEFAULT ||
		    rank(row, m->origin) >= rank(row, origin))
			continue;
		buf_adds(out, out->len ? ", " : ", in place of ");
		conf_value_format(row, conf_cfield(row, s->fields), out);
		buf_addf(out, " (%s)", m->where);
	}
}

int conf_set(struct conf *c, enum conf_section s, const char *queue, const char *key,
	     const char *value, enum conf_origin origin, const char *where, struct err *e)
{
	const struct conf_row *row = find_row(s, queue, key, where, e);
	union {
		char *text;
		int number;
		int64_t wide;
		struct conf_handler handler;
		struct strv list;
	} field;
	struct err why = {0};
	enum conf_parsed parsed;
	struct buf name = BUF_INIT, replaced = BUF_INIT;
	int rc = -1;

	if (!row)
		return -1;
	memset(&field, 0, sizeof(field));
	say_key(s, queue, key, &name);
	if (s == CONF_QUEUE && queue && !find_queue(c, queue)) {
		say_no_queue(c, queue, &why);
		err_set(e, EXIT_CONFIG, "%s: %s", where, why.text);
		goto out;
	}
	parsed =
		check_text(value, &why) < 0 ? CONF_BAD : conf_value_parse(row, value, &field, &why);
	if (parsed == CONF_PARSED && check_key(row, &field, origin, &why) < 0)
		parsed = CONF_BAD;
	if (row->type == CONF_INTDEF &&
	    (parsed == CONF_BELOW ||
	     (parsed == CONF_BAD && (origin == CONF_FROM_ENV || origin == CONF_FROM_ENV_ALIAS) &&
	      !conf_is_number(value)))) {
		conf_value_init(row, &field);
		say_replaced(c, queue, row, origin, &replaced);
		if (apply_all(c, queue, row, &field, origin, where))
			conf_warn(c, "%s: %s = %.200s: not a positive number; using %s%s", where,
				  name.data, value, row->def, replaced.data);
		rc = 0;
	} else if (parsed == CONF_PARSED) {
		apply_all(c, queue, row, &field, origin, where);
		rc = 0;
	} else if (is_secret(row)) {
		err_set(e, EXIT_CONFIG, "%s: %s: %s", where, name.data, why.text);
	} else {
		err_set(e, EXIT_CONFIG, "%s: %s = %.200s: %s", where, name.data, value, why.text);
	}
out:
	conf_value_release(row, &field);
	buf_release(&name);
	buf_release(&replaced);
	return rc;
}

int conf_set_handler_argv(struct conf *c, const char *queue, enum conf_handler_kind kind, int argc,
			  char *const *argv, enum conf_origin origin, const char *where,
			  struct err *e)
{
	struct conf_handler h = {.kind = kind};
	const struct conf_row *row = conf_row(CONF_QUEUE, "handler");

	if (argc < 1 || !argv[0][0])
		return err_set(e, EXIT_USAGE, "%s: no program; write -- PROGRAM ARG...", where);
	if (kind == CONF_HANDLER_SO && argc > 1)
		return err_set(e, EXIT_USAGE, "%s: a library takes no words; write -k so -- %s",
			       where, argv[0]);
	if (queue && !find_queue(c, queue))
		return say_no_queue(c, queue, e);
	for (int i = 0; i < argc; i++)
		strv_add(&h.argv, argv[i]);
	apply_all(c, queue, row, &h, origin, where);
	conf_value_release(row, &h);
	return 0;
}

int conf_kept_children(const struct conf_queue *q)
{
	return q->handler.kind == CONF_HANDLER_PIPE ? 2 * q->concurrency + 1 : 0;
}

/* The meta of a value; a queue that is not there counts as [queue] without a name. */
static const struct meta *meta_of(const struct conf *c, enum conf_section s, const char *queue,
				  const char *key)
{
	const struct conf_row *row = conf_row(s, key);
	const struct section *in = section_of(c, s, queue);

	INVARIANT(row != NULL);
	return &(in ? in : plain_section(c, s))->meta[row - conf_rows];
}

const char *conf_where(const struct conf *c, enum conf_section s, const char *queue,
		       const char *key)
{
	const struct meta *m = meta_of(c, s, queue, key);

	return m->where ? m->where : "default";
}

enum conf_origin conf_origin_of(const struct conf *c, enum conf_section s, const char *queue,
				const char *key)
{
	return meta_of(c, s, queue, key)->origin;
}

void *conf_edit(struct conf *c, enum conf_section s, const char *queue)
{
	struct section *in = section_of(c, s, queue);

	return in ? in->fields : NULL;
}

void conf_edit_origin(struct conf *c, enum conf_section s, const char *queue, const char *key,
		      enum conf_origin origin, const char *where)
{
	struct section *in = section_of(c, s, queue);

	INVARIANT(in != NULL);
	set_meta(&in->meta[conf_row(s, key) - conf_rows], origin, where);
}

void conf_set_queue_where(struct conf *c, const char *queue, const char *where)
{
	struct section *in = need_queue(c, queue);

	free(in->where);
	in->where = xstrdup(where);
}

const char *conf_queue_where(const struct conf *c, const char *queue)
{
	return need_queue(c, queue)->where;
}

static const void *diff_side(const struct conf *c, enum conf_section s, const char *queue)
{
	const struct section *in = section_of(c, s, queue);

	INVARIANT(in != NULL);
	return in->fields;
}

enum conf_change conf_diff(const struct conf *was, const struct conf *now, enum conf_section s,
			   const char *queue)
{
	static const enum conf_change strength[] = {[CONF_LIVE] = CONF_LIVE_CHANGED,
						    [CONF_ROLL] = CONF_ROLL_CHANGED,
						    [CONF_BOOT] = CONF_BOOT_CHANGED};
	const void *a = diff_side(was, s, queue), *b = diff_side(now, s, queue);
	enum conf_change change = CONF_SAME;

	for (size_t i = 0; i < conf_n_rows; i++) {
		const struct conf_row *row = &conf_rows[i];

		if (row->section == s && strength[row->reload] > change &&
		    !conf_value_equal(row, conf_cfield(row, a), conf_cfield(row, b)))
			change = strength[row->reload];
	}
	return change;
}

void conf_diff_boot(const struct conf *was, const struct conf *now,
		    void (*fn)(void *arg, const char *key), void *arg)
{
	char key[80];

	for (size_t i = 0; i < conf_n_rows; i++) {
		const struct conf_row *row = &conf_rows[i];

		if (row->reload != CONF_BOOT || row->section == CONF_QUEUE ||
		    conf_value_equal(row, conf_cfield(row, diff_side(was, row->section, NULL)),
				     conf_cfield(row, diff_side(now, row->section, NULL))))
			continue;
		snprintf(key, sizeof(key), "%s.%s", conf_section_word(row->section), row->key);
		fn(arg, key);
	}
}

void conf_keep_boot(struct conf *c, const struct conf *running)
{
	for (size_t i = 0; i < conf_n_rows; i++) {
		const struct conf_row *row = &conf_rows[i];
		struct section *to = plain_section(c, row->section);
		const struct section *from = plain_section(running, row->section);

		if (row->reload != CONF_BOOT || row->section == CONF_QUEUE)
			continue;
		conf_value_copy(row, conf_field(row, to->fields), conf_cfield(row, from->fields));
		set_meta(&to->meta[i], from->meta[i].origin, from->meta[i].where);
	}
}
