/* t_cluster.c - slots, and what a node says about places. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cluster.h"
#include "keys.h"

static void test_slots(void **state)
{
	/* As CLUSTER KEYSLOT of Redis 7.0 answers. */
	static const struct {
		const char *key;
		int slot;
	} cases[] = {
		{"123456789", 12739},
		{"video", 5275},
		{"{video}:dead", 5275},
		{"foo{}{bar}", 8363},
		{"foo{bar}x", 5061},
		{"bar", 5061},
		{"", 0},
		{"a{b", 13340},
		{"{a{b}:dead", 13340},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (cluster_slot(cases[i].key) != cases[i].slot)
			fail_msg("%s: %d", cases[i].key, cluster_slot(cases[i].key));
}

/* All keys of a queue, whatever its name, or it would not work in a cluster at all. */
static void test_a_queue_is_in_one_slot(void **state)
{
	static const char *const names[] = {"video", "{a}b", "x{tag}y", "a b", "a{b", "q:1", "{"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		int slot = cluster_slot(names[i]);
		struct keys k;

		assert_int_equal(keys_check_name(names[i], NULL), 0);
		keys_init(&k, names[i]);
		assert_int_equal(cluster_slot(k.dead), slot);
		assert_int_equal(cluster_slot(k.claim), slot);
		assert_int_equal(cluster_slot(k.result), slot);
		assert_int_equal(cluster_slot(k.counters), slot);
		keys_release(&k);
	}
}

static void test_says(void **state)
{
	static const struct {
		const char *error;
		enum cluster_says says;
		const char *host;
		int port, slot;
	} cases[] = {
		{"MOVED 3999 127.0.0.1:6381", CLUSTER_MOVED, "127.0.0.1", 6381, 3999},
		{"MOVED 0 redis-1.local:1", CLUSTER_MOVED, "redis-1.local", 1, 0},
		{"MOVED 16383 ::1:65535", CLUSTER_MOVED, "::1", 65535, 16383},
		{"MOVED 1 fe80::a:b:7000", CLUSTER_MOVED, "fe80::a:b", 7000, 1},
		{"MOVED 3999 :6380", CLUSTER_MOVED, "same", 6380, 3999},
		{"ASK 3999 10.0.0.1:7000", CLUSTER_ASK, "10.0.0.1", 7000, 3999},
		{"MOVED 3999 ?:6380", CLUSTER_OTHER, NULL, 0, 0},
		{"MOVED 3999 h:0", CLUSTER_OTHER, NULL, 0, 0},
		{"MOVED 3999 h:65536", CLUSTER_OTHER, NULL, 0, 0},
		{"MOVED 3999 h:", CLUSTER_OTHER, NULL, 0, 0},
		{"MOVED 3999 h", CLUSTER_OTHER, NULL, 0, 0},
		{"MOVED 3999 h:6x", CLUSTER_OTHER, NULL, 0, 0},
		{"MOVED 16384 h:1", CLUSTER_OTHER, NULL, 0, 0},
		{"MOVED -1 h:1", CLUSTER_OTHER, NULL, 0, 0},
		{"MOVED x h:1", CLUSTER_OTHER, NULL, 0, 0},
		{"MOVED  h:1", CLUSTER_OTHER, NULL, 0, 0},
		{"MOVED h:1", CLUSTER_OTHER, NULL, 0, 0},
		{"MOVED 1 a b:1", CLUSTER_OTHER, NULL, 0, 0},
		{"MOVED", CLUSTER_OTHER, NULL, 0, 0},
		{"MOVED ", CLUSTER_OTHER, NULL, 0, 0},
		{"ASKED 1 h:1", CLUSTER_OTHER, NULL, 0, 0},
		{"TRYAGAIN Multiple keys request during rehashing of slot", CLUSTER_OTHER, NULL, 0,
		 0},
		{"", CLUSTER_OTHER, NULL, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct redis_place place = {0};
		int slot = 0;

		if (cluster_says(cases[i].error, "same", &place, &slot) != cases[i].says)
			fail_msg("%s", cases[i].error);
		if (!cases[i].host) {
			assert_null(place.host);
			continue;
		}
		assert_string_equal(place.host, cases[i].host);
		assert_int_equal(place.port, cases[i].port);
		assert_int_equal(slot, cases[i].slot);
		free(place.host);
	}
}

static void assert_advice(const char *error, bool tls, const char *want)
{
	struct buf text = BUF_INIT;

	cluster_advice(error, "10.0.0.9", tls, &text);
	if (!strstr(text.data, want))
		fail_msg("%s", text.data);
	buf_release(&text);
}

static void test_advice(void **state)
{
	(void)state;
	assert_advice("MOVED 7 10.0.0.5:7000", false,
		      "slot 7 is at another; write url = "
		      "cluster://10.0.0.5:7000");
	assert_advice("MOVED 7 10.0.0.5:7000", true, "clusters://10.0.0.5:7000");
	assert_advice("MOVED 7 :7000", false, "cluster://10.0.0.9:7000");
	assert_advice("MOVED 7 ::1:7000", false, "cluster://[::1]:7000");
	assert_advice("MOVED 7 ?:7000", false, "write url = cluster://host:port");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slots),
		cmocka_unit_test(test_a_queue_is_in_one_slot),
		cmocka_unit_test(test_says),
		cmocka_unit_test(test_advice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
