/* wait.c - see wait.h. */
#include <signal.h>
#include <unistd.h>

#include "clock.h"
#include "entry.h"
#include "keys.h"
#include "out.h"
#include "wait.h"

#define LOOK_EVERY_MS 250
#define FIRST_LOOK_MS 50
#define PROGRESS_SHOWN 60 /* bytes */

static volatile sig_atomic_t interrupted;

static void on_signal(int signo)
{
	interrupted = signo;
}

static void catch_signals(bool on)
{
	/* A second one is not caught: Redis may be silent for as long as an answer may take. */
	struct sigaction a = {.sa_handler = on ? on_signal : SIG_DFL,
			      .sa_flags = (int)SA_RESETHAND};

	sigemptyset(&a.sa_mask);
	sigaction(SIGINT, &a, NULL);
	sigaction(SIGTERM, &a, NULL);
}

static const char *stream_of(const struct waited *w)
{
	return w->parts->v[w->part].name;
}

static void leave(const struct waited *w)
{
	char *task = parts_id(w->parts, w->part, w->id);

	fprintf(stderr, "redisqctl: task %s goes on; see redisqctl show %s %s\n", task,
		parts_name(w->parts), task);
	free(task);
	catch_signals(false);
	raise((int)interrupted);
}

/* ------------------------------------------------------------------ progress */

static void say_progress(struct redis *r, const struct keys *k, const struct waited *w,
			 int64_t since_ms)
{
	struct err ignored = {0};
	redisReply *p = redis_ask(r, &ignored, "HGET", k->progress, w->entry);
	struct slice text = redis_text(p);
	struct buf line = BUF_INIT;
	char *task = parts_id(w->parts, w->part, w->id);

	buf_adds(&line, "\r\033[Ktask ");
	buf_adds(&line, task);
	buf_adds(&line, ": ");
	free(task);
	if (text.len)
		entry_print_said(&line, text, PROGRESS_SHOWN);
	else
		buf_adds(&line, "waiting");
	buf_adds(&line, " (");
	out_age(&line, clock_mono_ms() - since_ms);
	buf_addc(&line, ')');
	fprintf(stderr, "%s", line.data);
	buf_release(&line);
	redis_free(p);
}

/* ------------------------------------------------------------------ the end */

/* "dead 17-0 rejected no such user" */
static int failed(const struct waited *w, const char *text, struct err *e)
{
	char place[8] = "", entry[64] = "", reason[32] = "";
	int at = 0;
	int n = sscanf(text, "%7s %63s %31s %n", place, entry, reason, &at);
	char *task = parts_id(w->parts, w->part, w->id);
	char *letter = parts_id(w->parts, w->part, entry);
	const char *queue = parts_name(w->parts);

	if (n < 3)
		err_set(e, EXIT_FORCED, "task %s failed: %.300s", task, text);
	else if (strcmp(place, "held") == 0)
		err_set(e, EXIT_FORCED,
			"task %s is held (%s): %.300s; see redisqctl held show %s %s", task, reason,
			text + at, queue, letter);
	else
		err_set(e, EXIT_FORCED,
			"task %s is a dead letter (%s): %.300s; see redisqctl dead show %s %s",
			task, reason, text + at, queue, letter);
	free(task);
	free(letter);
	return -1;
}

enum look { LOOK_AGAIN, LOOK_DONE, LOOK_FAILED, LOOK_LOST };

/* The keys of an end. A partition may also be served as a queue of its own: under both names. */
struct ends {
	char *key[4]; /* owned: results and failures in turn */
};

static void ends_init(struct ends *ends, const struct waited *w)
{
	char *label = parts_label(w->parts, w->part, w->id);
	const char *const ids[] = {w->id, label};
	struct keys k;

	keys_init(&k, stream_of(w));
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		ends->key[2 * i] = xasprintf("%s%s", k.result, ids[i]);
		ends->key[2 * i + 1] = xasprintf("%s%s", k.failed, ids[i]);
	}
	keys_release(&k);
	free(label);
}

static void ends_release(struct ends *ends)
{
	for (size_t i = 0; i < ARRAY_LEN(ends->key); i++)
		free(ends->key[i]);
}

static redisReply *ends_ask(struct redis *r, const struct ends *ends, const char *word,
			    struct err *e)
{
	const char *const *key = (const char *const *)ends->key;
	bool is_same = strcmp(key[0], key[2]) == 0; /* then the words end before it */

	return redis_ask(r, e, word, key[0], key[1], is_same ? NULL : key[2], key[3]);
}

static enum look look(struct redis *r, const struct ends *ends, const struct waited *w,
		      struct buf *result, struct err *e)
{
	redisReply *all = ends_ask(r, ends, "MGET", e);
	enum look seen = LOOK_AGAIN;

	if (!all)
		return e->code == EXIT_UNREACHABLE ? LOOK_LOST : LOOK_FAILED;
	for (size_t i = 0; i < all->elements && seen == LOOK_AGAIN; i++) {
		const redisReply *one = all->element[i];

		if (one->str && i % 2 == 0) {
			buf_add(result, one->str, one->len);
			seen = LOOK_DONE;
		} else if (one->str) {
			failed(w, one->str, e);
			seen = LOOK_FAILED;
		}
	}
	redis_free(all);
	return seen;
}

static enum look look_on(struct redis *r, const struct ends *ends, const struct keys *k,
			 const struct waited *w, struct buf *result, struct err *e)
{
	int64_t since = clock_mono_ms(), answered = since, pause = FIRST_LOOK_MS;
	bool tells = isatty(STDERR_FILENO);
	enum look seen = LOOK_AGAIN;

	while (!interrupted) {
		redis_pause(r, pause);
		pause = LOOK_EVERY_MS;
		seen = look(r, ends, w, result, e);
		if (seen != LOOK_LOST)
			answered = clock_mono_ms();
		if (seen == LOOK_DONE || seen == LOOK_FAILED ||
		    clock_mono_ms() - answered > WAIT_LOST_MS)
			break;
		if (tells)
			say_progress(r, k, w, since);
	}
	if (tells)
		fprintf(stderr, "\r\033[K");
	return seen;
}

void wait_begin(void)
{
	catch_signals(true);
}

int wait_for_end(struct redis *r, const struct waited *w, struct buf *result, struct err *e)
{
	struct ends ends;
	struct keys k;
	enum look seen;

	keys_init(&k, stream_of(w));
	ends_init(&ends, w);
	seen = look_on(r, &ends, &k, w, result, e);
	ends_release(&ends);
	keys_release(&k);
	if (seen == LOOK_AGAIN || (seen == LOOK_LOST && interrupted))
		leave(w);
	catch_signals(false);
	return seen == LOOK_DONE ? 0 : -1;
}

int wait_forget(struct redis *r, const struct waited *w, struct err *e)
{
	struct ends ends;
	redisReply *n;

	ends_init(&ends, w);
	n = ends_ask(r, &ends, "DEL", e);
	ends_release(&ends);
	if (!n)
		return -1;
	redis_free(n);
	return 0;
}
