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

/* What the last words came to. */
static struct {
	int n;
	int64_t order, moved;
	int partition;
	char id[BOARD_ID_MAX];
} heard;

static void on_handed(void *arg, struct proc *p, int64_t order, int64_t moved)
{
	(void)p;
	heard.n++;
	heard.order = order;
	heard.moved = moved;
	handovers_handed(arg, p, order, moved, 1);
}

static void on_swept(void *arg, struct proc *p, int64_t order)
{
	(void)p;
	heard.n++;
	heard.order = order;
	handovers_swept(arg, order);
}

static void on_again(void *arg, struct proc *p, int partition, const char *id)
{
	(void)arg;
	(void)p;
	heard.n++;
	heard.partition = partition;
	snprintf(heard.id, sizeof(heard.id), "%s", id);
}

static const struct proc_events events = {
	.on_handed = on_handed,
	.on_swept = on_swept,
	.on_again = on_again,
};

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
		s->heir[i].proc.events = &events;
		s->heir[i].proc.arg = &s->h;
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

static void die_in(struct scene *s, int partition, const char *consumer, unsigned slot, int64_t ms,
		   const char *id)
{
	struct obituary who;

	obituary_init(&who);
	who.n_partitions = partition + 1;
	who.consumer = consumer ? xstrdup(consumer) : NULL;
	snprintf(who.nonce, sizeof(who.nonce), "n");
	snprintf(who.cause, sizeof(who.cause), "alone worker signal 9 SIGKILL");
	who.charge = true;
	who.partition = partition;
	if (id)
		obituary_add(&who, id, 1);
	handovers_add(&s->h, &who, slot, ms);
	assert_null(who.consumer);
	assert_int_equal(who.n_ran, 0);
	obituary_release(&who);
}

/* A death in `slot`, at `ms`, of one that ran `id`. */
static void die(struct scene *s, const char *consumer, unsigned slot, int64_t ms, const char *id)
{
	die_in(s, 0, consumer, slot, ms, id);
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
	"dead 1 0 1 w n - 0 0 1 alone worker signal 9 SIGKILL\n" \
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
	assert_int_equal(handovers_handed(&s->h, s->list[0], 1, 2, 107), HANDED_SUSPECTS);
	assert_non_null(strstr(s->log.data, "handed over 2 tasks of w, 7 ms after its death"));
	/* Nothing to wait for any more; an answer that comes twice counts once. */
	assert_false(assign(s, N_HEIRS, 100000));
	assert_int_equal(HANDED_NOTHING, handovers_handed(&s->h, s->list[0], 1, 2, 107));
	handovers_swept(&s->h, 1);
	handovers_swept(&s->h, 1);
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
	int64_t ms = 100, wait = HANDOVER_ANSWER_MS;

	die(s, "w", 0, ms, "5-0");
	assign(s, 2, ms);
	assert_string_equal(told(s, 0), ORDER_1);
	/* Each time it is waited for twice as long, up to a limit. */
	for (int turn = 1; turn < 9; turn++) {
		ms += wait - 1;
		assert_true(assign(s, 2, ms++));
		assert_silence(s);
		assert_true(assign(s, 2, ms));
		assert_string_equal(told(s, turn % 2), ORDER_1);
		wait = min_i64(2 * wait, HANDOVER_ANSWER_MAX_MS);
	}
	assert_int_equal(wait, HANDOVER_ANSWER_MAX_MS);
	/* Alone, it is asked again. */
	ms += wait;
	s->list[0] = s->list[1];
	assert_true(assign(s, 1, ms));
	assert_string_equal(told(s, 1), ORDER_1);
	/* The first one wakes up and answers: that is as good. */
	assert_int_not_equal(HANDED_NOTHING, handovers_handed(&s->h, &s->heir[0].proc, 1, 1, ms));
	assert_false(assign(s, 1, ms + 100000));
	assert_silence(s);
}

/* One that answers nothing is not given the next one, while others answer. */
static void a_silent_heir_is_passed_over(void **state)
{
	struct scene *s = *state;
	int64_t ms = HANDOVER_ANSWER_MS;

	die(s, "w", 0, 0, "5-0");
	assign(s, 2, 0);
	told(s, 0);
	assign(s, 2, ms);
	assert_string_equal(told(s, 1), ORDER_1);
	handovers_handed(&s->h, s->list[1], 1, 1, ms);
	die(s, "w", 0, ms, "5-0");
	assign(s, 2, ms);
	assert_non_null(strstr(told(s, 1), "handover 2\n"));
	/* An answer, however late, and it is one like the others. */
	handovers_handed(&s->h, s->list[0], 1, 1, ms);
	die(s, "w", 0, ms, "5-0");
	assign(s, 2, ms);
	assert_non_null(strstr(told(s, 0), "handover 3\n"));
	assert_string_equal(told(s, 1), "");
}

