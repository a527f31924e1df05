/*
 * spawn.c - see spawn.h. Starts programs and looks at their ends; keeps nothing itself.
 *
 * Between vfork() and execve() the child runs in the parent's memory: everything that allocates or
 * takes a lock (PATH, groups, number texts) is done before, the child only makes system calls. A
 * failure comes back through a close-on-exec pipe and not through that shared memory, because a
 * pipe also waits: where vfork() is really a fork (TSan, valgrind, gVisor) the parent would else
 * look before the child has got to its exec.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "buf.h"
#include "env.h"
#include "fds.h"
#include "spawn.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"
/* Where close_range() is missing (before 5.9): a bound for closing one by one. */
#define CLOSE_LOOP_MAX 65536

/* Instrumented code in a vfork child would leave its marks in the parent's shadow memory. */
#define IN_CHILD \
	__attribute__((noinline, no_sanitize("address"), no_sanitize("thread"), \
		       no_sanitize("undefined")))

/* 32-bit systems have 16-bit ids under the plain names. */
#ifdef SYS_setresuid32
#define SYS_SETGROUPS SYS_setgroups32
#define SYS_SETRESGID SYS_setresgid32
#define SYS_SETRESUID SYS_setresuid32
#else
#define SYS_SETGROUPS SYS_setgroups
#define SYS_SETRESGID SYS_setresgid
#define SYS_SETRESUID SYS_setresuid
#endif

struct failure {
	enum spawn_step step;
	int error;
};

/* All the child needs, made beforehand. */
struct plan {
	const struct spawn *s; /* borrowed */
	char *path;            /* owned */
	gid_t *groups;         /* owned, NULL = none */
	int n_groups;
	int *src; /* owned: a working copy of s->fds */
	char oom[16];
	size_t oom_len;
	pid_t parent;
	int report; /* write end of the pipe, not below s->n_fds */
	int close_max;
	bool has_limit;
	struct rlimit limit; /* of open files, as we were started with */
};

static const char *const step_words[] = {
	[SPAWN_OK] = "start",
	[SPAWN_FIND] = "find",
	[SPAWN_FORK] = "fork",
	[SPAWN_FDS] = "set up the files of",
	[SPAWN_IDS] = "set user and group for",
	[SPAWN_CWD] = "change directory for",
	[SPAWN_EXEC] = "exec",
};

const char *spawn_step_word(enum spawn_step step)
{
	return step_words[step];
}

/* ------------------------------------------------------------------ finding the program */

static bool is_program(const char *path, int *why)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	if (!S_ISREG(st.st_mode) || faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0) {
		*why = EACCES; /* worth more to the reader than "not found" */
		return false;
	}
	return true;
}

char *spawn_find(const char *name, const char *path)
{
	int why = ENOENT;

	if (strchr(name, '/'))
		return xstrdup(name);
	if (!*name) {
		errno = ENOENT;
		return NULL;
	}
	for (const char *p = path ? path : DEFAULT_PATH;;) {
		size_t len = strcspn(p, ":");
		char *full = len ? xasprintf("%.*s/%s", (int)len, p, name)
				 : xasprintf("./%s", name); /* an empty part is "." */

		if (is_program(full, &why))
			return full;
		free(full);
		if (!p[len])
			break;
		p += len + 1;
	}
	errno = why;
	return NULL;
}

/* ------------------------------------------------------------------ in the child */

IN_CHILD static int place_fds(struct plan *p)
{
	int n = p->s->n_fds;
	int null = -1;

	/* Out of the way of the targets first, so that no dup2() can hit a source. */
	for (int i = 0; i < n; i++) {
		if (p->src[i] == i || p->src[i] >= n)
			continue;
		if (p->src[i] >= 0) {
			p->src[i] = fcntl(p->src[i], F_DUPFD_CLOEXEC, n);
		} else {
			if (null < 0) {
				int low = open("/dev/null", O_RDWR | O_CLOEXEC);

				null = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, n);
				if (low >= 0)
					close(low);
			}
			p->src[i] = null;
		}
		if (p->src[i] < 0)
			return -1;
	}
	for (int i = 0; i < n; i++) {
		if (p->src[i] == i ? fcntl(i, F_SETFD, 0) < 0 : dup2(p->src[i], i) < 0)
			return -1;
	}
	/* A range never begins after its end: report >= n, and it is not the last fd there is. */
	if ((p->report > n && syscall(SYS_close_range, n, p->report - 1, 0) < 0) ||
	    syscall(SYS_close_range, p->report + 1, UINT_MAX, 0) < 0) {
		for (int fd = n; fd < p->close_max; fd++)
			if (fd != p->report)
				close(fd);
	}
	return 0;
}

