/*
 * spawn.h - a program started the clean way, and its death observed without losing its group.
 *
 * spawn_run() is vfork-like (the parent's pages are not copied) and reports a failed exec as an
 * errno, not as a guess. The child gets: an empty signal mask and default dispositions, only the
 * fds of the map, the limit of open files that this process was started with, its own session or
 * process group, PDEATHSIG (with the getppid check), and whatever of cwd, ids and oom_score_adj is
 * asked for. argv[0] is looked up on the PATH of `envp`
 * in the parent; a name with a '/' is taken as it is (relative to `cwd`).
 *
 * Call from the main thread only: PDEATHSIG follows the thread.
 */
#ifndef REDISQ_SPAWN_H
#define REDISQ_SPAWN_H

#include <signal.h>

#include "base.h"

enum spawn_group {
	SPAWN_SESSION, /* setsid(): supervisor -> worker */
	SPAWN_GROUP,   /* setpgid(0, 0): worker -> handler */
};

struct spawn {
	char *const *argv; /* borrowed, NULL-terminated */
	char *const *envp; /* borrowed, NULL-terminated */
	const char *cwd;   /* borrowed, NULL = stay */
	const int *fds;    /* borrowed: fds[i] becomes fd i of the child; -1 = /dev/null */
	int n_fds;         /* at least 3 */
	enum spawn_group group;
	int pdeathsig; /* 0 = none */
	/* Borrowed: those whose disposition may be another than the default (sig_not_default());
	 * NULL = any. Each one costs a system call in the child. */
	const sigset_t *reset;
	bool set_ids; /* setgroups/setgid/setuid to these, before PDEATHSIG */
	uid_t uid;
	gid_t gid;
	const char *user;  /* borrowed; for initgroups, NULL = no supplementary groups */
	int oom_score_adj; /* written when not 0 */
};

/* Where a start failed, for the message: "exec /usr/bin/nope: No such file or directory". */
enum spawn_step { SPAWN_OK, SPAWN_FIND, SPAWN_FORK, SPAWN_FDS, SPAWN_IDS, SPAWN_CWD, SPAWN_EXEC };

struct child {
	pid_t pid;
	int pidfd; /* owned by the caller, CLOEXEC; readable when the child has died */
};

/*
 * 0 and `child`, or -1 with errno and `step`. A failed child has been reaped already. EAGAIN and
 * ENOMEM of SPAWN_FORK are back-off events, not errors of the program.
 */
int spawn_run(const struct spawn *s, struct child *child, enum spawn_step *step) ATTR_MUST_CHECK;
const char *spawn_step_word(enum spawn_step step);

/* Looks `name` up like the shell does; owned result, NULL with errno. `path` = value of PATH. */
char *spawn_find(const char *name, const char *path);

/* How a child ended. */
struct child_exit {
	bool signaled;
	int code; /* exit status, or the signal */
	bool core;
	int64_t utime_ms; /* rusage of the child and what it waited for */
	int64_t stime_ms;
	int64_t maxrss_kb;
};

/* The child is dead but not reaped: its pid and group id are still pinned. False: it lives (or is
 * no child of ours). Without the times and the memory; those come with child_reap(). */
bool child_is_dead(pid_t pid, struct child_exit *out);
/* Reaps it; after that the pid means nothing. Never waits: -1 with EAGAIN while it lives. */
int child_reap(pid_t pid, struct child_exit *out);
/*
 * SIGKILLs every process that descends from this process but is no child of ours on record: what
 * a dead child left behind and was re-parented to us (PR_SET_CHILD_SUBREAPER). `is_known(arg, pid)`
 * tells our own children; `spare(arg, pid)` (may be NULL) those left alone for now. Dead strangers
 * are reaped. Returns how many were signalled. Waits for their deaths, 20 ms in all at most: a
 * stray's own children come up when it is dead, and are swept, too. After a result that is not 0
 * sweep once more a little later. Main thread only.
 */
int child_sweep_strays(bool (*is_known)(void *arg, pid_t pid), bool (*spare)(void *arg, pid_t pid),
		       void *arg);

#endif
