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

static void leave(const struct waited *w)
{
	fprintf(stderr, "redisqctl: task %s goes on; see redisqctl show %s %s\n", w->called,
		w->queue, w->called);
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

	buf_adds(&line, "\r\033[Ktask ");
	buf_adds(&line, w->called);
	buf_adds(&line, ": ");
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
	char place[8] = "", letter[64] = "", reason[32] = "";
	int at = 0;

	if (sscanf(text, "%7s %63s %31s %n", place, letter, reason, &at) < 3)
		return err_set(e, EXIT_FORCED, "task %s failed: %.300s", w->called, text);
	if (strcmp(place, "held") == 0)
		return err_set(e, EXIT_FORCED,
			       "task %s is held (%s): %.300s; see redisqctl held show %s %s",
			       w->called, reason, text + at, w->stream, letter);
	return err_set(e, EXIT_FORCED,
		       "task %s is a dead letter (%s): %.300s; see redisqctl dead show %s %s",
		       w->called, reason, text + at, w->stream, letter);
}

enum look { LOOK_AGAIN, LOOK_DONE, LOOK_FAILED, LOOK_LOST };

static enum look look(struct redis *r, const char *result_key, const char *failed_key,
		      const struct waited *w, struct buf *result, struct err *e)
{
	redisReply *both = redis_ask(r, e, "MGET", result_key, failed_key);
	enum look seen = LOOK_AGAIN;

	if (!both)
		return e->code == EXIT_UNREACHABLE ? LOOK_LOST : LOOK_FAILED;
	if (both->elements == 2 && both->element[0]->str) {
		buf_add(result, both->element[0]->str, both->element[0]->len);
		seen = LOOK_DONE;
	} else if (both->elements == 2 && both->element[1]->str) {
		failed(w, both->element[1]->str, e);
		seen = LOOK_FAILED;
	}
	redis_free(both);
	return seen;
}

static enum look look_on(struct redis *r, const struct keys *k, const struct waited *w,
			 struct buf *result, struct err *e)
{
	char *result_key = xasprintf("%s%s", k->result, w->id);
	char *failed_key = xasprintf("%s%s", k->failed, w->id);
	int64_t since = clock_mono_ms(), answered = since, pause = FIRST_LOOK_MS;
	bool tells = isatty(STDERR_FILENO);
	enum look seen = LOOK_AGAIN;

	while (!interrupted) {
		redis_pause(r, pause);
		pause = LOOK_EVERY_MS;
		seen = look(r, result_key, failed_key, w, result, e);
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
	free(result_key);
	free(failed_key);
	return seen;
}

int wait_for_end(struct redis *r, const struct waited *w, struct buf *result, struct err *e)
{
	struct keys k;
	enum look seen;

	keys_init(&k, w->stream);
	catch_signals(true);
	seen = look_on(r, &k, w, result, e);
	keys_release(&k);
	if (seen == LOOK_AGAIN || (seen == LOOK_LOST && interrupted))
		leave(w);
	catch_signals(false);
	return seen == LOOK_DONE ? 0 : -1;
}

int wait_forget(struct redis *r, const struct waited *w, struct err *e)
{
	char *result_key, *failed_key;
	redisReply *n;
	struct keys k;

	keys_init(&k, w->stream);
	result_key = xasprintf("%s%s", k.result, w->id);
	failed_key = xasprintf("%s%s", k.failed, w->id);
	n = redis_ask(r, e, "DEL", result_key, failed_key);
	free(result_key);
	free(failed_key);
	keys_release(&k);
	if (!n)
		return -1;
	redis_free(n);
	return 0;
}
