/* t_handover.c - who gets the order to hand over what a dead worker had, and until when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"
#include "supervisor/handover.h"

#define N_HEIRS 3

/* As much of a worker as an order needs: a channel, whose other end we read. */
struct heir {
	struct proc proc;
	int fd;
	struct buf heard;
};

struct scene {
	struct ev_loop *loop;
	struct handovers h;
	struct heir heir[N_HEIRS];
	struct proc *list[N_HEIRS];
	struct buf log;
};

static void on_word(void *arg, const char *word, const char *rest)
{
	(void)arg;
	(void)word;
	(void)rest;
}

static void on_eof(void *arg)
{
	(void)arg;
}

static void keep(void *arg, enum log_level level, const char *text, size_t len)
{
	struct scene *s = arg;

	(void)level;
	buf_add(&s->log, text, len);
	buf_addc(&s->log, '\n');
}

static int setup(void **state)
{
	struct scene *s = xcalloc(1, sizeof(*s));

	buf_init(&s->log);
	log_set_writer(keep, s);
	s->loop = ev_loop_new(EVFLAG_AUTO);
	handovers_init(&s->h);
	for (int i = 0; i < N_HEIRS; i++) {
		int fds[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) < 0)
			return -1;
		s->heir[i].fd = fds[1];
		buf_init(&s->heir[i].heard);
		s->heir[i].proc.chan = chan_new(s->loop, fds[0], on_word, on_eof, NULL);
		s->heir[i].proc.consumer = xasprintf("heir_%d", i);
		s->list[i] = &s->heir[i].proc;
	}
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct scene *s = *state;

	handovers_release(&s->h);
	for (int i = 0; i < N_HEIRS; i++) {
		chan_free(s->heir[i].proc.chan);
		close(s->heir[i].fd);
		free(s->heir[i].proc.consumer);
		buf_release(&s->heir[i].heard);
	}
	ev_loop_destroy(s->loop);
	log_set_writer(NULL, NULL);
	buf_release(&s->log);
	free(s);
	return 0;
}

/* A death in `slot`, at `ms`, of one that ran `id`. */
static void die(struct scene *s, const char *consumer, unsigned slot, int64_t ms, const char *id)
{
	struct obituary who;

	obituary_init(&who);
	who.consumer = consumer ? xstrdup(consumer) : NULL;
	snprintf(who.nonce, sizeof(who.nonce), "n");
	snprintf(who.cause, sizeof(who.cause), "alone worker signal 9 SIGKILL");
	who.charge = true;
	if (id)
		obituary_add(&who, id, 1);
	handovers_add(&s->h, &who, slot, ms);
	assert_null(who.consumer);
	assert_int_equal(who.n_ran, 0);
	obituary_release(&who);
}

/* What heir `i` was told since the last call. */
static const char *told(struct scene *s, int i)
{
	struct heir *h = &s->heir[i];
	char bytes[4096];
	ssize_t n;

	buf_clear(&h->heard);
	while ((n = read(h->fd, bytes, sizeof(bytes))) > 0)
		buf_add(&h->heard, bytes, (size_t)n);
	assert_int_equal(errno, EAGAIN);
	return h->heard.len ? h->heard.data : "";
}

static void assert_silence(struct scene *s)
{
	for (int i = 0; i < N_HEIRS; i++)
		assert_string_equal(told(s, i), "");
}

static bool assign(struct scene *s, size_t n, int64_t ms)
{
	return handovers_assign(&s->h, s->list, n, ms);
}

#define ORDER_1 \
	"dead 1 w n - 0 0 1 alone worker signal 9 SIGKILL\n" \
	"ran 1 5-0 1\n" \
	"handover 1\n"