static void a_worker_has_one_order_at_a_time(void **state)
{
	struct scene *s = *state;

	for (int i = 0; i < 5; i++)
		die(s, "w", (unsigned)i, 0, NULL);
	assert_true(assign(s, 2, 0));
	assert_non_null(strstr(told(s, 0), "handover 1\n"));
	assert_non_null(strstr(told(s, 1), "handover 2\n"));
	assert_true(assign(s, 2, 1));
	assert_silence(s);
	handovers_handed(&s->h, s->list[1], 2, 0, 2);
	assert_true(assign(s, 2, 2));
	assert_non_null(strstr(told(s, 1), "handover 3\n"));
	assert_string_equal(told(s, 0), "");
	/* Its death is no answer, but it ends the waiting for one. */
	handovers_heir_died(&s->h, s->list[0]);
	assert_true(assign(s, 1, 3));
	assert_non_null(strstr(told(s, 0), "handover 1\n"));
	assert_int_equal(handovers_n_open(&s->h), 4);
}

/* One of them may be out of reach for long. */
static void an_order_does_not_wait_for_that_of_another_partition(void **state)
{
	struct scene *s = *state;
	const char *text;

	for (int i = 0; i < 3; i++)
		die_in(s, i, "w", 0, 0, "5-0");
	die_in(s, 0, "v", 0, 0, "6-0");
	assert_int_equal(handovers_n_open(&s->h), 2); /* two that died */
	assert_true(assign(s, 1, 0));
	text = told(s, 0);
	assert_non_null(strstr(text, "handover 1\n"));
	assert_non_null(strstr(text, "dead 2 1 2 w n "));
	assert_non_null(strstr(text, "handover 2\n"));
	assert_non_null(strstr(text, "handover 3\n"));
	assert_null(strstr(text, "handover 4\n"));
	/* Without an answer it is given again, and keeps none of the others. */
	handovers_handed(&s->h, s->list[0], 2, 0, 1);
	handovers_handed(&s->h, s->list[0], 3, 0, 1);
	die_in(s, 2, "v", 0, 2, "6-0");
	assert_true(assign(s, 1, HANDOVER_ANSWER_MS));
	text = told(s, 0);
	assert_non_null(strstr(text, "handover 1\n"));
	assert_non_null(strstr(text, "handover 5\n"));
	assert_null(strstr(text, "handover 4\n"));
}

/* 10000 tasks at once in each of two workers, and an heir that does not read for a while. */
static void large_orders_do_not_fill_the_channel(void **state)
{
	struct scene *s = *state;
	const char *text;

	for (unsigned w = 0; w < 2; w++) {
		struct obituary who;

		obituary_init(&who);
		who.n_partitions = 1;
		who.consumer = xstrdup("w");
		for (int i = 0; i < 10000; i++) {
			char id[BOARD_ID_MAX];

			snprintf(id, sizeof(id), "18446744073709551615-18446744073709%06d", i);
			obituary_add(&who, id, INT64_MAX);
		}
		handovers_add(&s->h, &who, w, 0);
	}
	/* Never gone, however often it is looked at. */
	for (int64_t ms = 0; ms < 600000; ms += HANDOVER_LOOK_MS) {
		assert_true(assign(s, 1, ms));
		assert_true(chan_unsent(s->list[0]->chan) < CHAN_BACKLOG_MAX);
	}
	assert_true(s->log.len == 0);
	buf_clear(&s->heir[0].heard);
	while (chan_unsent(s->list[0]->chan) > 0) {
		char bytes[65536];
		ssize_t n;

		while ((n = read(s->heir[0].fd, bytes, sizeof(bytes))) > 0)
			buf_add(&s->heir[0].heard, bytes, (size_t)n);
		ev_run(s->loop, EVRUN_NOWAIT);
	}
	/* Told once, whole. */
	for (ssize_t n = 1; n > 0;) {
		char bytes[65536];

		n = read(s->heir[0].fd, bytes, sizeof(bytes));
		if (n > 0)
			buf_add(&s->heir[0].heard, bytes, (size_t)n);
	}
	text = s->heir[0].heard.data;
	assert_non_null(strstr(text, "handover 1\n"));
	assert_string_equal(strstr(text, "handover 1\n"), "handover 1\n");
	assert_non_null(strstr(text, " 18446744073709551615-18446744073709009999 "));
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
					     handovers_handed(&s->h, s->list[0], 2, 1, 1));
		handovers_heir_died(&s->h, &s->heir[2].proc);
		assign(s, N_HEIRS, 2);
		assert_silence(s);
		handovers_heir_died(&s->h, s->list[0]);
		assert_true(assign(s, 0, 3));
		s->list[0] = &s->heir[1].proc;
		assert_true(assign(s, 1, 4));
		assert_non_null(strstr(told(s, 1), handed ? "handover 2\n" : "handover 1\n"));
		assert_int_equal(assign(s, 1, 5), !handed);
		assert_int_equal(
			handovers_handed(&s->h, s->list[0], handed ? 2 : 1, handed ? 0 : 1, 6),
			handed ? HANDED_NOTHING : HANDED_SUSPECTS);
		handovers_swept(&s->h, handed ? 2 : 1);
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
	handovers_handed(&s->h, s->list[0], 1, 0, 2001);
	assert_true(handovers_hold(&s->h, 3, 2001));
	handovers_swept(&s->h, 2); /* its name was another's: nothing was there to hand over */
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
	heard.n = 0;
	for (size_t i = 0; i < ARRAY_LEN(rests); i++) {
		proc_on_word(s->list[0], "handed", rests[i]);
		proc_on_word(s->list[0], "swept", rests[i]);
	}
	assert_int_equal(heard.n, 2 * ARRAY_LEN(rests));
	assert_true(assign(s, 1, 1));
	assert_true(handovers_hold(&s->h, 0, 1));
	/* It is done, of how many nobody knows. */
	proc_on_word(s->list[0], "handed", "1");
	assert_true(heard.order == 1 && heard.moved == -1);
	assert_false(assign(s, 1, 1));
}

