/* t_reply.c - what Redis says, taken apart: kinds of errors, numbers, entries, fields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "reply_bytes.h"
#include "worker/reply.h"

static void test_kinds(void **state)
{
	static const struct {
		const char *error;
		enum reply_kind kind;
	} cases[] = {
		/* As 7.0 says it. */
		{"NOGROUP No such key 'q' or consumer group 'redisq' in XREADGROUP with GROUP "
		 "option",
		 REPLY_NOGROUP},
		{"UNBLOCKED the stream key no longer exists", REPLY_AGAIN},
		{"UNBLOCKED client unblocked via CLIENT UNBLOCK", REPLY_WAIT},
		{"UNBLOCKED force unblock from blocking operation, instance state changed (master "
		 "-> "
		 "replica?)",
		 REPLY_REDIRECT},
		{"READONLY You can't write against a read only replica.", REPLY_REDIRECT},
		{"MOVED 866 127.0.0.1:7002", REPLY_MOVED},
		{"ASK 866 127.0.0.1:7002", REPLY_MOVING},
		{"CROSSSLOT Keys in request don't hash to the same slot", REPLY_WRONGTYPE},
		{"LOADING Redis is loading the dataset in memory", REPLY_WAIT},
		{"BUSY Redis is busy running a script. You can only call SCRIPT KILL", REPLY_WAIT},
		{"MASTERDOWN Link with MASTER is down", REPLY_WAIT},
		{"NOREPLICAS Not enough good replicas to write.", REPLY_WAIT},
		{"MISCONF Redis is configured to save RDB snapshots", REPLY_WAIT},
		{"CLUSTERDOWN Hash slot not served", REPLY_MOVING},
		{"CLUSTERDOWN The cluster is down", REPLY_MOVING},
		{"TRYAGAIN Multiple keys request during rehashing of slot", REPLY_MOVING},
		{"ERR Script attempted to access a non local key in a cluster node script: 01, on "
		 "@user_script:12.",
		 REPLY_MOVING},
		{"ERR Error running script (call to f_0123): @user_script:12: @user_script: 12: "
		 "Lua script attempted to access a non local key in a cluster node",
		 REPLY_MOVING},
		{"ERR max number of clients reached", REPLY_WAIT},
		{"OOM command not allowed when used memory > 'maxmemory'.", REPLY_OOM},
		{"NOAUTH Authentication required.", REPLY_DENIED},
		{"WRONGPASS invalid username-password pair or user is disabled.", REPLY_DENIED},
		{"NOPERM this user has no permissions to run the 'evalsha' command", REPLY_DENIED},
		{"WRONGTYPE Operation against a key holding the wrong kind of value",
		 REPLY_WRONGTYPE},
		{"BUSYGROUP Consumer Group name already exists", REPLY_BUSYGROUP},
		{"ERR unknown command 'XAUTOCLAIM', with args beginning with: 'q' ", REPLY_UNKNOWN},
		{"ERR Unknown subcommand or wrong number of arguments for 'CREATECONSUMER'.",
		 REPLY_UNKNOWN},
		{"ERR syntax error", REPLY_BAD},
		{"ERR no such key", REPLY_BAD},
		/* As 6.x says it from inside a script. */
		{"ERR Error running script (call to f_0123): @user_script:12: -OOM command not "
		 "allowed "
		 "when used memory > 'maxmemory'.",
		 REPLY_OOM},
		{"ERR Error running script (call to f_0123): @user_script:9: @user_script: 9: "
		 "-NOGROUP No such key 'q' or consumer group 'redisq'",
		 REPLY_NOGROUP},
		{"ERR Error running script (call to f_0123): @user_script:9: WRONGTYPE Operation",
		 REPLY_WRONGTYPE},
		{"ERR Error running script (call to f_0123): @user_script:3: The user executing "
		 "the "
		 "script can't run this command or subcommand",
		 REPLY_DENIED},
		{"ERR Error running script (call to f_0123): @user_script:3: Unknown Redis command "
		 "called from Lua script",
		 REPLY_UNKNOWN},
		/* The code in front counts, not what a key is called. */
		{"WRONGTYPE {READONLY}:dead is a string, not a stream", REPLY_WRONGTYPE},
		{"NOGROUP No such key 'LOADING' or consumer group 'OOM x'", REPLY_NOGROUP},
		{"ERR unknown command 'X', with args beginning with: 'NOGROUP' ", REPLY_UNKNOWN},
		{"WRONGTYPE {MY TASK a}:held is a hash, not a stream", REPLY_WRONGTYPE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char bytes[256];
		redisReply *r;

		snprintf(bytes, sizeof(bytes), "-%s\r\n", cases[i].error);
		r = reply_of(bytes, strlen(bytes));
		if (reply_kind(r) != cases[i].kind)
			print_error("%s\n", cases[i].error);
		assert_int_equal(reply_kind(r), cases[i].kind);
		assert_string_equal(reply_error_text(r), cases[i].error);
		freeReplyObject(r);
	}
	assert_int_equal(reply_kind(NULL), REPLY_LOST);
	assert_string_equal(reply_error_text(NULL), "no answer");
}

