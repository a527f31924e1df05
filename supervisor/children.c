/* children.c - see children.h. */
#include <sys/prctl.h>
#include <unistd.h>

#include "buf.h"
#include "children.h"
#include "log.h"
#include "readfile.h"
#include "spawn.h"

#define PROC_FILE_MAX (1024 * 1024)

/* A shell that exec'd us may have left its own jobs behind. */
static void note_earlier(struct children *c)
{
	struct buf text = BUF_INIT;
	char *path = xasprintf("/proc/self/task/%d/children", (int)getpid());
	char *p, *end;

	if (readfile(path, PROC_FILE_MAX, &text) == 0) {
		for (p = text.data;; p = end) {
			long pid = strtol(p, &end, 10);

			if (end == p)
				break;
			c->earlier = xrealloc(c->earlier, (c->n_earlier + 1) * sizeof(pid_t));
			c->earlier[c->n_earlier++] = (pid_t)pid;
		}
	}
	free(path);
	buf_release(&text);
}

int children_init(struct children *c)
{
	*c = (struct children){.pid_one = getpid() == 1};
	list_init(&c->known);
	note_earlier(c);
	return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

void children_release(struct children *c)
{
	free(c->earlier);
	c->earlier = NULL;
	c->n_earlier = 0;
}

void children_add(struct children *c, struct child_ref *ref, pid_t pid)
{
	ref->pid = pid;
	list_append(&c->known, &ref->link);
}

void children_remove(struct child_ref *ref)
{
	list_remove(&ref->link);
	ref->pid = 0;
}

static bool is_known(void *arg, pid_t pid)
{
	struct children *c = arg;
	struct list *it;

	list_each (it, &c->known)
		if (list_entry(it, struct child_ref, link)->pid == pid)
			return true;
	return false;
}

/* Every handler is started with REDISQ_ID in its environment, and so is what it starts. */
static bool has_handlers_mark(pid_t pid)
{
	static const char mark[] = "REDISQ_ID=";
	struct buf env = BUF_INIT;
	char *path = xasprintf("/proc/%d/environ", (int)pid);
	bool found = false;

	if (readfile(path, PROC_FILE_MAX, &env) == 0) {
		for (size_t at = 0; at < env.len && !found; at += strlen(env.data + at) + 1)
			found = strncmp(env.data + at, mark, sizeof(mark) - 1) == 0;
	}
	free(path);
	buf_release(&env);
	return found;
}

static bool is_spared(void *arg, pid_t pid)
{
	struct children *c = arg;

	for (size_t i = 0; i < c->n_earlier; i++)
		if (c->earlier[i] == pid)
			return true;
	return c->pid_one && !has_handlers_mark(pid);
}

static bool spare_all(void *arg ATTR_UNUSED, pid_t pid ATTR_UNUSED)
{
	return true;
}

int children_sweep(struct children *c)
{
	int n = child_sweep_strays(is_known, is_spared, c);

	if (n > 0) {
		c->n_killed += n;
		log_debug("killed %d stray process%s that a dead worker left behind", n,
			  n == 1 ? "" : "es");
	}
	return n;
}

void children_reap(struct children *c)
{
	child_sweep_strays(is_known, spare_all, c);
}
