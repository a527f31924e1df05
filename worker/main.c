/*
 * main.c - redisq-worker: options, configuration, exit code. Started by the supervisor with
 * --supervised and its fds (see WORKER_FDS), or by itself with a file.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "conf_read.h"
#include "fds.h"
#include "log.h"
#include "worker.h"

extern char **environ;

/* What the supervisor hands over. */
enum worker_fds { FD_FRAMES = 1, FD_CHAN = 3, FD_CONF = 4, FD_BOARD = 5, FD_LOCK = 6 };

struct options {
	const char *file;
	const char *queue;
	bool supervised;
	int slot;
};

static const char usage[] =
	"usage: redisq-worker -c FILE -q QUEUE [-s KEY=VALUE]...\n"
	"  one worker of one queue, without a supervisor: for containers and for debugging.\n"
	"  -c FILE       configuration (see redisq.ini(5))\n"
	"  -q QUEUE      which queue of it\n"
	"  -s KEY=VALUE  beats the file, as redis.url=... or queue.concurrency=8\n"
	"  TERM, INT: drain and leave; a second one, or QUIT: stop and give the tasks back\n";

static int fail(const char *text, int code)
{
	fputs(text, stderr);
	return code;
}

/* The snapshot of the supervisor: what was validated is what runs. */
static int read_snapshot(struct conf *c, struct buf *errs)
{
	return conf_read_snapshot(c, FD_CONF, errs);
}

static int read_alone(struct conf *c, const struct options *o, char *const *sets, size_t n_sets,
		      struct buf *errs)
{
	struct err e;
	int r = 0;

	if (o->file && conf_read_file(c, o->file, errs) < 0)
		r = -1;
	if (conf_read_env(c, environ, errs) < 0)
		r = -1;
	for (size_t i = 0; i < n_sets; i++)
		if (conf_read_assignment(c, sets[i], errs) < 0)
			r = -1;
	if (r == 0 && conf_keep_queue(c, o->queue, &e) < 0) {
		buf_addf(errs, "%s\n", e.text);
		r = -1;
	}
	if (r == 0)
		r = conf_finish(c, errs);
	return r;
}

static void close_on_exec(void)
{
	for (int fd = FD_CHAN; fd <= FD_LOCK; fd++)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/*
 * A library in this process may print, and fd 1 is the way of our frames: they move to another one,
 * and what is printed goes where stderr goes, to the supervisor, which logs it as it is and has it
 * even if this process dies of what follows. The frames' new descriptor; -1 with errno.
 */
static int free_standard_output(void)
{
	int fd = fcntl(FD_FRAMES, F_DUPFD_CLOEXEC, FD_LOCK + 1);

	return fd < 0 || dup2(STDERR_FILENO, FD_FRAMES) < 0 ? -1 : fd;
}

static void take_down(struct worker *w)
{
	worker_release(w);
	/* Closed links go at the end of a turn: while their last words still have a way out. */
	ev_run(w->loop, EVRUN_NOWAIT);
	log_set_writer(NULL, NULL);
	frames_free(w->frames, 1000);
	if (worker_exit_code(w) == 0)
		board_clear_names(w->board);
	board_unmap(w->board);
	if (w->abandons_threads)
		_exit(worker_exit_code(w)); /* exit() would run destructors beside those threads */
}

static void leave(struct worker *w)
{
	take_down(w);
	_exit(worker_exit_code(w));
}

static int run(const struct options *o, const struct conf *c)
{
	const struct conf_queue *qc = conf_queue(c, o->queue);
	const struct conf_supervisor *sc = conf_supervisor(c);
	struct worker w = {.slot = o->slot};
	struct board *board;
	int board_fd = -1;
	int frames_fd = FD_FRAMES;

	w.loop = ev_loop_new(EVFLAG_AUTO);
	if (!w.loop)
		return fail("redisq-worker: no event loop can be made\n", EXIT_UNREACHABLE);
	board = o->supervised ? board_attach(FD_BOARD)
			      : board_create((uint32_t)qc->concurrency,
					     (uint32_t)conf_kept_children(qc), &board_fd);
	if (!board)
		return fail("redisq-worker: no scoreboard can be mapped\n", EXIT_CONFIG);
	if (board_fd >= 0)
		close(board_fd);
	/* What handlers leave behind outside their group comes back to us to be swept. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (o->supervised && qc->handler.kind == CONF_HANDLER_SO)
		frames_fd = free_standard_output();
	if (frames_fd < 0)
		return fail("redisq-worker: no descriptor is left for the log\n", EXIT_CONFIG);
	w.frames = frames_new(w.loop, frames_fd, o->supervised, o->slot, (size_t)sc->log_line_max);
	log_set_level((enum log_level)sc->log_level);
	log_set_writer(frames_log, w.frames);
	worker_init(&w, c, qc, o->slot, o->supervised ? FD_CHAN : -1, board, w.frames);
	w.leave = leave;
	worker_run(&w);
	take_down(&w);
	ev_loop_destroy(w.loop);
	return worker_exit_code(&w);
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"supervised", no_argument, NULL, 'S'},
					      {"slot", required_argument, NULL, 'N'},
					      {"help", no_argument, NULL, 'h'},
					      {"version", no_argument, NULL, 'V'},
					      {NULL, 0, NULL, 0}};
	char **sets = xcalloc((size_t)argc, sizeof(*sets));
	size_t n_sets = 0;
	struct options o = {.file = NULL};
	struct buf errs = BUF_INIT;
	struct conf *c;
	int code = EXIT_CONFIG;
	int opt;

	if (fds_fill_standard() < 0)
		return fail("redisq-worker: /dev/null cannot be opened\n", EXIT_CONFIG);
	fds_raise_limit();
	orders_block_signals();
	/* Large payloads go back to the system when they are done with. */
	mallopt(M_MMAP_THRESHOLD, 128 * 1024);
	while ((opt = getopt_long(argc, argv, "c:q:s:h", longs, NULL)) != -1) {
		switch (opt) {
		case 'c':
			o.file = optarg;
			break;
		case 'q':
			o.queue = optarg;
			break;
		case 's':
			sets[n_sets++] = optarg;
			break;
		case 'S':
			o.supervised = true;
			break;
		case 'N':
			o.slot = (int)strtol(optarg, NULL, 10);
			break;
		case 'h':
			fputs(usage, stdout);
			free(sets);
			return 0;
		case 'V':
			puts("redisq-worker " REDISQ_VERSION);
			free(sets);
			return 0;
		default:
			free(sets);
			return fail(usage, EXIT_USAGE);
		}
	}
	if (!o.queue || (!o.supervised && !o.file) || optind < argc) {
		free(sets);
		return fail(usage, EXIT_USAGE);
	}
	c = conf_new();
	if (o.supervised)
		close_on_exec();
	if ((o.supervised ? read_snapshot(c, &errs) : read_alone(c, &o, sets, n_sets, &errs)) == 0)
		code = run(&o, c);
	if (errs.len > 0)
		fputs(errs.data, stderr);
	buf_release(&errs);
	conf_free(c);
	free(sets);
	return code;
}
