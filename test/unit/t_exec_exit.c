/*
 * t_exec_exit.c - the table of exit codes, all 256 of them; words on fd 3 against exits; signals;
 * our own stops.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>

#include "worker/exec_exit.h"

static struct outcome end_of(struct child_exit x, enum answer_type type, enum exec_stop stop)
{
	struct outcome o;
	struct answer a;

	outcome_init(&o);
	answer_init(&a);
	a.type = type;
	if (type != ANSWER_NONE) {
		a.delay_ms = 1234;
		snprintf(a.error, sizeof(a.error), "said on fd 3");
	}
	exec_outcome(&o, &x, &a, stop, 90000);
	return o;
}

static struct outcome exit_of(int code, enum answer_type type)
{
	return end_of((struct child_exit){.code = code}, type, EXEC_NOT_STOPPED);
}

static enum outcome_kind contract(int code)
{
	switch (code) {
	case 0:
		return OUTCOME_DONE;
	case 75:
		return OUTCOME_SNOOZED;
	case 65:
	case 100:
		return OUTCOME_REJECTED;
	case 78:
	case 126:
	case 127:
		return OUTCOME_BROKEN;
	case 134:
	case 137:
	case 139:
		return OUTCOME_CRASHED;
	default:
		return OUTCOME_FAILED;
	}
}

static void test_every_exit_code(void **state)
{
	char text[32];

	(void)state;
	for (int code = 0; code < 256; code++) {
		struct outcome o = exit_of(code, ANSWER_NONE);

		assert_int_equal(o.kind, contract(code));
		assert_int_equal(o.exit_code, code);
		assert_int_equal(o.signal, 0);
		assert_int_equal(o.delay_ms, -1);
		snprintf(text, sizeof(text), "exit %d", code);
		assert_string_equal(o.error, text);
	}
}

static void test_answers_against_exits(void **state)
{
	static const struct {
		int code;
		enum answer_type said;
		enum outcome_kind kind;
		bool heard; /* its delay and its error count */
	} cases[] = {
		{0, ANSWER_DONE, OUTCOME_DONE, false},
		{0, ANSWER_RETRY, OUTCOME_FAILED, true},
		{0, ANSWER_SNOOZE, OUTCOME_SNOOZED, true},
		{0, ANSWER_DEAD, OUTCOME_REJECTED, true},
		/* A bad exit beats "done". */
		{1, ANSWER_DONE, OUTCOME_FAILED, false},
		{1, ANSWER_RETRY, OUTCOME_FAILED, true},
		{1, ANSWER_SNOOZE, OUTCOME_FAILED, false},
		{1, ANSWER_DEAD, OUTCOME_REJECTED, true},
		/* Codes that mean something: explained by the same word, not changed by another. */
		{75, ANSWER_SNOOZE, OUTCOME_SNOOZED, true},
		{75, ANSWER_DONE, OUTCOME_SNOOZED, false},
		{75, ANSWER_RETRY, OUTCOME_SNOOZED, false},
		{75, ANSWER_DEAD, OUTCOME_SNOOZED, false},
		{65, ANSWER_DEAD, OUTCOME_REJECTED, true},
		{100, ANSWER_DEAD, OUTCOME_REJECTED, true},
		{65, ANSWER_RETRY, OUTCOME_REJECTED, false},
		{78, ANSWER_DONE, OUTCOME_BROKEN, false},
		{127, ANSWER_DEAD, OUTCOME_BROKEN, false},
		{139, ANSWER_DEAD, OUTCOME_CRASHED, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct outcome o = exit_of(cases[i].code, cases[i].said);

		assert_int_equal(o.kind, cases[i].kind);
		assert_int_equal(o.exit_code, cases[i].code);
		assert_int_equal(o.delay_ms, cases[i].heard ? 1234 : -1);
		assert_int_equal(strcmp(o.error, "said on fd 3") == 0, cases[i].heard);
	}
}

