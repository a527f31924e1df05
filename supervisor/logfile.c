/* logfile.c - see logfile.h. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logfile.h"

#define LOOK_EVERY_MS 1000  /* is it still the file at our path? */
#define RETRY_EVERY_MS 1000 /* after a failure */
#define BATCH_KEEP (64 * 1024)

struct logfile {
	char *path; /* owned */
	int64_t max_size;
	int keep;
	logfile_notice_fn *notice;
	void *arg; /* borrowed */

	int fd; /* -1: not open */
	dev_t dev;
	ino_t ino;
	int64_t size;
	int64_t look_ms;  /* when to look at the path again */
	int64_t retry_ms; /* while failing: when to try again */
	bool is_failing;

	struct buf batch; /* whole lines */
	struct buf torn;  /* rest of a line whose beginning is at the end of the file */
	int64_t dropped;
	int64_t unsaid; /* dropped, and the file does not say so yet */
	char why[256];
};

static int64_t count_lines(const char *data, size_t len)
{
	const char *end = data + len;
	int64_t n = 0;

	while (data < end && (data = memchr(data, '\n', (size_t)(end - data))) != NULL) {
		n++;
		data++;
	}
	return n;
}

static void drop_lines(struct logfile *f, int64_t n)
{
	f->dropped += n;
	f->unsaid += n;
}

static void close_file(struct logfile *f)
{
	if (f->fd >= 0)
		close(f->fd); /* a write error was reported by write() already */
	f->fd = -1;
	if (f->torn.len) { /* its beginning is in a file we will not see again */
		buf_clear(&f->torn);
		drop_lines(f, 1);
	}
}

/* The trouble's beginning is what the caller hears of. */
static const char *fail(struct logfile *f, int64_t now_ms, const char *what, int error)
{
	bool is_news = !f->is_failing;

	f->is_failing = true;
	f->retry_ms = now_ms + RETRY_EVERY_MS;
	snprintf(f->why, sizeof(f->why), "log file %s: %s: %s; lines are dropped until it works",
		 f->path, what, strerror(error));
	return is_news ? f->why : NULL;
}

/* The directory was removed under us. One level is made anew, not a whole tree. */
static int remake_dir(const struct logfile *f)
{
	const char *slash = strrchr(f->path, '/');
	char *dir;
	int rc;

	if (!slash || slash == f->path)
		return -1;
	dir = xmemdup0(f->path, (size_t)(slash - f->path));
	rc = mkdir(dir, 0750);
	free(dir);
	return rc;
}

static int open_file(struct logfile *f, int64_t now_ms)
{
	/* O_NONBLOCK: should a fifo lie there, it must not stop us. */
	const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	struct stat st;

	f->fd = open(f->path, flags, 0640);
	if (f->fd < 0 && errno == ENOENT && remake_dir(f) == 0)
		f->fd = open(f->path, flags, 0640);
	if (f->fd < 0 || fstat(f->fd, &st) != 0)
		return -1;
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	f->size = st.st_size;
	f->look_ms = now_ms + LOOK_EVERY_MS;
	return 0;
}

/*
 * Somebody removed or moved the file (rm, logrotate): the next open makes it anew. A removed one
 * swallows what is written, so that is looked at each time; one that was moved does not.
 */
static void look_at_path(struct logfile *f, int64_t now_ms)
{
	struct stat st;

	if (f->fd < 0)
		return;
	if (fstat(f->fd, &st) == 0) {
		f->size = st.st_size; /* copytruncate makes it smaller */
		if (st.st_nlink == 0) {
			close_file(f);
			return;
		}
	}
	if (now_ms < f->look_ms)
		return;
	f->look_ms = now_ms + LOOK_EVERY_MS;
	if (stat(f->path, &st) != 0 || st.st_dev != f->dev || st.st_ino != f->ino)
		close_file(f);
}

/* PATH -> PATH.1 -> ... -> PATH.keep; 0, or -1 with errno: nothing was lost, PATH still grows. */
static int rotate(struct logfile *f)
{
	struct buf from = BUF_INIT;
	struct buf to = BUF_INIT;
	int rc;

	for (int i = f->keep - 1; i >= 1; i--) {
		buf_clear(&from);
		buf_clear(&to);
		buf_addf(&from, "%s.%d", f->path, i);
		buf_addf(&to, "%s.%d", f->path, i + 1);
		if (rename(from.data, to.data) != 0 && errno != ENOENT)
			break; /* the one below is replaced: disk use stays bounded */
	}
	buf_clear(&to);
	buf_addf(&to, "%s.1", f->path);
	rc = f->keep > 0 ? rename(f->path, to.data) : unlink(f->path);
	if (rc != 0 && errno == ENOENT)
		rc = 0;
	for (int i = f->keep + 1; rc == 0; i++) { /* left from a larger keep */
		buf_clear(&to);
		buf_addf(&to, "%s.%d", f->path, i);
		if (unlink(to.data) != 0)
			break;
	}
	buf_release(&from);
	buf_release(&to);
	return rc;
}

/* How much of `data` (whole lines) goes into the present file: what fits, at least one line. */
static size_t fitting(const struct logfile *f, const char *data, size_t len)
{
	int64_t room = f->max_size - f->size;
	const char *nl;

	if (f->max_size <= 0 || (int64_t)len <= room)
		return len;
	if (room > 0 && (nl = memrchr(data, '\n', (size_t)room)) != NULL)
		return (size_t)(nl + 1 - data);
	if (f->size > 0)
		return 0;
	nl = memchr(data, '\n', len);
	return nl ? (size_t)(nl + 1 - data) : len;
}

