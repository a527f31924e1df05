/* child_env.c - see child_env.h. */
#include <inttypes.h>
#include <jansson.h>

#include "child_env.h"
#include "fields.h"

/* W3C: 55 bytes, later versions may be longer. A string of 128 KiB would make exec fail. */
#define TRACEPARENT_MAX 256

/* Of two variables with one name getenv() finds the first: the base must not hide ours. */
static void put(struct strv *out, const char *name, const char *value)
{
	char *pair = xasprintf("%s=%s", name, value);
	size_t n = strlen(name) + 1;

	for (size_t i = 0; i < out->n; i++) {
		if (strncmp(out->v[i], pair, n) == 0) {
			free(out->v[i]);
			out->v[i] = pair;
			return;
		}
	}
	strv_add(out, pair);
	free(pair);
}

static void put_int(struct strv *out, const char *name, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	put(out, name, text);
}

static void put_fields(struct strv *out, const struct task *t, const struct conf_queue *q)
{
	struct buf json = BUF_INIT;

	if (task_size(t) <= CHILD_FIELDS_MAX)
		fields_json(t, NULL, &json);
	if (json.len == 0 || json.len > CHILD_FIELDS_MAX) {
		buf_clear(&json);
		fields_json(t, q->payload_field, &json);
	}
	if (json.len <= CHILD_FIELDS_MAX)
		put(out, "REDISQ_FIELDS", json.data);
	buf_release(&json);
}

/* The bytes that a checkpoint stands for, as a variable: 0, or -1 when it cannot be one. */
static int put_checkpoint(struct strv *out, struct slice bytes)
{
	json_t *json = json_loadb(bytes.data, bytes.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	char *value;
	int r = 0;

	if (json_is_string(json))
		bytes = slice_of(json_string_value(json), json_string_length(json));
	if (bytes.len > TASK_CHECKPOINT_MAX || memchr(bytes.data, '\0', bytes.len)) {
		r = -1;
	} else {
		value = xmemdup0(bytes.data, bytes.len);
		put(out, "REDISQ_CHECKPOINT", value);
		free(value);
	}
	json_decref(json);
	return r;
}

static void put_common(struct strv *out, const struct strv *base, const struct run_facts *f)
{
	for (size_t i = 0; i < base->n; i++)
		strv_add(out, base->v[i]);
	put(out, "REDISQ_QUEUE", f->queue->name);
	put(out, "REDISQ_WORKER", f->consumer);
	put_int(out, "REDISQ_SLOT", f->slot);
	put_int(out, "REDISQ_ANSWER_FD", 3);
}

void child_env_kept(const struct strv *base, const struct run_facts *f, const char *child,
		    struct strv *out)
{
	put_common(out, base, f);
	put(out, "REDISQ_CHILD", child);
}

int child_env(const struct strv *base, const struct task *t, const struct run_facts *f,
	      struct strv *out)
{
	const struct field *trace = task_field(t, "traceparent");

	put_common(out, base, f);
	put(out, "REDISQ_ID", t->label);
	put_int(out, "REDISQ_ATTEMPT", t->attempt);
	put_int(out, "REDISQ_MAX_ATTEMPTS", f->queue->max_attempts);
	put_int(out, "REDISQ_DELIVERIES", t->deliveries);
	put_int(out, "REDISQ_ENQUEUED_AT_MS", t->enqueued_at_ms);
	if (f->deadline_ms)
		put_int(out, "REDISQ_DEADLINE_MS", f->deadline_ms);
	put_fields(out, t, f->queue);
	if (trace && trace->value.len <= TRACEPARENT_MAX) {
		char *value = xmemdup0(trace->value.data, trace->value.len);

		put(out, "TRACEPARENT", value);
		free(value);
	}
	if (t->checkpoint.len == 0)
		return 0;
	return put_checkpoint(out, slice_of(t->checkpoint.data, t->checkpoint.len));
}
