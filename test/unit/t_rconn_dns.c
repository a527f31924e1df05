/*
 * t_rconn_dns.c - names and their addresses. getaddrinfo() is our own here, so that a look-up takes
 * exactly as long as the test wants and gives what it wants.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <stdatomic.h>

#include "fake_redis.h"
#include "link_fixture.h"
#include "rconn_dns.h"

/* ------------------------------------------------------------------ the resolver */

struct answer {
	struct addrinfo info;
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	};
};

static int gate[2];          /* "slow.test" is answered when a byte comes out of it */
static atomic_int n_lookups; /* in threads */
static atomic_int n_done;

static struct addrinfo *make_answer(const char *ip, const char *service, struct addrinfo *next)
{
	struct answer *a = xcalloc(1, sizeof(*a));
	in_port_t port = htons((uint16_t)strtoul(service, NULL, 10));

	if (inet_pton(AF_INET6, ip, &a->in6.sin6_addr) == 1) {
		a->in6.sin6_family = AF_INET6;
		a->in6.sin6_port = port;
		a->info.ai_addrlen = sizeof(a->in6);
	} else {
		inet_pton(AF_INET, ip, &a->in.sin_addr);
		a->in.sin_family = AF_INET;
		a->in.sin_port = port;
		a->info.ai_addrlen = sizeof(a->in);
	}
	a->info.ai_family = a->sa.sa_family;
	a->info.ai_addr = &a->sa;
	a->info.ai_next = next;
	return &a->info;
}

void freeaddrinfo(struct addrinfo *list)
{
	while (list) {
		struct addrinfo *next = list->ai_next;

		free(container_of(list, struct answer, info));
		list = next;
	}
}

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
		struct addrinfo **out)
{
	struct in6_addr in;
	char byte;

	if (inet_pton(AF_INET, host, &in) == 1 || inet_pton(AF_INET6, host, &in) == 1) {
		*out = make_answer(host, service, NULL);
		return 0;
	}
	if (hints->ai_flags & AI_NUMERICHOST)
		return EAI_NONAME;
	atomic_fetch_add(&n_lookups, 1);
	if (strcmp(host, "slow.test") == 0)
		assert_int_equal(read(gate[0], &byte, 1), 1);
	atomic_fetch_add(&n_done, 1);
	if (strcmp(host, "nowhere.test") == 0)
		return EAI_NONAME;
	/* Nobody listens on the first two. */
	*out = make_answer("127.0.0.1", service, NULL);
	if (strcmp(host, "many.test") == 0)
		*out = make_answer("127.0.0.3", service, make_answer("127.0.0.2", service, *out));
	if (strcmp(host, "both.test") == 0)
		*out = make_answer("::1", service, *out);
	return 0;
}

/* ------------------------------------------------------------------ the tests */

static int setup_tcp(void **state)
{
	struct fixture *x = xcalloc(1, sizeof(*x));

	x->loop = ev_loop_new(EVFLAG_AUTO);
	fake_init(&x->fake, x->loop);
	fake_listen_tcp(&x->fake);
	x->conf.url = x->fake.url;
	x->conf.connect_timeout = 5000;
	x->conf.command_timeout = 5000;
	atomic_store(&n_lookups, 0);
	atomic_store(&n_done, 0);
	*state = x;
	return pipe(gate);
}

static int teardown_tcp(void **state)
{
	struct fixture *x = *state;

	rconn_close(x->link);
	fake_release(&x->fake);
	ev_loop_destroy(x->loop);
	free(x);
	/* Threads that are still looking: let them go, and see them go. */
	while (atomic_load(&n_done) < atomic_load(&n_lookups))
		assert_int_equal(write(gate[1], "x", 1), 1);
	close(gate[0]);
	close(gate[1]);
	return 0;
}

static void use_host(struct fixture *x, const char *host)
{
	snprintf(x->url, sizeof(x->url), "redis://%s:%d", host, x->fake.port);
	x->conf.url = x->url;
}

static void test_an_address_needs_no_thread(void **state)
{
	struct fixture *x = *state;

	fixture_ready(x);
	assert_int_equal(atomic_load(&n_lookups), 0);
}

static void test_a_name_is_looked_up_in_a_thread(void **state)
{
	struct fixture *x = *state;

	use_host(x, "one.test");
	fixture_ready(x);
	assert_int_equal(atomic_load(&n_lookups), 1);
}

static void test_every_address_is_tried(void **state)
{
	struct fixture *x = *state;

	use_host(x, "many.test");
	fixture_ready(x);
	assert_int_equal(x->n_down, 0);
}

