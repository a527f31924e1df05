/*
 * t_pipe_exit.c - how answers and deaths of a child read: what it says, what it is stopped for, and
 * who of those that it had is charged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>

#include "worker/pipe_exit.h"

static void test_answers(void **state)
{
	static const struct {
		enum answer_type said;
		enum exec_stop stop;
		enum outcome_kind kind;
		const char *error;
		int64_t delay_ms;
	} cases[] = {
		{ANSWER_DONE, EXEC_NOT_STOPPED, OUTCOME_DONE, "", 9},
		{ANSWER_RETRY, EXEC_NOT_STOPPED, OUTCOME_FAILED, "why", 9},
		{ANSWER_SNOOZE, EXEC_NOT_STOPPED, OUTCOME_SNOOZED, "why", 9},
		{ANSWER_DEAD, EXEC_NOT_STOPPED, OUTCOME_REJECTED, "why", 9},
		{ANSWER_DONE, EXEC_STOP_CANCEL, OUTCOME_DONE, "", 9},
		{ANSWER_RETRY, EXEC_STOP_CANCEL, OUTCOME_STOPPED, "stopped by the worker", -1},
		{ANSWER_SNOOZE, EXEC_STOP_CANCEL, OUTCOME_STOPPED, "stopped by the worker", -1},
		{ANSWER_DEAD, EXEC_STOP_CANCEL, OUTCOME_STOPPED, "stopped by the worker", -1},
		{ANSWER_DONE, EXEC_STOP_TIMEOUT, OUTCOME_TIMED_OUT, "timed out after 90s", -1},
		{ANSWER_RETRY, EXEC_STOP_TIMEOUT, OUTCOME_TIMED_OUT, "timed out after 90s", -1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct outcome o;
		struct answer a;

		outcome_init(&o);
		answer_init(&a);
		a.type = cases[i].said;
		a.delay_ms = 9;
		snprintf(a.error, sizeof(a.error), "why");
		pipe_answered(&o, &a, cases[i].stop, 90000);
		assert_int_equal(o.kind, cases[i].kind);
		assert_string_equal(o.error, cases[i].error);
		assert_int_equal(o.delay_ms, cases[i].delay_ms);
		a.error[0] = '\0';
		pipe_answered(&o, &a, cases[i].stop, 90000);
		assert_true(o.kind == OUTCOME_DONE || o.error[0]);
		outcome_release(&o);
	}
}

#define EXIT(n) \
	{ \
		.code = (n) \
	}
#define SIGNAL(n) \
	{ \
		.signaled = true, .code = (n) \
	}

static void test_deaths(void **state)
{
	static const struct {
		struct pipe_death d;
		enum exec_stop stop;
		bool unread;
		enum outcome_kind kind;
		bool in_company;
		const char *error;
	} cases[] = {
		/* By itself. */
		{{.how = SIGNAL(SIGSEGV), .n_charged = 1},
		 EXEC_NOT_STOPPED,
		 false,
		 OUTCOME_CRASHED,
		 false,
		 "signal 11 SIGSEGV"},
		{{.how = SIGNAL(SIGKILL), .n_charged = 3},
		 EXEC_NOT_STOPPED,
		 false,
		 OUTCOME_CRASHED,
		 true,
		 "signal 9 SIGKILL"},
		{{.how = EXIT(1), .n_charged = 1},
		 EXEC_NOT_STOPPED,
		 false,
		 OUTCOME_CRASHED,
		 false,
		 "exit 1"},
		{{.how = EXIT(0), .n_charged = 2},
		 EXEC_NOT_STOPPED,
		 false,
		 OUTCOME_CRASHED,
		 true,
		 "exit 0 before it had answered"},
		{{.how = EXIT(65), .n_charged = 1},
		 EXEC_NOT_STOPPED,
		 false,
		 OUTCOME_CRASHED,
		 false,
		 "exit 65"},
		{{.how = EXIT(75), .n_charged = 1},
		 EXEC_NOT_STOPPED,
		 false,
		 OUTCOME_CRASHED,
		 false,
		 "exit 75"},
		{{.how = EXIT(78), .n_charged = 3},
		 EXEC_NOT_STOPPED,
		 false,
		 OUTCOME_BROKEN,
		 false,
		 "exit 78"},
		{{.how = EXIT(1), .n_charged = 1},
		 EXEC_NOT_STOPPED,
		 true,
		 OUTCOME_STOPPED,
		 false,
		 "its child ended before it had read it"},
		/* It broke the protocol. */
		{{.how = SIGNAL(SIGKILL), .fault = "garbage", .killed = true, .n_charged = 1},
		 EXEC_NOT_STOPPED,
		 false,
		 OUTCOME_CRASHED,
		 false,
		 "garbage"},
		{{.how = SIGNAL(SIGKILL), .fault = "garbage", .killed = true, .n_charged = 2},
		 EXEC_NOT_STOPPED,
		 false,
		 OUTCOME_CRASHED,
		 true,
		 "garbage"},
		/* We stopped it for one of its tasks. */
		{{.how = SIGNAL(SIGTERM), .killed = true, .any_stopped = true, .n_charged = 1},
		 EXEC_STOP_TIMEOUT,
		 false,
		 OUTCOME_TIMED_OUT,
		 false,
		 "timed out after 90s"},
		{{.how = SIGNAL(SIGTERM), .killed = true, .any_stopped = true, .n_charged = 1},
		 EXEC_STOP_CANCEL,
		 false,
		 OUTCOME_STOPPED,
		 false,
		 "stopped by the worker"},
		{{.how = SIGNAL(SIGTERM), .killed = true, .any_stopped = true, .n_charged = 1},
		 EXEC_NOT_STOPPED,
		 false,
		 OUTCOME_STOPPED,
		 false,
		 "its child was stopped for another task"},
		/* It ended by itself when it was asked to stop one: the others are not to blame. */
		{{.how = EXIT(1), .any_stopped = true, .n_charged = 1},
		 EXEC_NOT_STOPPED,
		 false,
		 OUTCOME_STOPPED,
		 false,
		 "its child was stopped for another task"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct outcome o;

		outcome_init(&o);
		pipe_died(&o, &cases[i].d, cases[i].stop, cases[i].unread, 90000);
		assert_int_equal(o.kind, cases[i].kind);
		assert_int_equal(o.in_company, cases[i].in_company);
		assert_string_equal(o.error, cases[i].error);
		outcome_release(&o);
	}
}

static void test_hopeless_starts(void **state)
{
	(void)state;
	for (int code = 0; code < 256; code++)
		assert_int_equal(pipe_is_broken(&(struct child_exit){.code = code}),
				 code == 78 || code == 126 || code == 127);
	assert_false(pipe_is_broken(&(struct child_exit){.signaled = true, .code = 9}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_deaths),
		cmocka_unit_test(test_hopeless_starts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