IN_CHILD static void reset_signals(const sigset_t *which)
{
	struct sigaction dfl;
	sigset_t none;

	dfl.sa_handler = SIG_DFL;
	dfl.sa_flags = 0;
	sigemptyset(&dfl.sa_mask);
	/* Before the mask is emptied: a handler of the parent must not run here. KILL, STOP and the
	 * two of the C library refuse, which is right. */
	for (int s = 1; s < NSIG; s++)
		if (!which || sigismember(which, s) == 1)
			sigaction(s, &dfl, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

IN_CHILD static int take_ids(const struct plan *p)
{
	/* Raw calls: the C library's would reach for the other threads of the parent. */
	if (syscall(SYS_SETGROUPS, (size_t)p->n_groups, p->groups) < 0 ||
	    syscall(SYS_SETRESGID, p->s->gid, p->s->gid, p->s->gid) < 0 ||
	    syscall(SYS_SETRESUID, p->s->uid, p->s->uid, p->s->uid) < 0)
		return -1;
	return 0;
}

IN_CHILD static void set_oom(const struct plan *p)
{
	/* Advice to the kernel: a refusal (lowering it without privilege) changes no result. */
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, p->oom, p->oom_len) < 0)
		errno = 0;
	close(fd);
}

IN_CHILD static enum spawn_step become(struct plan *p)
{
	const struct spawn *s = p->s;

	if (s->group == SPAWN_SESSION)
		setsid();
	else
		setpgid(0, 0);
	if (place_fds(p) < 0)
		return SPAWN_FDS;
	if (p->oom_len)
		set_oom(p);
	/* Lowering a soft limit is never refused. */
	if (p->has_limit)
		setrlimit(RLIMIT_NOFILE, &p->limit);
	if (s->set_ids && take_ids(p) < 0)
		return SPAWN_IDS;
	if (s->pdeathsig) { /* after the ids: a change of credentials clears it */
		prctl(PR_SET_PDEATHSIG, (unsigned long)s->pdeathsig);
		if (getppid() != p->parent) {
			errno = ESRCH; /* too late: the parent has gone in between */
			return SPAWN_FORK;
		}
	}
	if (s->cwd && chdir(s->cwd) < 0)
		return SPAWN_CWD;
	reset_signals(s->reset);
	execve(p->path, s->argv, s->envp);
	return SPAWN_EXEC;
}

IN_CHILD ATTR_NORETURN static void child_main(struct plan *p)
{
	struct failure f;

	f.step = become(p);
	f.error = errno;
	/* Eight bytes fit into an empty pipe; when the parent is gone nobody needs them. */
	_exit(write(p->report, &f, sizeof(f)) == (ssize_t)sizeof(f) ? 127 : 126);
}

/* In a function of its own: nothing here is changed after vfork() returns the second time. */
IN_CHILD static pid_t start(struct plan *p)
{
	pid_t pid = vfork();

	if (pid == 0)
		child_main(p);
	return pid;
}

/* ------------------------------------------------------------------ in the parent */

static int find_groups(struct plan *p)
{
	const struct spawn *s = p->s;
	int n = 32;

	if (!s->set_ids || !s->user)
		return 0;
	for (;;) {
		int room = n;

		p->groups = xrealloc(p->groups, (size_t)n * sizeof(gid_t));
		if (getgrouplist(s->user, s->gid, p->groups, &n) >= 0)
			break;
		if (n <= room || n > NGROUPS_MAX) {
			errno = EINVAL;
			return -1;
		}
	}
	p->n_groups = n;
	return 0;
}

/* The child's verdict: false when it got as far as its new program. */
static bool read_failure(int fd, struct failure *f)
{
	ssize_t n;

	do
		n = read(fd, f, sizeof(*f));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*f);
}