/* AAAA and A: nobody listens on the first, or this machine has no IPv6 at all. */
static void test_a_name_with_addresses_of_both_kinds(void **state)
{
	struct fixture *x = *state;

	snprintf(x->url, sizeof(x->url), "redis://both.test:%d", x->fake.port);
	x->conf.url = x->url;
	fixture_ready(x);
	assert_int_equal(x->n_down, 0);
}

/* What is said of it is what can be written into a url again. */
static void test_an_ipv6_literal(void **state)
{
	struct fixture *x = *state;
	struct rconn_addr a;

	assert_true(rconn_addr_literal("::1", 7, &a));
	assert_int_equal(a.sa.ss_family, AF_INET6);
	assert_int_equal(((const struct sockaddr_in6 *)&a.sa)->sin6_port, htons(7));
	assert_int_equal(a.len, sizeof(struct sockaddr_in6));
	snprintf(x->url, sizeof(x->url), "redis://[::1]:%d/2", x->fake.port);
	x->conf.url = x->url;
	fixture_start(x);
	assert_true(run_until(x->loop, &x->n_down, 1));
	assert_int_equal(atomic_load(&n_lookups), 0);
	assert_string_equal(rconn_where(x->link), x->url);
	snprintf(x->url, sizeof(x->url), "connect to [::1]:%d: ", x->fake.port);
	assert_non_null(strstr(x->why, x->url));
}

static void test_all_addresses_refuse(void **state)
{
	struct fixture *x = *state;
	char want[64];

	use_host(x, "many.test");
	fake_hang_up(&x->fake);
	ev_io_stop(x->loop, &x->fake.accepting);
	close(x->fake.listener);
	fixture_start(x);
	assert_true(run_until(x->loop, &x->n_down, 1));
	snprintf(want, sizeof(want), "connect to many.test:%d (127.0.0.1): Connection refused",
		 x->fake.port);
	assert_string_equal(x->why, want);
	x->fake.listener = dup(gate[0]);
}

static void test_no_such_name(void **state)
{
	struct fixture *x = *state;

	use_host(x, "nowhere.test");
	fixture_start(x);
	assert_true(run_until(x->loop, &x->n_down, 2)); /* and it tries again */
	assert_string_equal(x->why, "look up nowhere.test: Name or service not known");
}

static void test_a_slow_look_up_runs_into_the_deadline_and_its_result_is_dropped(void **state)
{
	struct fixture *x = *state;

	use_host(x, "slow.test");
	x->conf.connect_timeout = 30;
	fixture_start(x);
	assert_true(run_until(x->loop, &x->n_down, 1));
	assert_string_equal(x->why, "look up slow.test: no answer for 0.0 s");
	/* The first job's result comes while the second one is under way. */
	x->conf.connect_timeout = 5000;
	while (atomic_load(&n_lookups) < 2) /* raised by a thread: the loop must not sleep */
		ev_run(x->loop, EVRUN_NOWAIT);
	assert_int_equal(write(gate[1], "xx", 2), 2);
	assert_true(run_until(x->loop, &x->n_ready, 1));
	assert_int_equal(x->fake.n_clients, 1);
}

static void test_a_link_closed_during_a_look_up(void **state)
{
	struct fixture *x = *state;

	use_host(x, "slow.test");
	fixture_start(x);
	while (atomic_load(&n_lookups) < 1)
		ev_run(x->loop, EVRUN_NOWAIT);
	rconn_close(x->link);
	x->link = NULL;
	ev_run(x->loop, EVRUN_NOWAIT);
	assert_int_equal(write(gate[1], "x", 1), 1);
	while (atomic_load(&n_done) < 1)
		ev_run(x->loop, EVRUN_NOWAIT);
	assert_int_equal(x->n_down, 0);
}

static void test_unix_paths(void **state)
{
	struct rconn_addr a;
	char path[256];

	(void)state;
	assert_int_equal(rconn_addr_unix("/tmp/x", &a), 0);
	assert_int_equal(a.sa.ss_family, AF_UNIX);
	memset(path, 'a', sizeof(path));
	path[108] = '\0';
	assert_int_equal(rconn_addr_unix(path, &a), -1);
	assert_int_equal(errno, ENAMETOOLONG);
	path[107] = '\0';
	assert_int_equal(rconn_addr_unix(path, &a), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup_tcp, teardown_tcp)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_an_address_needs_no_thread),
		T(test_a_name_is_looked_up_in_a_thread),
		T(test_every_address_is_tried),
		T(test_a_name_with_addresses_of_both_kinds),
		T(test_an_ipv6_literal),
		T(test_all_addresses_refuse),
		T(test_no_such_name),
		T(test_a_slow_look_up_runs_into_the_deadline_and_its_result_is_dropped),
		T(test_a_link_closed_during_a_look_up),
		cmocka_unit_test(test_unix_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
