/*
 * fuzz_reply.c - any bytes as what Redis says, down to a task and its fields as JSON: no crash, no
 * entry out of a reply that is refused, and whatever a producer wrote makes a task with sane
 * numbers, a label that fits in a log line, and valid JSON.
 */
#include <hiredis/hiredis.h>
#include <jansson.h>

#include "worker/fields.h"
#include "worker/group.h"
#include "worker/reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DIGITS_MAX 5 /* of an array's length: hiredis 0.14 allocates it at once */

static bool has_huge_array(const uint8_t *data, size_t size)
{
	size_t digits = 0;
	bool after_star = false;

	for (size_t i = 0; i < size; i++) {
		if (data[i] == '*') {
			after_star = true;
			digits = 0;
		} else if (after_star && data[i] >= '0' && data[i] <= '9') {
			if (++digits > DIGITS_MAX)
				return true;
		} else if (data[i] != '+' && data[i] != '-') {
			after_star = false;
		}
	}
	return false;
}

static void add_field(void *arg, struct slice name, struct slice value)
{
	task_add_field(arg, name, value);
}

static void check_task(const struct task *t)
{
	struct buf json = BUF_INIT;
	json_t *back;

	INVARIANT(t->attempt >= 1 && t->snoozes >= 0 && t->deliveries >= 1);
	INVARIANT(t->enqueued_at_ms >= 0);
	INVARIANT(strlen(t->label) >= 1 && strlen(t->label) <= TASK_LABEL_MAX);
	for (const char *p = t->label; *p; p++)
		INVARIANT((unsigned char)*p > ' ' && *p != 0x7f);
	fields_json(t, "payload", &json);
	back = json_loadb(json.data, json.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	INVARIANT(json_is_object(back));
	INVARIANT(json_object_size(back) <= t->n_fields + 1);
	json_decref(back);
	buf_release(&json);
}

struct seen {
	struct task task; /* reused, as in the worker */
	int n;
};

static void on_entry(void *arg, struct slice id, const redisReply *fields)
{
	struct seen *s = arg;

	s->n++;
	INVARIANT(id.len > 0);
	if (!fields)
		return;
	task_begin(&s->task, NULL, slice_str("1-1"), 1); /* ids are Redis's own */
	if (reply_fields(fields, add_field, &s->task) < 0)
		INVARIANT(s->task.n_fields == 0);
	task_parsed(&s->task);
	check_task(&s->task);
}

static void look_at(const redisReply *r, struct seen *s)
{
	char group[] = "redisq", name[] = "q";
	struct conf_queue q = {.name = name, .group = group};
	struct buf why = BUF_INIT;
	struct group_answer a;
	int n;

	INVARIANT((reply_kind(r) == REPLY_OK) == (r->type != REDIS_REPLY_ERROR));
	INVARIANT(reply_error_text(r) != NULL);
	INVARIANT(reply_slice(r).data != NULL);
	reply_int(r, 0);
	for (size_t i = 0; i < reply_len(r); i++)
		INVARIANT(reply_at(r, i) != NULL);
	INVARIANT(reply_at(r, reply_len(r)) == NULL);
	s->n = 0;
	n = reply_entries(r, on_entry, s);
	INVARIANT(n == (n < 0 ? -1 : s->n) && (n >= 0 || s->n == 0));
	a = group_decide(r, &q, 1, &why);
	INVARIANT((a.what == GROUP_REFUSE) == (why.len > 0));
	buf_release(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	redisReader *reader;
	struct seen s = {.n = 0};
	void *reply = NULL;

	if (has_huge_array(data, size))
		return 0;
	reader = redisReaderCreate();
	task_init(&s.task);
	redisReaderFeed(reader, (const char *)data, size);
	while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply) {
		look_at(reply, &s);
		freeReplyObject(reply);
		reply = NULL;
	}
	redisReaderFree(reader);
	task_release(&s.task);
	return 0;
}
