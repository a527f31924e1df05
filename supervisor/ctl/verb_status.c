/* verb_status.c - what runs where: the table, JSON, the redrawn table, one worker in detail. */
#include <jansson.h>
#include <time.h>

#include "client.h"
#include "ctl.h"
#include "out.h"
#include "suggest.h"
#include "table.h"

#define ASK_MS 10000
/* On a narrower terminal only the columns that matter most are shown. */
#define WIDTH_NARROW 80
#define WIDTH_MIN 60

/* ------------------------------------------------------------------ reading the object */

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static int64_t number_of(const json_t *o, const char *key)
{
	return (int64_t)json_integer_value(json_object_get(o, key));
}

/* The answer to one verb without arguments, owned; NULL with `e`. */
static json_t *ask(struct ctl *c, const char *verb, struct err *e)
{
	struct client *client = target_open(&c->target, e);
	json_t *result = NULL;

	if (client)
		result =
			client_ask(client, json_pack("{s:s}", "verb", verb), ASK_MS, NULL, NULL, e);
	client_close(client);
	return result;
}

/* "signal 9 SIGKILL", "exit 3", "oom", "-". */
static void add_last_exit(struct buf *b, const json_t *exit)
{
	const char *cause = text_of(exit, "cause");
	const json_t *sig = json_object_get(exit, "signal");
	bool has_signal = json_is_string(sig) || (json_is_integer(sig) && json_integer_value(sig));

	if (!json_is_object(exit)) {
		buf_adds(b, "-");
		return;
	}
	buf_adds(b, cause);
	if (json_is_string(sig))
		buf_addf(b, " %s", json_string_value(sig));
	else if (has_signal)
		buf_addf(b, " %d", (int)json_integer_value(sig));
	else if (strcmp(cause, "exit") == 0 || number_of(exit, "code") != 0)
		buf_addf(b, " %d", (int)number_of(exit, "code"));
}

/* In whole seconds: milliseconds would only flicker. */
static void add_uptime(struct buf *b, const json_t *o)
{
	int64_t ms = number_of(o, "uptime_ms");

	if (ms < 1000)
		buf_adds(b, "0s");
	else
		out_age(b, ms);
}

/* ------------------------------------------------------------------ the table */

static enum out_colour colour_of(const char *state)
{
	if (strcmp(state, "ready") == 0)
		return OUT_GREEN;
	if (strcmp(state, "backoff") == 0 || strcmp(state, "parked") == 0 ||
	    strcmp(state, "killing") == 0)
		return OUT_RED;
	if (strcmp(state, "stopped") == 0)
		return OUT_DIM;
	return OUT_YELLOW;
}

static void paint(struct table *t, enum out_colour colour)
{
	struct buf before = BUF_INIT;
	struct buf after = BUF_INIT;

	out_colour(&before, colour);
	out_colour(&after, OUT_PLAIN);
	if (before.len)
		table_paint(t, before.data, after.data);
	buf_release(&before);
	buf_release(&after);
}

static void cell_of_buf(struct table *t, struct buf *b)
{
	table_cell(t, b->data);
	buf_clear(b);
}

static void add_worker(struct table *t, const json_t *w, bool is_narrow)
{
	const char *state = text_of(w, "state");
	bool is_up = json_is_integer(json_object_get(w, "pid"));
	bool consumes = json_is_true(json_object_get(w, "consuming"));
	struct buf b = BUF_INIT;

	table_cellf(t, "%lld", (long long)number_of(w, "slot"));
	if (is_up)
		table_cellf(t, "%lld", (long long)number_of(w, "pid"));
	else
		table_cell(t, "-");
	table_cell(t, state);
	paint(t, colour_of(state));
	if (!is_narrow)
		table_cell(t, !is_up ? "-" : consumes ? "yes" : "no");
	if (!is_narrow && is_up && !consumes && strcmp(state, "ready") == 0)
		paint(t, OUT_RED);
	table_cellf(t, "%lld", (long long)number_of(w, "running"));
	table_cellf(t, "%lld", (long long)number_of(w, "done"));
	table_cellf(t, "%lld", (long long)number_of(w, "failed"));
	if (!is_narrow)
		table_cellf(t, "%lld", (long long)number_of(w, "restarts"));
	if (is_up)
		add_uptime(&b, w);
	else
		buf_adds(&b, "-");
	cell_of_buf(t, &b);
	if (is_up)
		out_size(&b, number_of(w, "rss_bytes"));
	else
		buf_adds(&b, "-");
	if (is_narrow)
		buf_clear(&b);
	else
		cell_of_buf(t, &b);
	add_last_exit(&b, json_object_get(w, "last_exit"));
	cell_of_buf(t, &b);
	buf_release(&b);
}

