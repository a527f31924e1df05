/* t_ctl_spread.c - which nodes the partitions of a queue are at, and how many would be better. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/partition.h"
#include "supervisor/ctl/spread.h"

/* As redis-cli --cluster create shares them out. */
static struct spread *shared(int n_nodes)
{
	struct spread *s = xcalloc(1, sizeof(*s));

	memset(s->node_of, 0xff, sizeof(s->node_of));
	for (int i = 0; i < n_nodes; i++)
		assert_true(spread_add(s, i, CLUSTER_SLOTS * i / n_nodes,
				       CLUSTER_SLOTS * (i + 1) / n_nodes - 1));
	return s;
}

static void test_a_node_with_none_or_more_than_half_as_much_again_as_its_share(void **state)
{
	(void)state;
	assert_false(spread_is_lopsided((int[]){1, 1, 1}, 3, 3));
	assert_true(spread_is_lopsided((int[]){2, 1, 0}, 3, 3));
	assert_false(spread_is_lopsided((int[]){1, 1, 2}, 3, 4));
	assert_true(spread_is_lopsided((int[]){1, 1, 3}, 3, 5));
	assert_true(spread_is_lopsided((int[]){1, 1, 4}, 3, 6));
	assert_false(spread_is_lopsided((int[]){2, 2, 4}, 3, 8));
	assert_true(spread_is_lopsided((int[]){3, 1, 1, 1}, 4, 6));
	assert_false(spread_is_lopsided((int[]){3, 1}, 2, 4));
	assert_false(spread_is_lopsided((int[]){3}, 1, 3));
}

static void test_a_number_that_is_spread_more_evenly(void **state)
{
	struct spread *s = shared(3);

	(void)state;
	assert_int_equal(spread_better(s, "video", 3), 4);
	assert_int_equal(spread_better(s, "video", 5), 8); /* of six it is 1, 1 and 4 */
	assert_int_equal(spread_better(s, "video", 64), 0);
	free(s);
	s = shared(64); /* of 64 names some node has none */
	assert_int_equal(spread_better(s, "video", 3), 0);
	free(s);
}

static void test_what_the_readme_says_of_video_on_three_nodes_is_so(void **state)
{
	static const struct {
		int n_parts;
		int n[3];
	} cases[] = {{3, {1, 0, 2}}, {4, {1, 1, 2}}, {6, {1, 1, 4}}, {24, {9, 6, 9}}};
	struct spread *s = shared(3);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int n[3] = {0};

		for (int k = 0; k < cases[i].n_parts; k++) {
			char *name = partition_stream("video", k, cases[i].n_parts);

			n[s->node_of[cluster_slot(name)]]++;
			free(name);
		}
		assert_memory_equal(n, cases[i].n, sizeof(n));
	}
	free(s);
}

static void test_no_slots(void **state)
{
	struct spread s = {0};

	(void)state;
	assert_false(spread_add(&s, 0, -1, -1));
	assert_false(spread_add(&s, 0, 5, 4));
	assert_false(spread_add(&s, 0, 0, CLUSTER_SLOTS));
	assert_false(spread_add(&s, -1, 0, 1));
	assert_int_equal(s.n_nodes, 0);
	assert_int_equal(spread_better(&s, "video", 3), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_a_node_with_none_or_more_than_half_as_much_again_as_its_share),
		cmocka_unit_test(test_a_number_that_is_spread_more_evenly),
		cmocka_unit_test(test_what_the_readme_says_of_video_on_three_nodes_is_so),
		cmocka_unit_test(test_no_slots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
