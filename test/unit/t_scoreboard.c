/* t_scoreboard.c - what a worker writes its supervisor reads, also after its death. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scoreboard.h"

static void test_rows_of_both_kinds_outlive_their_writer(void **state)
{
	struct board_task t;
	int fd, status;
	struct board *b = board_create(3, 2, &fd);
	pid_t pid;

	(void)state;
	assert_non_null(b);
	pid = fork();
	if (pid == 0) {
		struct board *own = board_attach(fd);

		if (!own || own->n_tasks != 3 || own->n_groups != 2)
			_exit(1);
		board_set_task(own, 2,
			       &(struct board_task){.id = "17-0",
						    .token = 4,
						    .attempt = 5,
						    .started_ms = 6,
						    .pgid = 77,
						    .partition = 63});
		snprintf(own->names[63].consumer, sizeof(own->names[63].consumer), "w");
		board_set_group(own, 0, 4711);
		board_set_group(own, 1, 4712);
		board_set_group(own, 1, 0);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_false(board_read_task(b, 0, &t));
	assert_true(board_read_task(b, 2, &t));
	assert_string_equal(t.id, "17-0");
	assert_int_equal(t.token, 4);
	assert_int_equal(t.pgid, 77);
	assert_int_equal(t.partition, 63);
	assert_true(board_has_name(b));
	board_clear_names(b);
	assert_false(board_has_name(b));
	assert_int_equal(board_group(b, 0), 4711);
	assert_int_equal(board_group(b, 1), 0);
	board_unmap(b);
	close(fd);
}

static void test_a_file_of_another_size_is_refused(void **state)
{
	int fd;
	struct board *b = board_create(3, 2, &fd);

	(void)state;
	assert_non_null(b);
	b->n_groups = 3;
	assert_null(board_attach(fd));
	b->n_groups = 2;
	b->magic++;
	assert_null(board_attach(fd));
	b->magic--;
	board_unmap(b);
	close(fd);
}

/* The kernel is asked to write there: it refuses where we would die. */
static void test_a_worker_cannot_write_the_size(void **state)
{
	int fd, words[2];
	struct board *b = board_create(3, 2, &fd);
	struct board *own = board_attach(fd);

	(void)state;
	assert_non_null(own);
	assert_int_equal(pipe(words), 0);
	assert_int_equal(write(words[1], "12345678", 8), 8);
	assert_int_equal(read(words[0], &own->n_tasks, 4), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(read(words[0], own->rest_of_head + sizeof(own->rest_of_head) - 4, 4), -1);
	assert_int_equal(read(words[0], own->names[0].nonce, 4), 4);
	assert_int_equal(b->n_tasks, 3);
	close(words[0]);
	close(words[1]);
	board_unmap(own);
	board_unmap(b);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_of_both_kinds_outlive_their_writer),
		cmocka_unit_test(test_a_file_of_another_size_is_refused),
		cmocka_unit_test(test_a_worker_cannot_write_the_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
