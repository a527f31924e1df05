/* t_reload.c - the plan of supervisor/reload.h for pairs of configurations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supervisor/reload.h"

/* "queue.key=value ..." per queue; names are single letters here. */
static struct conf *make(const char *queues)
{
	struct conf *c = conf_new();

	for (; *queues; queues++) {
		char name[2] = {*queues, '\0'};

		assert_int_equal(conf_add_queue(c, name, NULL), 0);
	}
	return c;
}

static void set(struct conf *c, enum conf_section s, const char *queue, const char *key,
		const char *value)
{
	struct err e = {0};

	if (conf_set(c, s, queue, key, value, CONF_FROM_FILE, "test", &e) < 0)
		fail_msg("%s", e.text);
}

/* "+a -b =c": start, drain, roll, in the plan's order. */
static void text_of(const struct reload_plan *p, struct buf *out)
{
	static const char signs[] = {
		[RELOAD_START] = '+', [RELOAD_DRAIN] = '-', [RELOAD_ROLL] = '='};

	for (size_t i = 0; i < p->n; i++)
		buf_addf(out, "%s%c%s", i ? " " : "", signs[p->items[i].action], p->items[i].queue);
}

static const struct {
	const char *was, *now, *plan;
} cases[] = {
	{"a", "a", "=a"},    {"ab", "ab", "=a =b"},      {"a", "ab", "=a +b"}, {"ab", "b", "-a =b"},
	{"a", "b", "-a +b"}, {"abc", "cba", "=a =b =c"}, {"", "ab", "+a +b"},  {"ab", "", "-a -b"},
};

static void queues_start_drain_and_roll(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct conf *was = make(cases[i].was), *now = make(cases[i].now);
		struct reload_plan p;
		struct buf text = BUF_INIT;

		reload_plan_make(&p, was, now);
		text_of(&p, &text);
		assert_string_equal(text.data, cases[i].plan);
		assert_false(p.live);
		assert_int_equal(p.boot.n, 0);
		buf_release(&text);
		reload_plan_release(&p);
		conf_free(was);
		conf_free(now);
	}
}

static void changed_keys_are_told_apart(void **state)
{
	struct conf *was = make("ab"), *now = make("ab");
	struct reload_plan p;

	(void)state;
	set(now, CONF_QUEUE, "a", "concurrency", "9");
	set(now, CONF_SUPERVISOR, NULL, "crash_limit", "3");
	set(now, CONF_SUPERVISOR, NULL, "log_dir", "/elsewhere");
	reload_plan_make(&p, was, now);
	assert_int_equal(p.n, 2);
	assert_int_equal(p.items[0].change, CONF_ROLL_CHANGED);
	assert_int_equal(p.items[1].change, CONF_SAME);
	assert_true(p.live);
	assert_int_equal(p.boot.n, 1);
	assert_string_equal(p.boot.v[0], "supervisor.log_dir");
	reload_plan_release(&p);
	conf_free(was);
	conf_free(now);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queues_start_drain_and_roll),
		cmocka_unit_test(changed_keys_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
