/* t_needs.c - which commands are needed, how they are tried, and what the answers mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "needs.h"

static void test_answers_of_all_servers_are_told_apart(void **state)
{
	static const struct {
		const char *error;
		enum need_answer answer;
	} cases[] = {
		{NULL, NEED_HAVE},
		{"ERR value is not an integer or out of range", NEED_HAVE},
		{"NOGROUP No such consumer group '.redisq-probe' for key name 'q'", NEED_HAVE},
		{"WRONGTYPE Operation against a key holding the wrong kind of value", NEED_HAVE},
		{"OOM command not allowed when used memory > 'maxmemory'.", NEED_HAVE},
		/* 6.0, 7.0, 8.0 */
		{"NOPERM this user has no permissions to run the 'xack' command or its subcommand",
		 NEED_NO_COMMAND},
		{"NOPERM this user has no permissions to run the 'xack' command", NEED_NO_COMMAND},
		{"NOPERM User w has no permissions to run the 'xgroup|create' command",
		 NEED_NO_COMMAND},
		{"NOPERM this user has no permissions to access one of the keys used as arguments",
		 NEED_NO_KEY},
		{"NOPERM No permissions to access a key", NEED_NO_KEY},
		{"ERR unknown command `CLIENT`, with args beginning with: `ID`, ", NEED_UNKNOWN},
		{"ERR unknown command 'CLIENT', with args beginning with: 'ID' ", NEED_UNKNOWN},
		{"ERR Unknown subcommand or wrong number of arguments for 'CREATECONSUMER'. Try "
		 "XGROUP HELP.",
		 NEED_UNKNOWN},
		{"ERR unknown subcommand 'CREATECONSUMER'. Try XGROUP HELP.", NEED_UNKNOWN},
		{"NOAUTH Authentication required.", NEED_NOT_TOLD},
		{"LOADING Redis is loading the dataset in memory", NEED_NOT_TOLD},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(needs_judge(cases[i].error), cases[i].answer);
}

static void test_every_row_has_its_key_in_its_words(void **state)
{
	struct buf store = BUF_INIT;
	struct keys k;

	(void)state;
	keys_init(&k, "q");
	for (size_t i = 0; i < needs_count(); i++) {
		const struct need *n = needs_at(i);
		const char *words[NEED_WORDS_MAX];
		int argc = needs_words(n, &k, "g", &store, words);
		const char *key = needs_key(n, &k, &store);
		int n_keys = 0;

		assert_true(argc > 0);
		for (int w = 0; w < argc; w++) {
			assert_true(words[w][0] != '$');
			n_keys += w > 0 && *key && strcmp(words[w], key) == 0;
		}
		/* From one list to another: the form has the same one twice. */
		assert_int_equal(n_keys, !*key ? 0
					 : strstr(n->acl, "move") || strstr(n->acl, "poplpush")
						 ? 2
						 : 1);
	}
	keys_release(&k);
	buf_release(&store);
}

static void test_a_list_needs_no_stream_command_and_a_stream_no_list(void **state)
{
	int n_lists = 0;

	(void)state;
	for (size_t i = 0; i < needs_count(); i++) {
		const struct need *n = needs_at(i);

		assert_true(needs_is_for(n, true) || needs_is_for(n, false));
		assert_false(needs_is_for(n, true) && n->acl[0] == 'x');
		assert_false(needs_is_for(n, false) && n->list_only);
		n_lists += n->list_only;
	}
	assert_true(n_lists > 0);
}

static void test_what_is_missing_is_named_once_with_what_to_grant(void **state)
{
	struct needs_missing m = NEEDS_MISSING_INIT;
	struct buf text = BUF_INIT;
	struct keys k;

	(void)state;
	keys_init(&k, "q");
	for (size_t i = 0; i < needs_count(); i++) {
		const struct need *n = needs_at(i);

		if (n->who != NEED_WORKER)
			continue;
		if (strcmp(n->acl, "xadd") == 0)
			needs_missing_add(&m, n, NEED_NO_COMMAND, &k);
		if (n->key == NEED_NAMES || (n->key == NEED_STREAM && strcmp(n->acl, "xack") == 0))
			needs_missing_add(&m, n, NEED_NO_KEY, &k);
	}
	needs_missing_text(&m, &text);
	buf_adds(&text, "; ");
	needs_missing_cure(&m, &text);
	assert_string_equal(text.data,
			    "may not use xadd on q, and has no "
			    "access to q, {q}:names; grant it: ACL SETUSER ... ~q +xadd ~{q}:*");
	needs_missing_release(&m);
	buf_release(&text);
	keys_release(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers_of_all_servers_are_told_apart),
		cmocka_unit_test(test_every_row_has_its_key_in_its_words),
		cmocka_unit_test(test_a_list_needs_no_stream_command_and_a_stream_no_list),
		cmocka_unit_test(test_what_is_missing_is_named_once_with_what_to_grant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
