/* conf_doc.c - see conf_doc.h. */
#include "conf_doc.h"
#include "conf_row.h"
#include "conf_value.h"

#define WIDTH 96
#define ORIGIN_COLUMN 38

/* What may be written for a value of this type; "" where the doc says it. */
static const char *type_text(const struct conf_row *row)
{
	switch (row->type) {
	case CONF_STR:
	case CONF_SECRET:
		return "text";
	case CONF_PATH:
		return "path";
	case CONF_INT:
	case CONF_INTDEF:
		return "number";
	case CONF_WORKERS:
		return "number or max";
	case CONF_DUR:
		return "duration";
	case CONF_AUTODUR:
		return "duration or auto";
	case CONF_SIZE:
		return "size";
	case CONF_PERCENT:
		return "percentage";
	case CONF_ENUM:
		return row->unit;
	case CONF_HANDLER:
		return "exec|pipe PROGRAM ARG..., so PATH";
	case CONF_ENVLIST:
		return "NAME=VALUE ...";
	}
	invariant_failed(__FILE__, __LINE__, "a type of the table");
}

/* The rule stands once in the man page's head; this is what departs from it. */
static const char *reload_text(const struct conf_row *row)
{
	switch (row->reload) {
	case CONF_LIVE:
	case CONF_ROLL:
		return "";
	case CONF_BOOT:
		return "Needs a new start.\n";
	}
	invariant_failed(__FILE__, __LINE__, "a reload of the table");
}

/* "range 1 to 10000"; nothing where there is none. */
static void add_range(const struct conf_row *row, struct buf *out)
{
	bool wide = row->type == CONF_DUR || row->type == CONF_AUTODUR || row->type == CONF_SIZE;
	int lo = (int)row->min, hi = (int)row->max;

	if (row->min == 0 && row->max == 0)
		return;
	buf_adds(out, row->max ? ", " : ", at least ");
	conf_value_format(row, wide ? (const void *)&row->min : (const void *)&lo, out);
	if (row->max) {
		buf_adds(out, " to ");
		conf_value_format(row, wide ? (const void *)&row->max : (const void *)&hi, out);
	}
}

/* Breaks `text` into lines of at most WIDTH, each begun with `prefix`. */
static void add_wrapped(const char *text, const char *prefix, struct buf *out)
{
	size_t room = WIDTH - strlen(prefix);

	while (*text) {
		size_t n = strlen(text);

		if (n > room) {
			n = room;
			while (n > 0 && text[n] != ' ')
				n--;
			if (n == 0)
				n = strcspn(text, " ");
		}
		buf_addf(out, "%s%.*s\n", prefix, (int)n, text);
		text += n;
		text += strspn(text, " ");
	}
}

static void sample_key(const struct conf_row *row, struct buf *out)
{
	add_wrapped(row->doc, "# ", out);
	buf_addf(out, "# (%s", type_text(row));
	add_range(row, out);
	buf_adds(out, ")\n");
	buf_addf(out, ";%s =%s%s\n\n", row->key, row->def[0] ? " " : "", row->def);
}

static void sample_section(enum conf_section s, struct buf *out)
{
	for (size_t i = 0; i < conf_n_rows; i++)
		if (conf_rows[i].section == s)
			sample_key(&conf_rows[i], out);
}

void conf_doc_sample(struct buf *out)
{
	buf_adds(out,
		 "# redisq.ini - every key with its default. Remove the ; in front of those you "
		 "change.\n"
		 "#\n"
		 "# A comment needs a line of its own; # and ; inside a value belong to the value. "
		 "A "
		 "line must not\n"
		 "# begin with a blank. Durations and sizes need a unit: 250ms 30s 5m 1h30m, 64K "
		 "10M "
		 "1G (KiB, MiB,\n"
		 "# GiB). The environment beats this file: REDISQ_QUEUE_CONCURRENCY=8; -s on the "
		 "command line beats\n"
		 "# both. Check with: redisq-supervisor -c FILE -t\n"
		 "\n[supervisor]\n\n");
	sample_section(CONF_SUPERVISOR, out);
	buf_adds(out, "[redis]\n\n");
	sample_section(CONF_REDIS, out);
	buf_adds(out,
		 "# One section per queue. The name is the stream's key itself: a producer is any "
		 "client that says\n"
		 "# XADD demo * payload '...'\n"
		 ";[queue demo]\n"
		 ";handler = exec /usr/local/bin/my-handler\n\n");
	sample_section(CONF_QUEUE, out);
	buf_truncate(out, out->len - 1); /* no blank line at the end */
}