static void test_answer_without_error(void **state)
{
	static const struct {
		int code;
		const char *error;
	} cases[] = {{0, "asked for on fd 3"}, {1, "exit 1"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct child_exit x = {.code = cases[i].code};
		struct outcome o;
		struct answer a;

		outcome_init(&o);
		answer_init(&a);
		a.type = ANSWER_RETRY;
		exec_outcome(&o, &x, &a, EXEC_NOT_STOPPED, 0);
		assert_string_equal(o.error, cases[i].error);
	}
}

static void test_signals(void **state)
{
	static const struct {
		int signal;
		bool core;
		const char *error;
	} cases[] = {
		{SIGSEGV, true, "signal 11 SIGSEGV (core dumped)"},
		{SIGKILL, false, "signal 9 SIGKILL"},
		{SIGTERM, false, "signal 15 SIGTERM"},
		{SIGABRT, false, "signal 6 SIGABRT"},
		{40, false, "signal 40 "},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct child_exit x = {
			.signaled = true, .code = cases[i].signal, .core = cases[i].core};

		/* Whatever it had said before. */
		for (int said = ANSWER_NONE; said <= ANSWER_DEAD; said++) {
			struct outcome o = end_of(x, (enum answer_type)said, EXEC_NOT_STOPPED);

			assert_int_equal(o.kind, OUTCOME_CRASHED);
			assert_int_equal(o.signal, cases[i].signal);
			assert_int_equal(o.exit_code, -1);
			assert_memory_equal(o.error, cases[i].error, strlen(cases[i].error));
		}
	}
}

static void test_timeouts(void **state)
{
	static const struct {
		int64_t ms;
		const char *error;
	} cases[] = {{1800000, "timed out after 30m"},
		     {90000, "timed out after 90s"},
		     {60000, "timed out after 1m"},
		     {1500, "timed out after 1500ms"},
		     {250, "timed out after 250ms"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct child_exit x = {.signaled = true, .code = SIGTERM};
		struct outcome o;
		struct answer a;

		outcome_init(&o);
		answer_init(&a);
		exec_outcome(&o, &x, &a, EXEC_STOP_TIMEOUT, cases[i].ms);
		assert_int_equal(o.kind, OUTCOME_TIMED_OUT);
		assert_string_equal(o.error, cases[i].error);
		assert_int_equal(o.signal, SIGTERM);
	}
	/* However it ended after that, and whatever it said. */
	for (int said = ANSWER_NONE; said <= ANSWER_DEAD; said++) {
		struct outcome o = end_of((struct child_exit){.code = 0}, (enum answer_type)said,
					  EXEC_STOP_TIMEOUT);

		assert_int_equal(o.kind, OUTCOME_TIMED_OUT);
		assert_int_equal(o.delay_ms, -1);
		assert_int_equal(o.exit_code, 0);
	}
}

static void test_cancel(void **state)
{
	static const struct {
		bool signaled;
		int code;
		enum answer_type said;
		enum outcome_kind kind;
	} cases[] = {
		{true, SIGTERM, ANSWER_NONE, OUTCOME_STOPPED},
		{true, SIGKILL, ANSWER_DONE, OUTCOME_STOPPED},
		{true, SIGSEGV, ANSWER_NONE, OUTCOME_STOPPED},
		{false, 1, ANSWER_NONE, OUTCOME_STOPPED},
		{false, 75, ANSWER_NONE, OUTCOME_STOPPED},
		{false, 143, ANSWER_DONE, OUTCOME_STOPPED},
		/* It finished all the same: not twice. */
		{false, 0, ANSWER_NONE, OUTCOME_DONE},
		{false, 0, ANSWER_DONE, OUTCOME_DONE},
		{false, 0, ANSWER_RETRY, OUTCOME_STOPPED},
		{false, 0, ANSWER_DEAD, OUTCOME_STOPPED},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct child_exit x = {.signaled = cases[i].signaled, .code = cases[i].code};

		assert_int_equal(end_of(x, cases[i].said, EXEC_STOP_CANCEL).kind, cases[i].kind);
	}
}

static void test_killed_for_memory(void **state)
{
	static const struct {
		struct child_exit x;
		enum exec_stop stop;
		const char *error;
	} cases[] = {
		{{.signaled = true, .code = SIGKILL},
		 EXEC_NOT_STOPPED,
		 "signal 9 SIGKILL (out of memory)"},
		{{.code = 137}, EXEC_NOT_STOPPED, "exit 137 (out of memory)"},
		{{.signaled = true, .code = SIGSEGV}, EXEC_NOT_STOPPED, "signal 11 SIGSEGV"},
		{{.code = 1}, EXEC_NOT_STOPPED, "exit 1"},
		{{.signaled = true, .code = SIGKILL}, EXEC_STOP_CANCEL, "stopped by the worker"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct outcome o = end_of(cases[i].x, ANSWER_NONE, cases[i].stop);

		exec_oom(&o);
		assert_string_equal(o.error, cases[i].error);
		outcome_release(&o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_exit_code),
		cmocka_unit_test(test_answers_against_exits),
		cmocka_unit_test(test_answer_without_error),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_killed_for_memory),
		cmocka_unit_test(test_timeouts),
		cmocka_unit_test(test_cancel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
