/* t_control.c - the control socket: requests in, answers out, clients of every kind. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "buf.h"
#include "supervisor/control.h"
#include "valgrind.h"

struct fixture {
	char dir[64];
	char path[100];
	struct ev_loop *loop;
	struct control *c;
	struct control_call *kept; /* the call of "wait", not answered yet */
	int n_asked;
};

static void on_request(void *arg, struct control_call *call, const char *verb, json_t *request)
{
	struct fixture *x = arg;

	x->n_asked++;
	if (strcmp(verb, "ping") == 0) {
		control_done(call, NULL);
	} else if (strcmp(verb, "echo") == 0) {
		control_say(call, "%s", "one\ntwo");
		control_done(call, json_deep_copy(request));
	} else if (strcmp(verb, "big") == 0) {
		char text[1000];

		memset(text, 'b', sizeof(text));
		control_done(call, json_stringn(text, sizeof(text)));
	} else if (strcmp(verb, "fail") == 0) {
		control_fail(call, 78, "no queue \"%s\"; see status", "x");
	} else {
		assert_string_equal(verb, "wait");
		x->kept = call;
	}
}

static void begin(struct fixture *x)
{
	struct err e = {0};

	memset(x, 0, sizeof(*x));
	snprintf(x->dir, sizeof(x->dir), "/tmp/t_control.XXXXXX");
	assert_non_null(mkdtemp(x->dir));
	snprintf(x->path, sizeof(x->path), "%s/control.sock", x->dir);
	x->loop = ev_loop_new(EVFLAG_AUTO);
	x->c = control_open(x->loop, x->path, on_request, x, &e);
	assert_non_null(x->c);
}

static void end(struct fixture *x)
{
	control_close(x->c);
	ev_loop_destroy(x->loop);
	assert_int_not_equal(access(x->path, F_OK), 0);
	assert_int_equal(rmdir(x->dir), 0);
}