/* Why a slot is as it is, where that needs words; whole, however long. */
static void add_remarks(struct buf *out, const json_t *w)
{
	static const char *const keys[] = {"note", "breaker"};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		if (!text_of(w, keys[i])[0])
			continue;
		out_colour(out, OUT_YELLOW);
		buf_addf(out, "%4lld  %s%s", (long long)number_of(w, "slot"),
			 strcmp(keys[i], "breaker") == 0 ? "not fetching: " : "",
			 text_of(w, keys[i]));
		out_colour(out, OUT_PLAIN);
		buf_addc(out, '\n');
	}
	if (json_is_true(json_object_get(w, "quarantine")))
		buf_addf(out, "%4lld  set aside for suspects of a crash: runs them one at a time\n",
			 (long long)number_of(w, "slot"));
}

/* The queue's own figure, which counts workers of the past too; else what its rows add up to. */
static int64_t sum_of(const json_t *q, const char *key)
{
	int64_t sum = 0;
	size_t i;
	json_t *w;

	if (json_is_integer(json_object_get(q, key)))
		return number_of(q, key);
	json_array_foreach(json_object_get(q, "workers"), i, w) sum += number_of(w, key);
	return sum;
}

/* What may run now is another number while slots are stopped, leave or change. */
static void add_parallelism(struct buf *out, const json_t *q, const char *gap)
{
	int64_t workers = number_of(q, "workers_wanted"), each = number_of(q, "concurrency");
	int64_t now = number_of(q, "total_parallelism");

	buf_addf(out, "%s%s", gap, text_of(q, "backend"));
	if (number_of(q, "partitions") > 1)
		buf_addf(out, ", %lld partitions", (long long)number_of(q, "partitions"));
	buf_addf(out, "%s%lld × %lld", gap, (long long)workers, (long long)each);
	if (now == workers * each)
		buf_addf(out, " = %lld at once", (long long)now);
	else
		buf_addf(out, "%s%lld at once now", gap, (long long)now);
}

static void add_queue(struct buf *out, const json_t *q, int width)
{
	static const char columns[] = ">slot >pid state reads >run >done >fail >restarts >up >rss "
				      "last~exit";
	static const char narrow[] = ">slot >pid state >run >done >fail >up last~exit";
	bool is_narrow = width < WIDTH_NARROW;
	const char *gap = is_narrow ? "  " : "   ";
	struct table *t = table_new(is_narrow ? narrow : columns);
	json_t *workers = json_object_get(q, "workers");
	size_t i;
	json_t *w;

	json_array_foreach(workers, i, w) add_worker(t, w, is_narrow);
	buf_addc(out, '\n');
	out_colour(out, OUT_BOLD);
	buf_addf(out, "queue %s", text_of(q, "name"));
	out_colour(out, OUT_PLAIN);
	add_parallelism(out, q, gap);
	buf_addf(out, "%sdone %lld%sfailed %lld\n", is_narrow ? "\n  " : gap,
		 (long long)sum_of(q, "done"), gap, (long long)sum_of(q, "failed"));
	if (table_n_rows(t))
		table_print(t, width, out);
	json_array_foreach(workers, i, w) add_remarks(out, w);
	table_free(t);
}

