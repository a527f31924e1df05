/* t_logsink.c - bytes of pipes to lines of files: all of them, in order, last words too. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <unistd.h>
#include <cmocka.h>

#include "backoff.h"
#include "log.h"
#include "supervisor/logsink.h"

#define TOTAL (10u * 1024 * 1024)

struct fixture {
	char dir[64];
	struct ev_loop *loop;
	struct logsink *s;
};

static void begin(struct fixture *x, size_t line_max)
{
	struct logsink_conf conf = {.dir = x->dir,
				    .files = true,
				    .format = CONF_LOG_FORMAT_TEXT,
				    .max_size = 1 << 30,
				    .keep = 5,
				    .line_max = line_max};
	struct err e;

	snprintf(x->dir, sizeof(x->dir), "/tmp/t_logsink.XXXXXX");
	assert_non_null(mkdtemp(x->dir));
	x->loop = ev_loop_new(EVFLAG_AUTO);
	x->s = logsink_new(x->loop, &conf, &e);
	assert_non_null(x->s);
}

static char *path_of(const struct fixture *x, const char *name)
{
	return xasprintf("%s/%s", x->dir, name);
}

static char *content(const struct fixture *x, const char *name, size_t *len)
{
	struct buf b = BUF_INIT;
	char *path = path_of(x, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	assert_true(fd >= 0);
	while ((n = read(fd, buf_reserve(&b, 65536), 65536)) > 0)
		buf_commit(&b, (size_t)n);
	close(fd);
	free(path);
	if (len)
		*len = b.len;
	return buf_detach(&b);
}

static void end(struct fixture *x, const char *const *names, size_t n)
{
	logsink_free(x->s);
	ev_loop_destroy(x->loop);
	for (size_t i = 0; i < n; i++) {
		char *path = path_of(x, names[i]);

		assert_int_equal(unlink(path), 0);
		free(path);
	}
	assert_int_equal(rmdir(x->dir), 0);
}

static void make_pipe(int fds[2])
{
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
}

static void put(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* Random bytes: a newline about every 300, all other values too. */
static char *random_bytes(size_t n)
{
	char *bytes = xcalloc(1, n);
	struct rng r;

	rng_seed(&r, 20261129);
	for (size_t i = 0; i < n; i++) {
		int64_t v = rng_below(&r, 1 << 20);

		bytes[i] = (v >> 8) % 300 == 0 ? '\n' : (char)(v & 255);
	}
	bytes[n - 1] = 'x'; /* no final newline */
	return bytes;
}

struct feed {
	int fd;
	const char *bytes; /* borrowed */
	size_t n;
};

/* A thread: writes all in chunks of 1 byte to 64 KiB, closes. */
static void *feed(void *arg)
{
	const struct feed *f = arg;
	struct rng r;

	rng_seed(&r, 7);
	for (size_t at = 0; at < f->n;) {
		size_t chunk = 1 + (size_t)rng_below(&r, 65536);
		size_t left = f->n - at;
		ssize_t done = write(f->fd, f->bytes + at, chunk < left ? chunk : left);

		if (done < 0)
			break;
		at += (size_t)done;
	}
	close(f->fd);
	return NULL;
}

/* Takes the prefixes off; pieces of `line_max` bytes are put together again. */
static void assert_same_bytes(const char *log, size_t log_len, const char *bytes, size_t n,
			      size_t line_max)
{
	const char *p = log;
	const char *log_end = log + log_len;
	size_t at = 0;

	while (p < log_end) {
		const char *nl = memchr(p, '\n', (size_t)(log_end - p));
		const char *text = memmem(p, (size_t)(log_end - p), "] ", 2);
		size_t len;

		assert_non_null(nl);
		assert_non_null(text);
		text += 2;
		len = (size_t)(nl - text);
		assert_true(at + len <= n);
		assert_memory_equal(text, bytes + at, len);
		at += len;
		if (at < n && bytes[at] == '\n' && len <= line_max)
			at++;
		else
			assert_true(at == n || len == line_max);
		p = nl + 1;
	}
	assert_int_equal(at, n);
}

static void ten_megabytes(size_t line_max)
{
	struct fixture x;
	char *bytes = random_bytes(TOTAL);
	struct slotlog *l;
	int fds[2];
	char *log;
	size_t log_len;
	struct feed f = {.bytes = bytes, .n = TOTAL};
	pthread_t thread;

	begin(&x, line_max);
	l = slotlog_get(x.s, "demo", 0);
	make_pipe(fds);
	f.fd = fds[1];
	assert_int_equal(pthread_create(&thread, NULL, feed, &f), 0);
	slotlog_attach(l, 812, -1, fds[0]);
	ev_run(x.loop, 0); /* until no pipe is left */
	logsink_flush(x.s);
	assert_int_equal(pthread_join(thread, NULL), 0);
	log = content(&x, "demo-0.log", &log_len);
	assert_same_bytes(log, log_len, bytes, TOTAL, line_max);
	assert_int_equal(logsink_dropped(x.s), 0);
	free(log);
	free(bytes);
	end(&x, (const char *const[]){"demo-0.log"}, 1);
}

