/* pipe_lines.c - see pipe_lines.h. */
#include <inttypes.h>

#include "fields.h"
#include "jtext.h"
#include "pipe_lines.h"

static struct slice buf_slice(const struct buf *b)
{
	return slice_of(b->data, b->len);
}

/* The bytes with %XX for those above 127, and for NUL. */
static void add_plain(struct buf *out, struct slice s)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.data[i];

		if (c >= 0x80 || c == 0)
			buf_addf(out, "%%%02X", c);
		else
			buf_addc(out, (char)c);
	}
}

size_t pipe_id(const struct task *t, char out[ANSWER_ID_MAX])
{
	size_t len = strlen(t->label);
	struct buf plain = BUF_INIT;

	if (jtext_is_utf8(slice_of(t->label, len))) {
		memcpy(out, t->label, len + 1);
		return len;
	}
	add_plain(&plain, slice_of(t->label, len));
	INVARIANT(plain.len < ANSWER_ID_MAX);
	len = plain.len;
	memcpy(out, plain.data, len + 1);
	buf_release(&plain);
	return len;
}

/* Text that should be UTF-8, and is made so where it is not. */
static void add_text(struct buf *out, struct slice s)
{
	struct buf plain = BUF_INIT;
	bool ok;

	if (jtext_add_string(out, s))
		return;
	add_plain(&plain, s);
	ok = jtext_add_string(out, buf_slice(&plain));
	INVARIANT(ok);
	buf_release(&plain);
}

/* Where a NUL may be, JSON cannot carry it for everybody. */
static void add_name(struct buf *out, struct slice s)
{
	struct buf plain = BUF_INIT;

	if (s.len == 0 || !memchr(s.data, '\0', s.len)) {
		add_text(out, s);
		return;
	}
	add_plain(&plain, s);
	add_text(out, buf_slice(&plain));
	buf_release(&plain);
}

static void add_base64(struct buf *out, struct slice s)
{
	buf_addc(out, '"');
	base64_add(out, s);
	buf_addc(out, '"');
}

static void add_int(struct buf *out, const char *name, int64_t n)
{
	char digits[24];
	char *p = digits + sizeof(digits);
	uint64_t rest = n < 0 ? 0 : (uint64_t)n; /* none of them is negative */

	do
		*--p = (char)('0' + rest % 10);
	while ((rest /= 10) > 0);
	buf_adds(out, name);
	buf_add(out, p, (size_t)(digits + sizeof(digits) - p));
}

static void add_payload(struct buf *out, struct slice payload)
{
	size_t before = out->len;

	buf_adds(out, ",\"payload\":");
	if (jtext_add_string(out, payload))
		return;
	buf_truncate(out, before);
	buf_adds(out, ",\"payload_b64\":");
	add_base64(out, payload);
}

/* A later field has the same name: that one counts. Quadratic, and bounded: an entry of more than
 * 3000 fields is never run. */
static bool is_repeated(const struct task *t, size_t i)
{
	for (size_t k = i + 1; k < t->n_fields; k++)
		if (slice_eq(t->fields[k].name, t->fields[i].name))
			return true;
	return false;
}

/* The fields but the payload: those that are UTF-8, or those that are not. Returns how many. */
static size_t add_fields(struct buf *out, const struct task *t, const struct field *payload,
			 bool binary)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n_fields; i++) {
		const struct field *f = &t->fields[i];

		if ((payload && slice_eq(f->name, payload->name)) || is_repeated(t, i) ||
		    jtext_is_utf8(f->value) == binary)
			continue;
		if (n++ > 0)
			buf_addc(out, ',');
		add_name(out, f->name);
		buf_addc(out, ':');
		if (binary)
			add_base64(out, f->value);
		else
			add_text(out, f->value);
	}
	return n;
}

static void add_all_fields(struct buf *out, const struct task *t, const struct field *payload)
{
	size_t before;

	buf_adds(out, ",\"fields\":{");
	add_fields(out, t, payload, false);
	buf_addc(out, '}');
	before = out->len;
	buf_adds(out, ",\"fields_b64\":{");
	if (add_fields(out, t, payload, true) > 0)
		buf_addc(out, '}');
	else
		buf_truncate(out, before);
}

/* As it was said, if it is JSON; whoever wrote it there by other means may have written anything.
 */
static void add_checkpoint(struct buf *out, struct slice value)
{
	size_t from = out->len + strlen(",\"checkpoint\":");

	if (value.len == 0)
		return;
	buf_adds(out, ",\"checkpoint\":");
	if (jtext_value(value) != value.len) {
		add_text(out, value);
		return;
	}
	buf_add(out, value.data, value.len);
	/* Between its parts JSON may have line ends; here they would end the line. */
	for (size_t i = from; i < out->len; i++)
		if (out->data[i] == '\n' || out->data[i] == '\r')
			out->data[i] = ' ';
}

void pipe_task_line(struct buf *out, const struct task *t, const char *id,
		    const struct conf_queue *q, int64_t deadline_ms)
{
	const struct field *payload = task_field(t, q->payload_field);

	buf_adds(out, "{\"v\":1,\"type\":\"task\",\"id\":");
	add_text(out, slice_str(id));
	buf_adds(out, ",\"queue\":");
	add_text(out, slice_str(q->name));
	add_int(out, ",\"attempt\":", t->attempt);
	add_int(out, ",\"max_attempts\":", q->max_attempts);
	add_int(out, ",\"deliveries\":", t->deliveries);
	add_int(out, ",\"enqueued_at_ms\":", t->enqueued_at_ms);
	if (deadline_ms > 0)
		add_int(out, ",\"deadline_ms\":", deadline_ms);
	if (payload)
		add_payload(out, payload->value);
	add_all_fields(out, t, payload);
	add_checkpoint(out, buf_slice(&t->checkpoint));
	buf_adds(out, "}\n");
}

void pipe_cancel_line(struct buf *out, const char *id, const char *reason)
{
	buf_adds(out, "{\"type\":\"cancel\",\"id\":");
	add_text(out, slice_str(id));
	buf_adds(out, ",\"reason\":");
	add_text(out, slice_str(reason));
	buf_adds(out, "}\n");
}

void pipe_drain_line(struct buf *out)
{
	buf_adds(out, "{\"type\":\"drain\"}\n");
}
