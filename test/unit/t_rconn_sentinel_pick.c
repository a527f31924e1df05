/* t_rconn_sentinel_pick.c - whom to ask next, and which answer counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>

#include "rconn_sentinel_pick.h"

/* "0 1 2": who is asked in one round, all of them without an answer. */
static void assert_round(struct sentinel_pick *p, const char *want)
{
	struct buf asked = BUF_INIT;
	size_t i;

	sentinel_pick_begin(p);
	while (sentinel_pick_whom(p, &i)) {
		buf_addf(&asked, "%s%zu", asked.len ? " " : "", i);
		sentinel_pick_no_answer(p, SENTINEL_SILENT, "%zu is silent", i);
	}
	assert_string_equal(asked.data, want);
	buf_release(&asked);
}

static void test_each_is_asked_once_a_round(void **state)
{
	struct sentinel_pick p;

	(void)state;
	sentinel_pick_init(&p, 3);
	assert_round(&p, "0 1 2");
	assert_round(&p, "0 1 2");
	sentinel_pick_init(&p, 1);
	assert_round(&p, "0");
	assert_round(&p, "0");
}

static void test_the_one_that_answers_stays_in_front(void **state)
{
	struct sentinel_pick p;
	size_t i;

	(void)state;
	sentinel_pick_init(&p, 3);
	sentinel_pick_begin(&p);
	sentinel_pick_no_answer(&p, SENTINEL_SILENT, "-");
	for (int n = 0; n < 3; n++) { /* of three, 1 answers, again and again */
		assert_true(sentinel_pick_whom(&p, &i));
		assert_int_equal(i, 1);
		sentinel_pick_begin(&p);
	}
}

static void test_the_one_whose_word_led_nowhere_goes_behind(void **state)
{
	struct sentinel_pick p;
	size_t i;

	(void)state;
	sentinel_pick_init(&p, 3);
	sentinel_pick_begin(&p);
	sentinel_pick_rotate(&p);
	assert_round(&p, "1 2 0");
	sentinel_pick_rotate(&p);
	sentinel_pick_rotate(&p);
	assert_round(&p, "0 1 2");
	sentinel_pick_init(&p, 1); /* there is nobody else */
	sentinel_pick_rotate(&p);
	sentinel_pick_begin(&p);
	assert_true(sentinel_pick_whom(&p, &i));
	assert_int_equal(i, 0);
}

/* One that could be asked but did not know says more than one that is dead, whatever the order. */
static void test_what_is_said_of_a_round(void **state)
{
	static const enum sentinel_fault orders[][3] = {
		{SENTINEL_SILENT, SENTINEL_REFUSES, SENTINEL_UNAWARE},
		{SENTINEL_UNAWARE, SENTINEL_REFUSES, SENTINEL_SILENT},
		{SENTINEL_REFUSES, SENTINEL_UNAWARE, SENTINEL_SILENT},
	};
	struct sentinel_pick p;

	(void)state;
	sentinel_pick_init(&p, 3);
	for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
		sentinel_pick_begin(&p);
		for (size_t k = 0; k < 3; k++)
			sentinel_pick_no_answer(&p, orders[i][k], "fault %d", (int)orders[i][k]);
		assert_int_equal(p.fault, SENTINEL_UNAWARE);
		assert_string_equal(p.why, "fault 2");
	}
	sentinel_pick_begin(&p);
	sentinel_pick_no_answer(&p, SENTINEL_SILENT, "a");
	sentinel_pick_no_answer(&p, SENTINEL_REFUSES, "b");
	sentinel_pick_no_answer(&p, SENTINEL_SILENT, "c");
	assert_int_equal(p.fault, SENTINEL_REFUSES);
	assert_string_equal(p.why, "b");
	/* The next round begins with a clean slate. */
	sentinel_pick_begin(&p);
	sentinel_pick_no_answer(&p, SENTINEL_SILENT, "d");
	assert_int_equal(p.fault, SENTINEL_SILENT);
	assert_string_equal(p.why, "d");
}

#define SAID(bytes) bytes, sizeof(bytes) - 1