/* Text for roff: no line begins with a control character, no '\' or '-' is interpreted. */
static void add_roff(const char *text, struct buf *out)
{
	if (*text == '.' || *text == '\'')
		buf_adds(out, "\\&");
	for (; *text; text++) {
		if (*text == '\\')
			buf_adds(out, "\\e");
		else if (*text == '-')
			buf_adds(out, "\\-");
		else if (*text == '\'')
			buf_adds(out, "\\(aq");
		else
			buf_addc(out, *text);
	}
}

static void man_key(const struct conf_row *row, struct buf *out)
{
	struct buf range = BUF_INIT;

	add_range(row, &range);
	buf_adds(out, ".TP\n.BR ");
	add_roff(row->key, out);
	buf_adds(out, " \" = ");
	add_roff(type_text(row), out);
	add_roff(range.data, out);
	if (row->def[0]) {
		buf_adds(out, "  [");
		add_roff(row->def, out);
		buf_addc(out, ']');
	}
	buf_adds(out, "\"\n");
	add_roff(row->doc, out);
	buf_addc(out, '\n');
	buf_adds(out, reload_text(row));
	if (row->env[0])
		buf_addf(out, "Also from the environment variable\n.BR %s .\n", row->env);
	buf_release(&range);
}

static void man_section(enum conf_section s, const char *title, const char *intro, struct buf *out)
{
	buf_addf(out, ".SH \"%s\"\n%s\n", title, intro);
	for (size_t i = 0; i < conf_n_rows; i++)
		if (conf_rows[i].section == s)
			man_key(&conf_rows[i], out);
}

static const char man_head[] =
	".\\\" Made from common/conf.def by gen\\-docs; do not edit.\n"
	".TH REDISQ.INI 5 \"2026\\-11\\-29\" \"redisq\\-supervisor " REDISQ_VERSION "\" "
	"\"File Formats\"\n.nh\n"
	".SH NAME\nredisq.ini \\- configuration of redisq\\-supervisor\n"
	".SH DESCRIPTION\n"
	"Lines\n.I key = value\nbelow the sections\n.BR [supervisor] ,\n.B [redis]\nand one\n"
	".BI [queue\\  NAME ]\nfor each queue, NAME being the key of its stream: any printable "
	"bytes.\n"
	"A line that begins with # or ; is a comment; inside a value both belong to the value.\n"
	"No line begins with a blank. Sections and keys stand once.\n"
	"All errors are reported at once with file and line, and exit code 78.\n"
	".PP\nDurations and sizes need a unit: 250ms 30s 5m 1h30m 1d; 512B 64K 10M 1G (powers of "
	"1024).\n"
	"A bare 0 is fine.\n"
	".PP\nA value is taken from, the later beating the earlier: the default, the file, the\n"
	"environment variable\n.BI REDISQ_ SECTION _ KEY\n"
	"(such as REDISQ_QUEUE_TIMEOUT, for all queues), and\n.B \\-s\nor other options. "
	"QUEUE_REDIS_CONCURRENCY and\n"
	"QUEUE_REDIS_READ_COUNT beat the file, REDIS_URL does not. Variables that are empty count "
	"as\n"
	"not set.\n.B redisq\\-supervisor \\-\\-print\\-config\nshows what came from where.\n"
	".PP\nA reload\n.RB ( \"redisqctl reload\" ,\nSIGHUP) takes every key that is not marked: "
	"what concerns workers and handlers is\n"
	"taken by the workers that a reload starts, the rest at once.\n"
	".PP\nWords of handler and env are separated by blanks; \\(aq...\\(aq and \"...\" keep "
	"blanks in a\n"
	"word, and in \"...\" a backslash makes a following \" or backslash plain. No shell is "
	"involved.\n"
	"Relative paths are relative to the directory that the supervisor was started in; those "
	"in\n"
	"handler (exec, pipe), to\n.IR cwd .\n";

