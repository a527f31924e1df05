/* logtail.c - see logtail.h. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "line.h"
#include "logtail.h"

#define READ_SIZE 65536
#define LINE_MAX_BYTES (32 * 1024 * 1024) /* above log_line_max in its JSON form */
#define ROTATED_MAX 1000                  /* log_keep's maximum */

struct logtail {
	char *path; /* owned */
	int fd;     /* -1 = not there yet */
	dev_t dev;
	ino_t ino;
	struct line lines;
	char *bytes; /* owned, READ_SIZE */
};

struct pass {
	logtail_fn *fn;
	void *arg;
};

static void on_line(void *arg, struct slice text, bool more ATTR_UNUSED)
{
	struct pass *p = arg;

	p->fn(p->arg, text);
}

static int open_nth(const struct logtail *t, int nth)
{
	char *path = nth ? xasprintf("%s.%d", t->path, nth) : xstrdup(t->path);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	free(path);
	return fd;
}

static void remember(struct logtail *t, int fd)
{
	struct stat st;

	if (t->fd >= 0)
		close(t->fd);
	t->fd = fd;
	if (fd >= 0 && fstat(fd, &st) == 0) {
		t->dev = st.st_dev;
		t->ino = st.st_ino;
	}
}

/* From where it stands to its present end. */
static void read_to_end(struct logtail *t, int fd, struct pass *p)
{
	ssize_t n;

	do {
		n = read(fd, t->bytes, READ_SIZE);
		if (n > 0)
			line_feed(&t->lines, t->bytes, (size_t)n, on_line, p);
	} while (n > 0 || (n < 0 && errno == EINTR));
}

/*
 * Where the last *n lines of the file begin; *n is lowered by the lines found. An unfinished line
 * at the end counts.
 */
static off_t seek_back(struct logtail *t, int fd, int64_t *n)
{
	off_t at = lseek(fd, 0, SEEK_END);
	off_t end = at;

	while (at > 0) {
		size_t len = at < READ_SIZE ? (size_t)at : READ_SIZE;
		ssize_t got = pread(fd, t->bytes, len, at - (off_t)len);

		if (got != (ssize_t)len)
			return at;
		for (size_t i = len; i > 0; i--) {
			off_t pos = at - (off_t)len + (off_t)i; /* behind this byte */

			if (t->bytes[i - 1] != '\n' || pos == end)
				continue;
			if (--*n == 0)
				return pos;
		}
		at -= (off_t)len;
	}
	if (end > 0)
		--*n; /* the file's first line */
	return 0;
}

struct logtail *logtail_new(const char *path)
{
	struct logtail *t = xcalloc(1, sizeof(*t));

	t->path = xstrdup(path);
	t->fd = -1;
	t->bytes = xcalloc(1, READ_SIZE);
	line_init(&t->lines, LINE_MAX_BYTES);
	return t;
}

void logtail_free(struct logtail *t)
{
	if (!t)
		return;
	remember(t, -1);
	line_release(&t->lines);
	free(t->bytes);
	free(t->path);
	free(t);
}

void logtail_last(struct logtail *t, int64_t n, logtail_fn *fn, void *arg)
{
	struct pass p = {fn, arg};
	int64_t left = n;
	int oldest = -1;
	int fds[64]; /* enough lines are in fewer files; with n < 0 the youngest 64 */
	off_t from = 0;

	while (oldest + 1 < (int)ARRAY_LEN(fds) && (n < 0 || left > 0)) {
		int fd = open_nth(t, oldest + 1);

		if (fd < 0)
			break;
		fds[++oldest] = fd;
		from = n < 0 ? 0 : seek_back(t, fd, &left);
	}
	for (int i = oldest; i >= 0; i--) {
		lseek(fds[i], i == oldest ? from : 0, SEEK_SET);
		read_to_end(t, fds[i], &p);
		if (i > 0)
			close(fds[i]);
	}
	if (oldest >= 0)
		remember(t, fds[0]);
	if (n == 0) {
		remember(t, open_nth(t, 0));
		if (t->fd >= 0)
			lseek(t->fd, 0, SEEK_END);
	}
}

/* How far the file we were reading has been rotated away; -1 = not to be found. */
static int find_ours(const struct logtail *t)
{
	for (int i = 0; i <= ROTATED_MAX; i++) {
		char *path = i ? xasprintf("%s.%d", t->path, i) : xstrdup(t->path);
		struct stat st;
		int rc = stat(path, &st);

		free(path);
		if (rc == 0 && st.st_dev == t->dev && st.st_ino == t->ino)
			return i;
		if (rc != 0 && i > 0)
			break;
	}
	return -1;
}

void logtail_more(struct logtail *t, logtail_fn *fn, void *arg)
{
	struct pass p = {fn, arg};
	struct stat st;
	int at = 0;

	if (t->fd >= 0) {
		at = find_ours(t);
		read_to_end(t, t->fd, &p);
		if (at == 0) {
			/* copytruncate: begin again */
			if (fstat(t->fd, &st) == 0 && st.st_size < lseek(t->fd, 0, SEEK_CUR))
				lseek(t->fd, 0, SEEK_SET);
			return;
		}
		if (at < 0)
			at = 1; /* removed: go on with the live one */
	} else {
		at = 1;
	}
	for (int i = at - 1; i >= 0; i--) {
		int fd = open_nth(t, i);

		if (fd < 0)
			continue;
		remember(t, fd);
		read_to_end(t, fd, &p);
	}
}
