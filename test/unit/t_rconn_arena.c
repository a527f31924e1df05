/* t_rconn_arena.c - replies of all shapes lie whole in their arena, and leave nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>

#include "buf.h"
#include "rconn_arena.h"

struct scene {
	redisReader *reader;
	struct rconn_arena *arena;
};

static int setup(void **state)
{
	struct scene *s = xcalloc(1, sizeof(*s));

	s->reader = redisReaderCreate();
	s->arena = rconn_arena_new(1000);
	rconn_arena_serve(s->arena, s->reader);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct scene *s = *state;

	if (s->reader)
		redisReaderFree(s->reader);
	rconn_arena_free(s->arena);
	free(s);
	return 0;
}

/* The reply that these bytes make, which arrive in pieces; NULL while it is not whole. */
static const redisReply *feed(struct scene *s, const char *bytes, size_t len, size_t piece)
{
	void *r = NULL;

	for (size_t at = 0; at < len; at += piece) {
		size_t n = len - at < piece ? len - at : piece;

		assert_null(r);
		assert_int_equal(redisReaderFeed(s->reader, bytes + at, n), REDIS_OK);
		assert_int_equal(redisReaderGetReply(s->reader, &r), REDIS_OK);
	}
	return r;
}

static void test_shapes(void **state)
{
	static const char bytes[] =
		"*5\r\n$5\r\na\0b\r\n\r\n:-7\r\n$-1\r\n*2\r\n+OK\r\n*0\r\n*-1\r\n";
	struct scene *s = *state;

	for (size_t piece = 1; piece < sizeof(bytes); piece++) {
		const redisReply *r = feed(s, bytes, sizeof(bytes) - 1, piece);

		assert_non_null(r);
		rconn_arena_look(s->arena);
		assert_int_equal(r->type, REDIS_REPLY_ARRAY);
		assert_int_equal(r->elements, 5);
		assert_int_equal(r->element[0]->type, REDIS_REPLY_STRING);
		assert_int_equal(r->element[0]->len, 5);
		assert_memory_equal(r->element[0]->str, "a\0b\r\n", 6);
		assert_int_equal(r->element[1]->type, REDIS_REPLY_INTEGER);
		assert_int_equal(r->element[1]->integer, -7);
		assert_int_equal(r->element[2]->type, REDIS_REPLY_NIL);
		assert_int_equal(r->element[3]->element[0]->type, REDIS_REPLY_STATUS);
		assert_string_equal(r->element[3]->element[0]->str, "OK");
		assert_int_equal(r->element[3]->element[1]->elements, 0);
		assert_int_equal(r->element[4]->type, REDIS_REPLY_NIL);
		rconn_arena_done(s->arena);
	}
}

/* Larger than a block, and than many; afterwards small ones again. */
static void test_sizes(void **state)
{
	struct scene *s = *state;

	for (size_t n = 1; n < 3000000; n = n * 5 + 1) {
		struct buf bytes = BUF_INIT;
		const redisReply *r;

		buf_addf(&bytes, "*3\r\n$1\r\nx\r\n$%zu\r\n", n);
		for (size_t i = 0; i < n; i++)
			buf_addc(&bytes, (char)('a' + i % 26));
		buf_adds(&bytes, "\r\n-ERR no\r\n");
		r = feed(s, bytes.data, bytes.len, 4096);
		assert_non_null(r);
		rconn_arena_look(s->arena);
		assert_int_equal(r->element[1]->len, n);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(r->element[1]->str[i], 'a' + i % 26);
		assert_int_equal(r->element[2]->type, REDIS_REPLY_ERROR);
		rconn_arena_done(s->arena);
		buf_release(&bytes);
	}
}

static void test_absurd_arrays_are_refused(void **state)
{
	struct scene *s = *state;
	void *r;

	assert_int_equal(redisReaderFeed(s->reader, "*1001\r\n", 7), REDIS_OK);
	assert_int_equal(redisReaderGetReply(s->reader, &r), REDIS_ERR);
}

static void test_a_reader_may_go_while_its_reply_is_looked_at(void **state)
{
	struct scene *s = *state;
	const redisReply *r = feed(s, "$3\r\nabc\r\n", 9, 9);

	rconn_arena_look(s->arena);
	redisReaderFree(s->reader);
	s->reader = NULL;
	rconn_arena_free(s->arena);
	assert_string_equal(r->str, "abc"); /* the sanitizer looks, too */
	rconn_arena_done(s->arena);
	s->arena = NULL;
}

static void test_half_a_reply_leaves_nothing(void **state)
{
	assert_null(feed(*state, "*2\r\n$3\r\nabc\r\n$100000\r\nxyz", 26, 7));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_shapes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sizes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_absurd_arrays_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_reader_may_go_while_its_reply_is_looked_at,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_half_a_reply_leaves_nothing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
