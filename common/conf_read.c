/*
 * conf_read.c - see conf_read.h: ini files, -s assignments and snapshots. The only user of inih.
 *
 * inih 55 has traps: it cuts lines at 200 bytes and reads the rest as another line, cuts section
 * names at 50, takes an indented line for more of the value before, strips " ; ..." from values,
 * passes no line numbers and takes a directory for an empty file. So the file is read whole and
 * checked first, and inih gets it line by line from here: with a number in place of each section's
 * name, and nothing that it would misread. Debian's build exports its switches as variables; they
 * are looked for as weak symbols, and without them what they would cure is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf_read.h"
#include "conf_row.h"
#include "conf_snapshot.h"
#include "suggest.h"

#pragma weak ini_max_line
#pragma weak ini_use_stack
#pragma weak ini_initial_alloc
#pragma weak ini_allow_inline_comments
#pragma weak ini_allow_multiline
#pragma weak ini_allow_no_value
#pragma weak ini_stop_on_first_error

extern int ini_max_line, ini_initial_alloc;
extern bool ini_use_stack, ini_allow_inline_comments, ini_allow_multiline, ini_allow_no_value,
	ini_stop_on_first_error;

#define FILE_SIZE_MAX (1 << 20)
#define SNAPSHOT_SIZE_MAX (16 << 20)
#define LINE_MAX_BYTES 16384
/* inih's own buffer, less "\r\n" and the NUL. */
#define LINE_MAX_PLAIN 196

/* A file being read. */
struct reader {
	struct conf *c;    /* borrowed */
	struct buf *errs;  /* borrowed */
	const char *path;  /* borrowed: what messages show */
	struct slice rest; /* what inih has not been given yet */
	size_t line;       /* of the last one given; from 1 */
	size_t line_max;
	bool plain; /* an inih without the switches */
	bool failed;

	/* The section that keys belong to now. */
	bool in_section; /* else its keys are skipped: the header was refused, or there is none */
	bool told;       /* of keys before any section */
	enum conf_section section;
	char *queue;                          /* owned; CONF_QUEUE only */
	size_t first_line[CONF_ROWS_MAX];     /* of each key in this section; 0 = not yet */
	size_t section_line[CONF_N_SECTIONS]; /* of [supervisor] and [redis] */
	struct strv queues;                   /* names of the [queue]s, with the lines beside */
	size_t *queue_lines;                  /* owned */
};

static void complain(struct reader *r, const char *fmt, ...) ATTR_PRINTF(2, 3);
static void complain(struct reader *r, const char *fmt, ...)
{
	va_list ap;

	r->failed = true;
	buf_addf(r->errs, "%s:%zu: ", r->path, r->line);
	va_start(ap, fmt);
	buf_vaddf(r->errs, fmt, ap);
	va_end(ap);
	buf_addc(r->errs, '\n');
}

static struct slice trim(struct slice s)
{
	while (s.len > 0 && strchr(" \t\r\v\f", s.data[0]))
		s = slice_of(s.data + 1, s.len - 1);
	while (s.len > 0 && strchr(" \t\r\v\f", s.data[s.len - 1]))
		s.len--;
	return s;
}

static void enter(struct reader *r, enum conf_section s, const char *queue)
{
	free(r->queue);
	r->queue = queue ? xstrdup(queue) : NULL;
	r->section = s;
	r->in_section = true;
	memset(r->first_line, 0, sizeof(r->first_line));
}

static void enter_queue(struct reader *r, const char *name)
{
	struct err e;
	char *where;

	for (size_t i = 0; i < r->queues.n; i++)
		if (strcmp(r->queues.v[i], name) == 0) {
			complain(r, "duplicate section [queue %s]; put its keys at line %zu", name,
				 r->queue_lines[i]);
			return;
		}
	if (conf_add_queue(r->c, name, &e) < 0) {
		complain(r, "%s", e.text);
		return;
	}
	where = xasprintf("%s:%zu", r->path, r->line);
	conf_set_queue_where(r->c, name, where);
	free(where);
	strv_add(&r->queues, name);
	r->queue_lines = xrealloc(r->queue_lines, r->queues.n * sizeof(*r->queue_lines));
	r->queue_lines[r->queues.n - 1] = r->line;
	enter(r, CONF_QUEUE, name);
}

