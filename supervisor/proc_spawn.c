/*
 * proc_spawn.c - starting the process of a proc: where the worker's program is, which descriptors
 * it gets, what happens when any of that fails. Nothing is left open on failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "env.h"
#include "paths.h"
#include "proc.h"

/* Looked up at each start. Owned; NULL = nowhere. */
static char *worker_program(const struct house *h)
{
	const char *named = env_value(h->env, "REDISQ_WORKER_PROGRAM");
	char *path;

	if (named && *named)
		return xstrdup(named);
	path = paths_beside("redisq-worker", X_OK);
	if (path)
		return path;
	return spawn_find("redisq-worker", env_value(h->env, "PATH"));
}

enum { FRAMES, RAW, CHANNEL, N_PAIRS };

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* [x][0] is ours, [x][1] the worker's. */
static int make_pairs(int pairs[N_PAIRS][2])
{
	if (pipe2(pairs[FRAMES], O_CLOEXEC) < 0 || pipe2(pairs[RAW], O_CLOEXEC) < 0)
		return -1;
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[CHANNEL]);
}

static int run(struct proc *p, const char *program, int pairs[N_PAIRS][2], int board_fd,
	       struct child *child, struct err *e)
{
	char slot[16], supervised[] = "--supervised", q[] = "-q", s[] = "--slot";
	char *queue = xstrdup(p->queue), *path = xstrdup(program);
	char *argv[] = {path, supervised, q, queue, s, slot, NULL};
	int fds[] = {
		-1,       pairs[FRAMES][1], pairs[RAW][1], pairs[CHANNEL][1], p->gen->snapshot_fd,
		board_fd, p->lock_fd};
	struct spawn how = {
		.argv = argv,
		.envp = p->house->env,
		.fds = fds,
		.n_fds = (int)ARRAY_LEN(fds),
		.group = SPAWN_SESSION,
		.pdeathsig = SIGTERM,
		.set_ids = p->house->set_ids,
		.uid = p->house->uid,
		.gid = p->house->gid,
		.user = p->house->user,
		.oom_score_adj = p->house->worker_oom_adj,
	};
	enum spawn_step step = SPAWN_OK;
	int rc, saved;

	snprintf(slot, sizeof(slot), "%u", p->slot);
	rc = spawn_run(&how, child, &step);
	saved = errno;
	if (rc < 0)
		err_set(e, 1, "%s %s: %s", spawn_step_word(step), path, strerror(saved));
	free(queue);
	free(path);
	errno = saved;
	return rc;
}

int proc_spawn(struct proc *p, struct err *e)
{
	int pairs[N_PAIRS][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
	int board_fd = -1, rc = -1, saved;
	struct board *board = NULL;
	struct child child;
	char *program = worker_program(p->house);

	if (!program) {
		errno = ENOENT;
		err_set(e, 1,
			"redisq-worker was found neither beside redisq-supervisor, nor in "
			"../lib/redisq/, nor on PATH; install it, or name it in "
			"REDISQ_WORKER_PROGRAM");
		goto out;
	}
	if (make_pairs(pairs) < 0) {
		err_set(e, 1, "no pipes for the worker: %s", strerror(errno));
		goto out;
	}
	board = board_create((uint32_t)proc_conf(p)->concurrency,
			     (uint32_t)conf_kept_children(proc_conf(p)), &board_fd);
	if (!board) {
		err_set(e, 1, "no shared memory for the worker: %s", strerror(errno));
		goto out;
	}
	if (run(p, program, pairs, board_fd, &child, e) < 0)
		goto out;

	p->pid = child.pid;
	p->pidfd = child.pidfd;
	children_add(&p->house->children, &p->ref, p->pid);
	p->board = board;
	board = NULL;
	p->chan = chan_new(p->house->loop, pairs[CHANNEL][0], proc_on_word, proc_on_eof, p);
	slotlog_attach(p->log, p->pid, pairs[FRAMES][0], pairs[RAW][0]);
	for (int i = 0; i < N_PAIRS; i++)
		pairs[i][0] = -1; /* handed over */
	rc = 0;
out:
	saved = errno;
	for (int i = 0; i < N_PAIRS; i++) {
		close_fd(&pairs[i][0]);
		close_fd(&pairs[i][1]);
	}
	close_fd(&board_fd);
	board_unmap(board);
	free(program);
	errno = saved;
	return rc;
}
