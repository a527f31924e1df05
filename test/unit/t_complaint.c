/* t_complaint.c - trouble is said soon, and not over and over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "buf.h"
#include "clock.h"
#include "log.h"
#include "worker/complaint.h"

static struct buf said;

static void keep(void *arg, enum log_level level, const char *text, size_t len)
{
	(void)arg;
	(void)level;
	(void)len;
	buf_addf(&said, "%s\n", text);
}

static int n_said(void)
{
	int n = 0;

	for (const char *p = said.data; p && *p; p++)
		n += *p == '\n';
	return n;
}

static int begin(void **state)
{
	(void)state;
	buf_clear(&said);
	log_set_writer(keep, NULL);
	return 0;
}

static int end(void **state)
{
	(void)state;
	log_set_writer(NULL, NULL);
	buf_release(&said);
	return 0;
}

static void the_first_is_said_at_once_and_the_latest_in_the_end(void **state)
{
	struct complaint c = {0};
	int64_t due;

	(void)state;
	complaint_add(&c, "link: reset");
	assert_string_equal(said.data, "link: reset\n");
	complaint_add(&c, "link: refused");
	complaint_add(&c, "link: loading");
	assert_int_equal(n_said(), 1);
	due = complaint_due(&c, clock_boot_ms());
	assert_true(due <= clock_boot_ms() + COMPLAINT_EVERY_MS);
	assert_true(complaint_due(&c, due) == INT64_MAX);
	assert_string_equal(said.data, "link: reset\nlink: loading (and 1 more)\n");
	complaint_add(&c, "gone");
	complaint_end(&c);
	assert_int_equal(n_said(), 3);
}

/* How often it is said in ten minutes when it goes wrong all the time, each time with other
 * numbers. */
static void what_stays_wrong_is_said_less_and_less(void **state)
{
	struct complaint c = {0};
	int64_t begun = clock_boot_ms();

	(void)state;
	for (int64_t now = begun; now < begun + 600000; now += 100) {
		snprintf(c.text, sizeof(c.text), "link %d: refused after %d ms", (int)(now % 2),
			 (int)(now % 977));
		complaint_due(&c, now);
	}
	assert_in_range(n_said(), 15, 40);
}

static void what_is_new_does_not_wait(void **state)
{
	struct complaint c = {0};
	int64_t now = clock_boot_ms();

	(void)state;
	for (int i = 0; i < 8; i++) {
		snprintf(c.text, sizeof(c.text), "refused");
		complaint_due(&c, now + 100000); /* the interval grows */
		c.due_ms = now;
	}
	c.due_ms = now + COMPLAINT_EVERY_MAX_MS;
	complaint_add(&c, "refused");
	assert_true(complaint_due(&c, now) == now + COMPLAINT_EVERY_MAX_MS);
	complaint_add(&c, "wrong password");
	assert_true(complaint_due(&c, now) <= clock_boot_ms() + COMPLAINT_EVERY_MS);
}

/* It counted as said then, and waited for half a minute when it came again. */
static void what_was_left_out_is_still_new(void **state)
{
	struct complaint c = {0};
	int64_t now = clock_boot_ms();

	(void)state;
	c.due_ms = now + COMPLAINT_EVERY_MAX_MS;
	complaint_add(&c, "wrong password");
	complaint_add(&c, "no such host");
	assert_true(complaint_due(&c, c.due_ms) == INT64_MAX);
	assert_string_equal(said.data, "no such host (and 1 more)\n");
	c.due_ms = now + COMPLAINT_EVERY_MAX_MS;
	complaint_add(&c, "wrong password");
	assert_true(c.due_ms <= clock_boot_ms() + COMPLAINT_EVERY_MS);
	c.text[0] = '\0';
	c.due_ms = now + COMPLAINT_EVERY_MAX_MS;
	complaint_add(&c, "no such host");
	assert_true(c.due_ms == now + COMPLAINT_EVERY_MAX_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_first_is_said_at_once_and_the_latest_in_the_end,
						begin, end),
		cmocka_unit_test_setup_teardown(what_stays_wrong_is_said_less_and_less, begin, end),
		cmocka_unit_test_setup_teardown(what_is_new_does_not_wait, begin, end),
		cmocka_unit_test_setup_teardown(what_was_left_out_is_still_new, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