static void say_section(struct reader *r, const char *name)
{
	struct suggest near = {0};
	struct buf word = BUF_INIT;

	buf_add(&word, name, strcspn(name, " \t"));
	suggest_try(&near, word.data, "supervisor");
	suggest_try(&near, word.data, "redis");
	suggest_try(&near, word.data, "queue");
	if (strstr(name, "://")) /* a password may be in it */
		complain(r, "a url for a section; write [redis], and url = ... below it");
	else if (near.word && strcmp(near.word, "queue") == 0)
		complain(r, "unknown section [%s]; did you mean [queue NAME]?", name);
	else if (near.word)
		complain(r, "unknown section [%s]; did you mean [%s]?", name, near.word);
	else
		complain(r,
			 "unknown section [%s]; there are [supervisor], [redis] and [queue NAME]",
			 name);
	buf_release(&word);
}

/* `line` begins with '['. The name is all up to the last ']', so that it may hold any byte. */
static void take_header(struct reader *r, struct slice line)
{
	const char *close = memrchr(line.data, ']', line.len);
	struct slice inner, after;
	char *name;

	r->in_section = false;
	r->told = true; /* of this section's keys nothing more is said */
	if (!close) {
		complain(r, "a section without its ]; write [supervisor], [redis] or [queue NAME]");
		return;
	}
	after = trim(slice_of(close + 1, (size_t)(line.data + line.len - close) - 1));
	if (after.len > 0) {
		complain(r, "text after the ]; a comment needs a line of its own");
		return;
	}
	inner = trim(slice_of(line.data + 1, (size_t)(close - line.data) - 1));
	name = xmemdup0(inner.data, inner.len);
	if (strcmp(name, "supervisor") == 0 || strcmp(name, "redis") == 0) {
		enum conf_section s = name[0] == 's' ? CONF_SUPERVISOR : CONF_REDIS;

		if (r->section_line[s]) {
			complain(r, "duplicate section [%s]; put its keys at line %zu", name,
				 r->section_line[s]);
		} else {
			r->section_line[s] = r->line;
			enter(r, s, NULL);
		}
	} else if (strcmp(name, "queue") == 0) {
		complain(r,
			 "[queue] needs a name; write [queue NAME], NAME being the stream's key");
	} else if (strncmp(name, "queue", 5) == 0 && (name[5] == ' ' || name[5] == '\t')) {
		enter_queue(r, name + 5 + strspn(name + 5, " \t"));
	} else {
		say_section(r, name);
	}
	free(name);
}

/* Whether inih may have this line; says why not. */
static bool check_line(struct reader *r, struct slice line)
{
	if (line.data[0] == ' ' || line.data[0] == '\t') {
		complain(r,
			 "indented: would continue the value before; begin it in the first column");
		return false;
	}
	if (line.len > r->line_max) {
		complain(r, "%zu bytes long; at most %zu, shorten it", line.len, r->line_max);
		return false;
	}
	if (r->plain && memmem(line.data, line.len, " ;", 2)) {
		complain(r, "this build of inih would cut the value at \" ;\"; remove the blank (a "
			    "password can be in a password_file)");
		return false;
	}
	if (!memchr(line.data, '=', line.len)) {
		complain(r, "no = in this line; write key = value, or # in front of a comment");
		return false;
	}
	return true;
}

/* inih's way to ask for a line: at most `size` - 1 bytes and a NUL. NULL at the end. */
static char *give_line(char *out, int size, void *arg)
{
	struct reader *r = arg;
	const char *nl;
	struct slice line, bare;

	if (r->rest.len == 0)
		return NULL;
	nl = memchr(r->rest.data, '\n', r->rest.len);
	line = slice_of(r->rest.data, nl ? (size_t)(nl - r->rest.data) : r->rest.len);
	r->rest = slice_of(line.data + line.len + (nl != NULL),
			   r->rest.len - line.len - (nl != NULL));
	r->line++;
	if (line.len > 0 && line.data[line.len - 1] == '\r')
		line.len--;
	bare = trim(line);
	snprintf(out, (size_t)size, "\n");
	if (bare.len == 0 || bare.data[0] == '#' || bare.data[0] == ';')
		return out;
	if (line.data[0] == '[')
		take_header(r, line);
	else if (check_line(r, line))
		snprintf(out, (size_t)size, "%.*s\n", (int)line.len, line.data);
	return out;
}

