/* t_kind.c - what lies in the keys of a queue, and what is to be done where it is of the other
 * kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kind.h"

static struct keys keys;

static size_t row_of(const char *key)
{
	for (size_t row = 0; row < KIND_KEYS; row++)
		if (strcmp(kind_key(&keys, row), key) == 0)
			return row;
	fail_msg("%s is no row", key);
	return 0;
}

/* `there`: key, type, ... up to NULL. */
static void is_said(bool as_list, const char *const *there, const char *want)
{
	struct kind_found found = {0};
	struct buf what = BUF_INIT, cure = BUF_INIT;

	for (; *there; there += 2)
		kind_note(&found, row_of(there[0]), slice_str(there[1]));
	assert_int_equal(kind_conflict(&found, as_list, &keys, &what, &cure), want[0] != '\0');
	if (what.len)
		buf_addf(&what, "; %s", cure.data);
	assert_string_equal(what.len ? what.data : "", want);
	buf_release(&what);
	buf_release(&cure);
}

#define SAID(as_list, want, ...) is_said(as_list, (const char *const[]){__VA_ARGS__, NULL}, want)
#define AS_STREAM false
#define AS_LIST true
#define MORE "to change it, empty it first: see backend in redisq.ini(5)"

static void test_what_is_of_its_kind_is_fine(void **state)
{
	(void)state;
	SAID(AS_STREAM, "", "q", "none", "{q}:dead", "none");
	SAID(AS_STREAM, "", "q", "stream", "{q}:dead", "stream", "{q}:held", "stream",
	     "{q}:delayed", "zset");
	SAID(AS_LIST, "", "q", "none", "{q}:dead", "none");
	SAID(AS_LIST, "", "q", "list", "{q}:dead", "zset", "{q}:held", "zset", "{q}:tasks", "hash",
	     "{q}:owners", "hash", "{q}:pending", "zset", "{q}:arrived", "list", "{q}:last_id",
	     "string", "{q}:delayed", "zset");
	SAID(AS_LIST, "", "q", "", "{q}:dead", ""); /* it was not told */
}

static void test_what_is_neither_s_is_another_s_matter(void **state)
{
	(void)state;
	SAID(AS_STREAM, "q is a hash, not a stream; choose another queue name", "q", "hash");
	SAID(AS_LIST, "q is a ReJSON-RL, not a list; choose another queue name", "q", "ReJSON-RL");
	/* Said when it is met: it may be mended while the workers go on. */
	SAID(AS_STREAM, "", "q", "stream", "{q}:dead", "string");
	SAID(AS_LIST, "", "q", "list", "{q}:tasks", "string");
}

static void test_a_list_where_a_stream_is_to_be(void **state)
{
	(void)state;
	SAID(AS_STREAM,
	     "q is a list, not a stream; set backend = list; or producers must XADD, not LPUSH",
	     "q", "list");
	SAID(AS_STREAM,
	     "q is a list, not a stream; producers must XADD, not LPUSH: move what they added "
	     "away, RENAME q {q}:aside",
	     "q", "list", "{q}:dead", "stream");
	SAID(AS_STREAM, "q is a list, not a stream; set backend = list; " MORE, "q", "list",
	     "{q}:last_id", "string");
}

static void test_what_a_list_has_left_where_a_stream_is_to_be(void **state)
{
	(void)state;
	SAID(AS_STREAM,
	     "q was served as a list ({q}:last_id); set backend = list; or, as it is empty, "
	     "stop "
	     "its workers and DEL {q}:last_id {q}:counters",
	     "{q}:last_id", "string");
	SAID(AS_STREAM, "q was served as a list ({q}:last_id); set backend = list; " MORE,
	     "{q}:last_id", "string", "{q}:delayed", "zset");
	SAID(AS_STREAM,
	     "q was served as a list ({q}:dead, {q}:owners, {q}:last_id); set backend = "
	     "list; " MORE,
	     "{q}:owners", "hash", "{q}:last_id", "string", "{q}:dead", "zset");
	SAID(AS_STREAM,
	     "q was served as a list ({q}:last_id); stop its workers and DEL {q}:last_id "
	     "{q}:counters",
	     "q", "stream", "{q}:last_id", "string");
	SAID(AS_STREAM,
	     "q was served as a list ({q}:dead, {q}:last_id); RENAME q {q}:aside and set "
	     "backend = list; " MORE,
	     "q", "stream", "{q}:dead", "zset", "{q}:last_id", "string");
}

static void test_a_stream_where_a_list_is_to_be(void **state)
{
	(void)state;
	SAID(AS_LIST, "q is a stream, not a list; set backend = stream; " MORE, "q", "stream",
	     "{q}:dead", "stream");
	SAID(AS_LIST,
	     "q is a stream, not a list; producers must LPUSH, not XADD: move what they added "
	     "away, RENAME q {q}:aside",
	     "q", "stream", "{q}:last_id", "string");
	SAID(AS_LIST, "q was served as a stream ({q}:dead, {q}:held); set backend = stream; " MORE,
	     "{q}:dead", "stream", "{q}:held", "stream");
	SAID(AS_LIST,
	     "q was served as a stream ({q}:held); RENAME q {q}:aside and set backend = "
	     "stream; " MORE,
	     "q", "list", "{q}:held", "stream");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_of_its_kind_is_fine),
		cmocka_unit_test(test_what_is_neither_s_is_another_s_matter),
		cmocka_unit_test(test_a_list_where_a_stream_is_to_be),
		cmocka_unit_test(test_what_a_list_has_left_where_a_stream_is_to_be),
		cmocka_unit_test(test_a_stream_where_a_list_is_to_be),
	};
	int rc;

	keys_init(&keys, "q");
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	keys_release(&keys);
	return rc;
}