static void test_ten_megabytes_byte_for_byte(void **state)
{
	(void)state;
	ten_megabytes(64 * 1024);
}

static void test_ten_megabytes_in_short_lines(void **state)
{
	(void)state;
	ten_megabytes(256);
}

static void test_frames(void **state)
{
	struct fixture x;
	struct slotlog *l;
	int fds[2];
	char *log;

	(void)state;
	begin(&x, 64 * 1024);
	l = slotlog_get(x.s, "a/b", 3);
	make_pipe(fds);
	slotlog_attach(l, 812, fds[0], -1);
	put(fds[1], "O 1-0 hel");
	ev_run(x.loop, EVRUN_NOWAIT);
	put(fds[1], "lo\nE 2-0 oops\nE - me\njunk\nO 1-0 last words");
	close(fds[1]);
	ev_run(x.loop, 0);
	logsink_flush(x.s);
	log = content(&x, "a%2Fb-3.log", NULL);
	assert_non_null(strstr(log, " 3 812 O [1-0] hello\n"));
	assert_non_null(strstr(log, " 3 812 E [2-0] oops\n"));
	assert_non_null(strstr(log, " 3 812 E [-] me\n"));
	assert_non_null(strstr(log, " 3 812 E [-] junk\n"));
	assert_non_null(strstr(log, " 3 812 O [1-0] last words\n"));
	free(log);
	end(&x, (const char *const[]){"a%2Fb-3.log"}, 1);
}