static void wait_for(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Two ends, both CLOEXEC, the written one out of the way of the child's targets. */
static int make_report(int ends[2], int n_fds)
{
	int high;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	if (ends[1] >= n_fds)
		return 0;
	high = fcntl(ends[1], F_DUPFD_CLOEXEC, n_fds);
	if (high < 0) {
		int saved = errno;

		close(ends[0]);
		close(ends[1]);
		errno = saved;
		return -1;
	}
	close(ends[1]);
	ends[1] = high;
	return 0;
}

/* Runs the plan with every signal blocked; 0, or -1 with `f`. */
static int run_plan(struct plan *p, struct child *child, struct failure *f)
{
	sigset_t all, old;
	int ends[2];
	bool failed;

	f->step = SPAWN_FORK;
	if (make_report(ends, p->s->n_fds) < 0) {
		f->error = errno;
		return -1;
	}
	p->report = ends[1];
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	child->pid = start(p);
	f->error = errno;
	close(ends[1]);
	failed = child->pid < 0 || read_failure(ends[0], f);
	close(ends[0]);
	if (failed && child->pid > 0)
		wait_for(child->pid);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return failed ? -1 : 0;
}

int spawn_run(const struct spawn *s, struct child *child, enum spawn_step *step)
{
	struct plan p = {.s = s, .parent = getpid()};
	struct failure f = {.step = SPAWN_FIND};
	struct rlimit files;

	INVARIANT(s->n_fds >= 3 && s->argv && s->argv[0]);
	child->pid = -1;
	child->pidfd = -1;
	p.path = spawn_find(s->argv[0], env_value(s->envp, "PATH"));
	if (!p.path) {
		f.error = errno;
		goto out;
	}
	if (find_groups(&p) < 0) {
		f = (struct failure){.step = SPAWN_IDS, .error = errno};
		goto out;
	}
	p.src = xcalloc((size_t)s->n_fds, sizeof(int));
	memcpy(p.src, s->fds, (size_t)s->n_fds * sizeof(int));
	if (s->oom_score_adj)
		p.oom_len = (size_t)snprintf(p.oom, sizeof(p.oom), "%d", s->oom_score_adj);
	p.has_limit = fds_start_limit(&p.limit);
	p.close_max = CLOSE_LOOP_MAX;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < CLOSE_LOOP_MAX)
		p.close_max = (int)files.rlim_cur;
	if (run_plan(&p, child, &f) < 0)
		goto out;
	/* The pipe has just freed two fds, so this does not fail for want of one. */
	child->pidfd = (int)syscall(SYS_pidfd_open, child->pid, 0);
	f = (struct failure){.step = SPAWN_OK};
	if (child->pidfd < 0) {
		f = (struct failure){.step = SPAWN_FORK, .error = errno};
		kill(child->pid, SIGKILL);
		wait_for(child->pid);
	}
out:
	free(p.src);
	free(p.groups);
	free(p.path);
	*step = f.step;
	if (f.step == SPAWN_OK)
		return 0;
	child->pid = -1;
	errno = f.error;
	return -1;
}

/* ------------------------------------------------------------------ its end */

bool child_is_dead(pid_t pid, struct child_exit *out)
{
	siginfo_t si;

	memset(&si, 0, sizeof(si));
	if (waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) < 0 || si.si_pid != pid)
		return false;
	*out = (struct child_exit){
		.signaled = si.si_code != CLD_EXITED,
		.code = si.si_status,
		.core = si.si_code == CLD_DUMPED,
	};
	return true;
}

static int64_t to_ms(struct timeval t)
{
	return (int64_t)t.tv_sec * 1000 + t.tv_usec / 1000;
}

int child_reap(pid_t pid, struct child_exit *out)
{
	struct rusage ru;
	int status;
	pid_t got;

	do
		got = wait4(pid, &status, WNOHANG, &ru);
	while (got < 0 && errno == EINTR);
	if (got == 0)
		errno = EAGAIN;
	if (got <= 0)
		return -1;
	*out = (struct child_exit){
		.signaled = WIFSIGNALED(status),
		.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
		.core = WIFSIGNALED(status) && WCOREDUMP(status),
		.utime_ms = to_ms(ru.ru_utime),
		.stime_ms = to_ms(ru.ru_stime),
		.maxrss_kb = ru.ru_maxrss,
	};
	return 0;
}