static void each_word_is_parsed_once(void **state)
{
	struct scene *s = *state;

	proc_on_word(s->list[0], "handed", "7 12 3");
	assert_true(heard.order == 7 && heard.moved == 12);
	proc_on_word(s->list[0], "swept", "8");
	assert_true(heard.order == 8);
	proc_on_word(s->list[0], "again", "3 5-0");
	assert_string_equal(heard.id, "5-0");
	assert_int_equal(heard.partition, 3);
	proc_on_word(s->list[0], "again", "64 6-0");
	proc_on_word(s->list[0], "again", "7-0 3");
	assert_string_equal(heard.id, "5-0");
}

static void what_runs_again_is_told_with_its_last_owner(void **state)
{
	struct scene *s = *state;

	die(s, "w", 0, 0, "5-0");
	die(s, "v", 0, 100, "5-0");
	handovers_runs_again(&s->h, s->list[1], 1, "4:", "5-0", 103);
	handovers_runs_again(&s->h, s->list[1], 0, "4:", "5-1", 103);
	handovers_runs_again(&s->h, s->list[1], 0, "4:", "", 103);
	assert_int_equal(s->log.len, 0);
	handovers_runs_again(&s->h, s->list[1], 0, "4:", "5-0", 103);
	assert_string_equal(s->log.data,
			    "task 4:5-0 of v runs again in heir_1, 3 ms after the death\n");
}

/* It was said to run again in "?" where the heir still had to open the other partitions. */
static void an_heir_that_is_not_ready_is_told_by_name(void **state)
{
	struct scene *s = *state;
	struct proc *heir = s->list[1];
	char *said = heir->consumer;
	int fd;

	die(s, "w", 0, 100, "5-0");
	heir->consumer = NULL;
	heir->pid = 77;
	handovers_runs_again(&s->h, heir, 0, "0:", "5-0", 103);
	assert_non_null(strstr(s->log.data, "runs again in worker 77, 3 ms"));
	heir->board = board_create(1, 0, &fd);
	assert_non_null(heir->board);
	snprintf(heir->board->names[0].consumer, BOARD_NAME_MAX, "worker_77");
	handovers_runs_again(&s->h, heir, 0, "0:", "5-0", 103);
	assert_non_null(strstr(s->log.data, "runs again in worker_77, 3 ms"));
	board_unmap(heir->board);
	close(fd);
	heir->board = NULL;
	heir->consumer = said;
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
	for (int i = 1; i <= 100; i++) {
		assert_true(handovers_hold(&s->h, (unsigned)i, 100));
		/* They ran nothing: what was pending is no suspect. */
		assert_int_equal(handovers_handed(&s->h, s->list[i % N_HEIRS], i, i, 100),
				 HANDED_SOME);
		assert_false(handovers_hold(&s->h, (unsigned)i, 100));
		assert_int_equal(assign(s, N_HEIRS, 100), i < 100);
	}
	for (int i = 1; i <= 100; i++) {
		assert_false(list_empty(&s->h.orders));
		handovers_swept(&s->h, i);
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
		T(a_silent_heir_is_passed_over),
		T(a_worker_has_one_order_at_a_time),
		T(an_order_does_not_wait_for_that_of_another_partition),
		T(large_orders_do_not_fill_the_channel),
		T(the_order_of_a_dead_heir_goes_on),
		T(the_successor_is_held_until_it_is_handed_over),
		T(answers_that_make_no_sense_change_nothing),
		T(each_word_is_parsed_once),
		T(what_runs_again_is_told_with_its_last_owner),
		T(an_heir_that_is_not_ready_is_told_by_name),
		T(many_orders_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