void conf_doc_man(struct buf *out)
{
	buf_adds(out, man_head);
	man_section(CONF_SUPERVISOR, "[supervisor]", "Worker processes, logs, files.", out);
	man_section(CONF_REDIS, "[redis]", "Where Redis is. The url and passwords are never shown.",
		    out);
	man_section(CONF_QUEUE, "[queue NAME]", "One queue: its stream, handler and rules.", out);
	buf_adds(out, ".SH FILES\n"
		      "/etc/redisq/redisq.ini for root, else $XDG_CONFIG_HOME/redisq/redisq.ini or "
		      "./redisq.ini.\n"
		      "With another\n.I name\non the command line, NAME.ini there.\n"
		      ".SH SEE ALSO\n.BR redisq\\-supervisor (8),\n.BR redisq\\-worker (8),\n"
		      ".BR redisqctl (1)\n");
}

/* The url without what stands before its '@'. */
static void hide_password(struct buf *value)
{
	char *at = memrchr(value->data, '@', value->len);
	char *begin = strstr(value->data, "://");
	struct buf shown = BUF_INIT;

	if (!at || !begin)
		return;
	buf_add(&shown, value->data, (size_t)(begin - value->data) + 3);
	buf_adds(&shown, "***");
	buf_adds(&shown, at);
	buf_release(value);
	*value = shown;
}

/* NAME=*** for each word. */
static void hide_values(const struct strv *list, struct buf *value)
{
	buf_clear(value);
	for (size_t i = 0; i < list->n; i++)
		buf_addf(value, "%s%.*s=***", i ? " " : "", (int)strcspn(list->v[i], "="),
			 list->v[i]);
}

static void print_key(const struct conf *c, const struct conf_row *row, const char *queue,
		      const void *field, struct buf *out)
{
	struct buf value = BUF_INIT, line = BUF_INIT;

	conf_value_format(row, field, &value);
	if (row->type == CONF_SECRET && value.len > 0) {
		buf_clear(&value);
		buf_adds(&value, "***");
	} else if (row->type == CONF_ENVLIST) {
		hide_values(field, &value);
	} else if (row->section == CONF_REDIS && strcmp(row->key, "url") == 0) {
		hide_password(&value);
	}
	buf_addf(&line, "%s =%s", row->key, value.len ? " " : "");
	for (const char *p = value.data; *p; p++) { /* a handler given as words may hold newlines */
		if (*p == '\n')
			buf_adds(&line, "\\n");
		else
			buf_addc(&line, *p);
	}
	buf_addf(out, "%-*s  # %s\n", ORIGIN_COLUMN, line.data,
		 conf_where(c, row->section, queue, row->key));
	buf_release(&value);
	buf_release(&line);
}

static void print_section(const struct conf *c, enum conf_section s, const char *queue,
			  const void *fields, struct buf *out)
{
	buf_addf(out, "%s[%s%s%s]\n", out->len ? "\n" : "", conf_section_word(s), queue ? " " : "",
		 queue ? queue : "");
	for (size_t i = 0; i < conf_n_rows; i++)
		if (conf_rows[i].section == s)
			print_key(c, &conf_rows[i], queue, conf_cfield(&conf_rows[i], fields), out);
}

void conf_doc_print(const struct conf *c, struct buf *out)
{
	print_section(c, CONF_SUPERVISOR, NULL, conf_supervisor(c), out);
	print_section(c, CONF_REDIS, NULL, conf_redis(c), out);
	for (size_t i = 0; i < conf_n_queues(c); i++) {
		const struct conf_queue *q = conf_queue_at(c, i);

		print_section(c, CONF_QUEUE, q->name, q, out);
	}
}

void conf_doc_keys(struct buf *out)
{
	for (size_t i = 0; i < conf_n_rows; i++)
		buf_addf(out, "%s.%s\n", conf_section_word(conf_rows[i].section), conf_rows[i].key);
}
