/* paths.c - see paths.h. */
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "env.h"
#include "paths.h"
#include "users.h"

struct paths_who paths_self(void)
{
	return (struct paths_who){.uid = geteuid(), .env = environ};
}

/* The value of an environment variable; one that is empty counts as not set. */
static const char *env_get(const struct paths_who *who, const char *name)
{
	const char *v = env_value(who->env, name);

	return v && *v ? v : NULL;
}

/* An XDG directory must be absolute; others are to be ignored, says its specification. */
static const char *env_dir(const struct paths_who *who, const char *name)
{
	const char *v = env_get(who, name);

	return v && v[0] == '/' ? v : NULL;
}

/* systemd gives a list with ':' between; the first is the one. Owned, or NULL. */
static char *systemd_dir(const struct paths_who *who, const char *name)
{
	const char *v = env_dir(who, name);

	return v ? xmemdup0(v, strcspn(v, ":")) : NULL;
}

static char *home(const struct paths_who *who)
{
	const char *v = env_dir(who, "HOME");
	char *dir;

	if (v)
		return xstrdup(v);
	dir = users_home(who->uid);
	if (dir && dir[0] == '/')
		return dir;
	free(dir);
	return xstrdup("/");
}

/* $VAR, or ~/FALLBACK. */
static char *xdg(const struct paths_who *who, const char *var, const char *fallback)
{
	const char *v = env_dir(who, var);
	char *h, *dir;

	if (v)
		return xstrdup(v);
	h = home(who);
	dir = xasprintf("%s/%s", strcmp(h, "/") == 0 ? "" : h, fallback);
	free(h);
	return dir;
}

/* DIR/REST, taking over `dir`. */
static char *below(char *dir, const char *rest)
{
	size_t n = strlen(dir);
	char *path;

	while (n > 0 && dir[n - 1] == '/')
		dir[--n] = '\0';
	path = xasprintf("%s/%s", dir, rest);
	free(dir);
	return path;
}

char *paths_config_file(const struct paths_who *who, const char *name)
{
	char *file = xasprintf("redisq/%s.ini", name);
	char *path = who->uid == 0 ? xasprintf("/etc/%s", file)
				   : below(xdg(who, "XDG_CONFIG_HOME", ".config"), file);

	free(file);
	return path;
}

static char *tmp_run(const struct paths_who *who)
{
	return xasprintf("/tmp/redisq-%lu", (unsigned long)who->uid);
}

char *paths_run_dir(const struct paths_who *who, const char *name)
{
	char *given = systemd_dir(who, "RUNTIME_DIRECTORY");
	const char *v;

	if (given)
		return given;
	if (who->uid == 0)
		return xasprintf("/run/%s", name);
	v = env_dir(who, "XDG_RUNTIME_DIR");
	return below(v ? xstrdup(v) : tmp_run(who), name);
}

char *paths_state_dir(const struct paths_who *who, const char *name)
{
	char *given = systemd_dir(who, "STATE_DIRECTORY");

	if (given)
		return given;
	if (who->uid == 0)
		return xasprintf("/var/lib/%s", name);
	return below(xdg(who, "XDG_STATE_HOME", ".local/state"), name);
}

char *paths_log_dir(const struct paths_who *who, const char *name)
{
	char *given = systemd_dir(who, "LOGS_DIRECTORY");

	if (given)
		return given;
	if (who->uid == 0)
		return xasprintf("/var/log/%s", name);
	return below(paths_state_dir(who, name), "log");
}

char *paths_pid_file(const struct paths_who *who, const char *name)
{
	return below(paths_run_dir(who, name), "supervisor.pid");
}

char *paths_control_socket(const struct paths_who *who, const char *name)
{
	return below(paths_run_dir(who, name), "control.sock");
}

