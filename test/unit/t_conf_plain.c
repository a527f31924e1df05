/*
 * t_conf_plain.c - conf_read.c on an inih as its authors ship it: no switches to set, lines of 200
 * bytes, " ; ..." cut off values. A parser that does just that is defined here, so that the
 * library's is not linked and its variables stay unknown.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ini.h>

#include "conf_read.h"

#define SHIPPED_MAX_LINE 200

static char *strip(char *s)
{
	size_t n;

	s += strspn(s, " \t\r\n");
	for (n = strlen(s); n > 0 && strchr(" \t\r\n", s[n - 1]); n--)
		s[n - 1] = '\0';
	return s;
}

int ini_parse_stream(ini_reader reader, void *stream, ini_handler handler, void *user)
{
	char line[SHIPPED_MAX_LINE];

	while (reader(line, sizeof(line), stream)) {
		char *start = strip(line), *eq = strchr(start, '='), *cut;

		if (!*start || *start == ';' || *start == '#')
			continue;
		assert_int_not_equal(*start, '['); /* headers are taken before */
		assert_non_null(eq);
		*eq = '\0';
		cut = strstr(eq + 1, " ;");
		if (cut)
			*cut = '\0';
		handler(user, "", strip(start), strip(eq + 1));
	}
	return 0;
}

/* A line "username = uuu..." of `len` bytes, among others that must be read. */
static char *file_with_line(size_t len)
{
	struct buf text = BUF_INIT;

	buf_adds(&text, "# ");
	for (int i = 0; i < 1000; i++)
		buf_addc(&text, 'c');
	buf_adds(&text, "\n[redis]\nusername = ");
	while (len-- > strlen("username = "))
		buf_addc(&text, 'u');
	buf_adds(&text, "\npassword = p;q # r\n[queue ");
	for (int i = 0; i < 100; i++)
		buf_addc(&text, 'q');
	buf_adds(&text, "]\nlease = 9s\n");
	return buf_detach(&text);
}

static void test_lines(void **state)
{
	static const struct {
		size_t len;
		const char *says;
	} cases[] = {
		{100, ""},
		{196, ""},
		{197, "f:3: 197 bytes long; at most 196, shorten it\n"},
		{1000, "f:3: 1000 bytes long; at most 196, shorten it\n"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct conf *c = conf_new();
		struct buf errs = BUF_INIT;
		char *text = file_with_line(cases[i].len);

		assert_int_equal(conf_read_text(c, "f", slice_str(text), &errs),
				 cases[i].says[0] ? -1 : 0);
		assert_string_equal(errs.data, cases[i].says);
		if (!cases[i].says[0])
			assert_int_equal(strlen(conf_redis(c)->username),
					 cases[i].len - strlen("username = "));
		assert_string_equal(conf_redis(c)->password, "p;q # r");
		assert_int_equal(conf_queue_at(c, 0)->lease, 9000);
		assert_int_equal(strlen(conf_queue_at(c, 0)->name), 100);
		free(text);
		buf_release(&errs);
		conf_free(c);
	}
}

static void test_inline_comment(void **state)
{
	struct conf *c = conf_new();
	struct buf errs = BUF_INIT;

	(void)state;
	assert_int_equal(conf_read_text(c, "f",
					slice_str("[redis]\npassword = a ; b\nusername = x\n"),
					&errs),
			 -1);
	assert_string_equal(errs.data, "f:2: this build of inih would cut the value at \" ;\"; "
				       "remove the blank (a password can be in a password_file)\n");
	assert_null(conf_redis(c)->password);
	assert_string_equal(conf_redis(c)->username, "x");
	buf_release(&errs);
	conf_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_inline_comment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
