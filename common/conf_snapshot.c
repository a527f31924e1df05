/*
 * conf_snapshot.c - a finished configuration as text and back (conf_write_snapshot() of conf.h,
 * conf_snapshot_parse() for conf_read_snapshot()). Plain code.
 *
 * The form is ini: a section header per struct, a line "key = VALUE # ORIGIN WHERE" per key. Names,
 * values and origins are percent-encoded: no blank, '#', bracket or line break is left in them, so
 * that the reader needs no rules of quoting, and any byte survives.
 */
#include "conf_row.h"
#include "conf_snapshot.h"
#include "conf_value.h"
#include "percent.h"

static void write_section(const struct conf *c, enum conf_section s, const char *queue,
			  const void *fields, struct buf *out)
{
	struct buf value = BUF_INIT;

	buf_addf(out, "[%s", conf_section_word(s));
	if (queue) {
		buf_addc(out, ' ');
		percent_encode(queue, out);
	}
	buf_adds(out, "]\n");
	for (size_t i = 0; i < conf_n_rows; i++) {
		const struct conf_row *row = &conf_rows[i];

		if (row->section != s)
			continue;
		buf_clear(&value);
		conf_value_format(row, conf_cfield(row, fields), &value);
		buf_addf(out, "%s = ", row->key);
		percent_encode(value.data, out);
		buf_addf(out, " # %d ", (int)conf_origin_of(c, s, queue, row->key));
		percent_encode(conf_where(c, s, queue, row->key), out);
		buf_addc(out, '\n');
	}
	buf_release(&value);
}

void conf_write_snapshot(const struct conf *c, struct buf *out)
{
	write_section(c, CONF_SUPERVISOR, NULL, conf_supervisor(c), out);
	write_section(c, CONF_REDIS, NULL, conf_redis(c), out);
	for (size_t i = 0; i < conf_n_queues(c); i++) {
		const struct conf_queue *q = conf_queue_at(c, i);

		write_section(c, CONF_QUEUE, q->name, q, out);
	}
}

/* Where the reader is. */
struct place {
	struct conf *c; /* borrowed */
	enum conf_section section;
	struct buf queue;
	bool begun;
	size_t line;
};

static int bad_line(const struct place *at, const char *what, struct err *e)
{
	return err_set(e, EXIT_CONFIG,
		       "snapshot of the configuration, line %zu: %s; supervisor and worker must be "
		       "of one version",
		       at->line, what);
}

static int read_header(struct place *at, struct slice line, struct err *e)
{
	static const char queue_word[] = "[queue ";
	size_t n = sizeof(queue_word) - 1;

	at->begun = true;
	buf_clear(&at->queue);
	if (slice_eq_str(line, "[supervisor]")) {
		at->section = CONF_SUPERVISOR;
		return 0;
	}
	if (slice_eq_str(line, "[redis]")) {
		at->section = CONF_REDIS;
		return 0;
	}
	if (line.len < n + 2 || memcmp(line.data, queue_word, n) != 0 ||
	    line.data[line.len - 1] != ']' ||
	    !percent_decode(slice_of(line.data + n, line.len - n - 1), &at->queue))
		return bad_line(at, "unknown section", e);
	at->section = CONF_QUEUE;
	return conf_add_queue(at->c, at->queue.data, e);
}

/* Cuts the text up to `sep` off the front of `rest`; all of it when there is no `sep`. */
static struct slice cut(struct slice *rest, const char *sep)
{
	const char *at = memmem(rest->data, rest->len, sep, strlen(sep));
	size_t n = at ? (size_t)(at - rest->data) : rest->len;
	size_t skip = at ? n + strlen(sep) : n;
	struct slice head = slice_of(rest->data, n);

	*rest = slice_of(rest->data + skip, rest->len - skip);
	return head;
}

static int read_value(struct place *at, struct slice line, struct err *e)
{
	struct slice rest = line, key = cut(&rest, " = "), value = cut(&rest, " # ");
	struct slice origin = cut(&rest, " ");
	const char *queue = at->section == CONF_QUEUE ? at->queue.data : NULL;
	struct buf text = BUF_INIT, where = BUF_INIT;
	const struct conf_row *row = NULL;
	struct err why;
	char *name = xmemdup0(key.data, key.len);
	int rc = -1;

	if (at->begun)
		row = conf_row(at->section, name);
	if (!row || !percent_decode(value, &text) || !percent_decode(rest, &where) ||
	    origin.len != 1 || origin.data[0] < '0' ||
	    origin.data[0] >= '0' + (int)CONF_N_ORIGINS) {
		bad_line(at, row ? "garbled" : "unknown key", e);
		goto out;
	}
	/* What may be empty when written was not set; the types that must not be never are. */
	if (conf_value_parse(row, text.data, conf_field(row, conf_edit(at->c, at->section, queue)),
			     &why) != CONF_PARSED) {
		bad_line(at, why.text, e);
		goto out;
	}
	conf_edit_origin(at->c, at->section, queue, name, (enum conf_origin)(origin.data[0] - '0'),
			 strcmp(where.data, "default") == 0 ? NULL : where.data);
	rc = 0;
out:
	free(name);
	buf_release(&text);
	buf_release(&where);
	return rc;
}

int conf_snapshot_parse(struct conf *c, struct slice text, struct err *e)
{
	struct place at = {.c = c, .queue = BUF_INIT};
	int rc = 0;

	while (rc == 0 && text.len > 0) {
		struct slice line = cut(&text, "\n");

		at.line++;
		if (line.len == 0)
			continue;
		rc = line.data[0] == '[' ? read_header(&at, line, e) : read_value(&at, line, e);
	}
	if (rc == 0 && !at.begun)
		rc = bad_line(&at, "empty", e);
	buf_release(&at.queue);
	return rc;
}