static void an_order_goes_to_one_and_once(void **state)
{
	struct scene *s = *state;

	assert_false(assign(s, N_HEIRS, 0));
	die(s, "w", 0, 100, "5-0");
	assert_true(assign(s, N_HEIRS, 100));
	assert_string_equal(told(s, 0), ORDER_1);
	assert_true(assign(s, N_HEIRS, 101));
	assert_true(assign(s, N_HEIRS, 100 + HANDOVER_ANSWER_MS - 1));
	assert_silence(s);
	assert_int_equal(handovers_handed(&s->h, s->list[0], "1 2 1", 107), HANDED_SUSPECTS);
	assert_non_null(strstr(s->log.data, "handed over 2 tasks of w, 7 ms after its death"));
	/* Nothing to wait for any more; an answer that comes twice counts once. */
	assert_false(assign(s, N_HEIRS, 100000));
	assert_int_equal(HANDED_NOTHING, handovers_handed(&s->h, s->list[0], "1 2 1", 107));
	handovers_swept(&s->h, "1");
	handovers_swept(&s->h, "1");
	assert_true(list_empty(&s->h.orders));
	assert_silence(s);
}

static void nobody_had_a_name_nobody_is_told(void **state)
{
	struct scene *s = *state;

	die(s, NULL, 0, 0, "5-0");
	die(s, "", 0, 0, "5-0");
	assert_true(list_empty(&s->h.orders));
	assert_false(assign(s, N_HEIRS, 0));
}

static void an_order_waits_for_the_first_heir(void **state)
{
	struct scene *s = *state;

	die(s, "w", 0, 0, "5-0");
	assert_true(assign(s, 0, 0));
	assert_true(assign(s, 0, 50000));
	assert_true(assign(s, 1, 50001));
	assert_string_equal(told(s, 0), ORDER_1);
}

static void a_silent_heir_loses_it_to_another(void **state)
{
	struct scene *s = *state;
	int64_t ms = 100;

	die(s, "w", 0, ms, "5-0");
	assign(s, 2, ms);
	assert_string_equal(told(s, 0), ORDER_1);
	for (int turn = 1; turn < 4; turn++) {
		ms += HANDOVER_ANSWER_MS - 1;
		assign(s, 2, ms++);
		assert_silence(s);
		assert_true(assign(s, 2, ms));
		assert_string_equal(told(s, turn % 2), ORDER_1);
	}
	/* Alone, it is asked again. */
	ms += HANDOVER_ANSWER_MS;
	s->list[0] = s->list[1];
	assert_true(assign(s, 1, ms));
	assert_string_equal(told(s, 1), ORDER_1);
	/* The first one wakes up and answers: that is as good. */
	assert_int_not_equal(HANDED_NOTHING,
			     handovers_handed(&s->h, &s->heir[0].proc, "1 1 1", ms));
	assert_false(assign(s, 1, ms + 100000));
	assert_silence(s);
}

static void the_order_of_a_dead_heir_goes_on(void **state)
{
	struct scene *s = *state;
	bool handed;

	for (handed = false;; handed = true) {
		die(s, "w", 0, 0, "5-0");
		assign(s, 1, 0);
		told(s, 0);
		/* What was handed over is still to be swept. */
		if (handed)
			assert_int_not_equal(HANDED_NOTHING,
					     handovers_handed(&s->h, s->list[0], "2 1 1", 1));
		handovers_heir_died(&s->h, &s->heir[2].proc);
		assign(s, N_HEIRS, 2);
		assert_silence(s);
		handovers_heir_died(&s->h, s->list[0]);
		assert_true(assign(s, 0, 3));
		s->list[0] = &s->heir[1].proc;
		assert_true(assign(s, 1, 4));
		assert_non_null(strstr(told(s, 1), handed ? "handover 2\n" : "handover 1\n"));
		assert_int_equal(assign(s, 1, 5), !handed);
		assert_int_equal(handovers_handed(&s->h, s->list[0], handed ? "2 0 0" : "1 1 0", 6),
				 handed ? HANDED_NOTHING : HANDED_SUSPECTS);
		handovers_swept(&s->h, handed ? "2" : "1");
		assert_true(list_empty(&s->h.orders));
		s->list[0] = &s->heir[0].proc;
		if (handed)
			return;
	}
}

