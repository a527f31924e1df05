/*
 * verb_logs.c - the logs of all slots or of one, in the order of their time stamps, read from the
 * files themselves: it works when the supervisor is gone, too.
 */
#include <dirent.h>
#include <errno.h>
#include <time.h>

#include "clock.h"
#include "ctl.h"
#include "filename.h"
#include "list.h"
#include "logtail.h"
#include "out.h"
#include "partition.h"
#include "paths.h"
#include "suggest.h"

#define ASK_MS 5000
#define LAST_DEFAULT 15
#define POLL_MS 200
#define FILES_EVERY_MS 1000 /* a slot that is new gets its file */
#define STAMP_LEN 24

struct line_text {
	char *text;   /* owned */
	size_t order; /* of arrival: equal stamps keep it */
};

struct slot_file {
	struct list all;
	struct logs *logs; /* borrowed */
	char *name;        /* owned: the file's */
	size_t stem_len;   /* of the queue's part of it */
	struct logtail *tail;
};

struct logs {
	const struct options *options; /* borrowed */
	char *dir;                     /* owned */
	struct list files;
	struct line_text *lines; /* owned: collected, not printed yet */
	size_t n_lines;
	size_t cap;
	const char *shown_stem; /* borrowed: the first file's; others make the queue be shown */
	size_t shown_stem_len;
	bool has_queues;
};

/* ------------------------------------------------------------------ which files */

/* "<stem>-<slot>.log": the length of the stem, and the slot; false: another file. */
static bool parse_name(const char *name, size_t *stem_len, const char **slot, size_t *slot_len)
{
	size_t len = strlen(name);
	size_t i;

	if (len < 7 || strcmp(name + len - 4, ".log") != 0)
		return false;
	for (i = len - 4; i > 0 && name[i - 1] >= '0' && name[i - 1] <= '9'; i--)
		;
	if (i == len - 4 || i < 2 || name[i - 1] != '-')
		return false;
	*stem_len = i - 1;
	*slot = name + i;
	*slot_len = len - 4 - i;
	return true;
}

/* "QUEUE/N", "N" or "QUEUE": is it this file's slot? */
static bool is_meant(const char *target, const char *name, size_t stem_len, const char *slot,
		     size_t slot_len)
{
	const char *slash = strrchr(target, '/');
	struct buf stem = BUF_INIT;
	bool same_slot, meant;
	char *queue;

	if (slice_eq_str(slice_of(slot, slot_len), target))
		return true;
	filename_stem(&stem, target);
	meant = stem.len == stem_len && memcmp(stem.data, name, stem_len) == 0;
	buf_release(&stem);
	if (meant || !slash)
		return meant;
	same_slot = slice_eq_str(slice_of(slot, slot_len), slash + 1);
	queue = xmemdup0(target, (size_t)(slash - target));
	filename_stem(&stem, queue);
	free(queue);
	meant = same_slot && stem.len == stem_len && memcmp(stem.data, name, stem_len) == 0;
	buf_release(&stem);
	return meant;
}

static bool is_known(const struct logs *l, const char *name)
{
	struct list *it;

	list_each (it, &l->files)
		if (strcmp(list_entry(it, struct slot_file, all)->name, name) == 0)
			return true;
	return false;
}

static struct slot_file *add_file(struct logs *l, const char *name, size_t stem_len)
{
	struct slot_file *f = xcalloc(1, sizeof(*f));
	char *path = xasprintf("%s/%s", l->dir, name);

	f->logs = l;
	f->name = xstrdup(name);
	f->stem_len = stem_len;
	f->tail = logtail_new(path);
	free(path);
	list_append(&l->files, &f->all);
	if (!l->shown_stem) {
		l->shown_stem = f->name;
		l->shown_stem_len = stem_len;
	} else if (l->shown_stem_len != stem_len || memcmp(l->shown_stem, f->name, stem_len) != 0) {
		l->has_queues = true;
	}
	return f;
}

