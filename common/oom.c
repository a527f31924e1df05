/* oom.c - see oom.h. */
#include <fcntl.h>
#include <unistd.h>

#include "oom.h"
#include "readfile.h"

#define CGROUP_FILE_MAX 65536
#define MOUNTINFO_MAX (1024 * 1024)

static const char *next_line(const char *line)
{
	line += strcspn(line, "\n");
	return *line ? line + 1 : NULL;
}

/* Whether `word` is one of the words between commas. */
static bool has_word(struct slice list, const char *word)
{
	while (list.len > 0) {
		const char *comma = memchr(list.data, ',', list.len);
		size_t n = comma ? (size_t)(comma - list.data) : list.len;

		if (slice_eq_str(slice_of(list.data, n), word))
			return true;
		n += comma != NULL;
		list = slice_of(list.data + n, list.len - n);
	}
	return false;
}

/* "4:memory:/path" (v1) or "0::/path" (v2): the path of our group; v1 where the controller is in
 * both, for it is bound to one only. */
static struct slice own_group(const char *cgroup, bool *v1)
{
	struct slice path = {0};

	*v1 = false;
	for (const char *line = cgroup; line && *line; line = next_line(line)) {
		const char *list = line + strcspn(line, ":\n"), *at;

		if (*list != ':')
			continue;
		list++;
		at = list + strcspn(list, ":\n");
		if (*at != ':')
			continue;
		if (has_word(slice_of(list, (size_t)(at - list)), "memory")) {
			*v1 = true;
			return slice_of(at + 1, strcspn(at + 1, "\n"));
		}
		if (at == list)
			path = slice_of(at + 1, strcspn(at + 1, "\n"));
	}
	return path;
}

/* The words of a line of mountinfo: 3 the root within the file system, 4 the mount point; after
 * " - " the type, the source and the options. */
static bool read_mount(const char *line, struct slice *root, struct slice *point,
		       struct slice *type, struct slice *options)
{
	struct slice word[64];
	size_t n = 0, dash = 0;

	for (const char *p = line; *p && *p != '\n' && n < ARRAY_LEN(word);) {
		size_t len = strcspn(p, " \n");

		word[n] = slice_of(p, len);
		if (!dash && n > 5 && slice_eq_str(word[n], "-"))
			dash = n;
		n++;
		p += len + (p[len] == ' ');
	}
	if (!dash || n < dash + 4)
		return false;
	*root = word[3];
	*point = word[4];
	*type = word[dash + 1];
	*options = word[dash + 3];
	return true;
}

char *oom_file(const char *cgroup, const char *mountinfo)
{
	bool v1;
	struct slice group = own_group(cgroup, &v1), root, point, type, options;

	for (const char *line = mountinfo; group.len && line && *line; line = next_line(line)) {
		if (!read_mount(line, &root, &point, &type, &options) ||
		    !slice_eq_str(type, v1 ? "cgroup" : "cgroup2") ||
		    (v1 && !has_word(options, "memory")))
			continue;
		if (root.len > 1 && root.len <= group.len &&
		    memcmp(root.data, group.data, root.len) == 0)
			group = slice_of(group.data + root.len, group.len - root.len);
		return xasprintf("%.*s%.*s/%s", (int)point.len, point.data,
				 slice_eq_str(group, "/") ? 0 : (int)group.len, group.data,
				 v1 ? "memory.oom_control" : "memory.events");
	}
	return NULL;
}

int64_t oom_watch_count(const struct oom_watch *w)
{
	char text[512];
	ssize_t n = w->fd < 0 ? -1 : pread(w->fd, text, sizeof(text) - 1, 0);
	const char *at;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	at = strstr(text, "oom_kill "); /* not oom_kill_disable, which v1 has, too */
	return at ? strtoll(at + 9, NULL, 10) : 0;
}

void oom_watch_open(struct oom_watch *w, const char *path)
{
	w->fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	w->seen = w->look = oom_watch_count(w);
}

void oom_watch_init(struct oom_watch *w)
{
	struct buf cgroup = BUF_INIT, mounts = BUF_INIT;
	char *path = NULL;

	if (readfile("/proc/self/cgroup", CGROUP_FILE_MAX, &cgroup) == 0 &&
	    readfile("/proc/self/mountinfo", MOUNTINFO_MAX, &mounts) == 0)
		path = oom_file(cgroup.data, mounts.data);
	oom_watch_open(w, path);
	free(path);
	buf_release(&cgroup);
	buf_release(&mounts);
}

void oom_watch_release(struct oom_watch *w)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
}

void oom_watch_look(struct oom_watch *w)
{
	w->seen = max_i64(w->seen, w->look);
	w->look = oom_watch_count(w);
}

bool oom_watch_explains(struct oom_watch *w)
{
	if (oom_watch_count(w) <= w->seen)
		return false;
	w->seen++;
	return true;
}