static void test_not_an_error(void **state)
{
	static const char *const texts[] = {"+OK\r\n", ":0\r\n", "$-1\r\n",
					    "*-1\r\n", "*0\r\n", "$7\r\nNOGROUP\r\n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		redisReply *r = reply_of(texts[i], strlen(texts[i]));

		assert_int_equal(reply_kind(r), REPLY_OK);
		assert_string_equal(reply_error_text(r), "no answer");
		freeReplyObject(r);
	}
}

static void test_numbers(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		int64_t want;
	} cases[] = {
#define CASE(text, want) {text, sizeof(text) - 1, want}
		CASE(":42\r\n", 42),
		CASE(":-3\r\n", -3),
		CASE("$13\r\n1700000000000\r\n", 1700000000000),
		CASE("$2\r\n-1\r\n", -1),
		CASE("$0\r\n\r\n", -99),
		CASE("$1\r\n-\r\n", -99),
		CASE("$2\r\n 1\r\n", -99),
		CASE("$2\r\n1x\r\n", -99),
		CASE("$3\r\n1\0"
		     "2\r\n",
		     -99),
		CASE("$4\r\n1e12\r\n", -99),
		CASE("$20\r\n99999999999999999999\r\n", -99),
		CASE("+7\r\n", -99),
		CASE("$-1\r\n", -99),
		CASE("*1\r\n:1\r\n", -99),
		CASE("-ERR 5\r\n", -99),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		redisReply *r = reply_of(cases[i].bytes, cases[i].len);

		assert_int_equal(reply_int(r, -99), cases[i].want);
		freeReplyObject(r);
	}
	assert_int_equal(reply_int(NULL, 5), 5);
}

static void test_parts(void **state)
{
	redisReply *r = REPLY("*3\r\n$3\r\na\0b\r\n+OK\r\n:1\r\n");

	(void)state;
	assert_int_equal(reply_len(r), 3);
	assert_true(slice_eq(reply_slice(reply_at(r, 0)), slice_of("a\0b", 3)));
	assert_true(slice_eq_str(reply_slice(reply_at(r, 1)), "OK"));
	assert_int_equal(reply_slice(reply_at(r, 2)).len, 0);
	assert_null(reply_at(r, 3));
	assert_int_equal(reply_len(reply_at(r, 0)), 0);
	assert_null(reply_at(reply_at(r, 0), 0));
	assert_int_equal(reply_len(NULL), 0);
	assert_null(reply_at(NULL, 0));
	assert_non_null(reply_slice(NULL).data);
	freeReplyObject(r);
}

/* ------------------------------------------------------------------ entries */

struct seen {
	int n;
	int n_deleted;
	char text[256];
};