/* -1 with `e`: the directory cannot be read. */
static int find_files(struct logs *l, struct err *e)
{
	const char *target = l->options->n_args ? l->options->args[0] : NULL;
	DIR *dir = opendir(l->dir);
	struct dirent *d;

	if (!dir)
		return err_set(e, EXIT_FORCED, "log directory %s: %s; has a supervisor run here?",
			       l->dir, strerror(errno));
	while ((d = readdir(dir)) != NULL) {
		size_t stem_len, slot_len;
		const char *slot;

		if (parse_name(d->d_name, &stem_len, &slot, &slot_len) &&
		    (!target || is_meant(target, d->d_name, stem_len, slot, slot_len)) &&
		    !is_known(l, d->d_name))
			add_file(l, d->d_name, stem_len);
	}
	closedir(dir);
	return 0;
}

/* ------------------------------------------------------------------ which lines */

/* The time stamp of a line in either form; both sort as text. */
static const char *stamp_of(const char *line)
{
	static const char head[] = "{\"ts\":\"";

	return strncmp(line, head, sizeof(head) - 1) == 0 ? line + sizeof(head) - 1 : line;
}

/* Does what stands before `at` end in `head`, or, where `any` is, in that and a partition, "[3:"?
 */
static bool is_headed(const char *line, const char *at, const char *head, bool any)
{
	size_t len = strlen(head);

	if (any && at > line && at[-1] == ':')
		for (at--; at > line && at[-1] >= '0' && at[-1] <= '9';)
			at--;
	return (size_t)(at - line) >= len && memcmp(at - len, head, len) == 0;
}

/* An id as Redis gives them, without a partition, is that task in any of them. */
static bool is_of_task(struct slice line, const char *task)
{
	bool is_json = line.len && line.data[0] == '{';
	bool any = partition_is_entry_id(slice_str(task));
	char *mark = xasprintf(is_json ? "%s\"," : "%s] ", task);
	const char *end = line.data + (line.len < 512 ? line.len : 512);
	const char *at = line.data;
	bool found = false;

	while (!found && (at = memmem(at, (size_t)(end - at), mark, strlen(mark))) != NULL) {
		found = is_headed(line.data, at, is_json ? "\",\"id\":\"" : " [", any);
		at++;
	}
	free(mark);
	return found;
}

static void on_line(void *arg, struct slice line)
{
	struct slot_file *f = arg;
	struct logs *l = f->logs;
	struct buf text = BUF_INIT;

	if (l->options->task && !is_of_task(line, l->options->task))
		return;
	/* SLOT is said as QUEUE/SLOT where there are several queues. The stamp stays in front. */
	buf_add(&text, line.data, line.len);
	if (l->has_queues && line.len > STAMP_LEN && line.data[0] != '{') {
		struct buf with = BUF_INIT;

		buf_add(&with, line.data, STAMP_LEN + 1);
		buf_add(&with, f->name, f->stem_len);
		buf_addc(&with, '/');
		buf_add(&with, line.data + STAMP_LEN + 1, line.len - STAMP_LEN - 1);
		buf_release(&text);
		text = with;
	}
	if (l->n_lines == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 256;
		l->lines = xrealloc(l->lines, l->cap * sizeof(*l->lines));
	}
	l->lines[l->n_lines].order = l->n_lines;
	l->lines[l->n_lines++].text = buf_detach(&text);
}