static void add_status(struct buf *out, const json_t *status, const json_t *config)
{
	const json_t *s = json_object_get(status, "supervisor");
	const json_t *reload = json_object_get(s, "last_reload");
	int width = out_width() > WIDTH_MIN ? out_width() : WIDTH_MIN;
	const char *gap = width < WIDTH_NARROW ? "  " : "   ";
	size_t i;
	json_t *q;

	buf_addf(out, "supervisor %s%spid %lld%s", text_of(s, "version"), gap,
		 (long long)number_of(s, "pid"), gap);
	out_colour(out, strcmp(text_of(s, "state"), "running") == 0 ? OUT_GREEN : OUT_YELLOW);
	buf_adds(out, text_of(s, "state"));
	out_colour(out, OUT_PLAIN);
	buf_addf(out, "%sup ", gap);
	add_uptime(out, s);
	buf_addf(out, "%sgeneration %lld\n", gap, (long long)number_of(s, "generation"));
	if (json_is_object(reload) && !json_is_true(json_object_get(reload, "ok"))) {
		out_colour(out, OUT_RED);
		buf_addf(out, "last reload failed: %s", text_of(reload, "error"));
		out_colour(out, OUT_PLAIN);
		buf_addc(out, '\n');
	}
	json_array_foreach(json_object_get(status, "queues"), i, q) add_queue(out, q, width);
	buf_addc(out, '\n');
	if (json_is_true(json_object_get(config, "log_files")))
		buf_addf(out, "logs: %s\n", text_of(config, "log_dir"));
	else
		buf_adds(out, "logs: on the supervisor's stdout\n");
}

static int print_json(const json_t *v)
{
	char *text = json_dumps(v, JSON_COMPACT);

	out_print("%s\n", text ? text : "{}");
	free(text);
	return 0;
}

static int print_once(struct ctl *c, bool redraw, struct err *e)
{
	struct buf out = BUF_INIT;
	json_t *status = ask(c, "status", e);
	json_t *config = status ? ask(c, "config", e) : NULL;
	int rc = config ? 0 : -1;

	if (rc == 0) {
		if (redraw)
			buf_adds(&out, "\033[H\033[J");
		add_status(&out, status, config);
		out_write(&out);
	}
	json_decref(status);
	json_decref(config);
	buf_release(&out);
	return rc;
}

static int watch(struct ctl *c, struct err *e)
{
	const struct timespec second = {.tv_sec = 1};

	while (print_once(c, out_is_tty(), e) == 0)
		nanosleep(&second, NULL);
	return -1;
}

int verb_jlist(struct ctl *c, struct err *e)
{
	json_t *status = ask(c, "status", e);
	int rc = status ? print_json(status) : -1;

	json_decref(status);
	return rc;
}

int verb_status(struct ctl *c, struct err *e)
{
	if (c->options->watch)
		return watch(c, e);
	if (c->options->json)
		return verb_jlist(c, e);
	return print_once(c, false, e);
}

int verb_monit(struct ctl *c, struct err *e)
{
	return watch(c, e);
}

/* ------------------------------------------------------------------ one worker */

/* As pending calls it: "2:1795984012345-0" where there are partitions. Owned. */
static char *task_id(const json_t *task)
{
	if (!json_is_integer(json_object_get(task, "partition")))
		return xstrdup(text_of(task, "id"));
	return xasprintf("%lld:%s", (long long)number_of(task, "partition"), text_of(task, "id"));
}