static void on_field(void *arg, struct slice name, struct slice value)
{
	struct seen *s = arg;
	size_t at = strlen(s->text);

	snprintf(s->text + at, sizeof(s->text) - at, "%.*s=%.*s,", (int)name.len, name.data,
		 (int)value.len, value.data);
}

static void on_entry(void *arg, struct slice id, const redisReply *fields)
{
	struct seen *s = arg;
	size_t at = strlen(s->text);

	s->n++;
	snprintf(s->text + at, sizeof(s->text) - at, "%.*s:", (int)id.len, id.data);
	if (!fields)
		s->n_deleted++;
	else
		assert_int_equal(reply_fields(fields, on_field, s), 0);
}

#define HEAD "*1\r\n*2\r\n$1\r\nq\r\n"

static void test_entries(void **state)
{
	struct seen s = {.n = 0};
	redisReply *r = REPLY(HEAD "*3\r\n"
				   "*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n"
				   "$1\r\na\r\n$0\r\n\r\n"
				   "*2\r\n$3\r\n1-2\r\n*-1\r\n"
				   "*2\r\n$3\r\n1-3\r\n*0\r\n");

	(void)state;
	assert_int_equal(reply_entries(r, on_entry, &s), 3);
	assert_int_equal(s.n, 3);
	assert_int_equal(s.n_deleted, 1);
	assert_string_equal(s.text, "1-1:a=1,a=,1-2:1-3:");
	freeReplyObject(r);
}

static void test_no_entries(void **state)
{
	static const char *const texts[] = {"*-1\r\n", "$-1\r\n", "*0\r\n", HEAD "*0\r\n",
					    HEAD "*-1\r\n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct seen s = {.n = 0};
		redisReply *r = reply_of(texts[i], strlen(texts[i]));

		assert_int_equal(reply_entries(r, on_entry, &s), 0);
		assert_int_equal(s.n, 0);
		freeReplyObject(r);
	}
	assert_int_equal(reply_entries(NULL, on_entry, NULL), 0);
}

/* What looks different is refused as a whole: not even the good entries in front are given out. */
static void test_entries_of_another_shape(void **state)
{
	static const char *const texts[] = {
		"+OK\r\n",
		":1\r\n",
		"-ERR x\r\n",
		"*2\r\n:1\r\n:2\r\n",
		"*1\r\n:1\r\n",
		"*1\r\n*1\r\n$1\r\nq\r\n",
		"*1\r\n*3\r\n$1\r\nq\r\n*0\r\n*0\r\n",
		HEAD ":5\r\n",
		HEAD "*1\r\n:5\r\n",
		HEAD "*1\r\n*1\r\n$3\r\n1-1\r\n",
		HEAD "*2\r\n*2\r\n$3\r\n1-1\r\n*0\r\n*2\r\n:7\r\n*0\r\n",
		HEAD "*1\r\n*2\r\n$0\r\n\r\n*0\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct seen s = {.n = 0};
		redisReply *r = reply_of(texts[i], strlen(texts[i]));

		assert_int_equal(reply_entries(r, on_entry, &s), -1);
		assert_int_equal(s.n, 0);
		freeReplyObject(r);
	}
}

static void test_fields_of_another_shape(void **state)
{
	static const char *const texts[] = {"*1\r\n$1\r\na\r\n", "*2\r\n$1\r\na\r\n:1\r\n",
					    "*2\r\n*0\r\n$1\r\na\r\n", "$1\r\na\r\n", "*-1\r\n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct seen s = {.n = 0};
		redisReply *r = reply_of(texts[i], strlen(texts[i]));

		assert_int_equal(reply_fields(r, on_field, &s), -1);
		assert_string_equal(s.text, "");
		freeReplyObject(r);
	}
	assert_int_equal(reply_fields(NULL, on_field, NULL), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_not_an_error),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_entries),
		cmocka_unit_test(test_no_entries),
		cmocka_unit_test(test_entries_of_another_shape),
		cmocka_unit_test(test_fields_of_another_shape),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