static int dial(const struct fixture *x)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", x->path);
	assert_int_equal(connect(fd, (const struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static void turn(struct fixture *x)
{
	for (int i = 0; i < 20; i++) /* as many turns as accept, read and write need */
		ev_run(x->loop, EVRUN_NOWAIT);
}

static void put(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* What has arrived. */
static const char *got(int fd, char out[1024])
{
	ssize_t n = recv(fd, out, 1023, MSG_DONTWAIT);

	out[n > 0 ? n : 0] = '\0';
	return out;
}

static void test_answers(void **state)
{
	static const struct {
		const char *ask, *want;
	} cases[] = {
		{"{\"verb\":\"ping\"}\n", "{\"ok\":true,\"result\":{}}\n"},
		{"{\"verb\":\"echo\",\"n\":1}\n",
		 "{\"say\":\"one\\ntwo\"}\n{\"ok\":true,\"result\":{\"verb\":\"echo\",\"n\":1}}\n"},
		{"{\"verb\":\"fail\"}\n",
		 "{\"ok\":false,\"error\":\"no queue \\\"x\\\"; see status\",\"exit\":78}\n"},
		{"junk\n", "{\"ok\":false,\"error\":\"not a request; send one line "
			   "{\\\"verb\\\":\\\"status\\\"}\",\"exit\":64}\n"},
		{"{\"verb\":7}\n", "{\"ok\":false,\"error\":\"not a request; send one line "
				   "{\\\"verb\\\":\\\"status\\\"}\",\"exit\":64}\n"},
		{"{\"verb\":\"ping\",\"verb\":\"fail\"}\n",
		 "{\"ok\":false,\"error\":\"not a request; send one line "
		 "{\\\"verb\\\":\\\"status\\\"}\",\"exit\":64}\n"},
		{"\n{\"verb\":\"ping\"}\n", "{\"ok\":true,\"result\":{}}\n"},
	};
	struct fixture x;
	char text[1024];

	(void)state;
	begin(&x);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int fd = dial(&x);

		put(fd, cases[i].ask);
		turn(&x);
		assert_string_equal(got(fd, text), cases[i].want);
		close(fd);
	}
	end(&x);
}

static void test_request_in_pieces_and_several_at_once(void **state)
{
	struct fixture x;
	char text[1024];
	int fd;

	(void)state;
	begin(&x);
	fd = dial(&x);
	put(fd, "{\"verb\":");
	turn(&x);
	assert_int_equal(x.n_asked, 0);
	put(fd, "\"ping\"}\n{\"verb\":\"wait\"}\n{\"verb\":\"fail\"}\n");
	turn(&x);
	assert_int_equal(x.n_asked, 2); /* the third waits for the second's answer */
	assert_string_equal(got(fd, text), "{\"ok\":true,\"result\":{}}\n");
	control_say(x.kept, "half way");
	turn(&x);
	assert_string_equal(got(fd, text), "{\"say\":\"half way\"}\n");
	control_done(x.kept, json_pack("{s:i}", "n", 3));
	turn(&x);
	assert_int_equal(x.n_asked, 3);
	assert_string_equal(got(fd, text),
			    "{\"ok\":true,\"result\":{\"n\":3}}\n{\"ok\":false,\"error\":\"no "
			    "queue \\\"x\\\"; see status\",\"exit\":78}\n");
	close(fd);
	end(&x);
}

/* It has hung up for good: freed at once, not when its call is answered. */
static void test_client_that_hung_up_is_let_go_of(void **state)
{
	struct fixture x;
	int fd;

	(void)state;
	begin(&x);
	fd = dial(&x);
	put(fd, "{\"verb\":\"wait\"}\n");
	turn(&x);
	assert_true(control_is_heard(x.kept));
	close(fd);
	turn(&x);
	assert_false(control_is_heard(x.kept));
	control_say(x.kept, "anybody there?");
	turn(&x);
	control_done(x.kept, NULL);
	turn(&x);
	end(&x);
}

/* First half-closed, so not read from any more; then closed. */
static void test_half_closed_client_that_hung_up_is_let_go_of(void **state)
{
	struct fixture x;
	int fd;

	(void)state;
	begin(&x);
	fd = dial(&x);
	put(fd, "{\"verb\":\"wait\"}\n");
	shutdown(fd, SHUT_WR);
	turn(&x);
	assert_true(control_is_heard(x.kept));
	close(fd);
	turn(&x);
	assert_false(control_is_heard(x.kept));
	control_done(x.kept, NULL);
	end(&x);
}

/* 64 of them, each still waiting for an answer: the next one is served. */
static void test_waiting_clients_that_went_away_block_nobody(void **state)
{
	struct fixture x;
	char text[1024];
	int fd;

	(void)state;
	begin(&x);
	for (int i = 0; i < 2 * CONTROL_CLIENTS_MAX; i++) {
		fd = dial(&x);
		put(fd, "{\"verb\":\"wait\"}\n");
		if (i % 2)
			turn(&x);
		close(fd); /* also before anything was read */
		turn(&x);
	}
	assert_int_equal(x.n_asked, 2 * CONTROL_CLIENTS_MAX); /* what was asked for is done */
	fd = dial(&x);
	put(fd, "{\"verb\":\"ping\"}\n");
	turn(&x);
	assert_string_equal(got(fd, text), "{\"ok\":true,\"result\":{}}\n");
	close(fd);
	end(&x);
}

static void test_what_a_client_asked_before_it_hung_up_is_done(void **state)
{
	struct fixture x;
	int fd;

	(void)state;
	begin(&x);
	fd = dial(&x);
	put(fd, "{\"verb\":\"wait\"}\n{\"verb\":\"ping\"}\n{\"verb\":\"wait\"}\n{\"verb\"");
	close(fd);
	turn(&x);
	assert_int_equal(x.n_asked, 3);
	end(&x);
}

static void test_one_client_too_many_is_told(void **state)
{
	struct fixture x;
	int fds[CONTROL_CLIENTS_MAX + 1];
	char text[1024];

	(void)state;
	begin(&x);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = dial(&x);
		turn(&x);
	}
	assert_non_null(strstr(got(fds[CONTROL_CLIENTS_MAX], text), "64 clients already"));
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	turn(&x);
	end(&x);
}

/* No descriptor left: the one in reserve serves a client, so that status and kill still work. */
static void test_a_client_is_served_without_descriptors(void **state)
{
	struct rlimit was, none;
	struct fixture x;
	char text[1024];
	int fd, last;

	(void)state;
	if (without_real_fd_limits())
		skip();
	begin(&x);
	for (int round = 0; round < 2; round++) {
		fd = dial(&x);
		last = dup(fd);
		close(last);
		assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
		none = was;
		none.rlim_cur = (rlim_t)last;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
		put(fd, "{\"verb\":\"ping\"}\n");
		turn(&x);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
		assert_string_equal(got(fd, text), "{\"ok\":true,\"result\":{}}\n");
		close(fd);
		turn(&x);
	}
	end(&x);
}

/* It sends requests and reads no answer: its requests stay where they are, not in our memory. */
static void test_client_that_reads_nothing_is_not_served_on(void **state)
{
	static const char ask[] = "{\"verb\":\"big\"}\n";
	struct fixture x;
	char text[1024];
	size_t sent = 0, answers = 0;
	int before, fd;

	(void)state;
	begin(&x);
	fd = dial(&x);
	for (int i = 0; i < 2000; i++) {
		if (send(fd, ask, sizeof(ask) - 1, MSG_DONTWAIT | MSG_NOSIGNAL) ==
		    (ssize_t)sizeof(ask) - 1)
			sent++;
		turn(&x);
	}
	before = x.n_asked;
	assert_in_range(before, 1, 500); /* 1000 bytes each: what the socket takes, and 64 KiB */
	turn(&x);
	assert_int_equal(x.n_asked, before);
	for (int idle = 0; idle < 3;) { /* and all are answered when it reads at last */
		const char *part = got(fd, text);

		idle = *part ? 0 : idle + 1;
		for (; *part; part++)
			answers += *part == '\n';
		turn(&x);
	}
	assert_int_equal(x.n_asked, sent);
	assert_int_equal(answers, sent);
	close(fd);
	end(&x);
}

/* A client that only says its request and closes its side still gets the answer. */
static void test_half_closed_client_is_answered(void **state)
{
	struct fixture x;
	char text[1024];
	int fd;

	(void)state;
	begin(&x);
	fd = dial(&x);
	put(fd, "{\"verb\":\"wait\"}\n");
	shutdown(fd, SHUT_WR);
	turn(&x);
	control_done(x.kept, NULL);
	turn(&x);
	assert_string_equal(got(fd, text), "{\"ok\":true,\"result\":{}}\n");
	assert_int_equal(recv(fd, text, 1, MSG_DONTWAIT), 0); /* and then it is hung up */
	close(fd);
	end(&x);
}

static void test_endless_request_is_refused(void **state)
{
	struct fixture x;
	char piece[1024];
	char text[1024];
	int fd;

	(void)state;
	begin(&x);
	fd = dial(&x);
	memset(piece, 'a', sizeof(piece));
	for (int i = 0; i < 70; i++) {
		send(fd, piece, sizeof(piece), MSG_DONTWAIT | MSG_NOSIGNAL);
		turn(&x);
	}
	assert_non_null(strstr(got(fd, text), "request longer than 65536 bytes"));
	assert_int_equal(x.n_asked, 0);
	close(fd);
	end(&x);
}

static void test_close_answers_who_still_waits(void **state)
{
	struct fixture x;
	char text[1024];
	int fd;

	(void)state;
	begin(&x);
	fd = dial(&x);
	put(fd, "{\"verb\":\"wait\"}\n");
	turn(&x);
	end(&x);
	assert_non_null(strstr(got(fd, text), "\"exit\":69"));
	close(fd);
}

/* The last answer of kill is said just before the exit, without another turn of the loop. */
static void test_close_flushes(void **state)
{
	struct fixture x;
	char text[1024];
	int fd;

	(void)state;
	begin(&x);
	fd = dial(&x);
	put(fd, "{\"verb\":\"wait\"}\n");
	turn(&x);
	control_done(x.kept, json_pack("{s:b}", "forced", 0));
	end(&x);
	assert_string_equal(got(fd, text), "{\"ok\":true,\"result\":{\"forced\":false}}\n");
	close(fd);
}

static void test_socket_is_private_and_comes_back(void **state)
{
	struct fixture x;
	struct stat st;
	int fd;

	(void)state;
	begin(&x);
	assert_int_equal(stat(x.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_false(control_check(x.c));
	assert_int_equal(unlink(x.path), 0);
	assert_true(control_check(x.c));
	assert_false(control_check(x.c));
	fd = dial(&x);
	turn(&x);
	close(fd);
	end(&x);
}

/* What a killed supervisor left behind. */
static void leave_stale_socket(const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	assert_int_equal(bind(fd, (const struct sockaddr *)&sa, sizeof(sa)), 0);
	close(fd);
}

static void test_stale_socket_is_replaced_other_files_are_not(void **state)
{
	struct fixture x;
	struct control *second;
	char *file;
	struct err e;
	char path[256];
	int fd;

	(void)state;
	begin(&x);
	file = xasprintf("%s/file", x.dir);
	leave_stale_socket(file);
	second = control_open(x.loop, file, on_request, &x, &e);
	assert_non_null(second);
	control_close(second);
	fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	assert_null(control_open(x.loop, file, on_request, &x, &e));
	assert_int_equal(e.code, EXIT_CONFIG);
	assert_int_equal(unlink(file), 0);
	free(file);
	memset(path, 'p', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_null(control_open(x.loop, path, on_request, &x, &e));
	assert_non_null(strstr(e.text, "107 bytes"));
	end(&x);
}

/* Two supervisors, two pid files, one control_socket: neither takes it from the other. */
static void test_anothers_socket_is_not_taken(void **state)
{
	struct fixture x;
	struct control *second;
	struct err e;
	char text[1024];
	int fd;

	(void)state;
	begin(&x);
	assert_null(control_open(x.loop, x.path, on_request, &x, &e));
	assert_int_equal(e.code, EXIT_ALREADY_RUNNING);
	assert_non_null(strstr(e.text, "another supervisor answers there"));
	turn(&x);
	fd = dial(&x);
	put(fd, "{\"verb\":\"ping\"}\n");
	turn(&x);
	assert_string_equal(got(fd, text), "{\"ok\":true,\"result\":{}}\n");
	close(fd);

	/* Removed by somebody, and a second one was quicker than our next look. */
	assert_int_equal(unlink(x.path), 0);
	second = control_open(x.loop, x.path, on_request, &x, &e);
	assert_non_null(second);
	assert_false(control_check(x.c));
	assert_false(control_check(x.c));
	assert_false(control_check(second)); /* still its own */
	assert_int_equal(access(x.path, F_OK), 0);
	control_close(second);
	assert_true(control_check(x.c)); /* it has left: ours again */
	end(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_request_in_pieces_and_several_at_once),
		cmocka_unit_test(test_client_that_hung_up_is_let_go_of),
		cmocka_unit_test(test_half_closed_client_that_hung_up_is_let_go_of),
		cmocka_unit_test(test_waiting_clients_that_went_away_block_nobody),
		cmocka_unit_test(test_what_a_client_asked_before_it_hung_up_is_done),
		cmocka_unit_test(test_one_client_too_many_is_told),
		cmocka_unit_test(test_a_client_is_served_without_descriptors),
		cmocka_unit_test(test_client_that_reads_nothing_is_not_served_on),
		cmocka_unit_test(test_half_closed_client_is_answered),
		cmocka_unit_test(test_endless_request_is_refused),
		cmocka_unit_test(test_close_answers_who_still_waits),
		cmocka_unit_test(test_close_flushes),
		cmocka_unit_test(test_socket_is_private_and_comes_back),
		cmocka_unit_test(test_stale_socket_is_replaced_other_files_are_not),
		cmocka_unit_test(test_anothers_socket_is_not_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
