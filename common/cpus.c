/* cpus.c - see cpus.h. */
#include <inttypes.h>
#include <limits.h>
#include <sched.h>

#include "cpus.h"
#include "readfile.h"

#define CPUS_MAX 8192
#define CGROUP_FILE_MAX 4096

int cpus_of_quota(const char *text)
{
	char *end;
	long long quota = strtoll(text, &end, 10), period;

	if (end == text || quota <= 0)
		return 0;
	period = strtoll(end, NULL, 10);
	if (period <= 0)
		return 0;
	quota = quota / period + (quota % period != 0);
	return quota > CPUS_MAX ? CPUS_MAX : (int)quota;
}

static int quota_at(const char *dir, bool v1)
{
	struct buf text = BUF_INIT;
	char path[PATH_MAX];
	int64_t quota;
	int n = 0;

	if (v1) {
		snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", dir);
		quota = readfile_number(path, -1);
		snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", dir);
		/* The form of v2. */
		buf_addf(&text, "%" PRId64 " %" PRId64, quota, readfile_number(path, 0));
		n = cpus_of_quota(text.data);
	} else {
		snprintf(path, sizeof(path), "%s/cpu.max", dir);
		if (readfile(path, CGROUP_FILE_MAX, &text) == 0)
			n = cpus_of_quota(text.data);
	}
	buf_release(&text);
	return n;
}

/* The lowest quota from ROOT/SUB up to ROOT; 0 = none. */
static int lowest_quota(const char *root, const char *sub, bool v1)
{
	struct buf dir = BUF_INIT;
	size_t root_len = strlen(root);
	int lowest = 0;

	buf_adds(&dir, root);
	buf_adds(&dir, sub);
	for (;;) {
		int q = quota_at(dir.data, v1);

		if (q > 0 && (lowest == 0 || q < lowest))
			lowest = q;
		if (dir.len <= root_len)
			break;
		while (dir.len > root_len && dir.data[dir.len - 1] != '/')
			buf_truncate(&dir, dir.len - 1);
		if (dir.len > root_len)
			buf_truncate(&dir, dir.len - 1);
	}
	buf_release(&dir);
	return lowest;
}

/* Whether "cpu,cpuacct" has the word; both empty counts. */
static bool has_controller(const char *names, const char *word)
{
	size_t n = strlen(word);

	for (;;) {
		size_t len = strcspn(names, ",");

		if (len == n && memcmp(names, word, n) == 0)
			return true;
		if (!names[len])
			return false;
		names += len + 1;
	}
}

/* The path of this process in the hierarchy of `controller`; "" is v2 ("0::/path"). */
static bool own_cgroup(char *all, const char *controller, char **path)
{
	char *line = all;

	while (*line) {
		char *end = strchrnul(line, '\n');
		bool last = !*end;
		char *names = strchr(line, ':');

		*end = '\0';
		if (names) {
			char *at = strchr(names + 1, ':');

			if (at) {
				*at = '\0';
				if (has_controller(names + 1, controller)) {
					*path = at + 1;
					return true;
				}
			}
		}
		if (last)
			break;
		line = end + 1;
	}
	return false;
}

static int cgroup_quota(void)
{
	struct buf all = BUF_INIT;
	char *copy, *path;
	int q = 0;

	if (readfile("/proc/self/cgroup", CGROUP_FILE_MAX, &all) == 0) {
		copy = xstrdup(all.data);
		if (own_cgroup(copy, "", &path))
			q = lowest_quota("/sys/fs/cgroup", path, false);
		if (q == 0 && own_cgroup(all.data, "cpu", &path))
			q = lowest_quota("/sys/fs/cgroup/cpu", path, true);
		free(copy);
	}
	buf_release(&all);
	return q;
}

int cpus_available(void)
{
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
	size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
	int n = 1, quota = cgroup_quota();

	if (set && sched_getaffinity(0, size, set) == 0)
		n = CPU_COUNT_S(size, set);
	CPU_FREE(set);
	if (quota > 0 && quota < n)
		n = quota;
	return n < 1 ? 1 : n;
}