static void test_answers(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *host; /* NULL: it has none */
		int port;
		enum sentinel_fault fault;
		const char *says;
	} cases[] = {
		{SAID("*2\r\n$8\r\n10.0.0.5\r\n$4\r\n6379\r\n"), "10.0.0.5", 6379, 0, ""},
		{SAID("*2\r\n$3\r\n::1\r\n$5\r\n65535\r\n"), "::1", 65535, 0, ""},
		{SAID("*2\r\n$10\r\nredis.test\r\n$1\r\n1\r\n"), "redis.test", 1, 0, ""},
		{SAID("*-1\r\n"), NULL, 0, SENTINEL_UNAWARE, "knows no master \"m\"; "},
		{SAID("$-1\r\n"), NULL, 0, SENTINEL_UNAWARE, "knows no master \"m\"; "},
		{SAID("*0\r\n"), NULL, 0, SENTINEL_UNAWARE, "knows no master \"m\"; "},
		{SAID("-NOAUTH Authentication required.\r\n"), NULL, 0, SENTINEL_REFUSES,
		 "set sentinel_password"},
		{SAID("-ERR unknown command 'SENTINEL', with args beginning with: 'x'\r\n"), NULL,
		 0, SENTINEL_REFUSES, "is no Sentinel"},
		{SAID("-NOPERM no\r\n"), NULL, 0, SENTINEL_REFUSES, "NOPERM no"},
		{SAID("+OK\r\n"), NULL, 0, SENTINEL_REFUSES, "shape"},
		{SAID(":1\r\n"), NULL, 0, SENTINEL_REFUSES, "shape"},
		{SAID("*1\r\n$1\r\nh\r\n"), NULL, 0, SENTINEL_REFUSES, "shape"},
		{SAID("*3\r\n$1\r\nh\r\n$1\r\n1\r\n$1\r\n1\r\n"), NULL, 0, SENTINEL_REFUSES,
		 "shape"},
		{SAID("*2\r\n$0\r\n\r\n$4\r\n6379\r\n"), NULL, 0, SENTINEL_REFUSES, "shape"},
		{SAID("*2\r\n$3\r\na\nb\r\n$4\r\n6379\r\n"), NULL, 0, SENTINEL_REFUSES, "shape"},
		{SAID("*2\r\n$3\r\na\0b\r\n$4\r\n6379\r\n"), NULL, 0, SENTINEL_REFUSES, "shape"},
		{SAID("*2\r\n$1\r\nh\r\n:6379\r\n"), NULL, 0, SENTINEL_REFUSES, "shape"},
		{SAID("*2\r\n:1\r\n$4\r\n6379\r\n"), NULL, 0, SENTINEL_REFUSES, "shape"},
		{SAID("*2\r\n$1\r\nh\r\n$1\r\n0\r\n"), NULL, 0, SENTINEL_REFUSES, "shape"},
		{SAID("*2\r\n$1\r\nh\r\n$5\r\n65536\r\n"), NULL, 0, SENTINEL_REFUSES, "shape"},
		{SAID("*2\r\n$1\r\nh\r\n$3\r\n12x\r\n"), NULL, 0, SENTINEL_REFUSES, "shape"},
		{SAID("*2\r\n$1\r\nh\r\n$2\r\n-1\r\n"), NULL, 0, SENTINEL_REFUSES, "shape"},
		{SAID("*2\r\n$1\r\nh\r\n$0\r\n\r\n"), NULL, 0, SENTINEL_REFUSES, "shape"},
		{SAID("*2\r\n*-1\r\n*-1\r\n"), NULL, 0, SENTINEL_REFUSES, "shape"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		redisReader *reader = redisReaderCreate();
		struct redis_place place = {0};
		enum sentinel_fault fault = SENTINEL_SILENT;
		char why[160] = "";
		void *r = NULL;

		redisReaderFeed(reader, cases[i].bytes, cases[i].len);
		assert_int_equal(redisReaderGetReply(reader, &r), REDIS_OK);
		assert_non_null(r);
		if (sentinel_answer(r, "m", &place, &fault, why) == 0) {
			if (!cases[i].host)
				fail_msg("%zu: was taken", i);
			assert_string_equal(place.host, cases[i].host);
			assert_int_equal(place.port, cases[i].port);
			free(place.host);
		} else {
			if (cases[i].host || !strstr(why, cases[i].says))
				fail_msg("%zu: says \"%s\"", i, why);
			assert_int_equal(fault, cases[i].fault);
			assert_null(place.host);
		}
		freeReplyObject(r);
		redisReaderFree(reader);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_is_asked_once_a_round),
		cmocka_unit_test(test_the_one_that_answers_stays_in_front),
		cmocka_unit_test(test_the_one_whose_word_led_nowhere_goes_behind),
		cmocka_unit_test(test_what_is_said_of_a_round),
		cmocka_unit_test(test_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
