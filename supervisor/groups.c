/* groups.c - see groups.h. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "buf.h"
#include "groups.h"
#include "readfile.h"

#define STAT_MAX 4096

/* Group and session of a process by its name below /proc; false: it has gone. */
static bool read_ids(const char *pid, pid_t *pgid, pid_t *session)
{
	struct buf text = BUF_INIT;
	char path[64], *p = NULL;

	*pgid = *session = 0;
	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	if (readfile(path, STAT_MAX, &text) == 0)
		p = strrchr(text.data, ')'); /* the name before it may hold anything */
	if (p && strlen(p) > 4) {
		strtol(p + 4, &p, 10); /* state, parent */
		*pgid = (pid_t)strtol(p, &p, 10);
		*session = (pid_t)strtol(p, &p, 10);
	}
	buf_release(&text);
	return *session > 0;
}

/* For a group without its leader: the session of any member, 0 = it has none any more. Where /proc
 * tells nothing, `otherwise`. */
static pid_t session_of_members(pid_t pgid, pid_t otherwise)
{
	DIR *dir = opendir("/proc");
	pid_t found = 0, group, session;
	struct dirent *d;

	if (!dir)
		return otherwise;
	while (!found && (d = readdir(dir)))
		if (d->d_name[0] >= '1' && d->d_name[0] <= '9' &&
		    read_ids(d->d_name, &group, &session) && group == pgid)
			found = session;
	closedir(dir);
	return found;
}

static bool is_ours(const struct groups *g, pid_t pgid)
{
	pid_t session;

	if (kill(-pgid, 0) < 0 && errno != EPERM)
		return false;
	session = getsid(pgid);
	if (session < 0)
		session = session_of_members(pgid, g->session);
	return session == g->session;
}

void groups_add(struct groups *g, pid_t pgid)
{
	g->v = xrealloc(g->v, (g->n + 1) * sizeof(pid_t));
	g->v[g->n++] = pgid;
}

bool groups_gone(struct groups *g)
{
	size_t kept = 0;

	for (size_t i = 0; i < g->n; i++)
		if (is_ours(g, g->v[i]))
			g->v[kept++] = g->v[i];
	g->n = kept;
	return kept == 0;
}

void groups_kill(struct groups *g)
{
	if (groups_gone(g))
		return;
	for (size_t i = 0; i < g->n; i++)
		kill(-g->v[i], SIGKILL);
}

void groups_move(struct groups *from, struct groups *to)
{
	INVARIANT(to->n == 0);
	groups_release(to);
	*to = *from;
	*from = (struct groups){0};
}

void groups_release(struct groups *g)
{
	free(g->v);
	*g = (struct groups){0};
}