/* inih's callback: never fails it, errors are collected here. */
static int take_value(void *arg, const char *section, const char *key, const char *value)
{
	struct reader *r = arg;
	const struct conf_row *row;
	struct buf where = BUF_INIT;
	struct err e;

	(void)section; /* headers never reach inih */
	if (!r->in_section) {
		if (!r->told)
			complain(r, "a key before any section; write [supervisor], [redis] or "
				    "[queue NAME] above it");
		r->told = true;
		return 1;
	}
	row = conf_row(r->section, key);
	if (row && r->first_line[row - conf_rows]) {
		complain(r, "duplicate key %s; the first is at line %zu, remove one", key,
			 r->first_line[row - conf_rows]);
		return 1;
	}
	if (row)
		r->first_line[row - conf_rows] = r->line;
	buf_addf(&where, "%s:%zu", r->path, r->line);
	if (conf_set(r->c, r->section, r->queue, key, value, CONF_FROM_FILE, where.data, &e) < 0) {
		r->failed = true;
		buf_addf(r->errs, "%s\n", e.text);
	}
	buf_release(&where);
	return 1;
}

/* Debian's inih takes its limits from variables; they are ours alone in these programs. */
static void set_switches(struct reader *r)
{
	r->plain = !&ini_max_line || !&ini_use_stack || !&ini_initial_alloc ||
		   !&ini_allow_inline_comments;
	r->line_max = LINE_MAX_PLAIN;
	if (!r->plain) {
		ini_max_line = LINE_MAX_BYTES + 4;
		ini_initial_alloc = LINE_MAX_BYTES + 4;
		ini_use_stack = false;
		ini_allow_inline_comments = false;
		r->line_max = LINE_MAX_BYTES;
	}
	if (&ini_allow_multiline)
		ini_allow_multiline = false;
	if (&ini_allow_no_value)
		ini_allow_no_value = false;
	if (&ini_stop_on_first_error)
		ini_stop_on_first_error = false;
}

/* The byte where the text stops being UTF-8; text.len = it is. */
static size_t utf8_valid(struct slice text)
{
	const unsigned char *p = (const unsigned char *)text.data;
	size_t i = 0;

	while (i < text.len) {
		unsigned char c = p[i];
		size_t more = c < 0x80                ? 0
			      : c >= 0xc2 && c < 0xe0 ? 1
			      : c >= 0xe0 && c < 0xf0 ? 2
			      : c >= 0xf0 && c < 0xf5 ? 3
						      : SIZE_MAX;

		if (more == SIZE_MAX || more >= text.len - i)
			return i;
		for (size_t k = 1; k <= more; k++)
			if ((p[i + k] & 0xc0) != 0x80)
				return i;
		i += more + 1;
	}
	return text.len;
}

static size_t line_of(struct slice text, size_t at)
{
	size_t line = 1;

	for (size_t i = 0; i < at; i++)
		line += text.data[i] == '\n';
	return line;
}

int conf_read_text(struct conf *c, const char *path, struct slice text, struct buf *errs)
{
	struct reader r = {.c = c, .errs = errs, .path = path};
	const char *nul = text.len ? memchr(text.data, '\0', text.len) : NULL;
	size_t good;

	if (text.len >= 3 && memcmp(text.data, "\xef\xbb\xbf", 3) == 0)
		text = slice_of(text.data + 3, text.len - 3);
	if (nul) {
		r.line = line_of(text, (size_t)(nul - text.data));
		complain(&r, "a NUL byte; this is not a text file");
		return -1;
	}
	good = utf8_valid(text);
	if (good < text.len) {
		r.line = line_of(text, good);
		complain(&r, "the byte 0x%02x is not UTF-8; save the file as UTF-8",
			 (unsigned char)text.data[good]);
		return -1;
	}
	r.rest = text;
	set_switches(&r);
	if (ini_parse_stream(give_line, &r, take_value, &r) != 0 && !r.failed)
		complain(&r, "not understood; write key = value");
	free(r.queue);
	strv_release(&r.queues);
	free(r.queue_lines);
	return r.failed ? -1 : 0;
}