static void add_detail(struct buf *out, const json_t *q, const json_t *w, const char *log_dir)
{
	const json_t *pid = json_object_get(w, "pid");
	size_t i;
	json_t *task, *child;

	out_colour(out, OUT_BOLD);
	buf_addf(out, "%s/%lld", text_of(q, "name"), (long long)number_of(w, "slot"));
	out_colour(out, OUT_PLAIN);
	buf_addf(out, "\n  state        %s", text_of(w, "state"));
	if (text_of(w, "note")[0])
		buf_addf(out, " (%s)", text_of(w, "note"));
	if (text_of(w, "breaker")[0])
		buf_addf(out, "\n  breaker      open: %s", text_of(w, "breaker"));
	if (json_is_integer(pid))
		buf_addf(out, "\n  pid          %lld", (long long)json_integer_value(pid));
	else
		buf_adds(out, "\n  pid          none");
	buf_addf(out, "\n  consumer     %s\n  consuming    %s",
		 text_of(w, "consumer")[0] ? text_of(w, "consumer") : "none",
		 json_is_true(json_object_get(w, "consuming")) ? "yes" : "no");
	if (text_of(w, "redis")[0])
		buf_addf(out, "\n  redis        %s", text_of(w, "redis"));
	buf_adds(out, "\n  up           ");
	add_uptime(out, w);
	buf_addf(out, "\n  restarts     %lld\n  last exit    ",
		 (long long)number_of(w, "restarts"));
	add_last_exit(out, json_object_get(w, "last_exit"));
	buf_adds(out, "\n  memory       ");
	out_size(out, number_of(w, "rss_bytes"));
	buf_addf(out, "\n  tasks        %lld running, %lld done, %lld failed, %lld leases lost\n",
		 (long long)number_of(w, "running"), (long long)number_of(w, "done"),
		 (long long)number_of(w, "failed"), (long long)number_of(w, "lost_leases"));
	json_array_foreach(json_object_get(w, "tasks"), i, task)
	{
		char *id = task_id(task);

		buf_addf(out, "    %-24s attempt %lld, for ", id,
			 (long long)number_of(task, "attempt"));
		free(id);
		out_age(out, number_of(task, "age_ms"));
		buf_addc(out, '\n');
	}
	if (json_array_size(json_object_get(w, "children")) > 0)
		buf_adds(out, "  children    ");
	json_array_foreach(json_object_get(w, "children"), i, child)
		buf_addf(out, " %lld", (long long)json_integer_value(child));
	if (json_array_size(json_object_get(w, "children")) > 0)
		buf_addc(out, '\n');
	if (log_dir)
		buf_addf(out, "  log          redisqctl logs %s/%lld (in %s)\n", text_of(q, "name"),
			 (long long)number_of(w, "slot"), log_dir);
}

/* "[QUEUE/]N" or "QUEUE" taken apart: does it mean this worker? */
static bool is_meant(const char *target, const char *queue, int64_t slot)
{
	char number[24];
	size_t len = strlen(queue);

	snprintf(number, sizeof(number), "%lld", (long long)slot);
	if (strcmp(target, number) == 0 || strcmp(target, queue) == 0)
		return true;
	return strncmp(target, queue, len) == 0 && target[len] == '/' &&
	       strcmp(target + len + 1, number) == 0;
}

static int no_worker(const json_t *status, const char *target, struct err *e)
{
	const char *slash = strrchr(target, '/');
	size_t len = slash ? (size_t)(slash - target) : strlen(target);
	char *queue = xmemdup0(target, len);
	struct suggest near = {0};
	size_t i;
	json_t *q;

	json_array_foreach(json_object_get(status, "queues"), i, q)
		suggest_try(&near, queue, text_of(q, "name"));
	if (near.word && strcmp(near.word, queue) != 0)
		err_set(e, EXIT_USAGE, "no worker %s; did you mean %s%s?", target, near.word,
			slash ? slash : "");
	else
		err_set(e, EXIT_USAGE, "no worker %s; see redisqctl status", target);
	free(queue);
	return -1;
}

int verb_describe(struct ctl *c, struct err *e)
{
	const char *target = c->options->args[0];
	json_t *status = ask(c, "status", e);
	json_t *config = status ? ask(c, "config", e) : NULL;
	json_t *found = json_array();
	struct buf out = BUF_INIT;
	size_t i, k;
	json_t *q, *w;
	int rc = config ? 0 : -1;

	json_array_foreach(json_object_get(status, "queues"), i, q)
		json_array_foreach(json_object_get(q, "workers"), k, w)
	{
		if (!is_meant(target, text_of(q, "name"), number_of(w, "slot")))
			continue;
		json_array_append(found, w);
		add_detail(&out, q, w,
			   json_is_true(json_object_get(config, "log_files"))
				   ? text_of(config, "log_dir")
				   : NULL);
	}
	if (rc == 0 && json_array_size(found) == 0)
		rc = no_worker(status, target, e);
	if (rc == 0 && c->options->json)
		print_json(found);
	else if (rc == 0)
		out_write(&out);
	json_decref(status);
	json_decref(config);
	json_decref(found);
	buf_release(&out);
	return rc;
}
