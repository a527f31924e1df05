/* lock.c - see lock.h. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "lock.h"

static long read_pid(const char *path)
{
	char text[32];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	return strtol(text, NULL, 10);
}

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
		long pid = read_pid(pid_file);

		if (errno != EWOULDBLOCK)
			err_set(e, EXIT_CONFIG, "%s cannot be locked: %s", path, strerror(errno));
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

static bool is_plain(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '-';
}

int slot_lock_open(const char *run_dir, const char *queue, unsigned slot)
{
	struct buf path = BUF_INIT;
	int fd;

	buf_addf(&path, "%s/slot-", run_dir);
	for (const char *c = queue; *c; c++) {
		if (is_plain((unsigned char)*c))
			buf_addc(&path, *c);
		else
			buf_addf(&path, "%%%02X", (unsigned char)*c);
	}
	buf_addf(&path, "-%u.lock", slot);
	fd = open(path.data, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	buf_release(&path);
	return fd;
}

bool slot_lock_try(int fd)
{
	return flock(fd, LOCK_EX | LOCK_NB) == 0;
}
