/*
 * redisq_handler.h - a task handler as a shared library, called from threads of redisq-worker.
 *
 *	handler = so /usr/local/lib/resize.so          # in redisq.ini, or: -k so -- ./resize.so
 *
 * For tasks that are shorter than the start of a process. The price: the library lives in the
 * worker, so a crash in it takes the worker and everything that runs there along (those tasks run
 * again elsewhere at once; the one to blame is found out and set aside), and a task that never
 * returns cannot be killed, only outlived: see "stopping". The whole contract is this file.
 *
 * A complete handler, resize.c:
 *
 *	#include <redisq_handler.h>
 *	#include <stdio.h>
 *
 *	static int resize(const struct redisq_task *t, struct redisq_result *r)
 *	{
 *		if (t->payload_len == 0) {
 *			snprintf(r->error, sizeof(r->error), "no picture");
 *			return 65;                             // a dead letter at once
 *		}
 *		for (size_t i = 0; i < t->payload_len; i++) {
 *			if (redisq_cancelled(t))
 *				return 1;                      // out of time: leave soon
 *			...
 *		}
 *		redisq_set_result(t, "done", 4);
 *		return 0;
 *	}
 *
 *	REDISQ_EXPORT const struct redisq_handler redisq_handler = {
 *		REDISQ_ABI, sizeof(struct redisq_handler), "resize", NULL, NULL, resize
 *	};
 *
 *	cc -O2 -fPIC -shared -o resize.so resize.c
 *	redisq-supervisor -e -q pictures -k so -- ./resize.so
 *
 * Threads. handle() is called from any thread of the worker, from up to `concurrency` of them at
 * the same time: what the library shares between calls it has to lock. `place` is from 0 to
 * concurrency - 1, and no other task has the same at the same time: a table with so many rows
 * keeps a connection for each. Stacks have 1 MiB; all signals but those of faults are blocked in
 * most threads, and SIGPIPE does not happen: look at EPIPE. init() and fini() are called once per
 * worker, with no task in handle(). When tasks are as short as the way to another thread, the
 * thread that speaks to Redis runs them itself; should one take longer after all, another thread
 * speaks to Redis meanwhile. So nothing that handle() does holds the worker up, except holding
 * libc's locks (do not fork() without exec). Calling exit() or pthread_exit() is a crash.
 *
 * Outcome. The value returned means what the exit code of a program means (redisq-worker(8)):
 * 0 done; 75 not now, the same attempt again later; 65 or 100 never, a dead letter at once; 78, 126
 * or 127 the handler is broken, nothing is fetched for a while; 134, 137 or 139 a crash; anything
 * else a failed attempt. `result` may say it in words, with a delay and a text: as with a program,
 * a value of its own beats "done", and "retry", "snooze" or "dead" beat 0.
 *
 * Stopping. When a task is past its timeout, was taken over by another worker or is in the way of a
 * stop, redisq_cancelled() begins to be true: return soon, with any value (0 counts as done where
 * it still can). After kill_grace the worker is given up: it takes nothing new, another is started
 * in its place, and when its other tasks are done it ends, and the thread with it. Until then the
 * task that would not stop keeps its place among workers x concurrency.
 *
 * At least once. A task may be run again after a crash of the machine, the worker or Redis, also
 * when it had finished. `id` stays the same for all attempts: use it as the idempotency key.
 *
 * Versions. Fields are only ever added, at the end. `size` says how far a struct reaches: a library
 * built with an older header never looks further; one built with a newer header asks
 * REDISQ_HAS(t, field) before it uses what this header says came later.
 */
#ifndef REDISQ_HANDLER_ABI_H
#define REDISQ_HANDLER_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REDISQ_ABI 1

#ifdef __cplusplus
#define REDISQ_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define REDISQ_EXPORT __attribute__((visibility("default")))
#endif

/* Is this field there, in what the other side was built with? */
#define REDISQ_HAS(p, field) \
	((size_t)((const char *)(&(p)->field + 1) - (const char *)(p)) <= (p)->size)

/* A field of the entry, as the producer wrote it: bytes, not followed by a NUL. */
struct redisq_field {
	const char *name;
	size_t name_len;
	const char *value;
	size_t value_len;
};

struct redisq_task;