static int by_stamp(const void *a, const void *b)
{
	const struct line_text *x = a;
	const struct line_text *y = b;
	int c = strncmp(stamp_of(x->text), stamp_of(y->text), STAMP_LEN);

	if (c != 0)
		return c;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* Prints what was collected, the last `max` lines of it (-1 = all). */
static void print_lines(struct logs *l, int64_t max)
{
	struct buf out = BUF_INIT;
	size_t first = 0;

	if (l->n_lines)
		qsort(l->lines, l->n_lines, sizeof(*l->lines), by_stamp);
	if (max >= 0 && l->n_lines > (size_t)max)
		first = l->n_lines - (size_t)max;
	for (size_t i = 0; i < l->n_lines; i++) {
		if (i >= first) {
			buf_adds(&out, l->lines[i].text);
			buf_addc(&out, '\n');
		}
		free(l->lines[i].text);
		if (out.len > 1024 * 1024)
			out_write(&out);
	}
	l->n_lines = 0;
	out_write(&out);
	buf_release(&out);
}

static int follow(struct logs *l, struct err *e)
{
	const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
	int64_t look_ms = clock_mono_ms() + FILES_EVERY_MS;

	for (;;) {
		struct list *it;

		nanosleep(&pause, NULL);
		if (clock_mono_ms() >= look_ms) {
			look_ms = clock_mono_ms() + FILES_EVERY_MS;
			if (find_files(l, e) != 0)
				return -1;
		}
		list_each (it, &l->files) {
			struct slot_file *f = list_entry(it, struct slot_file, all);

			logtail_more(f->tail, on_line, f);
		}
		print_lines(l, -1);
	}
}

/* Nothing there of what was asked for: what is there that is spelt like it? */
static int no_files(const struct logs *l, struct err *e)
{
	const char *target = l->options->n_args ? l->options->args[0] : NULL;
	struct suggest near = {0};
	struct strv stems = {0};
	char *queue = xstrdup(target ? target : "");
	char *slash = strrchr(queue, '/');
	DIR *dir = target ? opendir(l->dir) : NULL;
	struct dirent *d;

	if (slash)
		*slash = '\0';
	while (dir && (d = readdir(dir)) != NULL) {
		size_t stem_len, slot_len;
		const char *slot;

		if (!parse_name(d->d_name, &stem_len, &slot, &slot_len))
			continue;
		d->d_name[stem_len] = '\0';
		strv_add(&stems, d->d_name);
	}
	for (size_t i = 0; i < stems.n; i++)
		suggest_try(&near, queue, stems.v[i]);
	if (near.word && strcmp(near.word, queue) != 0)
		err_set(e, EXIT_FORCED, "no log of %s in %s; did you mean %s?", target, l->dir,
			near.word);
	else
		err_set(e, EXIT_FORCED, "no log of %s in %s; see redisqctl status",
			target ? target : "any worker", l->dir);
	if (dir)
		closedir(dir);
	strv_release(&stems);
	free(queue);
	return -1;
}

static int show_logs(struct logs *l, struct err *e)
{
	const struct options *o = l->options;
	int64_t n = o->n_lines >= 0 ? o->n_lines : o->task ? -1 : LAST_DEFAULT;
	struct list *it;

	if (find_files(l, e) != 0)
		return -1;
	if (list_empty(&l->files) && !o->follow)
		return no_files(l, e);
	list_each (it, &l->files) {
		struct slot_file *f = list_entry(it, struct slot_file, all);

		logtail_last(f->tail, o->task ? -1 : n, on_line, f);
	}
	if (o->task && l->n_lines == 0 && !o->follow)
		return err_set(e, EXIT_FORCED,
			       "no line of task %s in the logs that are kept in %s; see redisqctl "
			       "show QUEUE %s",
			       o->task, l->dir, o->task);
	print_lines(l, n);
	return o->follow ? follow(l, e) : 0;
}

/* ------------------------------------------------------------------ where they are */

/* The running supervisor's directory, else the configured one. NULL with `e`. */
static char *find_dir(struct ctl *c, struct err *e)
{
	const struct conf_supervisor *s = conf_supervisor(c->target.conf);
	struct paths_who who = paths_self();
	struct client *client;
	struct err nobody;
	json_t *r = NULL;
	char *dir = NULL;

	client = target_open(&c->target, &nobody);
	if (!client && nobody.code == EXIT_CONFIG) {
		*e = nobody;
		return NULL;
	}
	if (client) {
		r = client_ask(client, json_pack("{s:s}", "verb", "config"), ASK_MS, NULL, NULL, e);
		client_close(client);
		if (!r)
			return NULL;
		if (!json_is_true(json_object_get(r, "log_files")))
			err_set(e, EXIT_FORCED,
				"the logs go to the supervisor's stdout only (log_to); look there, "
				"or set log_to = both");
		else if (json_is_string(json_object_get(r, "log_dir")))
			dir = xstrdup(json_string_value(json_object_get(r, "log_dir")));
		json_decref(r);
		return dir;
	}
	return s->log_dir ? xstrdup(s->log_dir) : paths_log_dir(&who, s->name);
}

int verb_logs(struct ctl *c, struct err *e)
{
	struct logs l = {.options = c->options};
	struct list *it, *tmp;
	int rc;

	list_init(&l.files);
	l.dir = find_dir(c, e);
	if (!l.dir)
		return -1;
	rc = show_logs(&l, e);
	list_each_safe (it, tmp, &l.files) {
		struct slot_file *f = list_entry(it, struct slot_file, all);

		list_remove(&f->all);
		logtail_free(f->tail);
		free(f->name);
		free(f);
	}
	free(l.lines);
	free(l.dir);
	return rc;
}