int paths_check_run(const struct paths_who *who, const char *path, struct err *e)
{
	char *top = tmp_run(who);
	size_t n = strlen(top);
	struct stat st;
	int rc = 0;

	if (strncmp(path, top, n) != 0 || (path[n] != '/' && path[n] != '\0'))
		goto out;
	if (lstat(top, &st) < 0) {
		if (errno != ENOENT)
			rc = err_set(e, EXIT_CONFIG, "%s: %s; set XDG_RUNTIME_DIR", top,
				     strerror(errno));
	} else if (!S_ISDIR(st.st_mode)) {
		rc = err_set(e, EXIT_CONFIG,
			     "%s is not a directory; remove it, or set XDG_RUNTIME_DIR", top);
	} else if (st.st_uid != who->uid) {
		rc = err_set(e, EXIT_CONFIG,
			     "%s belongs to uid %lu, not to us; remove it, or set XDG_RUNTIME_DIR",
			     top, (unsigned long)st.st_uid);
	} else if (st.st_mode & 077) {
		rc = err_set(e, EXIT_CONFIG, "%s is open to others (mode %03o); chmod 700 it", top,
			     (unsigned)(st.st_mode & 0777));
	}
out:
	free(top);
	return rc;
}

int paths_make(const struct paths_who *who, const char *dir, mode_t mode, struct err *e)
{
	char *path = xstrdup(dir), *top = tmp_run(who);
	struct stat st;
	int rc = -1;

	for (char *p = path + 1;; p++) {
		char c = *p;

		if (c != '/' && c != '\0')
			continue;
		*p = '\0';
		/* The first one in /tmp is the wall around the rest, whatever mode that has. */
		if (mkdir(path, strcmp(path, top) == 0 ? 0700 : mode) < 0 && errno != EEXIST) {
			int why = errno;

			/* A parent that is there may also answer EROFS or EACCES. */
			if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
				err_set(e, EXIT_CONFIG,
					"cannot make the directory %s: %s; set pid_file, "
					"control_socket, state_dir and log_dir of [supervisor], or "
					"XDG_RUNTIME_DIR, to another place",
					path, strerror(why));
				goto out;
			}
		}
		if (strcmp(path, top) == 0 && paths_check_run(who, path, e) < 0)
			goto out;
		*p = c;
		if (c == '\0')
			break;
	}
	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
		err_set(e, EXIT_CONFIG, "%s is not a directory; remove it or choose another", path);
		goto out;
	}
	rc = 0;
out:
	free(path);
	free(top);
	return rc;
}

int paths_make_parent(const struct paths_who *who, const char *file, mode_t mode, struct err *e)
{
	const char *slash = strrchr(file, '/');
	char *dir;
	int rc;

	if (!slash || slash == file)
		return 0;
	dir = xmemdup0(file, (size_t)(slash - file));
	rc = paths_make(who, dir, mode, e);
	free(dir);
	return rc;
}

char *paths_absolute(const char *path)
{
	char *cwd, *abs;

	if (path[0] == '/')
		return xstrdup(path);
	cwd = getcwd(NULL, 0);
	if (!cwd)
		return NULL;
	while (path[0] == '.' && path[1] == '/')
		path += 2;
	if (strcmp(path, ".") == 0)
		return cwd;
	abs = xasprintf("%s/%s", strcmp(cwd, "/") == 0 ? "" : cwd, path);
	free(cwd);
	return abs;
}

/* The directory of this program, "" when unknown. */
static void own_dir(char out[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
	char *slash;

	out[n > 0 ? n : 0] = '\0';
	/* A deploy that replaced the file leaves " (deleted)" at the end: after the last '/'. */
	slash = strrchr(out, '/');
	if (slash)
		*slash = '\0';
}

char *paths_beside(const char *name, int how)
{
	char dir[PATH_MAX];
	char *path;

	own_dir(dir);
	path = xasprintf("%s/%s", dir, name);
	if (access(path, how) == 0)
		return path;
	free(path);
	path = xasprintf("%s/../lib/redisq/%s", dir, name);
	if (access(path, how) == 0)
		return path;
	free(path);
	return NULL;
}
