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

int instance_lock_take(struct instance_lock *l, const char *pid_file, struct err *e)
{
	char *path = xasprintf("%s.lock", pid_file);
	int rc = -1;

	*l = (struct instance_lock){.fd = -1};
	l->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
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

void instance_lock_release(struct instance_lock *l)
{
	if (l->fd < 0)
		return;
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
	fd = open(path.data, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 && errno == ENOENT && make_again(run_dir))
		fd = open(path.data, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	saved = errno;
	buf_release(&path);
	errno = saved;
	return fd;
}

bool slot_lock_try(int fd)
{
	return flock(fd, LOCK_EX | LOCK_NB) == 0;
}
