/* t_group.c - may the queue be served from that stream: groups that are there against the keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "reply_bytes.h"
#include "worker/group.h"

/* As XINFO GROUPS of 7.0 says it; 6.x has no entries-read and no lag. */
#define OURS "*6\r\n$4\r\nname\r\n$6\r\nredisq\r\n$9\r\nconsumers\r\n:1\r\n$7\r\npending\r\n:0\r\n"
#define WORKERS \
	"*8\r\n$4\r\nname\r\n$7\r\nworkers\r\n$9\r\nconsumers\r\n:2\r\n$7\r\npending\r\n:12\r\n" \
	"$17\r\nlast-delivered-id\r\n$3\r\n0-0\r\n"
#define NONE "*0\r\n"
#define NO_STREAM "-ERR no such key\r\n"

static struct group_answer decide(const char *groups, int start, int on_done, struct buf *why)
{
	char name[] = "video";
	char group[] = "redisq";
	struct conf_queue q = {.name = name, .group = group, .start = start, .on_done = on_done};
	redisReply *r = reply_of(groups, strlen(groups));
	struct group_answer a = group_decide(r, &q, 7, why);

	freeReplyObject(r);
	return a;
}

static void test_table(void **state)
{
	enum { AUTO = CONF_START_AUTO, ZERO = CONF_START_BEGIN, END = CONF_START_END };
	enum { DEL = CONF_DONE_DELETE, ACK = CONF_DONE_ACK };
	static const struct {
		const char *groups;
		int start, on_done;
		enum group_what what;
		bool at_end;
	} cases[] = {
		{NO_STREAM, AUTO, DEL, GROUP_CREATE, false},
		{NO_STREAM, ZERO, DEL, GROUP_CREATE, false},
		{NO_STREAM, END, DEL, GROUP_CREATE, true},
		{NONE, AUTO, DEL, GROUP_CREATE, false},
		{NONE, END, ACK, GROUP_CREATE, true},
		/* Ours is there: where it starts does not matter any more. */
		{"*1\r\n" OURS, AUTO, DEL, GROUP_USE, false},
		{"*1\r\n" OURS, END, DEL, GROUP_USE, false},
		{"*1\r\n" OURS, ZERO, ACK, GROUP_USE, false},
		/* Another's entries are neither taken nor deleted by surprise. */
		{"*1\r\n" WORKERS, AUTO, DEL, GROUP_REFUSE, false},
		{"*1\r\n" WORKERS, AUTO, ACK, GROUP_REFUSE, false},
		{"*1\r\n" WORKERS, ZERO, DEL, GROUP_REFUSE, false},
		{"*1\r\n" WORKERS, END, DEL, GROUP_REFUSE, false},
		{"*1\r\n" WORKERS, ZERO, ACK, GROUP_CREATE, false},
		{"*1\r\n" WORKERS, END, ACK, GROUP_CREATE, true},
		{"*2\r\n" OURS WORKERS, AUTO, DEL, GROUP_REFUSE, false},
		{"*2\r\n" WORKERS OURS, ZERO, DEL, GROUP_REFUSE, false},
		{"*2\r\n" OURS WORKERS, AUTO, ACK, GROUP_USE, false},
		{"*2\r\n" WORKERS OURS, AUTO, ACK, GROUP_USE, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf why = BUF_INIT;
		struct group_answer a =
			decide(cases[i].groups, cases[i].start, cases[i].on_done, &why);

		assert_int_equal(a.what, cases[i].what);
		if (a.what == GROUP_CREATE)
			assert_int_equal(a.at_end, cases[i].at_end);
		/* Said if and only if it is refused. */
		assert_int_equal(why.len > 0, a.what == GROUP_REFUSE);
		buf_release(&why);
	}
}

static void test_what_is_said(void **state)
{
	struct buf why = BUF_INIT;

	(void)state;
	decide("*1\r\n" WORKERS, CONF_START_AUTO, CONF_DONE_DELETE, &why);
	assert_string_equal(
		why.data, "stream already has 7 entries and group \"workers\" (pending 12); set "
			  "group=workers to continue there, or start = $ or 0 with on_done = ack");
	buf_clear(&why);
	decide("*2\r\n" OURS WORKERS, CONF_START_AUTO, CONF_DONE_DELETE, &why);
	assert_non_null(strstr(why.data, "also has the group \"workers\""));
	assert_non_null(strstr(why.data, "on_done = ack"));
	buf_release(&why);
}

/* A group whose description is not understood is another's. */
static void test_other_shapes(void **state)
{
	struct buf why = BUF_INIT;

	(void)state;
	assert_int_equal(decide("*1\r\n:5\r\n", CONF_START_AUTO, CONF_DONE_DELETE, &why).what,
			 GROUP_REFUSE);
	assert_int_equal(
		decide("*1\r\n*1\r\n$4\r\nname\r\n", CONF_START_AUTO, CONF_DONE_DELETE, &why).what,
		GROUP_REFUSE);
	buf_release(&why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_what_is_said),
		cmocka_unit_test(test_other_shapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