/* What the worker does for a library; call it through the functions below. */
struct redisq_calls {
	uint32_t size;
	int (*progress)(const struct redisq_task *t, const void *data, size_t len);
	int (*checkpoint)(const struct redisq_task *t, const void *data, size_t len);
	int (*set_result)(const struct redisq_task *t, const void *data, size_t len);
};

/* Everything in it is valid until handle() returns, and read-only. */
struct redisq_task {
	uint32_t size;                    /* of this struct, in the worker */
	int32_t place;                    /* 0 ... concurrency - 1: see "threads" */
	const struct redisq_calls *calls; /* for the functions below */
	const int *cancelled;             /* ditto */

	const char *id;         /* the same for all attempts; NUL-terminated */
	const char *queue;      /* NUL-terminated */
	int32_t attempt;        /* from 1 */
	int32_t max_attempts;   /* this is the last one when they are equal */
	int64_t deliveries;     /* times it was handed out, this one included; crashes too */
	int64_t enqueued_at_ms; /* Unix time */
	int64_t deadline_ms;    /* Unix time of its timeout; 0: none */

	const char *payload; /* the bytes of payload_field; no NUL follows */
	size_t payload_len;  /* 0 also when there is no such field: look at `fields` */
	const struct redisq_field *fields;
	size_t n_fields;

	const char *checkpoint; /* what an attempt before left with redisq_checkpoint() */
	size_t checkpoint_len;  /* 0: nothing */
};

enum redisq_code {
	REDISQ_BY_RETURN = 0, /* as handle() returns */
	REDISQ_DONE,
	REDISQ_RETRY,  /* a failed attempt */
	REDISQ_SNOOZE, /* not now: again later, no attempt charged */
	REDISQ_DEAD    /* never again: a dead letter */
};

#define REDISQ_ERROR_MAX 256

/* Filled in by handle(), which finds it zeroed but for `size`, and delay_ms = -1. */
struct redisq_result {
	uint32_t size;
	int32_t code;     /* enum redisq_code */
	int64_t delay_ms; /* before the next attempt of RETRY, SNOOZE; -1: the usual back-off */
	char error[REDISQ_ERROR_MAX]; /* for people: why; NUL-terminated */
};

/* Where the library is. Valid until fini() returns. */
struct redisq_host {
	uint32_t size;
	int32_t slot;        /* of the worker: 0 ... workers - 1 */
	int32_t concurrency; /* tasks at the same time, and places */
	const char *queue;
};

/* The one symbol that a library exports, under the name redisq_handler. */
struct redisq_handler {
	uint32_t abi;     /* REDISQ_ABI */
	uint32_t size;    /* sizeof(struct redisq_handler) */
	const char *name; /* for the log */
	/*
	 * Before the first task; may be NULL. Not 0: the library cannot work (why, in `error`);
	 * nothing is fetched, and it is asked again after breaker_delay. The worker is ready only
	 * when it returns: ready_timeout is its limit at the start.
	 */
	int (*init)(const struct redisq_host *host, char error[REDISQ_ERROR_MAX]);
	/* After the last one, with the threads gone; may be NULL. Not called after a crash, nor by
	 * a worker that ends with a task that would not stop. */
	void (*fini)(void);
	int (*handle)(const struct redisq_task *task, struct redisq_result *result);
};

/* Must this task stop? As cheap as reading a variable: ask often. */
static inline int redisq_cancelled(const struct redisq_task *t)
{
	return __atomic_load_n(t->cancelled, __ATOMIC_ACQUIRE);
}

/* The following copy `data`, and answer -1 when it is longer than the limit named. */

/* Shown by redisqctl show; the newest counts. At most 4 KiB. */
static inline int redisq_progress(const struct redisq_task *t, const void *data, size_t len)
{
	return t->calls->progress(t, data, len);
}

/* For the next attempt, should there be one: what was bought must not be bought again. Soon in
 * Redis, and before any settlement of this task. At most 64 KiB. */
static inline int redisq_checkpoint(const struct redisq_task *t, const void *data, size_t len)
{
	return t->calls->checkpoint(t, data, len);
}

/* What the task came to, for whoever waits for it (result_ttl, redisqctl push --wait); counts
 * when the task is done. At most 1 MiB. */
static inline int redisq_set_result(const struct redisq_task *t, const void *data, size_t len)
{
	return t->calls->set_result(t, data, len);
}

#ifdef __cplusplus
}
#endif
#endif
