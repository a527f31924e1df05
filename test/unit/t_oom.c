/* t_oom.c - where the counter of killed processes is, and which death it explains. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <unistd.h>

#include "oom.h"

#define V2_MOUNT "24 30 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNT \
	"33 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" \
	"34 25 0:29 / /sys/fs/cgroup/memory rw shared:9 master:2 - cgroup cgroup rw,memory\n" \
	"35 25 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

static void test_where_the_counter_is(void **state)
{
	static const struct {
		const char *cgroup, *mounts, *want;
	} cases[] = {
		{"0::/system.slice/redisq.service\n", V2_MOUNT,
		 "/sys/fs/cgroup/system.slice/redisq.service/memory.events"},
		{"0::/\n", V2_MOUNT, "/sys/fs/cgroup/memory.events"},
		/* hybrid: the memory controller is in the old hierarchy */
		{"5:cpu,cpuacct:/x\n4:memory:/a/b\n0::/u\n", V1_MOUNT,
		 "/sys/fs/cgroup/memory/a/b/memory.oom_control"},
		{"0::/u\n4:foo,memory:/a\n", V1_MOUNT,
		 "/sys/fs/cgroup/memory/a/memory.oom_control"},
		/* ... or in the new one, mounted apart */
		{"5:cpu,cpuacct:/x\n0::/u\n", V1_MOUNT, "/sys/fs/cgroup/unified/u/memory.events"},
		/* a container that sees its own branch under the host's name, or under its own */
		{"4:memory:/docker/1f\n0::/\n",
		 "40 39 0:29 /docker/1f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
		 "/sys/fs/cgroup/memory/memory.oom_control"},
		{"4:memory:/\n0::/\n",
		 "40 39 0:29 /docker/1f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
		 "/sys/fs/cgroup/memory/memory.oom_control"},
		{"0::/u\n", "21 1 0:3 / /proc rw - proc proc rw\n", NULL},
		{"0::/u", "", NULL},
		{"", V2_MOUNT, NULL},
		{"garbage\n:\n1:\n", V1_MOUNT, NULL},
		{"0::/u\n", "1 2 3\n - - -\n24 30 0:26 / /x rw - cgroup2\n", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *got = oom_file(cases[i].cgroup, cases[i].mounts);

		if (cases[i].want)
			assert_string_equal(got, cases[i].want);
		else
			assert_null(got);
		free(got);
	}
}

static void put_count(const char *path, int n)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fprintf(f, "oom_kill_disable 0\nunder_oom 0\noom_kill %d\n", n);
	assert_int_equal(fclose(f), 0);
}

static void test_each_kill_explains_one_death_near_to_it(void **state)
{
	char path[] = "/tmp/t_oom.XXXXXX";
	struct oom_watch w;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	put_count(path, 7);
	oom_watch_open(&w, path);
	assert_int_equal(oom_watch_count(&w), 7);
	assert_false(oom_watch_explains(&w)); /* those of before us */
	put_count(path, 9);
	assert_true(oom_watch_explains(&w));
	assert_true(oom_watch_explains(&w));
	assert_false(oom_watch_explains(&w));
	put_count(path, 10);
	oom_watch_look(&w); /* between the kill and the news of the death */
	assert_true(oom_watch_explains(&w));
	put_count(path, 11); /* a handler, say */
	oom_watch_look(&w);
	oom_watch_look(&w);
	assert_false(oom_watch_explains(&w)); /* what dies now dies of something else */
	oom_watch_release(&w);

	oom_watch_open(&w, NULL);
	oom_watch_look(&w);
	assert_false(oom_watch_explains(&w));
	oom_watch_release(&w);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_where_the_counter_is),
		cmocka_unit_test(test_each_kill_explains_one_death_near_to_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
