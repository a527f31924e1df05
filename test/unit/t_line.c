/* t_line.c - line framing: however the bytes arrive, the same lines come out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "backoff.h"
#include "line.h"

/* Writes what comes out as "text\n", a piece that goes on as "text+". */
static void record(void *arg, struct slice text, bool more)
{
	buf_add(arg, text.data, text.len);
	buf_addc(arg, more ? '+' : '\n');
}

static const struct {
	size_t max;
	const char *in, *out;
} cases[] = {
	{10, "", ""},
	{10, "a\nb\n", "a\nb\n"},
	{10, "a\nb", "a\nb\n"},
	{10, "\n\n", "\n\n"},
	{10, "a\r\n", "a\r\n"},
	{4, "abcd\nx\n", "abcd\nx\n"}, /* exactly the limit is one line */
	{4, "abcde\n", "abcd+e\n"},
	{4, "abcdefgh\n", "abcd+efgh\n"},
	{4, "abcdefghi", "abcd+efgh+i\n"},
	{4, "abcd", "abcd\n"},
	{1, "ab\n\nc", "a+b\n\nc\n"},
};

/* Feeds `in` in steps of `step` bytes. */
static void run(size_t max, const char *in, size_t step, struct buf *out)
{
	size_t len = strlen(in);
	struct line l;

	line_init(&l, max);
	for (size_t at = 0; at < len; at += step)
		line_feed(&l, in + at, step < len - at ? step : len - at, record, out);
	line_flush(&l, record, out);
	line_flush(&l, record, out);
	line_release(&l);
}

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (size_t step = 1; step < 12; step++) {
			struct buf out = BUF_INIT;

			run(cases[i].max, cases[i].in, step, &out);
			assert_string_equal(out.data, cases[i].out);
			buf_release(&out);
		}
}

static void keep(void *arg, struct slice text, bool more)
{
	buf_add(arg, text.data, text.len);
	if (!more)
		buf_addc(arg, '\n');
}

/* Random bytes in random chunks: nothing is lost, added or split but at the limit. */
static void test_random(void **state)
{
	struct buf in = BUF_INIT, out = BUF_INIT;
	struct rng r;
	struct line l;

	(void)state;
	rng_seed(&r, 7);
	for (int i = 0; i < 200000; i++)
		buf_addc(&in, rng_below(&r, 50) ? (char)rng_below(&r, 256) : '\n');
	buf_addc(&in, '\n');
	line_init(&l, 37);
	for (size_t at = 0; at < in.len;) {
		size_t n = (size_t)rng_below(&r, 300) + 1;

		if (n > in.len - at)
			n = in.len - at;
		line_feed(&l, in.data + at, n, keep, &out);
		assert_true(l.carry.len <= 37);
		at += n;
	}
	assert_int_equal(out.len, in.len);
	assert_memory_equal(out.data, in.data, in.len);
	line_release(&l);
	buf_release(&in);
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
