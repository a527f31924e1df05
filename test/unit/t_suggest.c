/* t_suggest.c - "did you mean": near words are found, far ones are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "suggest.h"

static void test_cases(void **state)
{
	static const char *const words[] = {"workers", "retry_delay", "retry_delay_max", "url",
					    "log_dir", "status",      "start",           "stats"};
	static const struct {
		const char *typed, *want;
	} cases[] = {
		{"worker", "workers"},
		{"wrokers", "workers"},
		{"retry_dela", "retry_delay"},
		{"retry", "retry_delay"},
		{"rerty_delay_max", "retry_delay_max"},
		{"ulr", "url"},
		{"logdir", "log_dir"},
		{"partitions", NULL},
		{"", NULL},
		{"x", NULL},
		{"uri", "url"},
		{"stat", "stats"},
		{"stast", "stats"},
		{"statu", "status"},
		{"strat", "start"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct suggest s = {0};

		for (size_t j = 0; j < ARRAY_LEN(words); j++)
			suggest_try(&s, cases[i].typed, words[j]);
		if (!cases[i].want)
			assert_null(s.word);
		else
			assert_string_equal(s.word ? s.word : "nothing", cases[i].want);
	}
}

static void test_long(void **state)
{
	char word[500];
	struct suggest s = {0};

	(void)state;
	memset(word, 'a', sizeof(word));
	word[sizeof(word) - 1] = '\0';
	suggest_try(&s, word, "workers");
	suggest_try(&s, "workers", word);
	assert_null(s.word);
}

static void test_no_more_of_a_word_is_shown_than_a_name_has(void **state)
{
	static const struct {
		const char *typed;
		size_t shown;
	} cases[] = {
		{"", 0},
		{"timeout", 7},
		{"redis.url", 9},
		{"redis.url=redis://:SECRET@h", 9},
		{"redis://:SECRET@h", 0},
		{"password SECRET", 8},
		{"password:SECRET", 8},
		{"user:SECRET@h", 4},
		{":SECRET", 0},
		{"@SECRET", 0},
		{"a/SECRET", 1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(suggest_shown(cases[i].typed), cases[i].shown);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_no_more_of_a_word_is_shown_than_a_name_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
