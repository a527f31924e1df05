/* t_rconn_cluster_pick.c - to which node next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>

#include "rconn_cluster_pick.h"

/* Nodes are called by one letter, and their port is 1. */
static void init(struct cluster_pick *p, const char *seeds)
{
	struct redis_cluster c = {.n = strlen(seeds)};
	char names[REDIS_PLACES_MAX][2];

	for (size_t i = 0; i < c.n; i++) {
		snprintf(names[i], sizeof(names[i]), "%c", seeds[i]);
		c.v[i] = (struct redis_place){names[i], 1};
	}
	cluster_pick_init(p, &c);
}

static struct redis_place place_of(char name)
{
	static char text[2];

	text[0] = name;
	return (struct redis_place){text, 1};
}

static bool moved(struct cluster_pick *p, char name)
{
	struct redis_place place = place_of(name);

	return cluster_pick_moved(p, &place);
}

/* "abc": who is visited in the rest of a try in which nobody answers. */
static void assert_rest(struct cluster_pick *p, const char *want)
{
	struct buf been = BUF_INIT;
	const struct redis_place *place;

	while (cluster_pick_has_more(p)) {
		place = cluster_pick_whom(p);
		buf_adds(&been, place->host);
	}
	assert_null(cluster_pick_whom(p));
	assert_string_equal(been.data ? been.data : "", want);
	buf_release(&been);
}

static void assert_try(struct cluster_pick *p, const char *want)
{
	cluster_pick_begin(p);
	assert_rest(p, want);
}

static void assert_next(struct cluster_pick *p, const char *want)
{
	const struct redis_place *place = cluster_pick_whom(p);

	assert_non_null(place);
	assert_string_equal(place->host, want);
}

static void test_seeds_in_turn(void **state)
{
	struct cluster_pick p;

	(void)state;
	init(&p, "abc");
	assert_try(&p, "abc");
	assert_try(&p, "abc");
	cluster_pick_release(&p);
	init(&p, "a");
	assert_try(&p, "a");
	assert_try(&p, "a");
	cluster_pick_release(&p);
}

/* Of many nodes all are asked in the end, though only some in one try. */
static void test_a_try_has_an_end(void **state)
{
	struct cluster_pick p;

	(void)state;
	init(&p, "abcdefgh");
	assert_try(&p, "abcdef");
	assert_try(&p, "ghabcd");
	cluster_pick_release(&p);
}

static void test_hops_where_it_is_sent(void **state)
{
	struct cluster_pick p;

	(void)state;
	init(&p, "ab");
	cluster_pick_begin(&p);
	assert_next(&p, "a");
	assert_true(moved(&p, 'x'));
	assert_next(&p, "x");
	assert_true(moved(&p, 'y'));
	assert_next(&p, "y");
	cluster_pick_proven(&p);
	cluster_pick_begin(&p);
	assert_next(&p, "y"); /* the owner first */
	assert_rest(&p, "bxa");
	cluster_pick_release(&p);
}

/* Two that send to each other, or one that sends to a dead one: the others are asked, too. */
static void test_is_not_sent_in_circles(void **state)
{
	struct cluster_pick p;

	(void)state;
	init(&p, "abc");
	cluster_pick_begin(&p);
	assert_next(&p, "a");
	assert_true(moved(&p, 'x'));
	assert_next(&p, "x"); /* dead, say */
	assert_next(&p, "b");
	assert_false(moved(&p, 'x'));
	assert_next(&p, "c");
	assert_true(moved(&p, 'y'));
	assert_next(&p, "y");
	assert_false(moved(&p, 'a'));
	assert_rest(&p, "");
	cluster_pick_release(&p);
}

/* The owner is dead: two that say that it is there are enough to wait. */
static void test_two_that_agree_end_the_try(void **state)
{
	struct cluster_pick p;

	(void)state;
	init(&p, "abcde");
	cluster_pick_begin(&p);
	assert_next(&p, "a");
	cluster_pick_proven(&p);
	cluster_pick_begin(&p);
	assert_next(&p, "a");
	assert_next(&p, "b");
	assert_false(moved(&p, 'a'));
	assert_next(&p, "c");
	assert_false(moved(&p, 'a'));
	assert_rest(&p, "");
	cluster_pick_begin(&p);
	assert_next(&p, "a");
	assert_next(&p, "d"); /* others this time */
	cluster_pick_release(&p);
}