/* Writes all of it; returns how much went out, errno says why it is less. */
static size_t write_all(struct logfile *f, const char *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(f->fd, data + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		done += (size_t)n;
		f->size += n;
	}
	return done;
}

/*
 * Puts out whole lines; what could not be written is dropped and counted, but for the rest of a
 * line that was begun. `*written`: bytes that are in a file now, a begun line counting as whole.
 */
static const char *put(struct logfile *f, const char *data, size_t len, int64_t now_ms,
		       size_t *written)
{
	const char *begin = data;
	const char *why = NULL;
	bool may_rotate = true;

	while (len > 0) {
		size_t n = may_rotate ? fitting(f, data, len) : len;
		size_t done;

		if (n == 0) {
			if (rotate(f) == 0) {
				close_file(f);
				if (open_file(f, now_ms) != 0) {
					why = fail(f, now_ms, "open", errno);
					break;
				}
			} else { /* better too big than lost; tried again at the next flush */
				may_rotate = false;
			}
			continue;
		}
		done = write_all(f, data, n);
		if (done < n) {
			int error = errno;
			const char *nl = memchr(data + done, '\n', n - done);
			bool is_torn = done > 0 && data[done - 1] != '\n' && nl;

			if (is_torn) {
				size_t rest = (size_t)(nl + 1 - (data + done));

				buf_add(&f->torn, data + done, rest);
				done += rest;
			}
			data += done;
			why = fail(f, now_ms, "write", error);
			break;
		}
		data += done;
		len -= done;
	}
	*written = (size_t)(data - begin);
	return why;
}

static const char *finish_torn(struct logfile *f, int64_t now_ms)
{
	size_t done = write_all(f, f->torn.data, f->torn.len);

	buf_consume(&f->torn, done);
	return f->torn.len ? fail(f, now_ms, "write", errno) : NULL;
}

const char *logfile_flush(struct logfile *f, int64_t now_ms)
{
	struct buf out = BUF_INIT;
	const char *why = NULL;
	int64_t said;
	size_t notice_len = 0;
	size_t written = 0;
	bool was_failing = f->is_failing;

	if (f->is_failing && now_ms < f->retry_ms)
		goto out;
	f->is_failing = false;
	look_at_path(f, now_ms);
	if (f->fd < 0 && open_file(f, now_ms) != 0)
		why = fail(f, now_ms, "open", errno);
	else if (f->torn.len)
		why = finish_torn(f, now_ms);
	said = f->unsaid; /* a torn line may have been given up just now */
	if (f->is_failing)
		goto out;
	if (said > 0) {
		f->notice(f->arg, said, &out);
		notice_len = out.len;
		why = put(f, out.data, out.len, now_ms, &written);
		if (written == notice_len)
			f->unsaid -= said;
	}
	written = 0;
	if (!f->is_failing && f->batch.len)
		why = put(f, f->batch.data, f->batch.len, now_ms, &written);
out:
	if (f->is_failing && f->batch.len)
		drop_lines(f, count_lines(f->batch.data + written, f->batch.len - written));
	if (f->batch.cap > BATCH_KEEP) /* memory of a burst goes back */
		buf_release(&f->batch);
	else
		buf_clear(&f->batch);
	buf_release(&out);
	return was_failing ? NULL : why;
}

const char *logfile_reopen(struct logfile *f, int64_t now_ms)
{
	const char *why = f->batch.len ? logfile_flush(f, now_ms) : NULL;
	const char *again;

	close_file(f);
	f->retry_ms = now_ms; /* somebody asked: try at once */
	again = logfile_flush(f, now_ms);
	return why ? why : again;
}

struct logfile *logfile_new(const char *path, int64_t max_size, int keep, logfile_notice_fn *notice,
			    void *arg)
{
	struct logfile *f = xcalloc(1, sizeof(*f));

	f->path = xstrdup(path);
	f->notice = notice;
	f->arg = arg;
	f->fd = -1;
	buf_init(&f->batch);
	buf_init(&f->torn);
	logfile_configure(f, max_size, keep);
	return f;
}

void logfile_free(struct logfile *f, int64_t now_ms)
{
	if (!f)
		return;
	f->retry_ms = now_ms; /* the last chance */
	if (f->batch.len || f->torn.len || f->unsaid)
		logfile_flush(f, now_ms);
	if (f->fd >= 0)
		close(f->fd);
	buf_release(&f->batch);
	buf_release(&f->torn);
	free(f->path);
	free(f);
}

void logfile_configure(struct logfile *f, int64_t max_size, int keep)
{
	f->max_size = max_size;
	f->keep = keep;
}

struct buf *logfile_batch(struct logfile *f)
{
	return &f->batch;
}

bool logfile_is_full(const struct logfile *f)
{
	return f->batch.len >= LOGFILE_BATCH_MAX;
}

const char *logfile_path(const struct logfile *f)
{
	return f->path;
}

int64_t logfile_dropped(const struct logfile *f)
{
	return f->dropped;
}

int64_t logfile_unsaid(const struct logfile *f)
{
	return f->unsaid;
}
