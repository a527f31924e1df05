/* oom.c - see oom.h. */
#include <fcntl.h>
#include <unistd.h>

#include "oom.h"
#include "readfile.h"

#define CGROUP_FILE_MAX 4096

/* "0::/system.slice/redisq.service" -> the path of that group's memory.events; NULL = none. */
static char *events_path(void)
{
	struct buf text = BUF_INIT;
	char *line, *path = NULL;

	if (readfile("/proc/self/cgroup", CGROUP_FILE_MAX, &text) < 0)
		return NULL;
	line = strncmp(text.data, "0::", 3) == 0 ? text.data : strstr(text.data, "\n0::");
	if (line) {
		line = strstr(line, "0::") + 3;
		path = xasprintf("/sys/fs/cgroup%.*s/memory.events", (int)strcspn(line, "\n"),
				 line);
	}
	buf_release(&text);
	return path;
}

static int64_t read_count(const struct oom_watch *w)
{
	char text[512];
	ssize_t n = w->fd < 0 ? -1 : pread(w->fd, text, sizeof(text) - 1, 0);
	const char *at;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	at = strstr(text, "oom_kill ");
	return at ? strtoll(at + 9, NULL, 10) : 0;
}

void oom_watch_init(struct oom_watch *w)
{
	char *path = events_path();

	w->fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	w->seen = read_count(w);
	free(path);
}

void oom_watch_release(struct oom_watch *w)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
}

bool oom_watch_grew(struct oom_watch *w)
{
	int64_t now = read_count(w);
	bool grew = now > w->seen;

	w->seen = now;
	return grew;
}