static void test_never_more_than_five_hops(void **state)
{
	struct cluster_pick p;

	(void)state;
	init(&p, "a");
	cluster_pick_begin(&p);
	assert_next(&p, "a");
	for (char to = 'b'; to < 'g'; to++) {
		char name[2] = {to, '\0'};

		assert_true(moved(&p, to));
		assert_next(&p, name);
	}
	assert_true(moved(&p, 'z'));
	assert_false(cluster_pick_has_more(&p));
	cluster_pick_begin(&p);
	assert_next(&p, "z"); /* where the last one said that it is */
	cluster_pick_release(&p);
}

static void test_stays_where_a_slot_leaves(void **state)
{
	struct cluster_pick p;

	(void)state;
	init(&p, "abc");
	cluster_pick_begin(&p);
	assert_next(&p, "a");
	assert_next(&p, "b");
	cluster_pick_stay(&p);
	assert_false(cluster_pick_has_more(&p));
	assert_try(&p, "bca");
	cluster_pick_release(&p);
}

/* ------------------------------------------------------------------ two links at once */

/* Whoever names it: the first link is there, and gets no answer. */
static void test_the_others_are_asked_without_the_one_that_hangs(void **state)
{
	struct cluster_pick p, scout;

	(void)state;
	init(&p, "abcd");
	cluster_pick_begin(&p);
	assert_next(&p, "a");
	assert_true(moved(&p, 'x'));
	assert_next(&p, "x");
	cluster_pick_init_others(&scout, &p);
	cluster_pick_begin(&scout);
	assert_next(&scout, "b");
	assert_false(moved(&scout, 'x'));
	assert_next(&scout, "c");
	assert_false(moved(&scout, 'x'));
	assert_rest(&scout, "");
	assert_try(&scout, "dabc");
	cluster_pick_begin(&scout);
	assert_next(&scout, "d");
	assert_true(moved(&scout, 'y')); /* promoted */
	assert_next(&scout, "y");
	cluster_pick_proven(&scout);
	cluster_pick_release(&scout);
	assert_rest(&p, "bcd"); /* is as it was */
	cluster_pick_release(&p);
}

static void test_who_was_found_is_next(void **state)
{
	struct redis_place place = place_of('y');
	struct cluster_pick p;

	(void)state;
	init(&p, "ab");
	cluster_pick_begin(&p);
	assert_next(&p, "a");
	cluster_pick_found(&p, &place);
	assert_next(&p, "y");
	cluster_pick_begin(&p);
	assert_next(&p, "y");
	cluster_pick_release(&p);
}

/* It was asked before in this try, and this was the last that it may ask. */
static void test_who_was_found_is_next_in_spite_of_all(void **state)
{
	struct redis_place place = place_of('a');
	struct cluster_pick p;

	(void)state;
	init(&p, "abcdef");
	cluster_pick_begin(&p);
	for (int i = 0; i < CLUSTER_VISITS_MAX; i++)
		assert_non_null(cluster_pick_whom(&p));
	assert_false(cluster_pick_has_more(&p));
	cluster_pick_found(&p, &place);
	assert_true(cluster_pick_has_more(&p));
	assert_rest(&p, "a");
	cluster_pick_release(&p);
}

/* There both links are: nothing is to be done a second time. */
static void test_who_was_found_is_where_we_are(void **state)
{
	struct redis_place place = place_of('a');
	struct cluster_pick p;

	(void)state;
	init(&p, "ab");
	cluster_pick_begin(&p);
	assert_next(&p, "a");
	cluster_pick_found(&p, &place);
	assert_rest(&p, "b");
	assert_try(&p, "ab");
	cluster_pick_release(&p);
}

/* ------------------------------------------------------------------ CLUSTER SLOTS */

static void learn(struct cluster_pick *p, const char *resp)
{
	redisReader *reader = redisReaderCreate();
	void *r = NULL;

	redisReaderFeed(reader, resp, strlen(resp));
	assert_int_equal(redisReaderGetReply(reader, &r), REDIS_OK);
	assert_non_null(r);
	cluster_pick_learn(p, r, "s");
	freeReplyObject(r);
	redisReaderFree(reader);
}

#define RANGE(nodes) "*4\r\n:0\r\n:100\r\n" nodes
#define NODE(host, port) "*3\r\n$1\r\n" host "\r\n:" port "\r\n$2\r\nid\r\n"

