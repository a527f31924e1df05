/* earlier.c - see earlier.h. */
#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include "buf.h"
#include "earlier.h"
#include "log.h"
#include "readfile.h"

#define STAT_MAX 4096
#define PATH_BYTES 4096

/* Parent and session; false: it has gone. */
static bool read_ids(pid_t pid, pid_t *parent, pid_t *session)
{
	struct buf text = BUF_INIT;
	char path[64], *p = NULL;

	*parent = *session = 0;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (readfile(path, STAT_MAX, &text) == 0)
		p = strrchr(text.data, ')'); /* the name before it may hold anything */
	if (p && strlen(p) > 4) {
		*parent = (pid_t)strtol(p + 4, &p, 10);
		strtol(p, &p, 10); /* group */
		*session = (pid_t)strtol(p, &p, 10);
	}
	buf_release(&text);
	return *session > 0;
}

/* Where a descriptor leads; by the link, for a look at the file may hang with its server. */
static bool target(const char *link, char out[PATH_BYTES])
{
	ssize_t n = readlink(link, out, PATH_BYTES - 1);

	out[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static bool has_open(pid_t pid, const char *file)
{
	char dir_path[64], link[128], at[PATH_BYTES];
	struct dirent *d;
	bool found = false;
	DIR *dir;

	snprintf(dir_path, sizeof(dir_path), "/proc/%d/fd", (int)pid);
	dir = opendir(dir_path);
	if (!dir)
		return false;
	while (!found && (d = readdir(dir))) {
		snprintf(link, sizeof(link), "%s/%.20s", dir_path, d->d_name);
		found = d->d_name[0] != '.' && target(link, at) && strcmp(at, file) == 0;
	}
	closedir(dir);
	return found;
}

/* A supervisor has the file open as well, and is none. */
static bool is_worker(pid_t pid)
{
	static const char mark[] = "\0--supervised"; /* an argument of its own, see proc_spawn.c */
	struct buf args = BUF_INIT;
	char path[64];
	bool is;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	is = readfile(path, PATH_BYTES, &args) == 0 &&
	     memmem(args.data, args.len, mark, sizeof(mark));
	buf_release(&args);
	return is;
}

/* Calls `fn` for each process; the sum of what it answers. */
static int for_each(int (*fn)(pid_t pid, const void *arg), const void *arg)
{
	DIR *dir = opendir("/proc");
	struct dirent *d;
	int sum = 0;

	if (!dir)
		return 0;
	while ((d = readdir(dir)))
		if (d->d_name[0] >= '1' && d->d_name[0] <= '9')
			sum += fn((pid_t)strtol(d->d_name, NULL, 10), arg);
	closedir(dir);
	return sum;
}

static int kill_if_of_session(pid_t pid, const void *arg)
{
	const pid_t *wanted = arg;
	pid_t parent, session;

	return read_ids(pid, &parent, &session) && session == *wanted && kill(pid, SIGKILL) == 0;
}

static int kill_if_left(pid_t pid, const void *arg)
{
	pid_t parent, session;

	if (!has_open(pid, arg) || !is_worker(pid) || !read_ids(pid, &parent, &session) ||
	    has_open(parent, arg) || kill(pid, SIGKILL) < 0)
		return 0;
	log_warning("worker %d of an earlier supervisor did not leave: SIGKILL", (int)pid);
	if (session == pid)
		for_each(kill_if_of_session, &session);
	return 1;
}

int earlier_kill(int fd)
{
	char link[64], file[PATH_BYTES];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return target(link, file) ? for_each(kill_if_left, file) : 0;
}
