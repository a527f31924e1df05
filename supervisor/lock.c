/* lock.c - see lock.h. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "filename.h"
#include "lock.h"
#include "paths.h"
#include "readfile.h"

/* Written beside and renamed: a reader never sees half a number. */
static int write_pid(const char *path)
{
	char *beside = xasprintf("%s.new", path);
	char *text = xasprintf("%d\n", (int)getpid());
	int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	int rc = -1, saved;

	if (fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) &&
	    rename(beside, path) == 0)
		rc = 0;
	saved = errno;
	if (fd >= 0)
		close(fd);
	free(text);
	free(beside);
	errno = saved;
	return rc;
}

static int open_lock(const char *path)
{
	return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

int instance_lock_take(struct instance_lock *l, const char *pid_file, struct err *e)
{
	char *path = xasprintf("%s.lock", pid_file);
	int rc = -1;

	*l = (struct instance_lock){.fd = -1};
	l->fd = open_lock(path);
	if (l->fd < 0) {
		err_set(e, EXIT_CONFIG, "%s: %s; set pid_file to a place that can be written", path,
			strerror(errno));
		goto out;
	}
	if (flock(l->fd, LOCK_EX | LOCK_NB) < 0) {
		int why = errno;
		long pid = (long)readfile_number(pid_file, 0);

		if (why != EWOULDBLOCK)
			err_set(e, EXIT_CONFIG, "%s cannot be locked: %s", path, strerror(why));
		else if (pid > 0)
			err_set(e, EXIT_ALREADY_RUNNING,
				"already running as pid %ld (%s); stop it by redisqctl kill, or "
				"give this one another [supervisor] name",
				pid, pid_file);
		else
			err_set(e, EXIT_ALREADY_RUNNING,
				"already running (%s is locked); stop it by redisqctl kill, or "
				"give this one another [supervisor] name",
				path);
		goto out;
	}
	if (write_pid(pid_file) < 0) {
		err_set(e, EXIT_CONFIG, "%s cannot be written: %s", pid_file, strerror(errno));
		goto out;
	}
	l->pid_file = xstrdup(pid_file);
	rc = 0;
out:
	if (rc < 0 && l->fd >= 0) {
		close(l->fd);
		l->fd = -1;
	}
	free(path);
	return rc;
}

static bool is_at(int fd, const char *path)
{
	struct stat ours, there;

	return fstat(fd, &ours) == 0 && lstat(path, &there) == 0 && ours.st_ino == there.st_ino &&
	       ours.st_dev == there.st_dev;
}

/* A lock on the file that is there now, in place of the one on the file of before. */
static enum instance_lock_is lock_again(struct instance_lock *l, const char *path)
{
	struct paths_who who = paths_self();
	struct err e;
	int fd;

	if (paths_make_parent(&who, path, 0755, &e) < 0) {
		errno = ENOENT;
		return LOCK_FAILS;
	}
	fd = open_lock(path);
	if (fd < 0)
		return LOCK_FAILS;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		close(fd);
		return LOCK_ANOTHERS;
	}
	close(l->fd);
	l->fd = fd;
	return LOCK_MADE_AGAIN;
}

enum instance_lock_is instance_lock_check(struct instance_lock *l)
{
	char *path = xasprintf("%s.lock", l->pid_file);
	enum instance_lock_is is = LOCK_STANDS;

	if (!is_at(l->fd, path))
		is = lock_again(l, path);
	if (is == LOCK_STANDS && access(l->pid_file, F_OK) < 0)
		is = LOCK_MADE_AGAIN;
	if (is == LOCK_MADE_AGAIN && write_pid(l->pid_file) < 0)
		is = LOCK_FAILS;
	free(path);
	return is;
}

void instance_lock_release(struct instance_lock *l)
{
	if (l->fd < 0)
		return;
	if (readfile_number(l->pid_file, 0) == getpid())
		unlink(l->pid_file);
	close(l->fd);
	l->fd = -1;
	free(l->pid_file);
	l->pid_file = NULL;
}

/* Somebody cleaned up below us. False with errno. */
static bool make_again(const char *run_dir)
{
	struct paths_who who = paths_self();
	struct err e;

	if (paths_make(&who, run_dir, 0755, &e) == 0)
		return true;
	errno = ENOENT;
	return false;
}

int slot_lock_open(const char *run_dir, const char *queue, unsigned slot)
{
	struct buf path = BUF_INIT;
	int fd, saved;

	buf_addf(&path, "%s/slot-", run_dir);
	filename_stem(&path, queue);
	buf_addf(&path, "-%u.lock", slot);
	fd = open_lock(path.data);
	if (fd < 0 && errno == ENOENT && make_again(run_dir))
		fd = open_lock(path.data);
	saved = errno;
	buf_release(&path);
	errno = saved;
	return fd;
}

bool slot_lock_is_lost(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_nlink == 0;
}

bool slot_lock_try(int fd)
{
	return flock(fd, LOCK_EX | LOCK_NB) == 0;
}