/* All bytes of `fd` from offset 0, without moving a shared offset. -1 with errno. */
static int read_all(int fd, size_t max, struct buf *out)
{
	for (;;) {
		char *to = buf_reserve(out, 65536);
		ssize_t n = pread(fd, to, 65536, (off_t)out->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		buf_commit(out, (size_t)n);
		if (n == 0)
			return 0;
		if (out->len > max) {
			errno = EFBIG;
			return -1;
		}
	}
}

int conf_read_file(struct conf *c, const char *path, struct buf *errs)
{
	struct buf text = BUF_INIT;
	/* O_NONBLOCK: a FIFO must not hold us before it can be refused. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	int rc = -1;

	if (fd < 0) {
		buf_addf(errs, "%s: %s\n", path, strerror(errno));
		return -1;
	}
	if (fstat(fd, &st) < 0)
		buf_addf(errs, "%s: %s\n", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		buf_addf(errs, "%s: not a file%s; give an ini file\n", path,
			 S_ISDIR(st.st_mode) ? " but a directory" : "");
	else if (read_all(fd, FILE_SIZE_MAX, &text) < 0)
		buf_addf(errs, "%s: %s\n", path,
			 errno == EFBIG ? "larger than 1 MiB; this is not a configuration file"
					: strerror(errno));
	else
		rc = conf_read_text(c, path, slice_of(text.data, text.len), errs);
	close(fd);
	buf_release(&text);
	return rc;
}

int conf_read_snapshot(struct conf *c, int fd, struct buf *errs)
{
	struct buf text = BUF_INIT;
	struct err e = {0};
	int rc = 0;

	if (read_all(fd, SNAPSHOT_SIZE_MAX, &text) < 0)
		rc = err_set(&e, EXIT_CONFIG, "snapshot of the configuration: %s", strerror(errno));
	else
		rc = conf_snapshot_parse(c, slice_of(text.data, text.len), &e);
	if (rc < 0)
		buf_addf(errs, "%s\n", e.text);
	buf_release(&text);
	return rc;
}

static int say_assignment(const char *assignment, struct buf *errs)
{
	int shown = (int)suggest_shown(assignment);

	buf_addf(errs,
		 "-s%s%.*s: not SECTION.KEY=VALUE; write redis.url=..., supervisor.workers=..., "
		 "queue.timeout=... or \"queue NAME.timeout=...\"\n",
		 shown ? " " : "", shown, assignment);
	return -1;
}

/* SECTION.KEY=VALUE taken apart; `queue` is NULL for all of them. */
struct assignment {
	enum conf_section section;
	char *queue;     /* owned */
	char *key;       /* owned */
	const char *dot; /* borrowed, as the next: between section and key */
	const char *value;
};

static void assignment_release(struct assignment *a)
{
	free(a->queue);
	free(a->key);
}

/* False: it has not that form. `a` is to be released either way. */
static bool parse_assignment(const char *text, struct assignment *a)
{
	const char *eq = strchr(text, '=');
	const char *dot = eq ? memrchr(text, '.', (size_t)(eq - text)) : NULL;
	struct slice section, key;

	*a = (struct assignment){.section = CONF_QUEUE};
	if (!dot || dot == text || dot + 1 == eq)
		return false;
	section = trim(slice_of(text, (size_t)(dot - text)));
	key = trim(slice_of(dot + 1, (size_t)(eq - dot) - 1));
	a->key = xmemdup0(key.data, key.len);
	a->dot = dot;
	a->value = eq + 1;
	if (slice_eq_str(section, "supervisor")) {
		a->section = CONF_SUPERVISOR;
	} else if (slice_eq_str(section, "redis")) {
		a->section = CONF_REDIS;
	} else if (section.len > 6 && memcmp(section.data, "queue ", 6) == 0) {
		section = trim(slice_of(section.data + 6, section.len - 6));
		a->queue = xmemdup0(section.data, section.len);
	} else if (!slice_eq_str(section, "queue")) {
		return false;
	}
	return true;
}

bool conf_is_assignment(const char *text)
{
	struct assignment a;
	bool is = parse_assignment(text, &a);

	assignment_release(&a);
	return is;
}

int conf_read_assignment(struct conf *c, const char *assignment, struct buf *errs)
{
	struct assignment a;
	struct err e = {0};
	char *shown = NULL;
	int rc;

	if (parse_assignment(assignment, &a)) {
		shown = xasprintf("-s %.*s%.*s", (int)(a.dot + 1 - assignment), assignment,
				  (int)suggest_shown(a.key), a.key);
		rc = conf_set(c, a.section, a.queue, a.key, a.value, CONF_FROM_FLAG, shown, &e);
		if (rc < 0)
			buf_addf(errs, "%s\n", e.text);
	} else {
		rc = say_assignment(assignment, errs);
	}
	assignment_release(&a);
	free(shown);
	return rc;
}