static void the_successor_is_held_until_it_is_handed_over(void **state)
{
	struct scene *s = *state;

	assert_false(handovers_hold(&s->h, 3, 0));
	die(s, "w", 3, 1000, "5-0");
	assert_true(handovers_hold(&s->h, 3, 1000));
	assert_false(handovers_hold(&s->h, 2, 1000));
	assert_true(handovers_hold(&s->h, 3, 1000 + HANDOVER_HOLD_MS - 1));
	assert_false(handovers_hold(&s->h, 3, 1000 + HANDOVER_HOLD_MS));
	/* Two that died in it: both are waited for. */
	die(s, "v", 3, 2000, NULL);
	assign(s, N_HEIRS, 2000);
	handovers_handed(&s->h, s->list[0], "1 0 0", 2001);
	assert_true(handovers_hold(&s->h, 3, 2001));
	handovers_swept(&s->h, "2"); /* its name was another's: nothing was there to hand over */
	assert_false(handovers_hold(&s->h, 3, 2001));
}

static void answers_that_make_no_sense_change_nothing(void **state)
{
	static const char *const rests[] = {
		"", " ", "x", "0 1 1", "2 1 1", "-1 1 1", "99999999999999999999 1 1", "1x 1 1"};
	struct scene *s = *state;

	die(s, "w", 0, 0, "5-0");
	assign(s, 1, 0);
	told(s, 0);
	for (size_t i = 0; i < ARRAY_LEN(rests); i++) {
		assert_int_equal(HANDED_NOTHING, handovers_handed(&s->h, s->list[0], rests[i], 1));
		handovers_swept(&s->h, rests[i]);
	}
	assert_true(assign(s, 1, 1));
	assert_true(handovers_hold(&s->h, 0, 1));
	/* It is done, of how many nobody knows. */
	assert_int_equal(HANDED_NOTHING, handovers_handed(&s->h, s->list[0], "1", 1));
	assert_false(assign(s, 1, 1));
}

static void what_runs_again_is_told_with_its_last_owner(void **state)
{
	struct scene *s = *state;

	die(s, "w", 0, 0, "5-0");
	die(s, "v", 0, 100, "5-0");
	handovers_runs_again(&s->h, s->list[1], "5-1", 103);
	handovers_runs_again(&s->h, s->list[1], "", 103);
	assert_int_equal(s->log.len, 0);
	handovers_runs_again(&s->h, s->list[1], "5-0", 103);
	assert_string_equal(s->log.data,
			    "task 5-0 of v runs again in heir_1, 3 ms after the death\n");
}

static void many_orders_are_told_apart(void **state)
{
	struct scene *s = *state;

	for (int i = 1; i <= 100; i++) {
		char name[16];

		snprintf(name, sizeof(name), "w%d", i);
		die(s, name, (unsigned)i, i, NULL);
	}
	assert_true(assign(s, N_HEIRS, 100));
	for (int i = 100; i > 0; i--) {
		char rest[32];

		snprintf(rest, sizeof(rest), "%d %d 0", i, i);
		assert_true(handovers_hold(&s->h, (unsigned)i, 100));
		/* They ran nothing: what was pending is no suspect. */
		assert_int_equal(handovers_handed(&s->h, s->list[0], rest, 100), HANDED_SOME);
		assert_false(handovers_hold(&s->h, (unsigned)i, 100));
		assert_int_equal(assign(s, N_HEIRS, 100), i > 1);
	}
	for (int i = 1; i <= 100; i++) {
		char rest[16];

		assert_false(list_empty(&s->h.orders));
		snprintf(rest, sizeof(rest), "%d", i);
		handovers_swept(&s->h, rest);
	}
	assert_true(list_empty(&s->h.orders));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(an_order_goes_to_one_and_once),
		T(nobody_had_a_name_nobody_is_told),
		T(an_order_waits_for_the_first_heir),
		T(a_silent_heir_loses_it_to_another),
		T(the_order_of_a_dead_heir_goes_on),
		T(the_successor_is_held_until_it_is_handed_over),
		T(answers_that_make_no_sense_change_nothing),
		T(what_runs_again_is_told_with_its_last_owner),
		T(many_orders_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