static void test_learns_the_others_and_forgets_them(void **state)
{
	struct cluster_pick p;

	(void)state;
	init(&p, "ab");
	learn(&p,
	      "*2\r\n" RANGE(NODE("a", "1") NODE("c", "1")) RANGE(NODE("d", "1") NODE("c", "1")));
	assert_try(&p, "abcd");
	cluster_pick_begin(&p);
	assert_next(&p, "a");
	assert_true(moved(&p, 'd'));
	assert_next(&p, "d");
	cluster_pick_proven(&p);
	/* c has left; the seeds stay, and so does where we are. */
	learn(&p, "*1\r\n" RANGE(NODE("e", "1") NODE("f", "1")));
	assert_int_equal(p.n, 5);
	cluster_pick_begin(&p);
	assert_next(&p, "d");
	assert_rest(&p, "befa");
	cluster_pick_release(&p);
}

static void test_a_node_without_a_host_is_where_we_are(void **state)
{
	struct cluster_pick p;

	(void)state;
	init(&p, "a");
	learn(&p, "*1\r\n" RANGE("*3\r\n$-1\r\n:1\r\n$0\r\n\r\n"
				 "*3\r\n$0\r\n\r\n:2\r\n$0\r\n\r\n"));
	assert_try(&p, "ass");
	cluster_pick_release(&p);
}

static void test_what_is_no_answer_changes_nothing(void **state)
{
	static const char *const answers[] = {
		"-ERR This instance has cluster support disabled\r\n",
		"*0\r\n",
		":1\r\n",
		"*1\r\n:1\r\n",
		"*1\r\n*2\r\n:1\r\n:2\r\n",
		"*1\r\n" RANGE(":1\r\n*0\r\n"),
		"*1\r\n" RANGE("*2\r\n$1\r\n?\r\n:1\r\n"
			       "*2\r\n$1\r\nx\r\n:0\r\n"),
		"*1\r\n" RANGE("*2\r\n$1\r\nx\r\n$1\r\n1\r\n"
			       "*2\r\n$1\r\nx\r\n:65536\r\n"),
		"*1\r\n" RANGE("*2\r\n$1\r\n \r\n:1\r\n"
			       "*2\r\n*0\r\n:1\r\n"),
	};
	struct cluster_pick p;

	(void)state;
	init(&p, "ab");
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		learn(&p, answers[i]);
		assert_int_equal(p.n, 2);
	}
	cluster_pick_release(&p);
}

/* However many there are: bounded, and who is named has room all the same. */
static void test_a_very_large_cluster(void **state)
{
	struct buf text = BUF_INIT;
	struct cluster_pick p;

	(void)state;
	init(&p, "ab");
	buf_adds(&text, "*200\r\n");
	for (int i = 0; i < 200; i++)
		buf_addf(&text, "*3\r\n:1\r\n:2\r\n*2\r\n$3\r\n%03d\r\n:1\r\n", i);
	learn(&p, text.data);
	assert_int_equal(p.n, CLUSTER_NODES_MAX);
	for (char to = 'A'; to <= 'Z'; to++) {
		char name[2] = {to, '\0'};

		cluster_pick_begin(&p);
		assert_non_null(cluster_pick_whom(&p));
		assert_true(moved(&p, to));
		assert_next(&p, name);
		assert_true(p.n <= CLUSTER_NODES_MAX);
		cluster_pick_proven(&p);
	}
	assert_string_equal(p.nodes[0].place.host, "a");
	assert_string_equal(p.nodes[1].place.host, "b");
	cluster_pick_release(&p);
	buf_release(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seeds_in_turn),
		cmocka_unit_test(test_a_try_has_an_end),
		cmocka_unit_test(test_hops_where_it_is_sent),
		cmocka_unit_test(test_is_not_sent_in_circles),
		cmocka_unit_test(test_two_that_agree_end_the_try),
		cmocka_unit_test(test_never_more_than_five_hops),
		cmocka_unit_test(test_stays_where_a_slot_leaves),
		cmocka_unit_test(test_the_others_are_asked_without_the_one_that_hangs),
		cmocka_unit_test(test_who_was_found_is_next),
		cmocka_unit_test(test_who_was_found_is_next_in_spite_of_all),
		cmocka_unit_test(test_who_was_found_is_where_we_are),
		cmocka_unit_test(test_learns_the_others_and_forgets_them),
		cmocka_unit_test(test_a_node_without_a_host_is_where_we_are),
		cmocka_unit_test(test_what_is_no_answer_changes_nothing),
		cmocka_unit_test(test_a_very_large_cluster),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
