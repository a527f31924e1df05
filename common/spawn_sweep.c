/*
 * spawn_sweep.c - child_sweep_strays() of spawn.h: what dead children left behind.
 *
 * Only direct children are signalled: until this process reaps them their pids cannot mean anybody
 * else. What a stray itself leaves behind becomes a direct child when the stray is dead, so a pass
 * is followed by another one; the time given to that is bounded.
 *
 * Orphans are given to the main thread of a subreaper, which is where this runs: with no strays the
 * whole thing is one open, read and close of /proc/thread-self/children (about 5 us).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "buf.h"
#include "clock.h"
#include "readfile.h"
#include "spawn.h"

#define STAT_MAX 4096

/* How long one sweep may wait for killed strays in all. SIGKILL needs far below 1 ms, but for a
 * process in an uninterruptible sleep. */
#define SWEEP_WAIT_MS 20

struct pids {
	pid_t *v; /* owned */
	size_t n;
	size_t cap;
};

static void add(struct pids *p, pid_t pid)
{
	if (p->n == p->cap) {
		p->cap = p->cap ? p->cap * 2 : 64;
		p->v = xrealloc(p->v, p->cap * sizeof(p->v[0]));
	}
	p->v[p->n++] = pid;
}

/* False where the kernel has no such file (CONFIG_PROC_CHILDREN). */
static bool list_by_file(struct pids *out)
{
	int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
	char text[4096];
	pid_t pid = 0;
	ssize_t n = 0;

	if (fd < 0)
		return false;
	do {
		n = read(fd, text, sizeof(text));
		for (ssize_t i = 0; i < n; i++) { /* "12 345 " - a number may be split by a read */
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (text[i] - '0');
			} else if (pid) {
				add(out, pid);
				pid = 0;
			}
		}
		/* The file is made anew at each read: a short one was the last. */
	} while (n > (ssize_t)sizeof(text) / 2 || (n < 0 && errno == EINTR));
	close(fd);
	return n >= 0;
}

static pid_t parent_of(const char *pid)
{
	struct buf text = BUF_INIT;
	char path[64];
	const char *p;
	pid_t parent = -1;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	if (readfile(path, STAT_MAX, &text) == 0) {
		p = strrchr(text.data, ')'); /* the name before it may hold anything */
		if (p && strlen(p) > 4)
			parent = (pid_t)strtol(p + 4, NULL, 10);
	}
	buf_release(&text);
	return parent;
}

static void list_by_scan(struct pids *out)
{
	DIR *dir = opendir("/proc");
	pid_t me = getpid();
	struct dirent *d;

	if (!dir)
		return;
	while ((d = readdir(dir)))
		if (d->d_name[0] >= '1' && d->d_name[0] <= '9' && parent_of(d->d_name) == me)
			add(out, (pid_t)strtol(d->d_name, NULL, 10));
	closedir(dir);
}

/* Until the child is dead, but not beyond `end_ms`. */
static void await_death(pid_t pid, int64_t end_ms)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int64_t left;

	while ((left = end_ms - clock_mono_ms()) > 0) {
		int n = poll(&p, fd < 0 ? 0 : 1, fd < 0 ? 1 : (int)left);

		if (n > 0 || (fd < 0 && waitid(P_PID, (id_t)pid, &(siginfo_t){0},
					       WEXITED | WNOHANG | WNOWAIT) < 0))
			break;
	}
	if (fd >= 0)
		close(fd);
}

/* Signals the strays of one listing and leaves them in `all`; returns how many. */
static int kill_strays(struct pids *all, bool (*is_known)(void *arg, pid_t pid),
		       bool (*spare)(void *arg, pid_t pid), void *arg)
{
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++) {
		pid_t pid = all->v[i];

		if (is_known(arg, pid))
			continue;
		if (waitpid(pid, NULL, WNOHANG) == pid)
			continue; /* was dead already: reaped, spared or not */
		if (spare && spare(arg, pid))
			continue;
		if (kill(pid, SIGKILL) < 0)
			continue; /* another user's set-uid program: not ours to stop */
		all->v[n++] = pid;
	}
	all->n = n;
	return (int)n;
}

int child_sweep_strays(bool (*is_known)(void *arg, pid_t pid), bool (*spare)(void *arg, pid_t pid),
		       void *arg)
{
	struct pids all = {0};
	int64_t end_ms = 0;
	int n_signalled = 0;
	bool again;

	do {
		int n;

		all.n = 0;
		if (!list_by_file(&all))
			list_by_scan(&all);
		n = kill_strays(&all, is_known, spare, arg);
		n_signalled += n;
		if (n > 0 && !end_ms)
			end_ms = clock_mono_ms() + SWEEP_WAIT_MS;
		again = false;
		for (int i = 0; i < n; i++) {
			await_death(all.v[i], end_ms);
			if (waitpid(all.v[i], NULL, WNOHANG) == all.v[i])
				again = true; /* its own children have come up to us */
		}
	} while (again && clock_mono_ms() < end_ms);
	free(all.v);
	return n_signalled;
}