/* A frame far above the limit (a worker of before the limit was lowered) keeps stream and id. */
static void test_frame_in_pieces_keeps_its_head(void **state)
{
	struct fixture x;
	struct slotlog *l;
	char text[3000];
	int fds[2];
	char *log, *p;
	int n = 0;

	(void)state;
	begin(&x, 256);
	l = slotlog_get(x.s, "demo", 0);
	make_pipe(fds);
	slotlog_attach(l, 812, fds[0], -1);
	memset(text, 'y', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	put(fds[1], "O 7-7 ");
	put(fds[1], text);
	put(fds[1], "\nE 8-8 next\n");
	close(fds[1]);
	ev_run(x.loop, 0);
	logsink_flush(x.s);
	log = content(&x, "demo-0.log", NULL);
	for (p = log; (p = strchr(p, 'y')) != NULL; p++)
		n++;
	assert_int_equal(n, 2999);
	n = 0;
	for (p = log; (p = strstr(p, "O [7-7] y")) != NULL; p++)
		n++;
	assert_true(n > 1);
	assert_null(strstr(log, "[-]"));
	assert_non_null(strstr(log, "E [8-8] next\n"));
	free(log);
	end(&x, (const char *const[]){"demo-0.log"}, 1);
}

/* The worker is dead, something it left behind holds the pipe: its last words come at the drain. */
static void test_last_words_although_the_pipe_stays_open(void **state)
{
	struct fixture x;
	struct slotlog *l;
	int frames[2], raw[2];
	char *log;

	(void)state;
	begin(&x, 64 * 1024);
	l = slotlog_get(x.s, "demo", 0);
	make_pipe(frames);
	make_pipe(raw);
	slotlog_attach(l, 812, frames[0], raw[0]);
	put(frames[1], "O 1-0 begun");
	put(raw[1], "double free or corruption\nAbor");
	slotlog_drain(l, 812);
	slotlog_say(l, 812, "worker 812 died: signal 6 SIGABRT\nafter 3.2s");
	logsink_flush(x.s);
	log = content(&x, "demo-0.log", NULL);
	assert_non_null(strstr(log, "O [1-0] begun\n"));
	assert_non_null(strstr(log, "E [-] double free or corruption\n"));
	assert_non_null(strstr(log, "E [-] Abor\n"));
	assert_non_null(strstr(log, "E [-] worker 812 died: signal 6 SIGABRT after 3.2s\n"));
	free(log);
	close(frames[1]);
	close(raw[1]);
	end(&x, (const char *const[]){"demo-0.log"}, 1);
}

static void test_free_flushes_what_is_in_the_pipes(void **state)
{
	struct fixture x;
	int fds[2];
	char *log;

	(void)state;
	begin(&x, 64 * 1024);
	make_pipe(fds);
	slotlog_attach(slotlog_get(x.s, "demo", 0), 812, fds[0], -1);
	put(fds[1], "O 1-0 unread");
	logsink_free(x.s);
	x.s = NULL;
	log = content(&x, "demo-0.log", NULL);
	assert_non_null(strstr(log, "O [1-0] unread\n"));
	free(log);
	close(fds[1]);
	end(&x, (const char *const[]){"demo-0.log"}, 1);
}

static void test_one_object_and_file_per_slot(void **state)
{
	struct fixture x;
	struct slotlog *l;

	(void)state;
	begin(&x, 64 * 1024);
	l = slotlog_get(x.s, "demo", 0);
	assert_ptr_equal(slotlog_get(x.s, "demo", 0), l);
	assert_ptr_not_equal(slotlog_get(x.s, "demo", 1), l);
	assert_ptr_not_equal(slotlog_get(x.s, "other", 0), l);
	end(&x, (const char *const[]){"demo-0.log", "demo-1.log", "other-0.log"}, 3);
}

static void test_own_log_in_a_file(void **state)
{
	struct fixture x;
	char *log;

	(void)state;
	begin(&x, 64 * 1024);
	logsink_own_log(x.s, true);
	log_info("starting %d workers", 4);
	log = content(&x, "supervisor.log", NULL);
	assert_non_null(strstr(log, "Z info starting 4 workers\n"));
	free(log);
	end(&x, (const char *const[]){"supervisor.log"}, 1);
}

/* log_to = stdout, several queues, JSON from a reload on. */
static void test_stdout_says_which_queue(void **state)
{
	struct logsink_conf conf = {.to_stdout = true,
				    .format = CONF_LOG_FORMAT_TEXT,
				    .max_size = 1 << 20,
				    .keep = 5,
				    .line_max = 65536};
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct logsink *s;
	struct slotlog *l;
	char got[2048] = "";
	int fds[2], kept;
	struct err e;

	(void)state;
	make_pipe(fds);
	fflush(stdout);
	kept = dup(STDOUT_FILENO);
	assert_true(dup2(fds[1], STDOUT_FILENO) >= 0);
	s = logsink_new(loop, &conf, &e);
	assert_non_null(s);
	l = slotlog_get(s, "a", 0);
	slotlog_say(l, 7, "alone");
	slotlog_get(s, "b", 0);
	slotlog_say(l, 7, "in company");
	conf.format = CONF_LOG_FORMAT_JSON;
	logsink_configure(s, &conf);
	slotlog_say(l, 7, "{\"n\":1}");
	logsink_free(s);
	assert_true(dup2(kept, STDOUT_FILENO) >= 0);
	close(kept);
	assert_true(read(fds[0], got, sizeof(got) - 1) > 0);
	assert_non_null(strstr(got, "Z 0 7 E [-] alone\n"));
	assert_non_null(strstr(got, "Z a/0 7 E [-] in company\n"));
	assert_non_null(
		strstr(got, "\"queue\":\"a\",\"stream\":\"E\",\"id\":null,\"data\":{\"n\":1}}\n"));
	close(fds[0]);
	close(fds[1]);
	ev_loop_destroy(loop);
}

/* Slots come and go (scale, reload): with them their files. */
static void test_log_of_a_slot_that_is_no_more_is_closed(void **state)
{
	struct fixture x;
	struct slotlog *l;
	int fds[2], free_fd;
	char *log;

	(void)state;
	begin(&x, 64 * 1024);
	make_pipe(fds);
	free_fd = dup(fds[0]);
	close(free_fd); /* what the log's file will have */
	l = slotlog_get(x.s, "demo", 0);
	assert_true(fcntl(free_fd, F_GETFD) >= 0);
	assert_ptr_equal(slotlog_get(x.s, "demo", 0), l);
	slotlog_attach(l, 812, fds[0], -1);
	slotlog_put(l);
	slotlog_put(l);
	assert_true(fcntl(free_fd, F_GETFD) >= 0); /* a pipe of its worker is open */
	put(fds[1], "O 1-0 late\n");
	ev_run(x.loop, EVRUN_NOWAIT);
	close(fds[1]);
	ev_run(x.loop, EVRUN_NOWAIT);
	ev_run(x.loop, EVRUN_NOWAIT);
	assert_int_equal(fcntl(free_fd, F_GETFD), -1);
	l = slotlog_get(x.s, "demo", 0); /* the slot is back: same file, goes on */
	slotlog_say(l, 813, "again");
	slotlog_put(l);
	assert_int_equal(fcntl(free_fd, F_GETFD), -1);
	log = content(&x, "demo-0.log", NULL);
	assert_non_null(strstr(log, "O [1-0] late\n"));
	assert_non_null(strstr(log, "E [-] again\n"));
	free(log);
	end(&x, (const char *const[]){"demo-0.log"}, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ten_megabytes_byte_for_byte),
		cmocka_unit_test(test_ten_megabytes_in_short_lines),
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_frame_in_pieces_keeps_its_head),
		cmocka_unit_test(test_last_words_although_the_pipe_stays_open),
		cmocka_unit_test(test_free_flushes_what_is_in_the_pipes),
		cmocka_unit_test(test_one_object_and_file_per_slot),
		cmocka_unit_test(test_own_log_in_a_file),
		cmocka_unit_test(test_stdout_says_which_queue),
		cmocka_unit_test(test_log_of_a_slot_that_is_no_more_is_closed),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
