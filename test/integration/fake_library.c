/*
 * fake_library.c - the library handler of the integration tests: does what each task tells it, and
 * writes a journal as fake_handler.c does, to the file named by SO_JOURNAL.
 *
 * A payload that begins with "do " has knobs (words, blanks between):
 *   sleep=MS gate=FILE    work that long, until FILE exists; stops when cancelled
 *   deaf=FILE             the same, and does not look whether it is cancelled
 *   return=N              what handle() returns
 *   code=N delay=MS error=TEXT     in the result ('~' stands for a blank)
 *   until=N               return=, code= and segv= only while attempt < N
 *   segv=1                crash
 *   exit=N _exit=N leave=1         exit(N), _exit(N), pthread_exit()
 *   result=TEXT           redisq_set_result()
 *   progress=TEXT checkpoint=TEXT
 *   say=TEXT cry=TEXT     a line on stdout, stderr
 *   long=N                checks that a note of N bytes is refused
 * SO_INIT in the environment: "fail" lets init() fail, unless the file SO_MENDED is there.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "redisq_handler.h"

static int journal = -1;
static int beside; /* atomic: tasks in handle() now */

static void write_line(const char *fmt, ...)
{
	char line[2048];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (journal >= 0 && n > 0 && write(journal, line, (size_t)n) != n)
		abort();
}

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The value of the knob in `text`, or NULL. */
static const char *knob(const char *text, const char *name, char out[512])
{
	size_t n = strlen(name);
	const char *at = text;

	while ((at = strstr(at, name))) {
		if (at > text && at[-1] == ' ' && at[n] == '=') {
			snprintf(out, 512, "%.*s", (int)strcspn(at + n + 1, " "), at + n + 1);
			for (char *p = out; *p; p++)
				if (*p == '~')
					*p = ' ';
			return out;
		}
		at += n;
	}
	return NULL;
}

static long number(const char *text, const char *name)
{
	char v[512];

	return knob(text, name, v) ? strtol(v, NULL, 10) : 0;
}

/* Until `file` is there, or the time is over, or (`listens`) the task is cancelled: then 1. */
static int work(const struct redisq_task *t, const char *file, long ms, int listens)
{
	long long end = now_ns() + ms * 1000000LL;

	while (file ? access(file, F_OK) < 0 : now_ns() < end) {
		if (listens && redisq_cancelled(t))
			return 1;
		poll(NULL, 0, 2);
	}
	return 0;
}

static void crash(void)
{
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
}

static void say_what_it_was_told(const struct redisq_task *t, const char *text)
{
	char v[512];

	if (knob(text, "progress", v))
		redisq_progress(t, v, strlen(v));
	if (knob(text, "checkpoint", v))
		redisq_checkpoint(t, v, strlen(v));
	if (knob(text, "result", v))
		redisq_set_result(t, v, strlen(v));
	if (knob(text, "say", v))
		printf("%s\n", v);
	if (knob(text, "cry", v))
		fprintf(stderr, "%s\n", v);
	if (number(text, "long")) {
		char *big = calloc(1, (size_t)number(text, "long"));
		int r = redisq_checkpoint(t, big, (size_t)number(text, "long"));

		printf("long: %d %s\n", r, strerror(errno));
		free(big);
	}
}

static int do_it(const struct redisq_task *t, struct redisq_result *r, const char *text)
{
	char v[512];
	int cancelled = 0;

	say_what_it_was_told(t, text);
	if (number(text, "until") && t->attempt >= number(text, "until"))
		return 0;
	if (knob(text, "exit", v))
		exit((int)number(text, "exit"));
	if (knob(text, "_exit", v))
		_exit((int)number(text, "_exit"));
	if (number(text, "leave"))
		pthread_exit(NULL);
	if (number(text, "segv"))
		crash();
	if (knob(text, "gate", v))
		cancelled = work(t, v, 0, 1);
	if (knob(text, "deaf", v))
		work(t, v, 0, 0);
	if (number(text, "sleep"))
		cancelled |= work(t, NULL, number(text, "sleep"), 1);
	r->code = (int)number(text, "code");
	if (knob(text, "delay", v))
		r->delay_ms = strtol(v, NULL, 10);
	if (knob(text, "error", v))
		snprintf(r->error, sizeof(r->error), "%.255s", v);
	return cancelled ? 1 : (int)number(text, "return");
}

static int handle(const struct redisq_task *t, struct redisq_result *r)
{
	char text[1024] = "";
	int code = 0;

	write_line("{\"ev\":\"start\",\"id\":\"%s\",\"pid\":%d,\"t\":%lld,\"beside\":%d,"
		   "\"attempt\":%d,\"max_attempts\":%d,\"deliveries\":%lld,\"enqueued_at\":%lld,"
		   "\"deadline\":%lld,\"queue\":\"%s\",\"len\":%zu,\"n_fields\":%zu,"
		   "\"place\":%d,\"checkpoint\":\"%.*s\"}\n",
		   t->id, (int)getpid(), now_ns(), __atomic_add_fetch(&beside, 1, __ATOMIC_RELAXED),
		   t->attempt, t->max_attempts, (long long)t->deliveries,
		   (long long)t->enqueued_at_ms, (long long)t->deadline_ms, t->queue,
		   t->payload_len, t->n_fields, t->place, (int)t->checkpoint_len, t->checkpoint);
	if (t->payload_len > 3 && t->payload_len < sizeof(text) &&
	    memcmp(t->payload, "do ", 3) == 0) {
		memcpy(text, t->payload, t->payload_len);
		code = do_it(t, r, text);
	}
	__atomic_sub_fetch(&beside, 1, __ATOMIC_RELAXED);
	write_line("{\"ev\":\"end\",\"id\":\"%s\",\"pid\":%d,\"t\":%lld,\"cancelled\":%d}\n", t->id,
		   (int)getpid(), now_ns(), redisq_cancelled(t));
	return code;
}

static int init(const struct redisq_host *host, char error[REDISQ_ERROR_MAX])
{
	const char *path = getenv("SO_JOURNAL"), *how = getenv("SO_INIT");
	const char *mended = getenv("SO_MENDED");

	if (how && strcmp(how, "fail") == 0 && !(mended && access(mended, F_OK) == 0)) {
		snprintf(error, REDISQ_ERROR_MAX, "no model at %s", host->queue);
		return 7;
	}
	if (path)
		journal = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	write_line("{\"ev\":\"init\",\"id\":\"\",\"pid\":%d,\"slot\":%d,\"concurrency\":%d}\n",
		   (int)getpid(), host->slot, host->concurrency);
	return 0;
}

static void fini(void)
{
	write_line("{\"ev\":\"fini\",\"id\":\"\",\"pid\":%d}\n", (int)getpid());
}

REDISQ_EXPORT const struct redisq_handler redisq_handler = {
#ifdef FAKE_ABI
	FAKE_ABI,
#else
	REDISQ_ABI,
#endif
	sizeof(struct redisq_handler),
	"fake",
	init,
	fini,
	handle};
