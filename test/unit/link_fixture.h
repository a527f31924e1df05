/* link_fixture.h - one link and one fake Redis in one loop, and what the link's owner heard. */
#ifndef REDISQ_LINK_FIXTURE_H
#define REDISQ_LINK_FIXTURE_H

#include <unistd.h>

#include "fake_redis.h"
#include "rconn.h"

#define FIXTURE_REPLIES 4096
#define FIXTURE_LOST (-1)

struct fixture {
	struct ev_loop *loop;
	char dir[32];
	struct fake fake;
	struct conf_redis conf;
	char url[128];
	char user[8];
	char password[8];
	struct rconn *link;
	/* Heard. */
	int n_ready;
	int n_down;
	char why[512];
	int n_replies;
	long long replies[FIXTURE_REPLIES]; /* FIXTURE_LOST for NULL */
	/* What to do inside the callbacks; may be NULL. */
	void (*in_ready)(struct fixture *x);
	void (*in_down)(struct fixture *x);
	void (*in_reply)(struct fixture *x);
};

static inline void fixture_on_ready(void *arg)
{
	struct fixture *x = arg;

	x->n_ready++;
	if (x->in_ready)
		x->in_ready(x);
}

static inline void fixture_on_down(void *arg, const char *why)
{
	struct fixture *x = arg;

	x->n_down++;
	snprintf(x->why, sizeof(x->why), "%s", why);
	if (x->in_down)
		x->in_down(x);
}

static inline void fixture_on_number(void *arg, const redisReply *r)
{
	struct fixture *x = arg;

	assert_true(x->n_replies < FIXTURE_REPLIES);
	x->replies[x->n_replies++] = r ? r->integer : FIXTURE_LOST;
	if (x->in_reply)
		x->in_reply(x);
}

static inline void fixture_start(struct fixture *x)
{
	const struct rconn_events events = {fixture_on_ready, fixture_on_down};

	x->link = rconn_new(x->loop, &x->conf, "me:cmd", &events, x);
	rconn_start(x->link);
}

static inline void fixture_login(struct fixture *x)
{
	x->conf.username = x->user;
	x->conf.password = x->password;
	snprintf(x->user, sizeof(x->user), "ann");
	snprintf(x->password, sizeof(x->password), "sesame");
}

static inline void fixture_ready(struct fixture *x)
{
	fixture_start(x);
	assert_true(run_until(x->loop, &x->n_ready, 1));
}

static inline int fixture_try_number(struct fixture *x, int n)
{
	char text[16];
	struct rconn_arg argv[] = {{"ECHO", 4}, {text, 0}};

	argv[1].len = (size_t)snprintf(text, sizeof(text), "%d", n);
	return rconn_send(x->link, 2, argv, 0, fixture_on_number, x);
}

static inline void fixture_send_number(struct fixture *x, int n)
{
	assert_int_equal(fixture_try_number(x, n), 0);
}

static inline int fixture_setup(void **state)
{
	struct fixture *x = xcalloc(1, sizeof(*x));

	x->loop = ev_loop_new(EVFLAG_AUTO);
	snprintf(x->dir, sizeof(x->dir), "/tmp/t_rconn.XXXXXX");
	if (!mkdtemp(x->dir))
		return -1;
	fake_init(&x->fake, x->loop);
	fake_listen_unix(&x->fake, x->dir);
	x->conf.url = x->fake.url;
	x->conf.connect_timeout = 5000;
	x->conf.command_timeout = 5000;
	*state = x;
	return 0;
}

static inline int fixture_teardown(void **state)
{
	struct fixture *x = *state;

	rconn_close(x->link);
	fake_release(&x->fake);
	ev_loop_destroy(x->loop); /* frees the link */
	rmdir(x->dir);
	free(x);
	return 0;
}

#endif
